//! Listings and the rules parsed from them.

use rstest::rstest;

use super::*;
use crate::iptables::{Match, parse};

/// The output of `iptables-save` 1.8.9 for the listings below.
const SAVED: &str = r#"*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-A - [0:0]
:KUBE-SEP-B - [0:0]
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/foo cluster IP" -m tcp --dport 80 -j KUBE-SVC-A
-A KUBE-SVC-A -m comment --comment "default/foo" -m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-B --mask 255.255.255.255 --rsource -j KUBE-SEP-B
-A KUBE-SVC-A -m comment --comment "default/foo" -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-B
-A KUBE-SEP-B -p tcp -m comment --comment "default/foo" -m recent --set --name KUBE-SEP-B --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.0.0.1:80
COMMIT
"#;

#[rstest]
#[case::numeric(
    "Chain KUBE-SERVICES (2 references)
target     prot opt source               destination
KUBE-SVC-A  6    --  0.0.0.0/0            10.96.0.1            /* default/foo cluster IP */ tcp dpt:80

Chain KUBE-SVC-A (1 references)
target     prot opt source               destination
KUBE-SEP-B  0    --  0.0.0.0/0            0.0.0.0/0            /* default/foo */ recent: CHECK seconds: 10800 reap name: KUBE-SEP-B side: source mask: 255.255.255.255
KUBE-SEP-B  0    --  0.0.0.0/0            0.0.0.0/0            /* default/foo */ statistic mode random probability 0.33333333349

Chain KUBE-SEP-B (2 references)
target     prot opt source               destination
DNAT       6    --  0.0.0.0/0            0.0.0.0/0            /* default/foo */ recent: SET name: KUBE-SEP-B side: source mask: 255.255.255.255 tcp to:10.0.0.1:80
"
)]
#[case::with_names_and_bullets(
    "root@worker:~# iptables -t nat -L

Chain KUBE-SERVICES (2 references)

target     prot opt source               destination

  • KUBE-SVC-A  tcp  --  anywhere             10.96.0.1            /* default/foo cluster IP */ tcp dpt:http

As can be seen above, there is one service.

Chain KUBE-SVC-A (1 references)
target prot opt source destination
KUBE-SEP-B all -- anywhere anywhere /* default/foo */ recent: CHECK seconds: 10800 reap name: KUBE-SEP-B side: source mask: 255.255.255.255
KUBE-SEP-B all -- anywhere anywhere /* default/foo */ statistic mode random probability 0.33333333349
Chain KUBE-SEP-B (2 references)
target prot opt source destination
DNAT tcp -- anywhere anywhere /* default/foo */ recent: SET name: KUBE-SEP-B side: source mask: 255.255.255.255 tcp to:10.0.0.1:80
"
)]
#[case::with_counters_and_numbers(
    "Chain KUBE-SERVICES (2 references)
num   pkts bytes target     prot opt in     out     source               destination
1       12K   1M KUBE-SVC-A  tcp  --  *      *       0.0.0.0/0            10.96.0.1            /* default/foo cluster IP */ tcp dpt:80

Chain KUBE-SVC-A (1 references)
num   pkts bytes target     prot opt in     out     source               destination
1        0     0 KUBE-SEP-B  all  --  *      *       0.0.0.0/0            0.0.0.0/0            /* default/foo */ recent: CHECK seconds: 10800 reap name: KUBE-SEP-B side: source mask: 255.255.255.255
2        0     0 KUBE-SEP-B  all  --  *      *       0.0.0.0/0            0.0.0.0/0            /* default/foo */ statistic mode random probability 0.33333333349

Chain KUBE-SEP-B (2 references)
num   pkts bytes target     prot opt in     out     source               destination
1        0     0 DNAT       tcp  --  *      *       0.0.0.0/0            0.0.0.0/0            /* default/foo */ recent: SET name: KUBE-SEP-B side: source mask: 255.255.255.255 tcp to:10.0.0.1:80
"
)]
fn a_listing_has_the_rules_that_were_saved(#[case] listing: &str) {
    let saved = parse(SAVED, Family::Ipv4).unwrap_or_else(|errors| panic!("{errors:?}")).rules;
    let read = parse_listing(listing).unwrap();
    assert_eq!(read.rules, saved);
    assert_eq!(read.rounded_digits, None);
    // As on pages without line breaks, where prose cannot be distinguished from rows.
    let without_prose = listing.replace("As can be seen above, there is one service.\n", "");
    let joined = without_prose.replace("\n\n", " root@worker:~# iptables -t nat -L ").replace('\n', " ");
    assert_eq!(parse_listing(&joined).unwrap().rules, saved, "{joined}");
}

