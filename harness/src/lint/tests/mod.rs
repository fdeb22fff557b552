#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use rstest::rstest;

use super::*;
use crate::each_file::each_file;
use crate::evidence::read;

mod copies;
mod excerpts;
mod places;
mod subjects;

pub(super) fn ids(text: &str) -> Vec<&'static str> {
    lint(&read(text)).into_iter().map(|finding| finding.id).collect()
}

/// What real kube-proxies wrote is in order: a false alarm is worse than a defect that is missed.
#[test]
fn recordings_are_in_order() {
    each_file(&["../rules/tests/golden/*/v*/*-save.txt", "../rules/tests/golden/*/v*/nft-ruleset.txt"], |file| {
        assert_in_order(&std::fs::read_to_string(file).unwrap());
    });
}

/// Nor are they wrong alongside the objects of their cluster: kube-proxy chooses endpoints by hints, policies and conditions.
#[test]
fn recordings_are_in_order_alongside_their_objects() {
    const FILES: [&str; 2] =
        ["../rules/tests/golden/*/v*/iptables-save.txt", "../rules/tests/golden/*/v*/nft-ruleset.txt"];
    // An external IP that is a node's own is worth a warning, and the API sets ipFamilies.
    const OTHERS: [&str; 2] = ["external-is-node-address", "ip-families-empty"];
    each_file(&FILES, |file| {
        let cluster = file.parent().unwrap().parent().unwrap();
        if OTHERS.iter().any(|name| cluster.ends_with(name)) {
            return;
        }
        let mut evidence = Evidence::default();
        let objects = ["cluster.yaml", "proxy-config.yaml"].map(|name| cluster.join(name));
        for path in [file.with_file_name("ip6tables-save.txt"), file.to_owned()].into_iter().chain(objects) {
            if let Ok(text) = std::fs::read_to_string(&path) {
                evidence.add(path.file_name().unwrap().to_str().unwrap(), read(&text));
            }
        }
        assert!(evidence.rules() > 0 && evidence.pieces.len() > 1, "rules and objects are read");
        assert_eq!(grave(&evidence), []);
    });
}

fn assert_in_order(text: &str) {
    assert_eq!(grave(&read(text)), []);
}

/// The warnings and errors.
fn grave(evidence: &Evidence) -> Vec<Finding> {
    lint(evidence).into_iter().filter(|finding| finding.severity < Severity::Info).collect()
}

/// Nor is an excerpt of them wrong for what it leaves out.
#[rstest]
fn excerpts_of_recordings_are_in_order(
    #[values("KUBE-SVC", "KUBE-SEP", "KUBE-SERVICES", "default/", "KUBE", "-A OUTPUT")] word: &str,
) {
    each_file(&["../rules/tests/golden/*/v1.30-iptables/iptables-save.txt"], |file| {
        let text = std::fs::read_to_string(file).unwrap();
        let lines = text.lines().filter(|line| line.contains(word));
        assert_in_order(&lines.map(|line| format!("{line}\n")).collect::<String>());
    });
}

pub(super) const BASE: &str = "\
*filter
:FORWARD ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-SERVICES - [0:0]
-A FORWARD -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-2CMXP7HKUVJN7L6M - [0:0]
:KUBE-SEP-HUXRPHBUO34UVPEF - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
-A KUBE-SERVICES -d 10.96.34.82/32 -p tcp -m comment --comment \"default/nginx cluster IP\" -m tcp --dport 80 -j KUBE-SVC-2CMXP7HKUVJN7L6M
-A KUBE-SVC-2CMXP7HKUVJN7L6M ! -s 10.244.0.0/16 -d 10.96.34.82/32 -p tcp -m comment --comment \"default/nginx cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment --comment \"default/nginx -> 10.244.2.2:80\" -j KUBE-SEP-HUXRPHBUO34UVPEF
-A KUBE-SEP-HUXRPHBUO34UVPEF -s 10.244.2.2/32 -m comment --comment \"default/nginx\" -j KUBE-MARK-MASQ
-A KUBE-SEP-HUXRPHBUO34UVPEF -p tcp -m comment --comment \"default/nginx\" -m tcp -j DNAT --to-destination 10.244.2.2:80
COMMIT
";

