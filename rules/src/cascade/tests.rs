use rstest::rstest;

use super::*;
use crate::cluster::Family;
use crate::coverage::Coverage;
use crate::ruleset::Rules;
use crate::{iptables, nftables};

/// Builds a service's chain with these rules, and the chains of endpoints A, B, C and D.
fn one(rules: &str) -> Cascade {
    with_endpoints(rules, |_| String::new())
}

/// The same, with more conditions in the DNAT rules.
fn with_endpoints(rules: &str, more: impl Fn(&str) -> String) -> Cascade {
    let mut text = String::from("*nat\n:KUBE-SVC-FOO - [0:0]\n");
    for name in ["A", "B", "C", "D"] {
        text += &format!(":KUBE-SEP-{name} - [0:0]\n");
    }
    for line in rules.lines() {
        text += &format!("-A KUBE-SVC-FOO -m comment --comment \"default/foo\" {}\n", line.trim());
    }
    for (name, last) in [("A", 1), ("B", 2), ("C", 3)] {
        let more = more(name);
        text += &format!("-A KUBE-SEP-{name} -p tcp -m tcp {more} -j DNAT --to-destination 10.244.{last}.2:80\n");
    }
    text += "COMMIT\n";
    read(&text, &Coverage::all())
}

fn read(text: &str, coverage: &Coverage) -> Cascade {
    let parsed = iptables::parse(text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut found = cascades_with_coverage(&parsed.rules, coverage);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// Of an excerpt only what no hidden rule can explain is a defect: n of 1/n falls from rule to rule, by any number.
#[rstest]
#[case::falling(&["0.33333333349", "0.50000000000"], &[])]
#[case::with_a_gap(&["0.10000000009", "0.50000000000"], &[])]
#[case::alike(&["0.33333333349", "0.33333333349"], &["rule 2: probability 0.33333333349 after that of rule 1 is uneven"])]
#[case::rising(&["0.50000000000", "0.33333333349"], &["rule 2: probability 0.33333333349 after that of rule 1 is uneven"])]
#[case::of_none(&["0.40000000000", "0.50000000000"], &["rule 1: probability 0.40000000000 is uneven for any number"])]
#[case::five_digits(&["0.00313", "0.00313"], &[])]
#[case::shortened(&["0.333", "0.500"], &[])]
#[case::shortened_alike(&["0.33", "0.33"], &["rule 2: probability 0.33 after that of rule 1 is uneven"])]
#[case::of_none_short(&["0.4", "0.5"], &["rule 1: probability 0.4 is uneven for any number"])]
fn an_excerpt_is_uneven_only_if_no_hidden_rule_explains_it(#[case] probabilities: &[&str], #[case] defects: &[&str]) {
    let mut text = String::from("*nat\n:KUBE-SVC-FOO - [0:0]\n:KUBE-SEP-A - [0:0]\n:KUBE-SEP-B - [0:0]\n");
    for (probability, endpoint) in probabilities.iter().zip(["A", "B"]) {
        text +=
            &format!("-A KUBE-SVC-FOO -m statistic --mode random --probability {probability} -j KUBE-SEP-{endpoint}\n");
    }
    let found = read(&(text + "COMMIT\n"), &Coverage::default()).defects;
    assert_eq!(found.len(), defects.len(), "{found:?}");
    for (found, expected) in found.iter().zip(defects) {
        assert!(found.to_string().starts_with(expected), "{found}");
    }
}

/// People shorten what iptables prints: 0.333 of three is a third, 0.300 is not.
#[rstest]
#[case::rounded("0.333", true)]
#[case::shorter("0.33", true)]
#[case::other("0.300", false)]
#[case::printed("0.33300000010", false)]
fn a_probability_may_be_shortened(#[case] first: &str, #[case] is_even: bool) {
    let cascade = one(&format!(
        "-m statistic --mode random --probability {first} -j KUBE-SEP-A
         -m statistic --mode random --probability 0.5 -j KUBE-SEP-B
         -j KUBE-SEP-C"
    ));
    assert_eq!(cascade.defects.is_empty(), is_even, "{:?}", cascade.defects);
}

const RIGHT: &str = "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A
    -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-B
    -j KUBE-SEP-C";

#[test]
fn a_right_cascade_is_even_to_the_last_bit_of_its_thresholds() {
    let cascade = one(RIGHT);
    assert_eq!(cascade.service, "default/foo");
    assert_eq!(cascade.defects, []);
    assert_eq!(cascade.left, Share::ZERO);
    let endpoints: Vec<&str> = cascade.steps.iter().map(|step| step.endpoint.as_str()).collect();
    assert_eq!(endpoints, ["10.244.1.2:80", "10.244.2.2:80", "10.244.3.2:80"]);
    let thresholds: Vec<u32> = cascade.steps.iter().map(|step| step.chance.threshold()).collect();
    assert_eq!(thresholds, [715_827_883, 1 << 30, 1 << 31]);
    let fractions: Vec<Option<(u128, u128)>> = cascade.steps.iter().map(|step| step.share.fraction()).collect();
    // 715,827,883 of 2^31; then half of the 1,431,655,765 that are left, each.
    assert_eq!(
        fractions,
        [Some((715_827_883, 1 << 31)), Some((1_431_655_765, 1 << 32)), Some((1_431_655_765, 1 << 32))]
    );
    assert_eq!(cascade.steps[2].cumulative, Share::ONE);
    assert!(cascade.largest_deviation() < 1e-9);
    assert!(cascade.sentence().starts_with("0.33, 0.50, always is even"), "{}", cascade.sentence());
}

#[rstest]
#[case::forgotten(
    "-j KUBE-SEP-A\n-m statistic --mode random --probability 0.5 -j KUBE-SEP-B\n-j KUBE-SEP-C",
    &[
        "rule 1: probability 1 where 0.33333333333 would be even: its endpoint gets all",
        "rule 2: nothing is left for 10.244.2.2:80: a rule before it takes everything",
        "rule 3: nothing is left for 10.244.3.2:80: a rule before it takes everything",
    ]
)]
#[case::wrong_order(
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-A
     -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-B
     -j KUBE-SEP-C",
    &[
        "rule 1: the probabilities are those of an even cascade, but in another order: endpoints get from 16.666667 % to \
         1/2 of all",
    ]
)]
#[case::conditional_last(
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n-s 10.0.0.0/8 -j KUBE-SEP-B",
    &[
        "rule 2: depends on the connection: one from 10.0.0.0 goes to 10.244.1.2:80 (1/2), goes to 10.244.2.2:80 (1/2)",
        "1/2 of new connections reach no endpoint",
    ]
)]
#[case::twice(
    "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A
     -m statistic --mode random --probability 0.5 -j KUBE-SEP-A
     -j KUBE-SEP-B",
    &["rule 2: 10.244.1.2:80 has rule 1 already: together they get 66.666667 % of all"]
)]
#[case::to_nowhere(
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n-j KUBE-SEP-D",
    &[
        "rule 2: KUBE-SEP-D translates to no address: connections continue with the next rule",
        "1/2 of new connections reach no endpoint",
    ]
)]
#[case::too_many(
    "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A
     -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-B
     -j KUBE-SEP-C",
    &[
        "rule 2: probability 0.33333333349, one in 3, where 0.50000000000 would be even: its endpoint gets 22.222222 % of all",
    ]
)]
#[case::missing(
    "-m statistic --mode random --probability 0.25 -j KUBE-SEP-A
     -m statistic --mode random --probability 0.5 -j KUBE-SEP-B
     -j KUBE-SEP-C",
    &[
        "rule 1: its probability implies 1 missing rule after it: its endpoint gets 1/4 of all, each of those after it 3/8",
    ]
)]
#[case::last_missing(
    "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A
     -m statistic --mode random --probability 0.5 -j KUBE-SEP-B",
    &[
        "rule 2: its probability implies 1 missing rule after it: its endpoint gets 33.333333 % of all, and what is left goes \
         to no endpoint",
        "33.333333 % of new connections reach no endpoint",
    ]
)]
#[case::returning(
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-D\n-j KUBE-SEP-A",
    &["rule 1: KUBE-SEP-D translates to no address: connections continue with the next rule"]
)]
#[case::old_clients_only(
    "-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask 255.255.255.255 --rsource -j KUBE-SEP-A
     -j KUBE-SEP-B",
    &[
        "rule 1: returning clients go to 10.244.1.2:80, but no new client does",
        "rule 2: clients of 10.244.2.2:80 do not stay there, though those of other endpoints do",
    ]
)]
#[case::last_by_chance(
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n-m statistic --mode random --probability 0.5 -j KUBE-SEP-B",
    &[
        "rule 2: probability 0.5, one in 2, where 1.00000000000 would be even: its endpoint gets 1/4 of all",
        "1/4 of new connections reach no endpoint",
    ]
)]
fn defects_have_a_place_and_an_effect(#[case] rules: &str, #[case] expected: &[&str]) {
    let said: Vec<String> = one(rules).defects.iter().map(ToString::to_string).collect();
    assert_eq!(said, expected);
}