/// The heading of a chain tells that a rule which jumps to it was left out.
#[rstest]
#[case("1 references", false)]
#[case("0 references", true)]
fn a_chain_without_a_counted_jump_is_not_whole(#[case] references: &str, #[case] is_whole: bool) {
    let columns = "target     prot opt source               destination\n";
    let listing = format!(
        "Chain KUBE-SERVICES (2 references)\n{columns}RETURN  6    --  0.0.0.0/0            10.96.0.1\n\n\
        Chain KUBE-NODEPORTS ({references})\n{columns}RETURN  6    --  0.0.0.0/0            0.0.0.0/0\n\n"
    );
    let coverage = parse_listing(&listing).expect("a listing").coverage;
    assert_eq!(coverage.has_chain("nat", "KUBE-SERVICES"), is_whole);
    assert!(coverage.has_chain("nat", "KUBE-NODEPORTS"));
}

#[test]
fn what_is_not_known_is_no_condition_that_always_holds() {
    let text =
        "Chain A (1 references)\ntarget prot opt source destination\nB all -- worker1.example anywhere time from 08:00";
    let listing = parse_listing(text).unwrap();
    let rule = &listing.rules.rules(TableName::Nat, "A")[0];
    let words: Vec<&str> =
        rule.matches.iter().map(|one| if let Match::Other(other) = one { &*other.text } else { "" }).collect();
    assert_eq!(words, ["source worker1.example", "time", "from", "08:00"]);
}

#[rstest]
#[case::six("0.333333", Some(6))]
#[case::as_written("0.33333", Some(5))]
#[case::half("0.50000", None)]
#[case::now("0.33333333349", None)]
fn short_probabilities_are_reported(#[case] number: &str, #[case] digits: Option<usize>) {
    let text = format!("Chain A (1 references)\nB all -- anywhere anywhere statistic mode random probability {number}");
    assert_eq!(parse_listing(&text).unwrap().rounded_digits, digits);
}

#[test]
fn ipv6_has_no_option_column() {
    let text = "Chain KUBE-SEP-A (1 references)\ntarget     prot opt source               destination\n\
                DNAT       tcp      anywhere             anywhere             tcp to:[fd00::2]:80";
    let listing = parse_listing(text).unwrap();
    assert_eq!(listing.rules.family, Family::Ipv6);
    assert!(matches!(&listing.rules.rules(TableName::Nat, "KUBE-SEP-A")[0].target, Some(Target::Dnat(_))));
}

/// A truncated row of a listing, after complete ones.
#[rstest]
#[case::no_destination("DNAT  tcp  --  anywhere  anywhere  /* default/foo */ tcp")]
#[case::no_answer("REJECT  tcp  --  anywhere  10.96.0.2  tcp dpt:80")]
#[case::no_mark("MARK  all  --  anywhere  anywhere")]
#[case::comment("KUBE-SEP-B  all  --  anywhere  anywhere  /* default/foo")]
#[case::probability("KUBE-SEP-B  all  --  anywhere  anywhere  statistic mode random")]
#[case::columns("KUBE-SEP-B  all  --  anywhere")]
#[case::address("KUBE-SEP-B  udp  --  anywhere  10.152.183.")]
#[case::short_address("KUBE-SEP-B  udp  --  anywhere  10.152")]
fn a_row_that_is_cut_off_is_reported(#[case] row: &str) {
    let whole = "Chain KUBE-SEP-A (1 references)\ntarget prot opt source destination\n\
                 MASQUERADE  all  --  anywhere  anywhere\n\
                 DNAT  tcp  --  anywhere  anywhere  tcp to:10.0.0.1:80\n";
    let listing = parse_listing(whole).unwrap();
    assert_eq!(listing.cut, None);
    assert_eq!(parse(&crate::iptables::print(&listing.rules), Family::Ipv4).unwrap().rules, listing.rules);
    let listing = parse_listing(&format!("{whole}{row}\n")).unwrap();
    assert_eq!(listing.cut, Some(5));
    let rule = &listing.rules.rules(TableName::Nat, "KUBE-SEP-A").get(2);
    assert!(rule.is_none_or(|rule| rule.matches.iter().any(|one| matches!(one, Match::Other(_)))), "{rule:?}");
}

/// A listing may contain them; rules with them are rejected.
#[rstest]
#[case::nothing("a\0b")]
#[case::bell("a\u{7}b")]
fn control_characters_of_comments_are_rejected_when_printed_and_read(#[case] comment: &str) {
    let text = format!("Chain KUBE-SVC-A (1 references)\nKUBE-SEP-B  all  --  anywhere  anywhere  /* {comment} */\n");
    let listing = parse_listing(&text).unwrap();
    assert_eq!(listing.rules.rules(TableName::Nat, "KUBE-SVC-A")[0].comment(), Some(comment));
    let errors = parse(&crate::iptables::print(&listing.rules), Family::Ipv4).expect_err("it is rejected");
    assert!(errors[0].message.starts_with("control character"), "{errors:?}");
}

