//! Edits of recordings: `cascade` must report each with its rule and kind of defect.

use rstest::rstest;
use svclab_rules::cascade::{Assessment, Cascade, cascades, cascades_with_coverage, numgens};
use svclab_rules::cluster::Family;
use svclab_rules::coverage::Coverage;
use svclab_rules::{iptables, nftables};

const THREE: &str = include_str!("../golden/clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
const AFFINITY: &str = include_str!("../golden/affinity-clientip/v1.30-iptables/iptables-save.txt");
const THREE_NFT: &str = include_str!("../golden/clusterip-three-endpoints/v1.30-nftables/nft-ruleset.txt");
const AFFINITY_NFT: &str = include_str!("../golden/affinity-clientip/v1.30-nftables/nft-ruleset.txt");
const LOCAL: &str = include_str!("../golden/affinity-nodeport-local/v1.21-iptables/iptables-save.txt");

/// Position of the first of a service's balancing rules, with those after it up to the first omitted one.
const SVC: &str = "-A KUBE-SVC-CDGGSHYLG3RE2FKL ";
const FIRST_BALANCING: &str =
    "-A KUBE-SVC-CDGGSHYLG3RE2FKL -m comment --comment \"default/web:http -> 10.244.1.10:8080\" -m statistic";
const NUMGEN: &str = "numgen random mod 3";

fn iptables(text: &str) -> Cascade {
    let parsed = iptables::parse(text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    cascades(&parsed.rules).remove(0)
}

fn nftables(text: &str) -> Cascade {
    let parsed = nftables::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
    parsed.rules.tables.iter().flat_map(numgens).next().unwrap()
}

/// Replaces text at one place.
fn edited(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "there is no {from:?}");
    text.replacen(from, to, 1)
}

/// Returns rule and kind of every defect.
fn kinds(cascade: &Cascade) -> Vec<(usize, &'static str)> {
    cascade.defects.iter().map(|defect| (defect.rule, defect.kind.code())).collect()
}

/// Before the first balancing rule, in rule 2.
#[rstest]
#[case::returned("-j RETURN", &[(2, "returned")], "1")]
#[case::returned_by_chance("-m statistic --mode random --probability 0.5 -j RETURN", &[(2, "returned")], "1/2")]
#[case::returned_in_turn("-m statistic --mode nth --every 4 --packet 0 -j RETURN", &[(2, "returned")], "1/4")]
#[case::accepted("-j ACCEPT", &[(2, "accepted")], "1")]
#[case::dropped("-m statistic --mode random --probability 0.25 -j DROP", &[(2, "dropped")], "1/4")]
#[case::of_some_clients("-s 10.0.0.0/8 -j RETURN", &[(2, "conditional")], "0")]
#[case::of_other_clients("! -s 10.0.0.0/8 -j RETURN", &[(2, "conditional"), (2, "returned")], "1")]
#[case::of_some_ports("-p tcp -m tcp --sport 1024:2047 -j ACCEPT", &[(2, "conditional")], "0")]
#[case::of_ports_below_a_range("-p tcp -m tcp ! --sport 10000:65535 -j ACCEPT", &[(2, "conditional")], "0")]
#[case::of_this_node("-m addrtype --src-type LOCAL -j RETURN", &[(2, "conditional")], "0")]
#[case::of_an_interface("-i eth0 -j RETURN", &[(2, "conditional")], "0")]
#[case::through_a_chain_that_accepts("-j OTHER", &[(2, "accepted")], "1")]
#[case::through_a_chain_that_returns("-g BACK", &[(2, "returned")], "1")]
#[case::through_a_chain_that_does_nothing("-j BACK", &[], "0")]
#[case::of_marked_packets("-m mark --mark 0x1/0x1 -j RETURN", &[(2, "conditional")], "0")]
#[case::of_marked_connections("-m connmark --mark 0x1/0x1 -j RETURN", &[(2, "history")], "0")]
#[case::of_the_original_source("-m conntrack --ctorigsrc 10.0.0.0/8 -j RETURN", &[(2, "conditional")], "0")]
#[case::nested_history("-j REMEMBERED", &[(0, "history")], "0")]
#[case::of_remembered_clients("-m recent --rcheck --name x --rsource -j DROP", &[(2, "history")], "0")]
#[case::beyond_a_rate("-m limit --limit 5/sec -j RETURN", &[(2, "history"), (2, "returned")], "1")]
fn rules_before_the_endpoints_count(#[case] rule: &str, #[case] expected: &[(usize, &str)], #[case] left: &str) {
    let text = edited(THREE, FIRST_BALANCING, &format!("{SVC}{rule}\n{FIRST_BALANCING}"));
    let text = edited(&text, ":KUBE-SVC-CDGG", ":OTHER - [0:0]\n:BACK - [0:0]\n:REMEMBERED - [0:0]\n:KUBE-SVC-CDGG");
    let text = edited(
        &text,
        FIRST_BALANCING,
        &format!("-A REMEMBERED -m recent --update --name x --rsource -j DROP\n{FIRST_BALANCING}"),
    );
    let text = edited(&text, FIRST_BALANCING, &format!("-A OTHER -j ACCEPT\n-A BACK -j RETURN\n{FIRST_BALANCING}"));
    let cascade = iptables(&text);
    let defects = kinds(&cascade);
    // A rule that takes everything leaves nothing for the endpoints.
    let own: Vec<_> = defects.into_iter().filter(|(_, kind)| *kind != "unreachable").collect();
    assert_eq!((own.as_slice(), cascade.left.to_string().as_str()), (expected, left), "{:?}", cascade.defects);
    assert_eq!(cascade.assessment() == Assessment::Even, expected.is_empty());
}

#[rstest]
#[case::returned("return", &[(2, "returned")])]
#[case::accepted("accept", &[(2, "accepted")])]
#[case::dropped("drop", &[(2, "dropped")])]
#[case::rejected("reject", &[(2, "rejected")])]
#[case::of_some_clients("ip saddr 10.0.0.0/8 return", &[(2, "conditional")])]
#[case::of_some_ports("tcp sport 1024-2047 drop", &[(2, "conditional")])]
#[case::of_ports_below_a_range("tcp sport != 1024-65535 drop", &[(2, "conditional")])]
#[case::of_this_node("fib saddr type local return", &[(2, "conditional")])]
#[case::of_marked_packets("meta mark & 0x00000001 == 0x00000001 return", &[(2, "conditional")])]
#[case::marked("meta mark set meta mark | 0x00000001", &[])]
fn statements_before_the_map_count(#[case] rule: &str, #[case] expected: &[(usize, &str)]) {
    let cascade = nftables(&edited(THREE_NFT, NUMGEN, &format!("{rule}\n\t\t{NUMGEN}")));
    let own: Vec<_> = kinds(&cascade).into_iter().filter(|(_, kind)| *kind != "unreachable").collect();
    assert_eq!(own, expected, "{:?}", cascade.defects);
}

const SEP: &str = "KUBE-SEP-IQIBSY2R4USWK4F3";

#[rstest]
#[case::protocol("IQIBSY2R4USWK4F3 -p tcp -m comment --comment \"default/web:http\" -m tcp",
    "IQIBSY2R4USWK4F3 -p udp -m comment --comment \"default/web:http\" -m udp", (3, "protocol"))]