#[test]
fn clients_with_an_endpoint_of_their_own_are_no_part_of_the_shares() {
    let affinity = ["A", "B", "C"].map(|name| {
        format!("-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-{name} --mask 255.255.255.255 --rsource -j KUBE-SEP-{name}\n")
    });
    let set = |name: &str| format!("-m recent --set --name KUBE-SEP-{name} --mask 255.255.255.255 --rsource");
    let cascade = with_endpoints(&(affinity.concat() + RIGHT), set);
    assert!(cascade.has_affinity);
    assert_eq!(cascade.steps.len(), 3);
    assert_eq!(cascade.defects, []);
    assert_eq!(cascade.steps[0].rule, 4);
}

/// `count` endpoints, with probabilities of `digits` digits.
fn many(count: u32, digits: usize) -> Cascade {
    let mut text = String::from("*nat\n:KUBE-SVC-FOO - [0:0]\n");
    for number in 0..count {
        text += &format!(":KUBE-SEP-{number} - [0:0]\n");
    }
    for (number, left) in (0..count).zip((1..=count).rev()) {
        let probability = match left {
            1 => String::new(),
            _ => format!("-m statistic --mode random --probability {:.digits$} ", 1.0 / f64::from(left)),
        };
        text += &format!("-A KUBE-SVC-FOO {probability}-j KUBE-SEP-{number}\n");
    }
    for number in 0..count {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
        text += &format!("-A KUBE-SEP-{number} -p tcp -m tcp -j DNAT --to-destination {address}:80\n");
    }
    let parsed = iptables::parse(&(text + "COMMIT\n"), Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    cascades(&parsed.rules).remove(0)
}

/// The numbers were computed apart from this crate, by multiplying floating-point numbers.
#[rstest]
#[case::three(
    3,
    "rule 1: 1 probability has five digits only, as kube-proxy up to 1.16 writes it: 10.0.0.0:80 is -0.0010 % off"
)]
#[case::before_two_are_alike(
    319,
    "rule 1: 301 probabilities have five digits only, as kube-proxy up to 1.16 writes them: 10.0.0.7:80 is +0.1553 % off"
)]
#[case::two_are_alike(
    320,
    "rule 1: 302 probabilities have five digits only, as kube-proxy up to 1.16 writes them: 10.0.0.0:80 is +0.1600 % off; 1 of \
     them equal the one before"
)]
#[case::most_are_alike(
    5000,
    "rule 2: 4971 probabilities have five digits only, as kube-proxy up to 1.16 writes them: 10.0.0.122:80 is +2.4689 % off; \
     4388 of them equal the one before"
)]
fn five_digits_are_reported_with_what_they_do(#[case] endpoints: u32, #[case] said: &str) {
    let defects: Vec<String> = many(endpoints, 5).defects.iter().map(ToString::to_string).collect();
    assert_eq!(defects, [said]);
}

