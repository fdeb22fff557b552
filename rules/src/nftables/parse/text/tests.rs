use rstest::rstest;

use super::super::super::{Condition, Statement, print, print_rule};
use super::super::{Parsed, parse, parse_all};
use super::{priority, set};
use crate::cluster::Family;

fn table(inner: &str) -> String {
    format!("table ip kube-proxy {{\n{inner}\n}}\n")
}

fn in_chain(rule: &str) -> String {
    table(&format!("\tchain c {{\n\t\t{rule}\n\t}}"))
}

fn first_error(text: &str) -> String {
    parse(text).unwrap_err()[0].to_string()
}

/// Rules as nft 1.0.6 prints them, and as other releases do.
#[rstest]
#[case::counters("ct state new counter packets 5 bytes 300 jump x", "ct state new jump x")]
#[case::handle("ct state new jump x # handle 12", "ct state new jump x")]
#[case::goes_on_in_the_next_line(
    "ip daddr 10.0.0.1 \\\n tcp dport 80\\\r\n drop",
    "ip daddr 10.0.0.1 tcp dport 80 drop"
)]
#[case::mark_in_words("meta mark and 0x4000 == 0x0 return", "meta mark & 0x00004000 == 0x00000000 return")]
#[case::mark_alone(
    "mark & 16384 != 0 meta mark set mark xor 0x4000",
    "meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000"
)]
#[case::states_by_number("ct state 0x2,0x4 accept", "ct state established,related accept")]
#[case::status_by_number("ct status 0x20 masquerade", "ct status dnat masquerade")]
#[case::type_by_number("fib saddr type 2 drop", "fib saddr type local drop")]
#[case::protocol_by_number("meta l4proto 6 dnat to 10.0.0.1:80", "meta l4proto tcp dnat to 10.0.0.1:80")]
#[case::reject("ip daddr @x reject with icmp port-unreachable", "ip daddr @x reject")]
#[case::meta_name("meta iifname != \"cali*\" return", "iifname != \"cali*\" return")]
#[case::destinations_of_old(
    "dnat ip addr . port to numgen random mod 2 map { 1 : 10.0.0.2 . 80, 0 : 10.0.0.1 . 80 }",
    "dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80 }"
)]
#[case::part_of_the_numbers(
    "numgen random mod 3 vmap { 2 : goto b, 0 : goto a }",
    "numgen random mod 3 vmap { 0 : goto a, 2 : goto b }"
)]
#[case::ranges_of_numbers(
    "numgen inc mod 10 vmap { 0-3 : goto a, 4-9 : goto b }",
    "numgen inc mod 10 vmap { 0-3 : goto a, 4-9 : goto b }"
)]
#[case::other_verdicts_of_numbers(
    "numgen random mod 4 vmap { 0 : goto a, 1 : drop, 2 : jump b, 3 : return }",
    "numgen random mod 4 vmap { 0 : goto a, 1 : drop, 2 : jump b, 3 : return }"
)]
#[case::states("ct state { established, related } accept", "ct state established,related accept")]
#[case::no_states("ct state != { new, invalid } accept", "ct state != { new, invalid } accept")]
#[case::ports("tcp dport { 80, 8000-8080 } drop", "tcp dport { 80, 8000-8080 } drop")]
#[case::range_of_ports("udp sport != 80-90 drop", "udp sport != 80-90 drop")]
#[case::ports_of_any("meta l4proto { tcp, udp } th dport 53 drop", "meta l4proto { tcp, udp } th dport 53 drop")]
#[case::protocol_of_ip("ip protocol icmp accept", "meta l4proto 1 accept")]
#[case::interfaces("oifname { \"eth0\", \"cali*\" } drop", "oifname { \"eth0\", \"cali*\" } drop")]
#[case::by_hand("iif lo accept", "iif \"lo\" accept")]
#[case::mark("meta mark 0x1 accept", "meta mark 0x00000001 accept")]
#[case::bits_of_mark("mark and 0xff == 0x1 accept", "meta mark & 0x000000ff == 0x00000001 accept")]
#[case::mark_set("meta mark set 7", "meta mark set 0x00000007")]
#[case::mark_kept("meta mark set mark and 0xff or 0x100", "meta mark set meta mark & 0x000000ff | 0x00000100")]
#[case::masquerade("oifname \"eth0\" masquerade", "oifname \"eth0\" masquerade")]
#[case::snat("snat to 10.0.0.1", "snat to 10.0.0.1")]
#[case::snat_to_port("meta l4proto tcp snat ip to 10.0.0.1:80", "meta l4proto tcp snat to 10.0.0.1:80")]
#[case::dnat_to_address("tcp dport 80 dnat to 10.0.0.1", "tcp dport 80 dnat to 10.0.0.1")]
#[case::reset("reject with tcp reset", "meta l4proto tcp reject with tcp reset")]
#[case::reset_of_port("tcp dport 80 reject with tcp reset", "tcp dport 80 reject with tcp reset")]
#[case::reset_of_tcp("ip protocol 6 reject with tcp reset", "meta l4proto tcp reject with tcp reset")]
#[case::reset_of_others("tcp sport != 80 reject with tcp reset", "tcp sport != 80 reject with tcp reset")]
#[case::reset_with_mark(
    "iif \"lo\" meta mark set 7 reject with tcp reset",
    "meta l4proto tcp iif \"lo\" meta mark set 0x00000007 reject with tcp reset"
)]
#[case::rejection("reject with icmpx no-route", "reject with icmp net-unreachable")]
#[case::log("log prefix \"x {\" level info drop", "drop")]
#[case::trace("ip saddr 10.0.0.1 meta nftrace set 1", "ip saddr 10.0.0.1")]
#[case::trace_of_old_nft("nftrace set 1 drop", "drop")]
#[case::comment(
    "fib saddr type local goto x comment \"short-circuit; {all}\"",
    "fib saddr type local goto x comment \"short-circuit; {all}\""
)]
fn rules_are_read(#[case] text: &str, #[case] shown: &str) {
    let parsed = parse(&in_chain(text)).unwrap();
    let rule = &parsed.rules.tables[0].chains[0].rules[0];
    assert_eq!(print_rule(rule, Family::Ipv4), shown);
    let other = |statement: &Statement| matches!(statement, Statement::Other(_));
    assert!(
        !rule.statements.iter().any(other) && !rule.conditions.iter().any(|one| matches!(one, Condition::Other(_)))
    );
}

