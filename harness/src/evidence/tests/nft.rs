//! nft's text, also of tables that iptables-nft wrote.

use rstest::rstest;
use svclab_rules::iptables::TableName;

use super::super::*;
use super::{OF_NFT, codes, unaccounted};

/// The names of the chains and sets of the only rule set.
fn names_of_nft(evidence: &Evidence) -> Vec<String> {
    let sets = node_rules(evidence);
    let table = &sets[0].rules.nftables().unwrap().rules.tables[0];
    table
        .sets
        .iter()
        .map(|set| set.name.to_string())
        .chain(table.chains.iter().map(|chain| chain.name.to_string()))
        .collect()
}

/// Braces in comments and quotes do not close what is cut off.
#[test]
fn a_chain_of_nft_with_braces_in_its_comments_is_read() {
    let text = "chain services { # handle {\n\tip daddr 10.96.0.10 drop comment \"a { b\"\n\tct state new accept\n";
    let evidence = read(text);
    assert_eq!((evidence.rules(), evidence.unread.len()), (2, 0));
}

/// A prompt ends the output before it: it is not a statement of the chain that is cut there.
#[test]
fn a_prompt_within_a_chain_is_no_rule() {
    let cut = OF_NFT.find("\t\tnumgen").unwrap();
    let text = format!("{}root@node-1:~# kubectl get pods\nNo resources found\n", &OF_NFT[..cut]);
    let evidence = read(&text);
    assert_eq!(evidence.rules(), 2);
    assert_eq!(evidence.pieces[0].last, 17);
    assert!(!node_rules(&evidence)[0].is_whole());
    assert_eq!(unaccounted(&text, &evidence), Vec::<usize>::new());
}

/// What is wrong with a chain or set takes no other one along.
#[rstest]
#[case::stray("elements = { 10.96.0.1, 10.96.0.10 }\n\t}\n", "elements = { 10.96.0.1,\nsee what is here\n", 3)]
#[case::stray_within("10.96.0.1, 10.96.0.10 }", "10.96.0.1,\nand now for something else\n10.96.0.10 }", 4)]
#[case::open("elements = { 10.96.0.1, 10.96.0.10 }\n\t}\n", "elements = { 10.96.0.1,\n", 4)]
#[case::open_chain("\t\tmeta mark set meta mark | 0x00004000\n\t}\n", "\t\tmeta mark set meta mark | 0x00004000\n", 4)]
#[case::no_type("\t\ttype ipv4_addr\n", "", 3)]
fn a_broken_set_leaves_the_rest_of_its_table(#[case] sound: &str, #[case] broken: &str, #[case] most: usize) {
    assert!(OF_NFT.contains(sound));
    let text = OF_NFT.replacen(sound, broken, 1);
    let evidence = read(&text);
    let names = names_of_nft(&evidence);
    assert!(names.len() >= most, "{names:?}, {:?}", evidence.unread);
    assert!(names.iter().any(|name| name.starts_with("service-ULMVA6XW")), "{names:?}");
    assert_eq!(evidence.rules(), 3, "{:?}", evidence.unread);
    assert!(!node_rules(&evidence)[0].is_whole(), "{:?}", evidence.unread);
    assert_eq!(unaccounted(&text, &evidence), Vec::<usize>::new());
}

/// However many sets are broken, the others are read.
#[test]
fn many_broken_sets_leave_the_rest_of_their_table() {
    let set = |at: usize| {
        format!("\tset s{at} {{\n\t\ttype ipv4_addr\n\t\telements = {{ 10.0.0.{at}, what }}\n\t\tsize is\n\t}}\n\n")
    };
    let sets: String = (0..40).map(set).collect();
    let evidence = read(&OF_NFT.replacen("table ip kube-proxy {\n", &format!("table ip kube-proxy {{\n{sets}"), 1));
    let names = names_of_nft(&evidence);
    assert!(["cluster-ips", "service-ips"].iter().all(|name| names.iter().any(|own| own == name)), "{names:?}");
    assert_eq!(evidence.rules(), 3);
}

/// A line of a chain that is not a rule is listed, however many there are, and costs no other rule.
#[test]
fn lines_between_rules_of_nft_that_are_none_are_listed() {
    let noise = ["x=1 y=2 z", "<3>eth0: link-down", "ip daddr 10.96.120.7 tcp dport 8zz0 drop", "ct state new zz drop"];
    let lines: Vec<&str> = noise.into_iter().cycle().take(40).collect();
    let mut shown = OF_NFT.lines();
    let at = 1 + shown.position(|line| line.contains("chain ")).unwrap();
    let (before, after): (Vec<&str>, Vec<&str>) =
        (OF_NFT.lines().take(at).collect(), OF_NFT.lines().skip(at).collect());
    let text = [before, lines.clone(), after].concat().join("\n");
    let evidence = read(&text);
    let found: Vec<(usize, &str)> = evidence.unread.iter().map(|own| (own.line, own.text.trim())).collect();
    let expected: Vec<(usize, &str)> = (at + 1..).zip(lines).collect();
    assert_eq!(found, expected);
    assert_eq!(evidence.rules(), read(OF_NFT).rules());
}

