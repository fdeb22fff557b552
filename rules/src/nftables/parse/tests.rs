use rstest::rstest;

use super::super::{Condition, Statement};
use super::super::{print, print_rule};
use super::{OtherTable, parse};
use crate::cluster::Family;

/// Returns a document with these objects in kube-proxy's table.
fn document(objects: &str) -> String {
    format!(
        r#"{{"nftables": [{{"metainfo": {{"version": "1.0.6", "json_schema_version": 1}}}},
{{"table": {{"family": "ip", "name": "kube-proxy", "handle": 1}}}},
{{"chain": {{"family": "ip", "table": "kube-proxy", "name": "c", "handle": 1}}}},
{objects}]}}"#
    )
}

fn in_rule(expressions: &str) -> String {
    document(&format!(
        r#"{{"rule": {{"family": "ip", "table": "kube-proxy", "chain": "c", "handle": 7, "expr": [{expressions}]}}}}"#
    ))
}

fn first_error(text: &str) -> String {
    parse(text).unwrap_err()[0].to_string()
}

/// Expressions as nft 1.0.6 prints them; a list of a single state and a list of flags are from later releases.
#[rstest]
#[case(r#"{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}"#, "ct state new")]
#[case(r#"{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["new"]}}"#, "ct state new")]
#[case(
    r#"{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": {"set": ["10.0.0.1", {"prefix": {"addr": "10.1.0.0", "len": 16}}, {"range": ["10.3.0.1", "10.3.0.9"]}]}}}, {"counter": {"packets": 5, "bytes": 10}}, {"drop": null}"#,
    "ip saddr { 10.0.0.1, 10.1.0.0/16, 10.3.0.1-10.3.0.9 } drop"
)]
#[case(
    r#"{"match": {"op": "==", "left": {"fib": {"result": "type", "flags": ["daddr"]}}, "right": "local"}}, {"match": {"op": "!=", "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": {"prefix": {"addr": "127.0.0.0", "len": 8}}}}, {"vmap": {"key": {"concat": [{"meta": {"key": "l4proto"}}, {"payload": {"protocol": "th", "field": "dport"}}]}, "data": "@no2"}}"#,
    "fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @no2"
)]
#[case(
    r#"{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 80}}, {"match": {"op": "!=", "left": {"meta": {"key": "iifname"}}, "right": "cali*"}}, {"dnat": {"addr": "10.0.0.1", "port": 80}}"#,
    "tcp dport 80 iifname != \"cali*\" dnat to 10.0.0.1:80"
)]
#[case(
    r#"{"match": {"op": "!=", "left": {"&": [{"meta": {"key": "mark"}}, 16384]}, "right": 0}}, {"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"^": [{"meta": {"key": "mark"}}, 16384]}}}, {"masquerade": {"flags": ["fully-random"]}}"#,
    "meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random"
)]
#[case(
    r#"{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": 6}}, {"dnat": {"family": "ip", "addr": {"map": {"key": {"numgen": {"mode": "random", "mod": 2, "offset": 0}}, "data": {"set": [[1, {"concat": ["10.0.0.2", 8080]}], [0, {"concat": ["10.0.0.1", 8080]}]]}}}}}"#,
    "meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 8080, 1 : 10.0.0.2 . 8080 }"
)]
#[case(
    r#"{"vmap": {"key": {"numgen": {"mode": "random", "mod": 1, "offset": 0}}, "data": {"set": [[0, {"goto": {"target": "endpoint-X"}}]]}}}"#,
    "numgen random mod 1 vmap { 0 : goto endpoint-X }"
)]
#[case::numgen_of_ranges(
    r#"{"vmap": {"key": {"numgen": {"mode": "inc", "mod": 9, "offset": 0}}, "data": {"set": [[{"range": [0, 3]}, {"goto": {"target": "endpoint-X"}}]]}}}"#,
    "numgen inc mod 9 vmap { 0-3 : goto endpoint-X }"
)]
#[case(
    r#"{"set": {"op": "update", "elem": {"payload": {"protocol": "ip", "field": "saddr"}}, "set": "@affinity-X"}}"#,
    "update @affinity-X { ip saddr }"
)]
#[case(r#"{"reject": {"type": "icmp", "expr": "port-unreachable"}}"#, "reject")]
#[case(r#"{"reject": {"type": "tcp reset"}}"#, "meta l4proto tcp reject with tcp reset")]
#[case(r#"{"reject": {"type": "icmpx", "expr": "admin-prohibited"}}"#, "reject with icmp admin-prohibited")]
#[case(r#"{"log": {"prefix": "x"}}, {"drop": null}"#, "drop")]
#[case(r#"{"mangle": {"key": {"meta": {"key": "nftrace"}}, "value": 1}}, {"drop": null}"#, "drop")]
#[case(
    r#"{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}, {"accept": null}"#,
    "ct state established,related accept"
)]
#[case(
    r#"{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": {"set": [22, {"range": [80, 90]}]}}}, {"jump": {"target": "x"}}"#,
    "tcp dport { 22, 80-90 } jump x"
)]
#[case(r#"{"snat": {"addr": "10.0.0.1", "port": 80}}"#, "snat to 10.0.0.1:80")]
#[case(
    r#"{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"|": [{"&": [{"meta": {"key": "mark"}}, 255]}, 256]}}}"#,
    "meta mark set meta mark & 0x000000ff | 0x00000100"
)]
fn rules_are_read(#[case] json: &str, #[case] shown: &str) {
    let parsed = parse(&in_rule(json)).unwrap();
    assert_eq!(print_rule(&parsed.rules.tables[0].chains[0].rules[0], Family::Ipv4), shown);
}