/// Tables that `nft -f` flushes first are ignored.
#[test]
fn what_is_flushed_is_read_once_more() {
    let full = "\tset s {\n\t\ttype inet_service\n\t\telements = { 80 }\n\t}\n\n\tchain c {\n\t\tth dport @s drop\n\t}";
    let plain = parse(&table(full)).unwrap();
    let sync = super::super::super::print_sync(&plain.rules);
    assert!(sync.contains("flush table ip kube-proxy\nflush set ip kube-proxy s\n"), "{sync}");
    assert_eq!(parse(&sync).unwrap().rules, plain.rules);
    let after = parse(&format!("{}flush ruleset\n{}", table("\tchain old {\n\t}"), table(full))).unwrap();
    assert_eq!(after, Parsed { lines: after.lines.clone(), ..plain });
    assert_eq!(after.lines.rule(0, 0, 0), Some(13));
}

/// From the first unknown expression on, the text is kept, and the rule is marked.
#[rstest]
#[case::states("", "ct state != established | related accept")]
#[case::status("", "ct status dnat,snat accept")]
#[case::limit("ct state new", "limit rate 3/second burst 5 packets accept")]
#[case::map_inside("meta l4proto tcp", "tcp dport vmap { 80 : drop }")]
#[case::flags_of_tcp("meta l4proto tcp", "tcp flags syn drop")]
#[case::type_of_icmp("meta l4proto 1", "icmp type echo-request accept")]
#[case::numgen_with_an_offset("", "numgen random mod 3 offset 1 vmap { 0 : goto a, 2 : goto b }")]
#[case::numgen_with_two_values_for_a_number("", "numgen random mod 3 vmap { 0-1 : goto a, 1 : goto b }")]
#[case::numgen_without_a_number("", "numgen random mod 0 vmap { 0 : goto a }")]
#[case::masquerade("ct status dnat", "masquerade random")]
#[case::ports_of_masquerade("ct status dnat", "masquerade to :1024-2000")]
#[case::ports_of_snat("", "snat to 10.0.0.1:1024-2000")]
#[case::timeout("", "update @x { ip saddr timeout 3h }")]
#[case::flags("", "masquerade fully-random,persistent")]
#[case::no_name("ct state new", "jump")]
#[case::verdicts_of_interfaces("ct state new", "iifname vmap { \"eth0\" : drop }")]
#[case::interface_and_port("", "iifname . tcp dport { \"eth0\" . 80 } drop")]
#[case::pair_of_interfaces("", "iifname . oifname { \"eth0\" . \"eth1\" } drop")]
#[case::index_of_an_interface("", "iif 2 drop")]
#[case::named_interfaces("", "oifname @outside drop")]
#[case::interface_by_a_word("", "oifname ne \"eth0\" drop")]
fn what_is_not_known_keeps_its_text(#[case] known: &str, #[case] unknown: &str) {
    let text = format!("{known} {unknown} comment \"why\"");
    let parsed = parse(&in_chain(&text)).unwrap();
    let rule = &parsed.rules.tables[0].chains[0].rules[0];
    assert_eq!(rule.statements, [Statement::Other(unknown.into())]);
    assert_eq!((rule.conditions.len(), rule.comment.as_deref()), (usize::from(!known.is_empty()), Some("why")));
    assert_eq!(print_rule(rule, Family::Ipv4), text.trim_start());
}