#[case::address("--to-destination 10.244.2.10:8080", "--to-destination 10.244.1.10:8080", (3, "address"))]
#[case::port("--to-destination 10.244.2.10:8080", "--to-destination 10.244.2.10:8081", (3, "address"))]
#[case::masqueraded("-s 10.244.2.10/32", "-s 10.244.2.11/32", (3, "address"))]
#[case::comment("-> 10.244.2.10:8080", "-> 10.244.2.11:8080", (3, "address"))]
#[case::returned_by_the_endpoint("-A KUBE-SEP-IQIBSY2R4USWK4F3 -s", "-A KUBE-SEP-IQIBSY2R4USWK4F3 -j RETURN\n-A KUBE-SEP-IQIBSY2R4USWK4F3 -s",
    (3, "never-taken"))]
#[case::accepted_by_the_endpoint("-A KUBE-SEP-IQIBSY2R4USWK4F3 -s", "-A KUBE-SEP-IQIBSY2R4USWK4F3 -j ACCEPT\n-A KUBE-SEP-IQIBSY2R4USWK4F3 -s",
    (3, "accepted"))]
#[case::dropped_by_chance("-A KUBE-SEP-IQIBSY2R4USWK4F3 -s",
    "-A KUBE-SEP-IQIBSY2R4USWK4F3 -m statistic --mode random --probability 0.5 -j DROP\n-A KUBE-SEP-IQIBSY2R4USWK4F3 -s", (3, "dropped"))]
