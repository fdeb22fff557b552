//! Duplicate rules and missing jumps: each is one defect, in `cascade` and in `compare`.

use rstest::rstest;
use svclab_rules::cascade::{Assessment, cascades, numgens, shares};
use svclab_rules::cluster::Family;
use svclab_rules::compare::compare;
use svclab_rules::coverage::Coverage;
use svclab_rules::ruleset::Rules;
use svclab_rules::{iptables, nftables};

const THREE: &str = include_str!("../golden/clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
const THREE_NFT: &str = include_str!("../golden/clusterip-three-endpoints/v1.30-nftables/nft-ruleset.txt");

/// Returns the line that contains a text, with its newline.
fn line<'t>(text: &'t str, part: &str) -> &'t str {
    text.split_inclusive('\n').find(|line| line.contains(part)).unwrap_or_else(|| panic!("there is no {part:?}"))
}

/// Repeats a line this many times.
fn repeated(text: &str, part: &str, times: usize) -> String {
    let line = line(text, part);
    text.replacen(line, &line.repeat(times), 1)
}

fn without(text: &str, part: &str) -> String {
    text.replacen(line(text, part), "", 1)
}

fn rules(text: &str) -> iptables::RuleSet {
    iptables::parse(text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}")).rules
}

fn tables(text: &str) -> nftables::Ruleset {
    nftables::parse(text).unwrap_or_else(|errors| panic!("{errors:?}")).rules
}

fn structure(text: &str) -> Vec<String> {
    let rules = match text.starts_with('*') {
        true => Rules::from(rules(text)),
        false => Rules::from(tables(text)),
    };
    let defects = shares(&rules, &Coverage::all()).structure_defects;
    defects.iter().map(ToString::to_string).collect()
}

fn differences(expected: &str, found: &str) -> Vec<String> {
    let findings = match expected.starts_with('*') {
        true => compare(&rules(expected), &rules(found)),
        false => compare(&tables(expected), &tables(found)),
    };
    findings.iter().map(ToString::to_string).collect()
}

const FIRST: &str = "--probability 0.33333333349";
const NUMGEN: &str = "numgen random mod 3";

#[test]
fn three_hundred_copies_of_a_balancing_rule_are_one_defect() {
    let text = repeated(THREE, FIRST, 300);
    let cascade = cascades(&rules(&text)).remove(0);
    let defects: Vec<String> = cascade.defects.iter().map(ToString::to_string).collect();
    assert_eq!(defects.len(), 1, "{defects:?}");
    assert!(
        defects[0]
            .starts_with("rule 3: the same as rule 2; the chain has this rule 300 times, which give 10.244.1.10:8080 "),
        "{defects:?}"
    );
    assert_eq!(cascade.defects[0].kind.code(), "repeated");
    assert_eq!(cascade.assessment(), Assessment::Defective);
    assert_eq!(structure(&text), Vec::<String>::new());
    let expected = "service default/web:http: endpoint 10.244.1.10:8080 appears 300 times; expected once";
    assert_eq!(differences(THREE, &text), [expected]);
}

#[test]
fn a_numgen_that_is_there_twice_is_one_defect() {
    let text = repeated(THREE_NFT, NUMGEN, 2);
    let cascade = tables(&text).tables.iter().flat_map(numgens).next().unwrap();
    let defects: Vec<String> = cascade.defects.iter().map(ToString::to_string).collect();
    assert_eq!(defects, ["rule 3: the same as rule 2; the chain has this rule 2 times, which take all"]);
    assert_eq!(structure(&text), Vec::<String>::new());
}