#[test]
fn sound_rules_have_no_finding() {
    assert_eq!(lint(&read(BASE)), []);
}

/// How the rule of the Service's chain begins that leads to the endpoint.
const SERVICE_RULE: &str = "-A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment";

/// Each defect is found, and no other.
#[rstest]
#[case::protocol("-p tcp -m comment --comment \"default/nginx\" -m tcp -j DNAT", "-p udp -m comment --comment \"default/nginx\" -m udp -j DNAT", &["dnat-protocol"])]
#[case::source("-s 10.244.2.2/32", "-s 10.244.9.9/32", &["dnat-source"])]
#[case::sources("-s 10.244.2.2/32", "! -s 10.244.2.2/32", &["dnat-source"])]
#[case::ipset(SERVICE_RULE, "-A KUBE-SVC-2CMXP7HKUVJN7L6M -m set --match-set bad src -j DROP\n-A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment", &["unmodelled-rule"])]
#[case::extension(SERVICE_RULE, "-A KUBE-SVC-2CMXP7HKUVJN7L6M -m string --string x --algo bm\n-A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment", &["unmodelled-rule"])]
#[case::copy(SERVICE_RULE, "-A KUBE-SVC-2CMXP7HKUVJN7L6M -j TEE --gateway 10.0.0.9\n-A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment", &["unmodelled-rule"])]
#[case::queue(SERVICE_RULE, "-A KUBE-SVC-2CMXP7HKUVJN7L6M -j NFQUEUE --queue-num 1\n-A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment", &["unmodelled-rule"])]
#[case::rejected(SERVICE_RULE, "-A KUBE-SVC-2CMXP7HKUVJN7L6M -j CT --notrack\n-A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment", &["rejected-rule"])]
#[case::comment("\"default/nginx cluster IP\" -m tcp --dport 80 -j KUBE-SVC", "\"default/other cluster IP\" -m tcp --dport 80 -j KUBE-SVC", &["hash-comment"])]
#[case::undefined(":KUBE-SEP-HUXRPHBUO34UVPEF - [0:0]\n", ":KUBE-SEP-HUXRPHBUO34UVPEF - [0:0]\n-A KUBE-SERVICES -d 10.9.9.9/32 -j KUBE-GONE\n", &["undefined-chain"])]
#[case::unused(":KUBE-SEP-HUXRPHBUO34UVPEF - [0:0]\n", ":KUBE-SEP-HUXRPHBUO34UVPEF - [0:0]\n:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\n", &["unreferenced-chain"])]
#[case::no_jump("-A OUTPUT -j KUBE-SERVICES\n", "", &["missing-jump"])]
#[case::copies("-A POSTROUTING -j KUBE-POSTROUTING\n", "-A POSTROUTING -j KUBE-POSTROUTING\n-A POSTROUTING -j KUBE-POSTROUTING\n", &["duplicate-rules"])]
#[case::host_port("-A PREROUTING -j KUBE-SERVICES\n", "-A PREROUTING -j CNI-HOSTPORT-DNAT\n-A PREROUTING -j KUBE-SERVICES\n", &["undefined-chain", "host-port-first"])]
#[case::drop("-A KUBE-FORWARD -m", "-A KUBE-FIREWALL -j DROP\n-A KUBE-FORWARD -m", &["firewall-drops-all"])]
#[case::policy(":FORWARD ACCEPT", ":FORWARD DROP", &["forward-drop"])]
#[case::invalid("-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n", "", &["invalid-not-dropped"])]
#[case::accept("-A FORWARD -j KUBE-FORWARD\n", "-A FORWARD -j ACCEPT\n-A FORWARD -j KUBE-FORWARD\n-A KUBE-SERVICES -d 10.9.9.9/32 -p tcp -m comment --comment \"default/x has no endpoints\" -m tcp --dport 80 -j REJECT\n", &["accept-before-reject", "rejected-service"])]
#[case::mark("-A OUTPUT -j KUBE-SERVICES\n", "-A OUTPUT -j KUBE-SERVICES\n-A OUTPUT -j MARK --set-xmark 0x4000/0x4000\n", &["mark-bits"])]
#[case::no_masquerade("! -s 10.244.0.0/16 -d 10.96.34.82/32 -p tcp -m comment --comment \"default/nginx cluster IP\" -m tcp --dport 80 -j KUBE-MARK-MASQ", "-m comment --comment nothing", &["no-masquerade"])]
#[case::local(":KUBE-FIREWALL - [0:0]\n", ":KUBE-FIREWALL - [0:0]\n-A KUBE-FIREWALL -d 10.9.9.9/32 -m comment --comment \"default/y has no local endpoints\" -j DROP\n", &["local-drop"])]
fn defects_are_found(#[case] sound: &str, #[case] broken: &str, #[case] expected: &[&str]) {
    assert!(BASE.contains(sound), "{sound}");
    assert_eq!(ids(&BASE.replacen(sound, broken, 1)), expected);
}