#[test]
fn cascades_that_people_write_are_read_too() {
    let text = "*nat\n:PREROUTING ACCEPT [0:0]\n:WEB - [0:0]\n-A PREROUTING -d 10.96.0.80/32 -p tcp -m tcp --dport 80 -j WEB\n\
                -A PREROUTING -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80\n\
                -A WEB -p tcp -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.244.1.3:80\n\
                -A WEB -p tcp -j DNAT --to-destination 10.244.2.2:80\nCOMMIT\n";
    let parsed = iptables::parse(text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    let found = cascades(&parsed.rules);
    assert_eq!((found.len(), found[0].service.as_str(), found[0].defects.len()), (1, "WEB", 0));
    assert_eq!(found[0].frontends.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.96.0.80:80"]);
    assert_eq!(found[0].steps.iter().map(|step| step.share.to_string()).collect::<Vec<_>>(), ["1/2", "1/2"]);
}

#[test]
fn an_endpoint_of_the_service_that_no_rule_leads_to_gets_nothing() {
    let text = "*nat\n:KUBE-SVC-FOO - [0:0]\n:KUBE-SEP-A - [0:0]\n:KUBE-SEP-B - [0:0]\n\
                -A KUBE-SVC-FOO -m comment --comment \"default/foo\" -j KUBE-SEP-A\n\
                -A KUBE-SEP-A -p tcp -m comment --comment default/foo -m tcp -j DNAT --to-destination 10.0.0.1:80\n\
                -A KUBE-SEP-B -p tcp -m comment --comment default/foo -m tcp -j DNAT --to-destination 10.0.0.2:80\nCOMMIT\n";
    let parsed = iptables::parse(text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    let said: Vec<String> = cascades(&parsed.rules)[0].defects.iter().map(ToString::to_string).collect();
    assert_eq!(said, ["10.0.0.2:80 has a chain, KUBE-SEP-B, but no rule leads there: it gets nothing"]);
}

#[test]
fn frontends_are_found_through_the_chains_between() {
    let text = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-NODEPORTS - [0:0]\n:KUBE-EXT-FOO - [0:0]\n:KUBE-SVC-FOO - [0:0]\n\
                -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-FOO\n\
                -A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j KUBE-EXT-FOO\n\
                -A KUBE-EXT-FOO -j KUBE-SVC-FOO\n-A KUBE-SVC-FOO -j KUBE-SEP-A\nCOMMIT\n";
    let parsed = iptables::parse(text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    let cascade = cascades(&parsed.rules).remove(0);
    let frontends: Vec<String> = cascade.frontends.iter().map(ToString::to_string).collect();
    assert_eq!(frontends, ["10.96.0.1:80", "node port 30080"]);
    // The target of the chain is not in the text, which may be an excerpt.
    assert_eq!((cascade.steps[0].endpoint.as_str(), cascade.defects.len()), ("KUBE-SEP-A", 0));
}

#[test]
fn ten_thousand_endpoints_share_evenly() {
    let cascade = many(10_000, 10);
    assert_eq!(cascade.defects, []);
    assert_eq!((cascade.endpoints, cascade.left), (10_000, Share::ZERO));
    assert!(cascade.largest_deviation() < 1e-4, "{}", cascade.largest_deviation());
}

/// kube-proxy's table for a service of this many endpoints.
fn table(rules: &str) -> Vec<Cascade> {
    let head = r#"{"nftables": [{"table": {"family": "ip", "name": "kube-proxy"}},
        {"map": {"family": "ip", "table": "kube-proxy", "name": "service-ips", "type": ["ipv4_addr", "inet_proto", "inet_service"],
            "map": "verdict", "elem": [[{"concat": ["10.96.0.1", "tcp", 80]}, {"goto": {"target": "service-A-ns/web/tcp/http"}}]]}},
        {"chain": {"family": "ip", "table": "kube-proxy", "name": "service-A-ns/web/tcp/http"}},"#;
    let rule = r#"{"rule": {"family": "ip", "table": "kube-proxy", "chain": "service-A-ns/web/tcp/http", "expr": ["#;
    let parsed = nftables::parse(&format!("{head}{rule}{rules}]}}}}]}}")).unwrap_or_else(|errors| panic!("{errors:?}"));
    numgens(&parsed.rules.tables[0])
}

#[test]
fn numgen_is_even_but_for_one_draw_of_four_thousand_million() {
    let address = |n: u32| format!(r#"[{n}, {{"concat": ["10.0.0.{}", 8080]}}]"#, n + 1);
    let members: Vec<String> = (0..3).map(address).collect();
    let cascade = table(&format!(
        r#"{{"dnat": {{"family": "ip", "addr": {{"map": {{"key": {{"numgen": {{"mode": "random", "mod": 3, "offset": 0}}}},
            "data": {{"set": [{}]}}}}}}}}}}"#,
        members.join(", ")
    ))
    .remove(0);
    assert_eq!((cascade.service.as_str(), cascade.protocol), ("ns/web:http", Some(Protocol::Tcp)));
    assert_eq!(cascade.frontends.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.96.0.1:80"]);
    assert_eq!((cascade.defects.as_slice(), cascade.left), ([].as_slice(), Share::ZERO));
    let fractions: Vec<_> = cascade.steps.iter().map(|step| step.share.fraction()).collect();
    // Every draw from 0 to 2^32 - 1, times 3, without the lowest 32 bits.
    assert_eq!(
        fractions,
        [Some((715_827_883, 1 << 31)), Some((1_431_655_765, 1 << 32)), Some((1_431_655_765, 1 << 32))]
    );
    assert_eq!(cascade.steps[2].cumulative, Share::ONE);
    assert!(cascade.sentence().starts_with("one random number of 3 is even"), "{}", cascade.sentence());
}