/// Lines of rules are those of the text, wherever the table is in it.
#[test]
fn rules_of_nft_have_the_lines_of_the_text() {
    let line_of = |text: &str| {
        let sets = node_rules(&read(text));
        sets[0].rules.nftables().unwrap().lines.rule(0, 0, 0)
    };
    assert_eq!(line_of(OF_NFT), Some(13));
    assert_eq!(line_of(&format!("See this:\n\n{OF_NFT}")), Some(15));
    assert_eq!(
        line_of("See this:\n\n\tchain mark-for-masquerade {\n\t\tmeta mark set meta mark | 0x4000\n\t}\n"),
        Some(4)
    );
}

/// `nft list map` and `nft list chain` print a part in its table: what they leave out is not missing.
#[rstest]
#[case::empty_map("\tmap service-nodeports {\n\t\ttype inet_proto . inet_service : verdict\n\t}\n")]
#[case::set("\tset cluster-ips {\n\t\ttype ipv4_addr\n\t\telements = { 10.96.0.10 }\n\t}\n")]
#[case::chain("\tchain mark-for-masquerade {\n\t\tmeta mark set meta mark | 0x00004000\n\t}\n")]
fn a_part_in_its_table_is_an_excerpt(#[case] part: &str) {
    let services = "\tchain services {\n\t\tip daddr . meta l4proto . th dport vmap @service-ips\n\t}\n";
    let tables = [part, services].map(|part| format!("table ip kube-proxy {{\n{part}}}\n")).concat();
    let evidence = read(&tables.replace("}\ntable", "}\n$ nft list chain ip kube-proxy services\ntable"));
    let sets = node_rules(&evidence);
    assert_eq!((evidence.pieces.len(), sets.len(), sets[0].is_whole()), (2, 1, false));
    assert!(sets[0].coverage.has_chain("ip kube-proxy", "services"));
    assert_eq!(crate::lint::lint(&evidence), Vec::new());
}

/// Rules of iptables in nft's text are read as iptables-save prints them, with and without their table.
#[rstest]
#[case::table(
    "table ip nat {\n\tchain KUBE-SVC-2CMXP7HKUVJN7L6M {\n\t\t counter packets 3 bytes 180 jump KUBE-SEP-HUXRPHBUO34UVPEF\n\t}\n}\n",
    "[3:180] -A KUBE-SVC-2CMXP7HKUVJN7L6M -j KUBE-SEP-HUXRPHBUO34UVPEF"
)]
#[case::chain(
    "\tchain KUBE-SVC-2CMXP7HKUVJN7L6M {\n\t\t counter packets 0 bytes 0 jump KUBE-SEP-HUXRPHBUO34UVPEF\n\t}\n",
    "[0:0] -A KUBE-SVC-2CMXP7HKUVJN7L6M -j KUBE-SEP-HUXRPHBUO34UVPEF"
)]
#[case::with_matches(
    "table ip nat {\n\tchain KUBE-SERVICES {\n\t\tmeta l4proto tcp ip daddr 10.96.0.1 xt match \"comment\" tcp dport 443 counter packets 0 bytes 0 jump KUBE-SVC-NPX46M4PTMTKRN6Y\n\t}\n}\n",
    "[0:0] -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y"
)]
fn rules_of_iptables_nft_are_read(#[case] text: &str, #[case] rule: &str) {
    let evidence = read(text);
    assert_eq!((codes(&evidence), evidence.rules(), &*evidence.unread), (vec!["iptables-nft"], 1, &[][..]));
    let printed = node_rules(&evidence)[0].rules.print();
    assert!(printed.contains(rule), "{printed}");
    assert!(!node_rules(&evidence)[0].is_whole());
    let line = text.lines().find(|line| line.contains(" jump KUBE-")).unwrap();
    assert!(read(line).unread[0].reason.contains("the heading of its chain is not shown"), "{:?}", read(line));
}