#[test]
fn sets_maps_and_chains_are_read_as_other_releases_show_them() {
    let parsed = parse(&table(
        "\tcomment \"rules\"; flags owner, persist\n\
         \tset a { # handle 3\n\t\ttype ipv4_addr\n\t\tflags dynamic,timeout\n\t\ttimeout 1h30m\n\
         \t\telements = { 10.0.0.1 timeout 3h expires 2h59m59s500ms }\n\t}\n\
         \tcounter dropped {\n\t\tpackets 0 bytes 0\n\t}\n\
         \tmap no {\n\t\ttypeof ip daddr . meta l4proto . th dport : verdict\n\t\tflags interval\n\t\tauto-merge\n\
         \t\telements = { 10.0.0.1 . tcp . 80 counter packets 0 bytes 0 comment \"x/y:z\" : drop,\n\
         \t\t\t     10.0.0.2 . 17 . 53 : goto x }\n\t}\n\
         \tchain b {\n\t\ttype filter hook prerouting priority dstnat + 5; policy drop;\n\t}\n\tchain c { return; drop }",
    ));
    let shown = "table ip kube-proxy {\n\tcomment \"rules\"\n\
        \tset a {\n\t\ttype ipv4_addr\n\t\tsize 65535\n\t\tflags dynamic,timeout\n\t\ttimeout 1h30m\n\
        \t\telements = { 10.0.0.1 }\n\t}\n\n\
        \tmap no {\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\
        \t\telements = { 10.0.0.1 . tcp . 80 comment \"x/y:z\" : drop,\n\t\t\t     10.0.0.2 . udp . 53 : goto x }\n\t}\n\n\
        \tchain b {\n\t\ttype filter hook prerouting priority dstnat + 5; policy drop;\n\t}\n\n\
        \tchain c {\n\t\treturn\n\t\tdrop\n\t}\n}\n";
    let parsed = parsed.unwrap();
    assert_eq!(print(&parsed.rules), shown);
    let lines = &parsed.lines;
    assert_eq!((lines.set(0, 1), lines.element(0, 1, 1)), (Some(12), Some(17)));
    assert_eq!((lines.chain(0, 1), lines.rule(0, 1, 1), lines.rule(0, 1, 2)), (Some(22), Some(22), None));
}

#[test]
fn tables_of_others_are_counted() {
    let text = "# Warning: table ip nat is managed by iptables-nft, do not touch!\n\
        table ip nat {\n\tchain POSTROUTING {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n\
        \t\tcounter packets 1 bytes 2 jump { masquerade; }\n\t\txt target \"MASQUERADE\"\n\t}\n}\n\
        table inet empty {\n}\n";
    let parsed = parse(text).unwrap();
    let others: Vec<(&str, &str, usize)> =
        parsed.others.iter().map(|other| (other.family.as_str(), other.name.as_str(), other.rules)).collect();
    assert_eq!(others, [("ip", "nat", 2), ("inet", "empty", 0)]);
    assert!(parsed.rules.tables.is_empty());
}

/// An `inet` table becomes one table of each family, with the rules that apply to it.
#[test]
fn tables_of_both_families_are_read() {
    let text = "table inet a {\n\tchain c {\n\t\tip saddr 10.0.0.1 drop\n\t\ttcp dport 80 drop\n\t}\n}\n\
        table bridge b {\n}\ntable ip6 d {\n}\n";
    let parsed = parse_all(text).unwrap();
    let tables: Vec<(Family, &str)> = parsed.rules.tables.iter().map(|table| (table.family, &*table.name)).collect();
    assert_eq!(tables, [(Family::Ipv4, "a"), (Family::Ipv6, "a"), (Family::Ipv6, "d")]);
    let names: Vec<String> = parsed.names.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["inet a", "bridge b", "ip6 d"]);
    let never = &parsed.rules.tables[1].chains[0].rules[0];
    assert_eq!(
        (never.conditions.as_slice(), never.statements.as_slice()),
        (&[Condition::Family(Family::Ipv4)][..], &[][..])
    );
    let again = parse_all("table inet a {\n}\nflush table inet a\ntable inet a {\n}\n").unwrap();
    assert_eq!((again.rules.tables.len(), again.names.len()), (2, 1));
    let both = parse_all("table inet a {\n}\ntable ip6 a {\n}\n").unwrap_err();
    assert_eq!(both[0].to_string(), "line 3, column 11: another table `a` applies to packets of the same family");
}