#[test]
fn lots_that_are_not_understood_are_no_even_shares() {
    let by_hash = r#"{"vmap": {"key": {"jhash": {"mod": 1, "expr": {"payload": {"protocol": "ip", "field": "saddr"}}}}, "data": {"set": [[0, {"drop": null}]]}}}"#;
    let cascades = table(by_hash);
    assert_eq!((cascades[0].assessment(), cascades[0].unknown[0].rule), (Assessment::Unknown, 1));
}

#[rstest]
#[case::second(
    "A",
    "-m statistic --mode random --probability 0.5 -j KUBE-SEP-B\n-m statistic --mode random --probability 0.5 -j KUBE-SEP-B\n-j KUBE-SEP-C",
    "rule 3: the same as rule 2; the chain has this rule 2 times, which give 10.244.2.2:80 50.000000 % of all"
)]
#[case::first(
    "A",
    "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A\n-m statistic --mode random --probability 0.5 -j KUBE-SEP-B\n-j KUBE-SEP-C",
    "rule 2: the same as rule 1; the chain has this rule 2 times, which give 10.244.1.2:80 55.555556 % of all"
)]
fn only_the_copy_of_a_doubled_rule_is_wrong(#[case] first: &str, #[case] rest: &str, #[case] expected: &str) {
    let rules = format!("-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-{first}\n{rest}");
    let said: Vec<String> = one(&rules).defects.iter().map(ToString::to_string).collect();
    assert_eq!(said, [expected]);
}