/// Rules of which nft prints the names of matches alone, or no target, are listed, and stand for what is not known.
#[rstest]
#[case::set_of_addresses("xt match set counter packets 0 bytes 0 jump KUBE-SEP-HUXRPHBUO34UVPEF", "match set")]
#[case::quoted("xt match \"set\" counter packets 0 bytes 0 jump KUBE-SEP-HUXRPHBUO34UVPEF", "match set")]
#[case::states("ct status dnat counter packets 0 bytes 0 drop", "not all of its conditions")]
#[case::target("meta l4proto tcp counter packets 0 bytes 0 xt target \"DNAT\"", "target DNAT")]
#[case::without_libraries("meta l4proto tcp # xt_comment counter packets 0 bytes 0 # xt_DNAT", "names DNAT")]
#[case::no_target("meta l4proto tcp counter packets 0 bytes 0 ", "does not print its target")]
#[case::set("ip saddr @known drop", "`@known` is not a valid IPv4 address")]
#[case::other("tcp flags syn drop", "`tcp flags syn` in chain KUBE-SVC-2CMXP7HKUVJN7L6M")]
fn rules_of_iptables_nft_that_hide_something_are_listed(#[case] rule: &str, #[case] why: &str) {
    let text = format!("table ip nat {{\n\tchain KUBE-SVC-2CMXP7HKUVJN7L6M {{\n\t\t{rule}\n\t}}\n}}\n");
    let evidence = read(&text);
    assert_eq!(evidence.rules(), 0);
    assert_eq!(evidence.unread.iter().map(|unread| unread.line).collect::<Vec<_>>(), [3]);
    assert!(evidence.unread[0].reason.contains(why), "{}", evidence.unread[0].reason);
    let found: Vec<&str> = crate::lint::lint(&evidence).iter().map(|finding| finding.id).collect();
    assert!(found.contains(&"rules-not-read"), "{found:?}");
}

/// Dots stand for elements of a map, which is then not shown whole.
#[test]
fn dots_among_elements_are_skipped() {
    let text = OF_NFT.replace("/tcp/p80 }\n\t}\n\n\tchain", "/tcp/p80,\n\t\t\t     ... }\n\t}\n\n\tchain");
    assert_ne!(text, OF_NFT);
    let evidence = read(&text);
    assert_eq!(evidence.unread, []);
    assert!(names_of_nft(&evidence).iter().any(|name| name == "service-ips"));
    assert!(!node_rules(&evidence)[0].is_whole());
}

/// Elements that `grep` selects say which map they are of.
#[test]
fn elements_without_their_map_are_read() {
    let text = "$ nft list map ip kube-proxy service-ips | grep ns1\n\
                \t\t10.96.0.1 . tcp . 443 : goto service-ULMVA6XW-ns1/svc1/tcp/p80,\n\
                \t\ttcp . 30080 : goto external-ULMVA6XW-ns1/svc1/tcp/p80 }\n";
    let evidence = read(text);
    assert_eq!(evidence.unread, []);
    assert_eq!(names_of_nft(&evidence), ["service-ips", "service-nodeports"]);
    assert!(render(std::path::Path::new("x"), &evidence, crate::page::Settings::default()).contains("2 elements"));
}

#[test]
fn names_of_tables_are_no_tables() {
    let evidence = read(&format!("table ip kube-proxy\ntable ip6 kube-proxy\n...\n{OF_NFT}"));
    assert_eq!((evidence.unread.len(), evidence.rules()), (0, 3), "{:?}", evidence.unread);
    assert!(evidence.pieces.iter().all(|piece| piece.repairs.is_empty()));
}

/// What leads from an address to a Service is in KUBE-SERVICES.
#[test]
fn rules_of_services_without_their_chain_are_read() {
    let text = "\t\tip daddr 10.96.34.82 ip protocol tcp tcp dport 80 counter packets 0 bytes 0 jump KUBE-SVC-2CMXP7HKUVJN7L6M\n";
    let evidence = read(text);
    assert_eq!(evidence.unread, []);
    let sets = node_rules(&evidence);
    assert_eq!(sets[0].rules.iptables().unwrap().rules(TableName::Nat, "KUBE-SERVICES").len(), 1);
}

/// The elements of both pieces of a map, whatever their number.
#[test]
fn long_pieces_of_a_map_complete_each_other() {
    const EACH: usize = 1_100;
    let element = |at: usize| {
        format!("10.96.{}.{} . tcp . 80 : goto service-AAAAAAAA-default/s{at}/tcp/http", at / 256, at % 256)
    };
    let piece = |from: usize| {
        let elements: Vec<String> = (from..from + EACH).map(element).collect();
        let head =
            "table ip kube-proxy {\n\tmap service-ips {\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n";
        format!(
            "$ nft list map ip kube-proxy service-ips\n{head}\t\telements = {{ {} }}\n\t}}\n}}\n",
            elements.join(",\n\t\t\t     ")
        )
    };
    let sets = node_rules(&read(&format!("{}\n{}", piece(0), piece(EACH - 100))));
    let elements: Vec<usize> = sets
        .iter()
        .flat_map(|set| set.rules.nftables())
        .map(|rules| rules.rules.tables[0].sets[0].elements.len())
        .collect();
    assert_eq!(elements, [2 * EACH - 100]);
}
