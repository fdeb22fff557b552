//! JSON that was wrapped, cut, or went through a text editor or a web page.

use rstest::rstest;

use super::super::repairs::Repair;
use super::super::*;
use super::{codes, unaccounted, wrapped};

/// What `nft -j` prints of a table, as `jq .` has it.
fn nft_json() -> String {
    let value = serde_json::json!({"nftables": [
        {"metainfo": {"version": "1.0.6", "release_name": "Lester Gooch #5", "json_schema_version": 1}},
        {"table": {"family": "ip", "name": "kube-proxy", "handle": 1}},
        {"set": {"family": "ip", "name": "cluster-ips", "table": "kube-proxy", "type": "ipv4_addr", "handle": 2,
            "comment": "Active ClusterIPs", "elem": ["10.96.0.1", "10.96.0.10"]}},
        {"chain": {"family": "ip", "table": "kube-proxy", "name": "mark-for-masquerade", "handle": 3}},
        {"chain": {"family": "ip", "table": "kube-proxy", "name": "reject-chain", "handle": 4}},
        {"rule": {"family": "ip", "table": "kube-proxy", "chain": "mark-for-masquerade", "handle": 5, "expr": [
            {"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"|": [{"meta": {"key": "mark"}}, 16384]}}}]}},
        {"rule": {"family": "ip", "table": "kube-proxy", "chain": "reject-chain", "handle": 6, "expr": [
            {"reject": {"type": "icmp", "expr": "port-unreachable"}}]}}
    ]});
    serde_json::to_string_pretty(&value).unwrap() + "\n"
}

const LIST_JSON: &str = include_str!("list.json");

fn curled(text: &str) -> String {
    let mut is_open = false;
    let curl = |letter: char| {
        if letter != '"' {
            return letter;
        }
        is_open = !is_open;
        if is_open { '“' } else { '”' }
    };
    text.chars().map(curl).collect()
}

/// JSON is read when a terminal wrapped it, and with the quotes of a text editor or a web page.
#[rstest]
#[case::as_it_is(str::to_owned, None)]
#[case::wrapped(|text: &str| wrapped(text, 80), Some(Repair::Wrapped))]
#[case::wrapped_narrowly(|text: &str| wrapped(text, 40), Some(Repair::Wrapped))]
#[case::one_line_wrapped(|text: &str| wrapped(&serde_json::from_str::<serde_json::Value>(text).unwrap().to_string(), 80), Some(Repair::Wrapped))]
#[case::curled(curled, Some(Repair::Typography))]
#[case::entities(|text: &str| text.replace('"', "&quot;"), Some(Repair::Entities))]
fn mangled_json_is_read(#[case] mangle: fn(&str) -> String, #[case] repair: Option<Repair>) {
    for (text, format, number) in [(nft_json(), "nft-json", 2), (LIST_JSON.to_owned(), "json", 2)] {
        let evidence = read(&mangle(&text));
        assert_eq!(evidence.unread, []);
        assert_eq!(codes(&evidence), [format], "{:#?}", evidence.pieces);
        assert_eq!(evidence.rules() + evidence.objects(), number);
        let has = |one: &Piece| repair.is_none_or(|how| one.repairs.iter().any(|own| own.how == how));
        let may_fit = format == "nft-json" && repair == Some(Repair::Wrapped);
        assert!(may_fit || has(&evidence.pieces[0]), "{:#?}", evidence.pieces[0].repairs);
    }
}

/// Of JSON whose start or end is missing, what is whole is read, and every other line is listed.
#[rstest]
fn the_whole_elements_of_cut_json_are_read(#[values(true, false)] is_head: bool, #[values(1, 2, 3)] third: usize) {
    for (text, format) in [(nft_json(), "nft-json"), (LIST_JSON.to_owned(), "json")] {
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.len() * third / 4;
        let kept = if is_head { &lines[at..] } else { &lines[..at] };
        let cut = kept.join("\n");
        let evidence = read(&cut);
        assert_eq!(unaccounted(&cut, &evidence), Vec::<usize>::new());
        let whole = read(&text);
        assert!(evidence.rules() <= whole.rules() && evidence.objects() <= whole.objects());
        // A rule or object that is there from its first brace to its last is read.
        let shown = if format == "json" { cut.matches("\"spec\"").count() } else { 0 };
        assert!(evidence.objects() >= shown.min(usize::from(!is_head)), "{cut}");
        assert!(node_rules(&evidence).iter().all(|set| !set.is_whole()));
        assert!(!evidence.unread.is_empty() || !evidence.pieces.is_empty(), "{cut}");
    }
}

/// Of a list of nft's that is cut, the rules are read that are whole, and their chains are excerpts.
#[test]
fn rules_of_cut_json_of_nft_are_read() {
    let text = nft_json();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.iter().rposition(|line| line.contains("\"rule\"")).unwrap();
    let evidence = read(&lines[..last + 3].join("\n"));
    assert_eq!((codes(&evidence), evidence.rules()), (vec!["nft-json"], 1));
    assert_eq!(evidence.unread.iter().map(|unread| unread.line).collect::<Vec<_>>(), [last + 1, last + 2, last + 3]);
    let first = lines.iter().position(|line| line.contains("\"rule\"")).unwrap();
    let evidence = read(&lines[first - 1..].join("\n"));
    assert_eq!((codes(&evidence), evidence.rules(), &*evidence.unread), (vec!["nft-json"], 2, &[][..]));
}

/// `nft -j list chain` and `nft -j list map` print no table: what they show is read, as a part of it.
#[rstest]
#[case::set(&["metainfo", "set"], 0)]
#[case::chains(&["metainfo", "chain", "rule"], 2)]
fn parts_of_a_table_are_read_from_json(#[case] kinds: &[&str], #[case] rules: usize) {
    let mut value: serde_json::Value = serde_json::from_str(&nft_json()).unwrap();
    let list = value["nftables"].as_array_mut().unwrap();
    list.retain(|own| own.as_object().unwrap().keys().all(|kind| kinds.contains(&kind.as_str())));
    let evidence = read(&value.to_string());
    assert_eq!((codes(&evidence), evidence.rules(), evidence.unread.len()), (vec!["nft-json"], rules, 0));
    let sets = node_rules(&evidence);
    assert_eq!((sets.len(), sets[0].is_whole()), (1, false));
    assert!(sets[0].coverage.has_chain("ip kube-proxy", if rules == 0 { "cluster-ips" } else { "reject-chain" }));
}

/// `ip -j` says the same as `ip`.
#[rstest]
#[case::routes(
    r#"[{"dst":"default","gateway":"172.18.0.1","dev":"eth0","flags":[]},{"dst":"10.244.1.0/24","gateway":"172.18.0.3","dev":"eth0","flags":[]},
{"type":"blackhole","dst":"10.244.0.0/16","flags":[]},{"dst":"172.18.0.0/16","dev":"eth0","protocol":"kernel","scope":"link","prefsrc":"172.18.0.2","flags":[]}]"#,
    "default via 172.18.0.1 dev eth0\n10.244.1.0/24 via 172.18.0.3 dev eth0\nblackhole 10.244.0.0/16\n172.18.0.0/16 dev eth0 src 172.18.0.2\n"
)]
#[case::addresses(
    r#"[{"ifindex":1,"ifname":"lo","addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8}]},
{"ifindex":2,"ifname":"eth0","addr_info":[{"family":"inet","local":"172.18.0.2","prefixlen":16},{"family":"inet6","local":"fe80::1","prefixlen":64}]}]"#,
    "1: lo: <LOOPBACK,UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n2: eth0: <BROADCAST,UP> mtu 1500\n    inet 172.18.0.2/16 scope global eth0\n    inet6 fe80::1/64 scope link\n"
)]
#[case::rules(
    r#"[{"priority":0,"src":"all","table":"local"},{"priority":32766,"src":"all","table":"main"}]"#,
    "0: from all lookup local\n32766: from all lookup main\n"
)]
fn json_of_ip_says_what_its_text_does(#[case] json: &str, #[case] text: &str) {
    let plain = |evidence: Evidence| {
        let mut contents = evidence.pieces[0].contents.clone();
        if let Contents::Routes(routes) = &mut contents {
            routes.iter_mut().for_each(|route| route.line = 0);
        }
        (evidence.pieces.len(), evidence.unread.len(), contents)
    };
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(json).unwrap()).unwrap();
    let of_text = plain(read(text));
    assert_eq!((plain(read(json)), plain(read(&pretty))), (of_text.clone(), of_text));
}