#[rstest]
#[case::prompt("$ nft list ruleset\n", "line 1, column 1: expected `table`, found `$`")]
#[case::cut_off(
    "table ip kube-proxy {\n\tchain x {\n",
    "line 2, column 11: the text ends inside of a table: it may have been cut"
)]
#[case::twice(
    "table ip kube-proxy {\n}\ntable ip kube-proxy {\n}\n",
    "line 3, column 10: this table is declared twice"
)]
#[case::no_brace("table ip kube-proxy\n", "line 1, column 20: expected `{`")]
#[case::key(&table("\tset s {\n\t\ttype mark\n\t}"), "line 3, column 8: keys of type `mark` are not known")]
#[case::data(&table("\tmap m {\n\t\ttype inet_proto : ipv4_addr\n\t}"), "line 3, column 21: a map to ipv4_addr is not known, only to verdicts")]
#[case::port(&table("\tset s {\n\t\ttype inet_service\n\t\telements = { 80, 70000 }\n\t}"), "line 4, column 20: `70000` is not a valid inet_service")]
#[case::address(&table("\tset s {\n\t\ttype ipv4_addr\n\t\telements = { fd00::1 }\n\t}"), "line 4, column 16: `fd00::1` is not a valid ipv4_addr")]
#[case::short_key(&table("\tset s {\n\t\ttype inet_proto . inet_service\n\t\telements = { tcp }\n\t}"), "line 4, column 20: expected `.`")]
#[case::verdict(&table("\tmap m {\n\t\ttype inet_service : verdict\n\t\telements = { 80 : perhaps }\n\t}"), "line 4, column 21: `perhaps` is not a valid verdict")]
#[case::no_verdict(&table("\tmap m {\n\t\ttype inet_service : verdict\n\t\telements = { 80 }\n\t}"), "line 4, column 19: elements of maps have a verdict, elements of sets have none")]
#[case::no_type(&table("\tset s {\n\t}"), "line 2, column 6: the set has no `type`")]
#[case::setting(&table("\tset s {\n\t\ttype inet_service\n\t\tcolour red\n\t}"), "line 4, column 3: `colour` is not valid in a set")]
#[case::chain_type(&in_chain("type route hook output priority 0;"), "line 3, column 8: chains of type `route` are not known")]
#[case::hook(&in_chain("type nat hook egress priority 0;"), "line 3, column 17: there is no hook `egress` in these tables")]
#[case::priority(&in_chain("type nat hook input priority high;"), "line 3, column 32: `high` is not a valid priority")]
fn errors_are_reported_with_their_place(#[case] text: &str, #[case] message: &str) {
    assert_eq!(first_error(text), message);
}

#[rstest]
#[case("-110", Some(-110))]
#[case("dstnat-10", Some(-110))]
#[case("filter+10", Some(10))]
#[case("mangle", Some(-150))]
#[case("filters", None)]
fn priorities_are_numbers_or_names(#[case] text: &str, #[case] number: Option<i32>) {
    assert_eq!(priority(text), number);
}

#[rstest]
#[case("3h", Some(10_800))]
#[case("1d1h1m1s", Some(90_061))]
#[case("2s500ms", Some(2))]
#[case("60", Some(60))]
#[case("", None)]
#[case("h", None)]
#[case("1y", None)]
#[case("99999999999s", None)]
fn times_are_read(#[case] text: &str, #[case] seconds: Option<u32>) {
    assert_eq!(set::seconds(text), seconds);
}

#[rstest]
#[case::twice("type ipv4_addr\n elements = { 10.0.0.1 }\n type inet_service", "type")]
#[case::by_expression("type ipv4_addr\n typeof th dport", "typeof")]
fn a_set_has_one_type(#[case] set: &str, #[case] second: &str) {
    let text = format!("table ip kube-proxy {{\n set a {{ {set}\n }}\n}}\n");
    assert!(first_error(&text).ends_with(&format!("the set has a second `{second}`")));
}