/// A field that changes the meaning of a known expression makes it a different one.
#[rstest]
#[case(r#"{"xt": {"type": "target", "name": "MARK"}}"#)]
#[case::words(r#"{"jump": {"target": "x drop"}}"#)]
#[case(r#"{"dnat": {"addr": "10.0.0.1", "port": 80, "flags": "persistent"}}"#)]
#[case(r#"{"masquerade": {"flags": ["fully-random", "persistent"]}}"#)]
#[case(
    r#"{"vmap": {"key": {"numgen": {"mode": "inc", "mod": 1, "offset": 1}}, "data": {"set": [[0, {"goto": {"target": "x"}}]]}}}"#
)]
#[case(
    r#"{"vmap": {"key": {"numgen": {"mode": "random", "mod": 2, "offset": 0}}, "data": {"set": [[2, {"goto": {"target": "x"}}]]}}}"#
)]
fn an_unknown_statement_keeps_its_text_and_is_marked(#[case] json: &str) {
    let parsed = parse(&in_rule(json)).unwrap();
    let rule = &parsed.rules.tables[0].chains[0].rules[0];
    assert_eq!(rule.statements, [Statement::Other(json.into())]);
}

#[rstest]
#[case(r#"{"match": {"op": "==", "left": {"ct": {"key": "state", "dir": "reply"}}, "right": "new"}}"#)]
#[case(r#"{"match": {"op": "==", "left": {"osf": {"key": "name"}}, "right": "Linux"}}"#)]
#[case(r#"{"match": {"op": "<", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 80}}"#)]
fn an_unknown_condition_keeps_its_text_and_is_marked(#[case] json: &str) {
    let parsed = parse(&in_rule(&format!("{json}, {{\"drop\": null}}"))).unwrap();
    assert_eq!(parsed.rules.tables[0].chains[0].rules[0].conditions, [Condition::Other(json.into())]);
    let after = parse(&in_rule(&format!("{{\"return\": null}}, {json}"))).unwrap();
    assert_eq!(after.rules.tables[0].chains[0].rules[0].statements[1], Statement::Other(json.into()));
}

#[test]
fn sets_and_elements_are_read() {
    let parsed = parse(&document(
        r#"{"set": {"family": "ip", "name": "a", "table": "kube-proxy", "type": "ipv4_addr", "handle": 3, "size": 65535, "flags": ["timeout"], "timeout": 10800, "elem": [{"elem": {"val": "10.0.0.1", "expires": 10799}}]}},
{"map": {"family": "ip", "name": "no", "table": "kube-proxy", "type": ["ipv4_addr", "inet_proto", "inet_service"], "handle": 4, "map": "verdict", "elem": [[{"elem": {"val": {"concat": ["10.0.0.1", "tcp", 80]}, "comment": "x/y:z"}}, {"drop": null}]]}},
{"chain": {"family": "ip", "table": "kube-proxy", "name": "b", "type": "filter", "hook": "input", "prio": 5, "policy": "drop", "comment": "of later releases"}},
{"counter": {"family": "ip", "name": "n", "table": "kube-proxy", "handle": 9, "packets": 0, "bytes": 0}}"#,
    ));
    let shown = "table ip kube-proxy {\n\
        \tset a {\n\t\ttype ipv4_addr\n\t\tsize 65535\n\t\tflags dynamic,timeout\n\t\ttimeout 3h\n\
        \t\telements = { 10.0.0.1 }\n\t}\n\n\
        \tmap no {\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\
        \t\telements = { 10.0.0.1 . tcp . 80 comment \"x/y:z\" : drop }\n\t}\n\n\
        \tchain c {\n\t}\n\n\
        \tchain b {\n\t\tcomment \"of later releases\"\n\t\ttype filter hook input priority filter + 5; policy drop;\n\t}\n}\n";
    assert_eq!(print(&parsed.unwrap().rules), shown);
}