#[rstest]
#[case::of_services(
    "-A KUBE-SERVICES -d 10.96.0.10/32",
    "chain KUBE-SERVICES of nat has the same rule 300 times, first as rule ",
    "service default/web:http: the frontend 10.96.0.10:80/tcp appears 300 times; expected once"
)]
#[case::of_a_firewall(
    "-A KUBE-FIREWALL ! -s 127.0.0.0/8",
    "chain KUBE-FIREWALL of filter has the same rule 300 times, first as rule 1: `",
    "chain KUBE-FIREWALL of filter: rule `"
)]
#[case::of_a_built_in_chain(
    "-A PREROUTING",
    "chain PREROUTING of nat has the same rule 300 times, first as rule 1: `",
    "chain PREROUTING of nat: rule `"
)]
#[case::of_an_endpoint(
    "-A KUBE-SEP-GWQABTP5GBYXHJY5 -s",
    "chain KUBE-SEP-GWQABTP5GBYXHJY5 of nat has the same rule 300 times, first as rule 1: `",
    "service default/web:http: the masquerading of endpoint 10.244.1.10:8080 to itself appears 300 times"
)]
fn copies_of_any_rule_are_one_defect(#[case] part: &str, #[case] said: &str, #[case] different: &str) {
    let text = repeated(THREE, part, 300);
    let (found, differences) = (structure(&text), differences(THREE, &text));
    assert!(found.len() == 1 && found[0].starts_with(said), "{found:?}");
    assert!(differences.len() == 1 && differences[0].starts_with(different), "{differences:?}");
    assert!(differences[0].contains(" appears 300 times; expected once"), "{differences:?}");
}

#[rstest]
#[case::pods_and_other_hosts(
    THREE,
    "-A PREROUTING",
    "chain PREROUTING of nat has no jump to KUBE-SERVICES",
    "connections from pods and other hosts reach no service"
)]
#[case::the_node(
    THREE,
    "-A OUTPUT -m comment --comment \"kubernetes service portals\" -j",
    "chain OUTPUT of nat has no jump to KUBE-SERVICES",
    "connections from this node reach no service"
)]
#[case::masquerading(
    THREE,
    "-A POSTROUTING",
    "chain POSTROUTING of nat has no jump to KUBE-POSTROUTING",
    "no connection to a service is masqueraded"
)]
#[case::forwarding(
    THREE,
    "-A FORWARD -m comment --comment \"kubernetes forwarding rules\"",
    "chain FORWARD of filter has no jump to KUBE-FORWARD",
    "connections to services are forwarded only if the policy or another rule accepts them"
)]
fn a_missing_jump_is_the_cause(#[case] rules: &str, #[case] jump: &str, #[case] said: &str, #[case] effect: &str) {
    let text = without(rules, jump);
    assert_eq!(structure(&text), [format!("{said}: {effect}")]);
    let differences = differences(rules, &text);
    assert!(differences.len() == 1 && differences[0].ends_with(&format!("is missing: {effect}")), "{differences:?}");
}

#[rstest]
#[case::prerouting("nat-prerouting", "services", "connections from pods and other hosts reach no service")]
#[case::output("nat-output", "services", "connections from this node reach no service")]
#[case::postrouting("nat-postrouting", "masquerading", "no connection to a service is masqueraded")]
fn a_missing_jump_of_nftables_is_the_cause(#[case] chain: &str, #[case] to: &str, #[case] effect: &str) {
    let start = THREE_NFT.find(&format!("\tchain {chain} {{")).unwrap();
    let text = format!("{}{}", &THREE_NFT[..start], without(&THREE_NFT[start..], &format!("jump {to}")));
    assert_eq!(structure(&text), [format!("chain {chain} of ip kube-proxy has no jump to {to}: {effect}")]);
    let differences = differences(THREE_NFT, &text);
    assert_eq!(differences, [format!("chain {chain} of ip kube-proxy: rule `jump {to}` is missing: {effect}")]);
}

/// Another chain between a built-in chain and kube-proxy's is not a missing jump, and a table without built-in chains is an excerpt.
#[test]
fn what_leads_to_services_through_other_chains_is_no_missing_jump() {
    let jump = line(THREE, "-A PREROUTING");
    let other = jump.replace("-A PREROUTING", "-A OTHER");
    let text = THREE.replacen(jump, &format!("-A PREROUTING -j OTHER\n{other}"), 1).replacen(
        ":KUBE-SERVICES - [0:0]\n:KUBE-SVC",
        ":OTHER - [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC",
        1,
    );
    assert_eq!(structure(&text), Vec::<String>::new());
    assert_eq!(structure("*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n"), Vec::<String>::new());
}