/// An empty chain that no rule leads to is left over; one with rules may have lost the rule that led to it.
#[rstest]
#[case::empty("", "no effect: ")]
#[case::with_rules("-A KUBE-EXT-2CMXP7HKUVJN7L6M -j KUBE-SVC-2CMXP7HKUVJN7L6M\n", "no packet comes to its rules: ")]
fn the_effect_of_a_chain_without_a_jump_depends_on_its_rules(#[case] rules: &str, #[case] effect: &str) {
    let heading = ":KUBE-SEP-HUXRPHBUO34UVPEF - [0:0]\n";
    let text = BASE.replacen(heading, &format!("{heading}:KUBE-EXT-2CMXP7HKUVJN7L6M - [0:0]\n{rules}"), 1);
    let finding = lint(&read(&text)).into_iter().find(|finding| finding.id == "unreferenced-chain").unwrap();
    assert!(finding.effect.starts_with(effect), "{}", finding.effect);
}

/// Of real rules, what no other finding is about. What a Service's own chains lack is counted with it.
#[rstest]
#[case::no_masquerade("-A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE --random-fully\n", "", &["missing-rule"])]
#[case::no_hairpin("-A KUBE-SEP-GWQABTP5GBYXHJY5 -s 10.244.1.10/32 -m comment --comment \"default/web:http\" -j KUBE-MARK-MASQ\n", "", &["missing-rule"])]
#[case::remote_hairpin("-A KUBE-SEP-IQIBSY2R4USWK4F3 -s 10.244.2.10/32 -m comment --comment \"default/web:http\" -j KUBE-MARK-MASQ\n", "", &["deviation"])]
#[case::frontend("-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"default/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-CDGGSHYLG3RE2FKL\n", "", &["missing-rule"])]
#[case::node_ports("-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\n", "", &["missing-rule"])]
#[case::health_checks("-A INPUT -m comment --comment \"kubernetes health check service ports\" -j KUBE-NODEPORTS\n", "", &[])]
#[case::to_endpoints("-A KUBE-EXT-CDGGSHYLG3RE2FKL -j KUBE-SVL-CDGGSHYLG3RE2FKL\n", "", &["missing-rule"])]
#[case::one_mark("-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n", "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x8000/0x8000\n", &["deviation"])]
#[case::negation(" ! -s 10.244.0.0/16 -d", " -s 10.244.0.0/16 -d", &["deviation"])]
fn whole_rules_are_compared_with_those_of_kube_proxy(
    #[case] sound: &str,
    #[case] broken: &str,
    #[case] expected: &[&str],
) {
    let text =
        std::fs::read_to_string("../rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt").unwrap();
    assert!(text.contains(sound), "{sound}");
    let found = lint(&read(&text.replacen(sound, broken, 1)));
    let mut grave: Vec<&str> = found.iter().filter(|one| one.severity < Severity::Info).map(|one| one.id).collect();
    grave.dedup();
    assert_eq!(grave, expected, "{found:?}");
}