fn what_an_endpoint_s_chain_translates_is_checked(
    #[case] from: &str,
    #[case] to: &str,
    #[case] expected: (usize, &str),
) {
    let cascade = iptables(&edited(THREE, from, to));
    assert!(kinds(&cascade).contains(&expected), "{:?}", cascade.defects);
}

/// Without comments and masquerade rules, the hash in a chain's name identifies its endpoint.
#[test]
fn the_hash_in_a_name_says_which_endpoint_is_meant() {
    let crossed = THREE
        .replace("to-destination 10.244.1.10", "to-destination X")
        .replace("to-destination 10.244.2.10", "to-destination 10.244.1.10");
    let crossed = crossed.replace("to-destination X", "to-destination 10.244.2.10").replace(" -> ", " to ");
    let kept: Vec<&str> =
        crossed.lines().filter(|line| !line.contains("SEP") || !line.contains("-j KUBE-MARK-MASQ")).collect();
    let cascade = iptables(&(kept.join("\n") + "\n"));
    let said: Vec<String> = cascade.defects.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "rule 2: KUBE-SEP-GWQABTP5GBYXHJY5 translates to 10.244.2.10:8080, but the hash in its name is for 10.244.1.10:8080",
            "rule 3: KUBE-SEP-IQIBSY2R4USWK4F3 translates to 10.244.1.10:8080, but the hash in its name is for 10.244.2.10:8080",
        ]
    );
}

#[rstest]
#[case::protocol("meta l4proto tcp dnat to 10.244.2.10:8080", "meta l4proto udp dnat to 10.244.2.10:8080", (2, "protocol"))]
#[case::address("dnat to 10.244.2.10:8080", "dnat to 10.244.1.10:8080", (2, "address"))]
#[case::masqueraded("ip saddr 10.244.2.10 jump", "ip saddr 10.244.2.11 jump", (2, "address"))]
#[case::returned("ip saddr 10.244.2.10 jump", "return\n\t\tip saddr 10.244.2.10 jump", (2, "returned"))]
fn what_an_endpoint_s_chain_of_nftables_translates_is_checked(
    #[case] from: &str,
    #[case] to: &str,
    #[case] expected: (usize, &str),
) {
    let cascade = nftables(&edited(THREE_NFT, from, to));
    assert!(kinds(&cascade).contains(&expected), "{:?}", cascade.defects);
}

const A: &str = "KUBE-SEP-GWQABTP5GBYXHJY5";

#[rstest]
#[case::not_noted(&format!(" -m recent --set --name {SEP} --mask 255.255.255.255 --rsource"), "", &["affinity-not-remembered"])]
#[case::noted_elsewhere(&format!("--set --name {SEP}"), &format!("--set --name {A}"), &["affinity-crossed"])]
#[case::asked_elsewhere(&format!("--reap --name {SEP}"), &format!("--reap --name {A}"), &["affinity-crossed", "affinity-list-mismatch"])]
#[case::another_list(&format!("--reap --name {SEP}"), "--reap --name other", &["affinity-list-mismatch"])]
#[case::another_time("--seconds 10800", "--seconds 60", &["affinity-timeout"])]
#[case::no_time("--seconds 10800 --reap ", "", &["affinity-timeout"])]
#[case::another_mask(&format!("--set --name {SEP} --mask 255.255.255.255"), &format!("--set --name {SEP} --mask 255.255.255.0"), &["affinity-key-mismatch"])]
#[case::mask_asked(&format!("--reap --name {SEP} --mask 255.255.255.255"), &format!("--reap --name {SEP} --mask 255.255.0.0"), &["affinity-key-mismatch", "affinity-mask"])]
#[case::another_side(&format!("--reap --name {SEP} --mask 255.255.255.255 --rsource"),
    &format!("--reap --name {SEP} --mask 255.255.255.255 --rdest"), &["affinity-destination", "affinity-key-mismatch"])]