#[rstest]
#[case::option("recent: CHECK name: --")]
#[case::negation("recent: CHECK name: !")]
#[case::quote("recent: CHECK name: \"a")]
#[case::missing("recent: CHECK")]
fn a_recent_list_without_a_valid_name_is_kept_as_text(#[case] listed: &str) {
    let text =
        format!("Chain K (1 references)\nA 0 -- 0.0.0.0/0 0.0.0.0/0 {listed} side: source mask: 255.255.255.255");
    let rules = parse_listing(&text).unwrap().rules;
    let recent = |found: &Match| matches!(found, Match::Recent(_));
    assert!(!rules.rules(TableName::Nat, "K")[0].matches.iter().any(recent));
}

#[test]
fn prose_has_no_chains() {
    assert_eq!(parse_listing("Chain of events (as seen)\nall -- is well"), None);
}

/// Extensions in the words of listings and of `iptables-save`.
#[rstest]
#[case::or("MARK", "MARK or 0x4000", "-j MARK --set-xmark 0x4000/0x4000")]
#[case::xor("MARK", "MARK xor 0x4000", "-j MARK --set-xmark 0x4000/0x0")]
#[case::and("MARK", "MARK and 0xffffbfff", "-j MARK --set-xmark 0x0/0x4000")]
#[case::set("MARK", "MARK set 0x1", "-j MARK --set-xmark 0x1/0xffffffff")]
#[case::xset("MARK", "MARK xset 0x4000/0xff00", "-j MARK --set-xmark 0x4000/0xff00")]
#[case::random_fully(
    "MASQUERADE",
    "masq ports: 1024-2048 random-fully",
    "-j MASQUERADE --to-ports 1024-2048 --random-fully"
)]
#[case::redirect("REDIRECT", "redir ports 8080", "-j REDIRECT --to-ports 8080")]
#[case::reject("REJECT", "reject-with icmp-port-unreachable", "-j REJECT --reject-with icmp-port-unreachable")]
#[case::range(
    "DNAT",
    "to:10.0.0.1-10.0.0.5:80-90 random persistent",
    "-j DNAT --to-destination 10.0.0.1-10.0.0.5:80-90 --random --persistent"
)]
#[case::source("SNAT", "to:192.0.2.1", "-j SNAT --to-source 192.0.2.1")]
#[case::goto("A", "[goto] ", "-g A")]
#[case::mark("RETURN", "mark match ! 0x4000/0x4000", "-m mark ! --mark 0x4000/0x4000 -j RETURN")]
#[case::type_of_address(
    "A",
    "ADDRTYPE match src-type !LOCAL dst-type LOCAL",
    "-m addrtype ! --src-type LOCAL --dst-type LOCAL -j A"
)]
#[case::state("A", "! ctstate INVALID,NEW", "-m conntrack ! --ctstate INVALID,NEW -j A")]
#[case::old_state("A", "state ESTABLISHED", "-m state --state ESTABLISHED -j A")]
#[case::members("A", "match-set KUBE-X dst,dst", "-m set --match-set KUBE-X dst,dst -j A")]
#[case::accounting("A", "nfacct-name  localhost_nps", "-m nfacct --nfacct-name localhost_nps -j A")]
#[case::bridge(
    "A",
    "PHYSDEV match ! --physdev-in veth0 --physdev-is-bridged",
    "-m physdev ! --physdev-in veth0 --physdev-is-bridged -j A"
)]
#[case::several("A", "multiport dports 80,8000:8080", "-m multiport --dports 80,8000:8080 -j A")]
#[case::nth("A", "statistic mode nth every 3 packet 1", "-m statistic --mode nth --every 3 --packet 1 -j A")]
fn extensions_are_read_in_the_words_of_listings(#[case] target: &str, #[case] said: &str, #[case] saved: &str) {
    let text = format!("Chain B (1 references)\n{target} 0 -- 0.0.0.0/0 0.0.0.0/0 {said}");
    let listing = parse_listing(&text).unwrap();
    assert_eq!(listing.cut, None);
    // Only filter rejects.
    let table = if target == "REJECT" { TableName::Filter } else { TableName::Nat };
    assert_eq!(listing.rules.rules(table, "B"), [crate::iptables::parse_rule(saved, Family::Ipv4).unwrap()]);
}

/// The first words of a row are a row only at the end of a text, and in a chain.
#[rstest]
#[case::target("DNAT", true)]
#[case::protocol("KUBE-MARK-MASQ  all", true)]
#[case::counted("   12   720 DNAT", true)]
#[case::prose("Thanks", false)]
#[case::sentence("DNAT fails", false)]
fn a_text_may_end_within_a_row(#[case] last: &str, #[case] expected: bool) {
    let mut reader = ListingReader::default();
    assert!(!reader.end(1, last));
    reader.line(1, "Chain KUBE-SEP-B (1 references)");
    reader.line(2, "target     prot opt source               destination");
    assert_eq!(reader.end(3, last), expected);
    let listing = reader.finish().expect("a chain");
    assert_eq!(listing.cut, expected.then_some(3));
    assert!(!expected || !listing.coverage.has_chain("nat", "KUBE-SEP-B"));
}