#[test]
fn connections_and_settings_are_judged_with_the_rules() {
    let more = "udp      17 29 src=10.244.1.3 dst=10.96.0.10 sport=40000 dport=53 [UNREPLIED] src=10.96.0.10 dst=10.244.1.3 sport=53 dport=40000\n\nnet.bridge.bridge-nf-call-iptables = 0\n";
    let udp = BASE
        .replace("10.96.34.82", "10.96.0.10")
        .replace("--dport 80", "--dport 53")
        .replace("-p tcp", "-p udp")
        .replace("-m tcp", "-m udp");
    let found = ids(&format!("{udp}\n{more}"));
    assert!(found.contains(&"untranslated-entry") && found.contains(&"bridge-call"), "{found:?}");
}

#[test]
fn endpoints_are_compared_with_objects() {
    let ready = "\nNAME    ENDPOINTS        AGE\nnginx   10.244.3.3:80    1d\n";
    assert_eq!(ids(&format!("{BASE}{ready}")), ["endpoints-differ"]);
    let same = ready.replace("10.244.3.3", "10.244.2.2");
    assert_eq!(ids(&format!("{BASE}{same}")), Vec::<&str>::new());
}

#[test]
fn every_kind_is_in_the_catalog_once() {
    for entry in &CATALOG {
        assert_eq!(CATALOG.iter().filter(|other| other.id == entry.id).count(), 1, "{}", entry.id);
        assert!(!entry.ask.is_empty() && entry.issue.is_none_or(|issue| issue.contains('#')));
    }
}

#[test]
fn a_layout_that_the_release_of_the_nodes_does_not_write_is_noted() {
    let nodes = "\nNAME   STATUS   ROLES    AGE   VERSION   INTERNAL-IP   EXTERNAL-IP\nw1     Ready    <none>   26h   v1.21.1   172.18.0.2    <none>\n";
    assert_eq!(ids(&format!("{BASE}{nodes}")), ["mixed-layouts"]);
    assert_eq!(ids(&format!("{BASE}{}", nodes.replace("v1.21.1", "v1.30.2"))), Vec::<&str>::new());
}

/// The layout of one node's rules explains nothing on another one.
#[test]
fn a_lost_jump_is_found_beside_a_node_with_an_older_layout() {
    const JUMP: &str = "-A FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES\n";
    let saved =
        std::fs::read_to_string("../rules/tests/golden/nodeport-cluster/v1.18-iptables/iptables-save.txt").unwrap();
    assert!(saved.contains(JUMP), "{saved}");
    let lost = saved.replace(JUMP, "");
    let older = lost.replacen(
        "-A INPUT -j KUBE-FIREWALL\n",
        "-A INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n-A INPUT -j KUBE-FIREWALL\n",
        1,
    );
    let is_lost = |one: &&Finding| one.message.contains("-j KUBE-EXTERNAL-SERVICES");
    let count = |text: &str| lint(&read(text)).iter().filter(is_lost).count();
    assert_eq!([count(&saved), count(&lost), count(&older)], [0, 1, 0]);
    assert_eq!(count(&format!("root@w1:~# iptables-save\n{older}root@w2:~# iptables-save\n{lost}")), 1);
}