#[case::noted_of_another_side(&format!("--set --name {SEP} --mask 255.255.255.255 --rsource"),
    &format!("--set --name {SEP} --mask 255.255.255.255 --rdest"), &["affinity-key-mismatch"])]
#[case::led_elsewhere(&format!("--rsource -j {SEP}"), &format!("--rsource -j {A}"), &["affinity-crossed", "affinity-missing"])]
#[case::conditional("-m recent --rcheck", "-m statistic --mode random --probability 0.5 -m recent --rcheck", &["affinity-missing"])]
fn affinity_leads_every_client_back(#[case] from: &str, #[case] to: &str, #[case] expected: &[&str]) {
    let cascade = iptables(&edited(AFFINITY, from, to));
    let mut found: Vec<&str> = kinds(&cascade).into_iter().map(|(_, kind)| kind).collect();
    found.sort_unstable();
    assert_eq!(found, expected, "{:?}", cascade.defects);
    assert!(cascade.has_affinity);
}

/// A rule after the DNAT rule is never reached.
#[test]
fn a_client_is_noted_before_its_packet_is_translated() {
    let noting = format!(" -m recent --set --name {SEP} --mask 255.255.255.255 --rsource");
    let late = |line: &str| match line.contains(&noting) {
        true => format!("{}\n-A {SEP} -p tcp{noting}\n", line.replace(&noting, "")),
        false => format!("{line}\n"),
    };
    let text: String = AFFINITY.lines().map(late).collect();
    assert_eq!(kinds(&iptables(&text)).iter().map(|(_, kind)| *kind).collect::<Vec<_>>(), ["affinity-not-remembered"]);
}

#[rstest]
#[case::no_port("10.244.2.10")]
#[case::of_another_endpoint("10.244.1.10")]
#[case::no_address(":8080")]
#[case::ports("10.244.2.10:8080-8090")]
#[case::addresses("10.244.2.10-10.244.2.11:8080")]
fn an_endpoint_is_one_address_with_one_port(#[case] to: &str) {
    let cascade = iptables(&edited(THREE, "--to-destination 10.244.2.10:8080", &format!("--to-destination {to}")));
    assert!(kinds(&cascade).contains(&(3, "no-endpoint")), "{:?}", cascade.defects);
    assert_eq!(cascade.assessment(), Assessment::Defective);
}

#[test]
fn an_endpoint_of_nftables_has_a_port() {
    let cascade = nftables(&edited(THREE_NFT, "dnat to 10.244.2.10:8080", "dnat to 10.244.2.10"));
    assert!(kinds(&cascade).contains(&(2, "no-endpoint")), "{:?}", cascade.defects);
}

#[test]
fn a_lookup_that_is_gone_is_noticed() {
    let is_lookup = |line: &&str| line.contains("--rcheck") && line.contains(SEP);
    let text: Vec<&str> = AFFINITY.lines().filter(|line| !is_lookup(line)).collect();
    assert_eq!(kinds(&iptables(&(text.join("\n") + "\n"))), [(5, "affinity-missing")]);
    let text: Vec<&str> = AFFINITY.lines().filter(|line| !line.contains("--rcheck")).collect();
    assert_eq!(kinds(&iptables(&(text.join("\n") + "\n"))).len(), 3);
}

const SET: &str = "affinity-ZRQGOVRH-default/web/tcp/http__10.244.2.10/8080";
const OTHER_SET: &str = "affinity-FLXOMXXM-default/web/tcp/http__10.244.1.10/8080";

#[rstest]
#[case::not_noted(&format!("update @{SET} {{ ip saddr }}\n"), "\n", &["affinity-not-remembered"])]
#[case::noted_elsewhere(&format!("update @{SET}"), &format!("update @{OTHER_SET}"), &["affinity-crossed"])]
#[case::asked_elsewhere(&format!("ip saddr @{SET}"), &format!("ip saddr @{OTHER_SET}"), &["affinity-crossed", "affinity-list-mismatch"])]
#[case::noted_of_another_side(&format!("update @{SET} {{ ip saddr }}"), &format!("update @{SET} {{ ip daddr }}"), &["affinity-key-mismatch"])]
#[case::another_side(&format!("ip saddr @{SET}"), &format!("ip daddr @{SET}"), &["affinity-destination", "affinity-key-mismatch"])]
#[case::another_time("timeout 3h", "timeout 1h", &["affinity-timeout"])]
#[case::noted_behind(&format!("update @{SET} {{ ip saddr }}\n\t\tmeta l4proto tcp dnat to 10.244.2.10:8080"),
    &format!("meta l4proto tcp dnat to 10.244.2.10:8080\n\t\tupdate @{SET} {{ ip saddr }}"), &["affinity-not-remembered"])]