/// Commands of `nft -f` other than loading tables are rejected anywhere in the text.
#[rstest]
#[case::file("include \"/etc/shadow\"\n", "line 1, column 1: `include` names a file of the host")]
#[case::in_a_table(
    "table ip kube-proxy {\n include \"/etc/shadow\"\n}\n",
    "line 2, column 2: `include` names a file of the host"
)]
#[case::in_a_chain(
    "table ip kube-proxy {\n chain a {\n  accept; include \"/etc/shadow\"\n }\n}\n",
    "line 3, column 11: `include` names a file of the host"
)]
#[case::in_another_table(
    "table ip other {\n chain a {include \"/etc/shadow\"\n }\n}\n",
    "line 2, column 11: `include` names a file of the host"
)]
#[case::control_group(
    "table inet x {\n chain a {\n  socket cgroupv2 level 1 \"../../etc/shadow\" accept\n }\n}\n",
    "line 3, column 27: `../../etc/shadow` escapes the cgroup hierarchy"
)]
#[case::control_group_in_a_set(
    "table inet x {\n set a {\n  typeof socket cgroupv2 level 1\n  elements = { a/../../../etc/shadow }\n }\n}\n",
    "line 4, column 16: `a/../../../etc/shadow` escapes the cgroup hierarchy"
)]
#[case::host_name(
    "table ip kube-proxy {\n chain a {\n  ip saddr { 10.0.0.1, localhost } accept\n }\n}\n",
    "line 3, column 24: `localhost` is the name of a host: write its address"
)]
#[case::host_name_after_what_is_understood(
    "table ip kube-proxy {\n chain a {\n  tcp dport 80 ip daddr 10.0.0.1 dnat to localhost\n }\n}\n",
    "line 3, column 42: `localhost` is the name of a host: write its address"
)]
#[case::after_a_quote(
    "table ip x {\n comment \"a\n b \" include \"/etc/shadow\"\n}\n",
    "line 2, column 10: unterminated quote in this line"
)]
#[case::value(
    "table ip x {\n define a = 1\n}\n",
    "line 2, column 2: `define` is not supported: write the value where it is used"
)]
#[case::variable(
    "table ip x {\n chain a { ip saddr $a drop; }\n}\n",
    "line 2, column 21: `$a` is a variable without a definition: write the value"
)]
#[case::backslash("table ip x {\n chain a { \\ }\n}\n", "line 2, column 12: a backslash that does not end its line")]
#[case::backslash_at_the_end("table ip x {\n}\n\\", "line 3, column 1: a backslash that does not end its line")]
#[case::asleep(
    "table ip kube-proxy {\n flags owner,dormant\n}\n",
    "line 2, column 2: the table is dormant: the kernel evaluates none of its chains"
)]
#[case::bell(
    "table ip kube-proxy {\n comment \"\x07\"\n}\n",
    "line 2, column 11: control character '\\u{7}' in a rule"
)]
fn what_reaches_beyond_tables_is_rejected(#[case] text: &str, #[case] expected: &str) {
    for read in [parse, parse_all] {
        let found = read(text).map_err(|errors| errors[0].to_string());
        assert_eq!(found, Err(expected.to_owned()));
    }
}

/// Other tables may have named objects that are not modelled. In kube-proxy's table they are an error, because it is printed from the
/// model.
#[test]
fn nothing_of_kube_proxys_table_is_left_out_in_silence() {
    let text = table("\tlimit a {\n\t\trate 1/second\n\t}");
    assert_eq!(first_error(&text), "line 2, column 2: `limit` is not supported in kube-proxy's table");
    assert_eq!(parse_all(&text.replace("kube-proxy", "other")).err(), None);
}

/// As in nft 1.0.6, repeated declarations are merged with the first.
#[test]
fn what_is_declared_again_is_added() {
    let twice = table(
        "\tset a {\n\t\ttype ipv4_addr\n\t\telements = { 10.0.0.1 }\n\t}\n\tset a {\n\t\ttype ipv4_addr\n\t\telements = { 10.0.0.2 }\n\t}\n\tchain c {\n\t\tip saddr @a drop\n\t}\n\tchain c {\n\t\taccept\n\t}",
    );
    let once = table(
        "\tset a {\n\t\ttype ipv4_addr\n\t\telements = { 10.0.0.1, 10.0.0.2 }\n\t}\n\n\tchain c {\n\t\tip saddr @a drop\n\t\taccept\n\t}",
    );
    let parsed = parse(&twice).unwrap();
    assert_eq!(print(&parsed.rules), once);
    assert_eq!(parsed.lines.rule(0, 0, 1), Some(14));
    assert_eq!(parsed.lines.element(0, 0, 1), Some(8));
}