#[test]
fn chains_that_lead_back_are_a_loop() {
    let text = BASE.replace("COMMIT", "-A KUBE-SEP-HUXRPHBUO34UVPEF -j KUBE-SERVICES\nCOMMIT");
    let found = lint(&read(&text));
    let of_loop: Vec<&str> =
        found.iter().filter(|one| one.id == "chain-loop").map(|one| one.message.as_str()).collect();
    assert_eq!(
        of_loop,
        [
            "table nat, chain KUBE-SEP-HUXRPHBUO34UVPEF, rule 3: jump loop: KUBE-SERVICES → KUBE-SVC-2CMXP7HKUVJN7L6M → KUBE-SEP-HUXRPHBUO34UVPEF → KUBE-SERVICES"
        ]
    );
}

/// A cut that hides every Service is the only thing to say.
#[test]
fn a_cut_is_said() {
    let cut = BASE.split("-A ").next().expect("headings");
    let found = lint(&read(cut));
    assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), ["cut-off"]);
    assert!(found[0].message.contains("before any rule of a Service"), "{}", found[0].message);
}

/// A text that was edited by hand: other protocol, other address, other names than the hashes are of.
#[test]
fn an_edited_listing_is_seen_through() {
    let listing = "\
Chain KUBE-SERVICES (2 references)
target     prot opt source               destination
KUBE-SVC-QKJQYQZXY3DRLPVB  tcp  --  anywhere             100.96.128.2         /* kube-system/FOO:foo cluster IP */ tcp dpt:9153

Chain KUBE-SVC-QKJQYQZXY3DRLPVB (1 references)
target     prot opt source               destination
KUBE-SEP-QSKKIZFW3PNDWYKJ  all  --  anywhere             anywhere

Chain KUBE-SEP-QSKKIZFW3PNDWYKJ (1 references)
target     prot opt source               destination
KUBE-MARK-MASQ  all  --  100.96.32.2          anywhere
DNAT       udp  --  anywhere             anywhere             udp to:100.32.64.2:9153
";
    assert_eq!(ids(listing), ["dnat-protocol", "dnat-source", "hash-comment", "hash-endpoint", "no-masquerade"]);
}

/// A whole table of nftables with one Service.
fn nftables(rule: &str) -> String {
    let file = "../rules/tests/golden/node-hints/v1.33-nftables/nft-ruleset.txt";
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(SOUND));
    text.replacen(SOUND, rule, 1)
}

const SOUND: &str =
    "numgen random mod 1 vmap { 0 : goto endpoint-BW42SQEO-default/unready/tcp/http__10.244.2.15/8080 }";

/// A map without a chain balances nothing: that it has no value for most numbers is no defect of its own.
#[test]
fn what_a_rule_before_the_balancing_drops_is_lost() {
    let found = lint(&read(&nftables(&format!("numgen random mod 10 vmap {{ 0 : drop }}\n\t\t{SOUND}"))));
    let errors = found.iter().filter(|finding| finding.severity == Severity::Error);
    let errors: Vec<(&str, &str)> = errors.map(|finding| (finding.id, &*finding.message)).collect();
    let [("broken-balancing", message)] = errors[..] else { panic!("{found:?}") };
    assert!(message.contains("10.000000 %") && message.contains("are dropped"), "{message}");
}

#[rstest]
#[case::hash("jhash ip saddr mod 1 vmap { 0 : drop }")]
#[case::rate("limit rate 5/second drop")]
#[case::rate_over("limit rate over 5/second burst 5 packets drop")]
#[case::source_port("tcp sport < 1024 drop")]
#[case::queue("queue to 1")]
#[case::copy("dup to 10.0.0.3")]
fn statements_that_are_not_modelled_are_named(#[case] rule: &str) {
    let found = lint(&read(&nftables(rule)));
    let of_kind = |finding: &&Finding| finding.id == "unmodelled-rule";
    let messages: Vec<&str> = found.iter().filter(of_kind).map(|finding| &*finding.message).collect();
    let expected = format!(
        "kube-proxy's chains have `{rule}`, which kube-proxy does not write: 1 rule, in service-BMDHZJRR-default/unready/tcp/http"
    );
    assert_eq!(messages, [expected], "{found:?}");
}