#[case::little_room("size 65535", "size 1", &["affinity-size"])]
fn affinity_of_nftables_leads_every_client_back(#[case] from: &str, #[case] to: &str, #[case] expected: &[&str]) {
    let cascade = nftables(&edited(AFFINITY_NFT, from, to));
    let mut found: Vec<&str> = kinds(&cascade).into_iter().map(|(_, kind)| kind).collect();
    found.sort_unstable();
    assert_eq!(found, expected, "{:?}", cascade.defects);
}

/// From 1.36 on, the map itself contains addresses.
#[rstest]
#[case::right("meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80 }", &[])]
#[case::single("meta l4proto tcp dnat to 10.0.0.1:80", &[])]
#[case::twice("meta l4proto tcp dnat ip to numgen random mod 3 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80, 2 : 10.0.0.1 . 80 }", &["duplicate"])]
#[case::protocol("meta l4proto udp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80 }",
    &["never-taken", "never-taken", "falls-through"])]
#[case::dropped("ip saddr 10.0.0.0/8 drop\n\t\tmeta l4proto tcp dnat to 10.0.0.1:80", &["conditional"])]
fn maps_of_addresses_are_walked(#[case] rules: &str, #[case] expected: &[&str]) {
    let text = format!(
        "table ip kube-proxy {{\n\tmap service-ips {{\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\
         \t\telements = {{ 10.96.0.80 . tcp . 80 : goto service-PFISGYVC-default/web/tcp/ }}\n\t}}\n\n\
         \tchain service-PFISGYVC-default/web/tcp/ {{\n\t\t{rules}\n\t}}\n}}\n"
    );
    let cascade = nftables(&text);
    let found: Vec<&str> = kinds(&cascade).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(found, expected, "{:?}", cascade.defects);
}