#[test]
fn tables_of_others_are_counted() {
    let parsed = parse(&document(
        r#"{"table": {"family": "inet", "name": "foo", "handle": 2}},
{"set": {"family": "inet", "name": "s", "table": "foo", "type": "mark", "handle": 1}},
{"chain": {"family": "inet", "table": "foo", "name": "x", "handle": 1, "type": "route", "hook": "output", "prio": 0}},
{"rule": {"family": "inet", "table": "foo", "chain": "x", "handle": 2, "expr": [{"accept": null}]}}"#,
    ));
    let foo = OtherTable { family: "inet".to_owned(), name: "foo".to_owned(), rules: 1 };
    assert_eq!(parsed.unwrap().others, [foo]);
}

#[rstest]
#[case::text("table", "line 1, column 6: the text ends inside of a table: it may have been cut")]
#[case::cut_off("{\"nftables\": [", "line 1, column 14: EOF while parsing a list")]
#[case::another_document("{\"kind\": \"List\"}", "line 1, column 16: missing field `nftables`")]
#[case::later_schema(
    r#"{"nftables": [{"metainfo": {"json_schema_version": 2}}]}"#,
    "metainfo: version 2 of nft's JSON is not supported, only 1"
)]
fn other_texts_are_rejected(#[case] text: &str, #[case] message: &str) {
    assert_eq!(first_error(text), message);
}

#[rstest]
#[case::type_of_keys(
    r#"{"set": {"family": "ip", "name": "s", "table": "kube-proxy", "type": ["ipv4_addr", "mark"]}}"#,
    "table ip kube-proxy, set s: keys of type `mark` are not known"
)]
#[case::data_of_a_map(
    r#"{"map": {"family": "ip", "name": "m", "table": "kube-proxy", "type": "inet_service", "map": "ipv4_addr"}}"#,
    "table ip kube-proxy, map m: a map to \"ipv4_addr\" is not known, only to verdicts"
)]
#[case::element(
    r#"{"set": {"family": "ip", "name": "s", "table": "kube-proxy", "type": "inet_service", "elem": [80, 70000]}}"#,
    "table ip kube-proxy, set s: element 70000 is not known"
)]
#[case::short_key(
    r#"{"set": {"family": "ip", "name": "s", "table": "kube-proxy", "type": ["inet_proto", "inet_service"], "elem": ["tcp"]}}"#,
    "table ip kube-proxy, set s: element \"tcp\" is not known"
)]
#[case::chain_type(
    r#"{"chain": {"family": "ip", "table": "kube-proxy", "name": "b", "type": "route", "hook": "output", "prio": 0}}"#,
    "table ip kube-proxy, chain b: chains of type `route` are not known"
)]
#[case::chain_of_a_rule(
    r#"{"rule": {"family": "ip", "table": "kube-proxy", "chain": "z", "handle": 4, "expr": []}}"#,
    "table ip kube-proxy, chain z, rule with handle 4: there is no such chain"
)]
#[case::table_of_a_chain(
    r#"{"chain": {"family": "ip6", "table": "kube-proxy", "name": "b"}}"#,
    "table ip6 kube-proxy, chain b: there is no such table"
)]
fn what_tables_have_no_room_for_is_reported_with_its_place(#[case] object: &str, #[case] message: &str) {
    assert_eq!(first_error(&document(object)), message);
}

/// Content that nft's own text cannot represent is rejected.
#[rstest]
#[case::quote(
    &in_rule(r#"{"log": {"prefix": "a\" ; include \"/etc/shadow"}}"#),
    r#"text "a\" ; include \"/etc/shadow": it has a quote or a control character, which nft cannot read"#
)]
#[case::line_end(
    &in_rule(r#"{"log": {"prefix": "a\nb"}}"#),
    r#"text "a\nb": it has a quote or a control character, which nft cannot read"#
)]
#[case::name(
    &document(r#"{"chain": {"family": "ip", "table": "kube-proxy", "name": "a { drop }"}}"#),
    "table ip kube-proxy, chain a { drop }: nft cannot read this name"
)]
#[case::dormant(
    r#"{"nftables": [{"table": {"family": "ip", "name": "kube-proxy", "flags": ["dormant"]}}]}"#,
    "table ip kube-proxy: the table is dormant: the kernel evaluates none of its chains"
)]
#[case::limit(
    &document(r#"{"limit": {"family": "ip", "table": "kube-proxy", "name": "l", "rate": 1}}"#),
    "table ip kube-proxy, l: an object of this kind is not supported in kube-proxy's table"
)]
fn what_text_could_not_say_is_rejected(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(first_error(text), expected);
}