#[test]
fn a_rule_that_nft_rejects_is_named_with_its_line() {
    let sound = "numgen random mod 1 vmap { 0 : goto endpoint-BW42SQEO-default/unready/tcp/http__10.244.2.15/8080 }";
    let text = nftables(sound).replacen("masquerade fully-random", "dnat to 10.0.0.1", 1);
    let at = text.lines().position(|line| line.contains("dnat to 10.0.0.1")).unwrap() + 1;
    let found = lint(&read(&text));
    assert_eq!(found.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["rejected-rule"]);
    let why = "table ip kube-proxy, chain masquerading, rule 3: dnat is not allowed at postrouting";
    assert_eq!((found[0].message.as_str(), found[0].place.line), (why, at));
}

/// What other programs write is theirs: kube-router's chains, and other tables.
#[rstest]
#[case::kube_router(BASE.replacen(
    ":KUBE-SERVICES - [0:0]\n",
    ":KUBE-SERVICES - [0:0]\n:KUBE-ROUTER-INPUT - [0:0]\n-A KUBE-ROUTER-INPUT -m set --match-set x src -j NFQUEUE --queue-num 1\n",
    1,
))]
#[case::other_table(nftables("numgen random mod 1 vmap { 0 : goto endpoint-BW42SQEO-default/unready/tcp/http__10.244.2.15/8080 }")
    + "table inet limits {\n\tchain all {\n\t\tqueue to 1\n\t}\n}\n")]
fn rules_of_other_programs_are_not_reported_as_unmodelled(#[case] text: String) {
    assert!(text.to_lowercase().contains("queue"), "{text}");
    assert_eq!(lint(&read(&text)).iter().find(|finding| finding.id == "unmodelled-rule"), None);
}

/// A reporter chose names for chains: nothing is missing, whether the text shows all rules or those of endpoints.
#[rstest]
#[case::endpoints("KUBE-SVC-2CMXP7HKUVJN7L6M", ["KUBE-SEP-AAA", "KUBE-SEP-POD2"])]
#[case::service("KUBE-SVC-WEB", ["KUBE-SEP-AAA", "KUBE-SEP-XXXXXXXXXXXXXXXX"])]
fn invented_names_of_chains_are_no_errors(#[case] service: &str, #[case] endpoints: [&str; 2]) {
    let [first, second] = endpoints;
    let frame = "-A KUBE-SERVICES -d 10.96.34.82/32 -p tcp -m comment --comment \"default/nginx cluster IP\" -m tcp --dport 80 -j ";
    let shares = format!(
        "-A {service} -m comment --comment \"default/nginx -> 10.244.1.5:80\" -m statistic --mode random --probability 0.50000000000 -j {first}
-A {service} -m comment --comment \"default/nginx -> 10.244.1.6:80\" -j {second}
-A {first} -s 10.244.1.5/32 -m comment --comment \"default/nginx\" -j KUBE-MARK-MASQ
-A {first} -p tcp -m comment --comment \"default/nginx\" -m tcp -j DNAT --to-destination 10.244.1.5:80
-A {second} -s 10.244.1.6/32 -m comment --comment \"default/nginx\" -j KUBE-MARK-MASQ
-A {second} -p tcp -m comment --comment \"default/nginx\" -m tcp -j DNAT --to-destination 10.244.1.6:80\n"
    );
    for text in [shares.clone(), format!("{frame}{service}\n{shares}")] {
        let found = lint(&read(&text));
        let wrong: Vec<&Finding> = found
            .iter()
            .filter(|finding| finding.severity != Severity::Info && !finding.id.starts_with("hash-"))
            .collect();
        assert!(wrong.is_empty(), "{wrong:?}\n{text}");
        assert!(found.iter().all(|finding| finding.severity != Severity::Error), "{found:?}");
        let places: Vec<&Place> =
            found.iter().filter(|finding| finding.id == "hash-endpoint").map(|finding| &finding.place).collect();
        assert!(places.windows(2).all(|pair| pair[0] != pair[1]), "{found:?}");
    }
}