#[test]
fn without_any_rule_that_looks_clients_up_none_stay() {
    let set = |name: &str| format!("-m recent --set --name KUBE-SEP-{name} --mask 255.255.255.255 --rsource");
    let said: Vec<String> = with_endpoints(RIGHT, set).defects.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 3);
    let why = "do not stay there: they are remembered, but no rule looks them up before the random rules";
    assert_eq!(said[0], format!("rule 1: clients of 10.244.1.2:80 {why}"));
}

#[test]
fn a_port_without_a_protocol_is_a_rule_that_the_kernel_rejects() {
    let text = "*nat\n:KUBE-SVC-FOO - [0:0]\n:KUBE-SEP-A - [0:0]\n-A KUBE-SVC-FOO -j KUBE-SEP-A\n\
                -A KUBE-SEP-A -j DNAT --to-destination 10.244.1.2:80\nCOMMIT\n";
    let parsed = iptables::parse(text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    let defects = &cascades(&parsed.rules)[0].defects;
    assert_eq!(
        defects.iter().map(|one| (one.rule, one.kind.code())).collect::<Vec<_>>(),
        [(1, "port-without-protocol")]
    );
    assert!(defects[0].to_string().starts_with("rule 1: KUBE-SEP-A: a rule translates to a port"), "{}", defects[0]);
}

#[test]
fn shares_after_an_unknown_match_are_unknown() {
    let cascade = one(
        "-m unknown --option value -j ACCEPT\n-m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n-j KUBE-SEP-B",
    );
    assert_eq!(cascade.assessment(), Assessment::Unknown);
    assert!(cascade.steps.iter().all(|step| !cascade.is_known(step)));
    assert!(one(RIGHT).steps.iter().all(|step| one(RIGHT).is_known(step)));
}

/// Returns the structure defects of rules that the kernel rejects. There are no shares then.
fn rejected(rules: &Rules) -> Vec<String> {
    let Shares { cascades, structure_defects } = shares(rules, &Coverage::all());
    assert_eq!(cascades, []);
    structure_defects.iter().map(|defect| defect.to_string()).collect()
}

#[test]
fn a_loop_is_the_only_defect() {
    let text = "*nat\n:PREROUTING ACCEPT\n:KUBE-SVC-FOO -\n:KUBE-SEP-A -\n-A PREROUTING -j KUBE-SVC-FOO\n\
        -A KUBE-SVC-FOO -m statistic --mode random --probability 0.5 -j KUBE-SEP-A\n-A KUBE-SVC-FOO -j KUBE-SEP-B\n\
        -A KUBE-SEP-A -j KUBE-SVC-FOO\nCOMMIT\n";
    let parsed = iptables::parse(text, Family::Ipv4).unwrap();
    let expected = "the kernel rejects these rules: table nat, chain KUBE-SEP-A, rule 1: jump loop: \
        KUBE-SVC-FOO → KUBE-SEP-A → KUBE-SVC-FOO";
    assert_eq!(rejected(&Rules::Iptables(parsed)), [expected]);
}

#[rstest]
#[case::same("type ipv4_addr", None)]
#[case::other_type("type inet_service", Some("set a: is declared twice, in different ways"))]
#[case::dynamic("type ipv4_addr\ntimeout 1h", Some("set a: is declared twice, in different ways"))]
fn sets_declared_again_are_accepted_as_the_kernel_does(#[case] again: &str, #[case] expected: Option<&str>) {
    let text = format!(
        "table ip kube-proxy {{\nset a {{\ntype ipv4_addr\nelements = {{ 10.0.0.1 }}\n}}\nset a {{\n{again}\n}}\n\
         chain c {{\nip saddr @a drop\n}}\n}}\n"
    );
    let expected = expected.map(|expected| format!("the kernel rejects these rules: table ip kube-proxy, {expected}"));
    let parsed = nftables::parse(&text).unwrap();
    assert_eq!(rejected(&Rules::Nftables(parsed)), Vec::from_iter(expected));
}