/// KUBE-XLB passes pods to the service's own chain, which is correct; passing them to another one is a defect.
#[test]
fn pods_are_handed_on_to_the_same_service_alone() {
    let cascade = |text: &str| {
        let parsed = iptables::parse(text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
        cascades(&parsed.rules).into_iter().find(|own| own.chain.starts_with("KUBE-XLB-")).unwrap()
    };
    assert_eq!(cascade(LOCAL).assessment(), Assessment::Even);
    let elsewhere =
        edited(LOCAL, "clusterIP\" -j KUBE-SVC-CDGGSHYLG3RE2FKL", "clusterIP\" -j KUBE-SVC-AAAAAAAAAAAAAAAA");
    let elsewhere = edited(&elsewhere, ":KUBE-SVC-", ":KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SVC-");
    assert_eq!(kinds(&cascade(&elsewhere)), [(1, "conditional")]);
    let always = edited(LOCAL, "-A KUBE-XLB-CDGGSHYLG3RE2FKL -s 10.244.0.0/16 ", "-A KUBE-XLB-CDGGSHYLG3RE2FKL ");
    assert!(kinds(&cascade(&always)).contains(&(1, "handed-on")));
}

/// What an excerpt does not contain is unknown, not a defect.
#[rstest]
#[case::one_chain(&["-A KUBE-SVC-"], &[2, 3, 4])]
#[case::no_last_endpoint(&["-A KUBE-SVC-", "-A KUBE-SEP-GWQABTP5GBYXHJY5", "-A KUBE-SEP-IQIBSY2R4USWK4F3"], &[4])]
#[case::no_translation_shown(&["-A KUBE-SVC-", "-s 10.244.1.10/32", "-A KUBE-SEP-IQIBSY2R4USWK4F3", "-A KUBE-SEP-LMMWZ5HWHZDFPJVN"], &[2])]
fn a_part_is_not_blamed_for_what_it_lacks(#[case] shown: &[&str], #[case] unknown: &[usize]) {
    let lines: Vec<&str> = THREE.lines().filter(|line| shown.iter().any(|start| line.contains(start))).collect();
    let mut chains: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    chains.dedup();
    let heads: String = chains.iter().map(|chain| format!(":{chain} - [0:0]\n")).collect();
    let text = format!("*nat\n{heads}{}\nCOMMIT\n", lines.join("\n"));
    let parsed = iptables::parse(&text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    let cascade = cascades_with_coverage(&parsed.rules, &Coverage::default()).remove(0);
    let found: Vec<usize> = cascade.unknown.iter().map(|unknown| unknown.rule).collect();
    assert_eq!((cascade.defects.as_slice(), found.as_slice()), (&[][..], unknown), "{:?}", cascade.unknown);
    assert_eq!(cascade.assessment(), Assessment::Unknown);
    assert!(cascade.sentence().ends_with("whether shares are even is unknown"), "{}", cascade.sentence());
}

/// Output of `nft list chain`: it contains neither the endpoints' chains nor the marking chain.
#[test]
fn one_chain_of_nftables_leaves_its_endpoints_unknown() {
    let start = THREE_NFT.find("\tchain service-SUSTUHLJ").unwrap();
    let end = start + THREE_NFT[start..].find("\t}\n").unwrap() + 3;
    let cascade = nftables(&format!("table ip kube-proxy {{\n{}}}\n", &THREE_NFT[start..end]));
    assert_eq!((cascade.assessment(), cascade.defects.len(), cascade.endpoints), (Assessment::Unknown, 0, 3));
    let said: Vec<String> = cascade.unknown.iter().map(ToString::to_string).collect();
    assert!(
        said[0].starts_with("rule 2: what endpoint-FLXOMXXM-default/web/tcp/http__10.244.1.10/8080 does is not"),
        "{said:?}"
    );
}

/// A cascade in a built-in chain, before kube-proxy's.
#[rstest]
#[case::even("", "", Assessment::Even)]
#[case::dropped("-A PREROUTING -d 10.9.9.9/32 -s 10.0.0.0/8 -j DROP\n", "", Assessment::Defective)]
#[case::other_port("", "0", Assessment::Defective)]
fn a_cascade_in_prerouting_is_asked_for_what_it_translates(
    #[case] before: &str,
    #[case] port: &str,
    #[case] expected: Assessment,
) {
    let frontend = "-A PREROUTING -d 10.9.9.9/32 -p tcp -m tcp --dport";
    let own = format!(
        "{before}{frontend} 80 -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.9.0.1:80\n\
         {frontend} 80{port} -j DNAT --to-destination 10.9.0.2:80\n-A PREROUTING"
    );
    let text = edited(THREE, "-A PREROUTING", &own);
    let parsed = iptables::parse(&text, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}"));
    let cascade = cascades(&parsed.rules).into_iter().find(|own| own.chain == "PREROUTING").unwrap();
    assert_eq!(cascade.assessment(), expected, "{:?}", cascade.defects);
}

#[rstest]
#[case::loops(":A - [0:0]\n:KUBE-SVC-CDGG", "-A A -j A\n", "-j A", "a loop of chains")]
#[case::missing(":KUBE-SVC-CDGG", "", "-j NOWHERE", "chain NOWHERE is not in these rules")]
#[case::one_of_some_addresses(
    ":RANGE - [0:0]\n:KUBE-SVC-CDGG",
    "-A RANGE -p tcp -j DNAT --to-destination 10.9.0.1-10.9.0.9:80\n",
    "-j RANGE",
    "the kernel chooses an address from"
)]
#[case::condition(":KUBE-SVC-CDGG", "", "-m u32 --u32 \"0=1\" -j DROP", "is not modelled")]
fn what_cannot_be_evaluated_is_unknown(#[case] head: &str, #[case] more: &str, #[case] rule: &str, #[case] said: &str) {
    let text = edited(THREE, ":KUBE-SVC-CDGG", head);
    let cascade = iptables(&edited(&text, FIRST_BALANCING, &format!("{more}{SVC}{rule}\n{FIRST_BALANCING}")));
    assert_ne!(cascade.assessment(), Assessment::Even);
    assert!(cascade.unknown.iter().any(|unknown| unknown.to_string().contains(said)), "{:?}", cascade.unknown);
}