/// A node whose rules drop what comes for a pod that it has does not do as intended: kube-proxy does not take the pod for local.
#[test]
fn a_drop_on_the_node_of_the_endpoint_is_an_error_and_no_contradiction() {
    let text =
        std::fs::read_to_string("../rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt").unwrap();
    let drop = "-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"default/web:http has no local endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP\n";
    let is_local = |line: &&str| !line.contains("KUBE-SVL-");
    let rules: String = text.lines().filter(is_local).map(|line| format!("{line}\n")).collect();
    let rules = rules.replacen("-A KUBE-FIREWALL", &format!("{drop}-A KUBE-FIREWALL"), 1);
    let pods = "[root@node-1 ~]# kubectl get pods -o wide\n\
                NAME   READY   STATUS    RESTARTS   AGE   IP            NODE     NOMINATED NODE   READINESS GATES\n\
                web    1/1     Running   0          21d   10.244.1.10   OWNER   <none>           <none>\n\
                api    1/1     Running   0          21d   10.244.1.11   node-1   <none>           <none>\n\n\
                [root@node-1 ~]# iptables-save\n";
    let of_node = |node: &str| {
        let found = lint(&read(&(pods.replace("OWNER", node) + &rules)));
        let of_endpoint = found.into_iter().filter(|one| one.message.contains("default/web:http"));
        of_endpoint.filter(|one| one.id != "even-shares" && one.id != "unreferenced-chain").collect::<Vec<_>>()
    };
    let here = of_node("node-1");
    assert_eq!(here.iter().map(|one| one.id).collect::<Vec<_>>(), ["no-local-endpoints"], "{here:?}");
    assert!(here[0].message.contains("10.244.1.10:8080 on this node"), "{here:?}");
    let elsewhere = of_node("node-2");
    assert_eq!(elsewhere.iter().map(|one| one.id).collect::<Vec<_>>(), ["local-drop"], "{elsewhere:?}");
}

/// The API server's EndpointSlice names no node, so from 1.36 on the rules do not masquerade its connections to itself, and need not.
#[test]
fn an_api_server_on_the_node_is_no_local_endpoint() {
    let text = std::fs::read_to_string("../rules/tests/golden/small-cluster/v1.36-nftables/nft-ruleset.txt").unwrap();
    assert!(text.contains("{ 0 : 192.168.10.100 . 6443 }") && text.contains("elements = { 192.168.10.11 }"));
    assert_in_order(&text.replace("192.168.10.100", "192.168.10.11"));
}

/// The lines of a text without those that contain words.
fn without(text: &str, words: &[&str]) -> String {
    let kept = text.lines().filter(|line| !words.iter().any(|words| line.contains(words)));
    kept.map(|line| format!("{line}\n")).collect()
}

/// A chain that was declared, or whose heading is shown, and that has no rule, loses the connections that are led to it.
#[rstest]
#[case::iptables("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt", "-A KUBE-SVC-")]
#[case::nftables("small-cluster/v1.36-nftables/nft-ruleset.txt", "numgen random mod")]
fn a_chain_of_a_service_without_rules_is_found(#[case] golden: &str, #[case] rules: &str) {
    let text = std::fs::read_to_string(format!("../rules/tests/golden/{golden}")).unwrap();
    let text = without(&text, &[rules]);
    let found = lint(&read(&text));
    let empty: Vec<&Finding> = found.iter().filter(|one| one.message.contains("has no rule, so no endpoint")).collect();
    assert!(!empty.is_empty(), "{found:?}");
    for one in empty {
        let line = text.lines().nth(one.place.line - 1).unwrap();
        assert_eq!((one.id, one.severity), ("broken-balancing", Severity::Error));
        assert!(line.contains("-j KUBE-SVC-") || line.contains("goto service-"), "{line}");
    }
}