/// Fifty chains, each of which jumps to the next at random: more branches than can be counted, with shares of many roundings.
#[test]
fn chains_that_lead_to_each_other_by_chance_are_bounded() {
    let mut text = edited(THREE, FIRST_BALANCING, &format!("{SVC}-j C0\n{FIRST_BALANCING}"));
    let mut rules = String::new();
    for number in 0..20 {
        text = edited(&text, ":KUBE-SVC-CDGG", &format!(":C{number} - [0:0]\n:KUBE-SVC-CDGG"));
        let next = number + 1;
        let lead = format!("-A C{number} -m statistic --mode random --probability 0.3 -j C{next}\n");
        rules += &if number < 19 {
            lead.repeat(50)
        } else {
            "-A C19 -m statistic --mode random --probability 0.1 -j DROP\n".to_owned()
        };
    }
    let cascade = iptables(&edited(&text, FIRST_BALANCING, &format!("{rules}{FIRST_BALANCING}")));
    assert_ne!(cascade.assessment(), Assessment::Even);
}

/// As many random rules before the endpoints would give this many branches of a single packet.
#[test]
fn rules_that_decide_by_chance_do_not_double_the_work() {
    let half = format!("{SVC}-m statistic --mode random --probability 0.5 -j BACK\n");
    let text = edited(THREE, ":KUBE-SVC-CDGG", ":BACK - [0:0]\n:KUBE-SVC-CDGG");
    let text = edited(&text, FIRST_BALANCING, &format!("{}{FIRST_BALANCING}", half.repeat(200)));
    let text = edited(&text, ":KUBE-SVC-CDGG", ":MARK - [0:0]\n:KUBE-SVC-CDGG");
    assert_eq!(kinds(&iptables(&text)), []);
}

/// Shares and defects if the map of `numgen` does not match its modulus.
#[rstest]
#[case::without_a_value("random mod 3", &["0", "1"], &["1/3", "1/3"], "1/3", &[(2, "gap"), (0, "falls-through")])]
#[case::with_ranges("random mod 4", &["0-1", "2", "3"], &["1/2", "1/4", "1/4"], "0", &[(0, "uneven")])]
#[case::with_too_many_values("random mod 2", &["0", "1", "2"], &["1/2", "1/2", "0"], "0", &[(0, "uneven")])]
#[case::in_turn("inc mod 3", &["0", "1", "2"], &["1/3", "1/3", "1/3"], "0", &[])]
#[case::in_turn_with_a_gap("inc mod 4", &["0", "2", "3"], &["1/4", "1/4", "1/4"], "1/4", &[(2, "gap"), (0, "falls-through")])]
fn a_numgen_that_does_not_fit_its_map_has_exact_shares(
    #[case] numgen: &str,
    #[case] numbers: &[&str],
    #[case] shares: &[&str],
    #[case] left: &str,
    #[case] expected: &[(usize, &str)],
) {
    let start = THREE_NFT.find(NUMGEN).unwrap();
    let end = start + THREE_NFT[start..].find('}').unwrap() + 1;
    let chains = THREE_NFT[start..end].split("goto ").skip(1).map(|rest| rest.split([' ', ',']).next().unwrap());
    let elements: Vec<String> =
        numbers.iter().zip(chains).map(|(number, chain)| format!("{number} : goto {chain}")).collect();
    let rule = format!("numgen {numgen} vmap {{ {} }}", elements.join(", "));
    let cascade = nftables(&format!("{}{rule}{}", &THREE_NFT[..start], &THREE_NFT[end..]));
    let close = |share: f64, fraction: &str| {
        let (part, whole) = fraction.split_once('/').unwrap_or((fraction, "1"));
        (share - part.parse::<f64>().unwrap() / whole.parse::<f64>().unwrap()).abs() < 1e-9
    };
    let found: Vec<f64> = cascade.steps.iter().map(|step| step.share.to_f64()).collect();
    assert!(
        found.len() == shares.len() && found.iter().zip(shares).all(|(own, share)| close(*own, share)),
        "{found:?}"
    );
    assert!(close(cascade.left.to_f64(), left), "{}", cascade.left);
    assert_eq!(kinds(&cascade), expected, "{:?}", cascade.defects);
    assert_eq!(cascade.unknown, []);
}
