//! DNAT, SNAT and masquerading.

use rstest::rstest;

use super::*;
use crate::nftables::parse_all;
use crate::walk::{Direction, SourceNat, Tracking};

fn at(hook: &str, kind: &str, priority: i32, rules: &str) -> String {
    format!(
        "chain {kind}-{hook}{priority} {{\ntype {kind} hook {hook} priority {priority}; policy accept;\n{rules}\n}}\n"
    )
}

fn destination(branch: &Branch<Path>) -> String {
    let tuple = branch.packet.tuple();
    format!("{}:{}", tuple.destination, tuple.destination_port)
}

#[test]
fn a_map_shares_destinations_out() {
    let map = "meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 8080, 1 : 10.0.0.2 . 8081 }";
    let after = at("prerouting", "filter", 0, "meta mark set meta mark | 0x1");
    let program = program(&(at("prerouting", "nat", -100, map) + &after));
    let branches = ways(&program, &machine(), Hook::Prerouting, &tcp("10.9.9.9", "10.96.0.1", 80));
    let seen: Vec<_> = branches.iter().map(|branch| (branch.share, destination(branch), branch.packet.mark)).collect();
    let half = Share::of(1, 2);
    assert_eq!(seen, [(half, "10.0.0.1:8080".to_owned(), 1), (half, "10.0.0.2:8081".to_owned(), 1)]);
}

/// Chains see destinations as of their own priority: DNAT happens at -100 whatever the priority of the nat chain.
#[rstest]
#[case(-110, -100, "accept")]
#[case(-90, -100, "drop")]
#[case(-90, 300, "drop")]
fn filters_see_destinations_before_or_after(#[case] filter: i32, #[case] nat: i32, #[case] outcome: &str) {
    let rules =
        at("output", "nat", nat, "dnat to 10.0.0.1:8080") + &at("output", "filter", filter, "ip daddr 10.0.0.1 drop");
    let branch = only_branch(&program(&rules), Hook::Output, &tcp("192.0.2.1", "10.96.0.1", 80));
    assert_eq!((word(&branch.outcome), branch.reroute), (outcome, true));
}

#[test]
fn a_connection_is_translated_by_one_chain_only() {
    let rules = at("prerouting", "nat", -101, "accept")
        + &at("prerouting", "nat", -100, "dnat to 10.0.0.1:8080")
        + &at("prerouting", "nat", -99, "drop");
    let branch = only_branch(&program(&rules), Hook::Prerouting, &tcp("10.9.9.9", "10.96.0.1", 80));
    assert_eq!((word(&branch.outcome), destination(&branch).as_str()), ("accept", "10.0.0.1:8080"));
}

#[test]
fn what_is_marked_is_masqueraded() {
    let rules = at(
        "postrouting",
        "nat",
        100,
        "meta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000 masquerade fully-random",
    );
    let program = program(&rules);
    let plain = tcp("10.0.0.1", "10.0.0.2", 80);
    assert_eq!(only_branch(&program, Hook::Postrouting, &plain).source_nat, None);
    let marked = only_branch(&program, Hook::Postrouting, &Packet { mark: 0x4001, ..plain });
    assert_eq!(marked.source_nat, Some(SourceNat { address: None, first_port: 1024, last_port: 65535 }));
    assert_eq!(marked.packet.mark, 1);
}

#[rstest]
#[case("masquerade", None, 40_000)]
#[case("snat to 192.0.2.7", Some("192.0.2.7"), 40_000)]
#[case("meta l4proto tcp snat to 192.0.2.7:80", Some("192.0.2.7"), 80)]
fn sources_keep_their_port_where_nothing_else_is_said(#[case] rule: &str, #[case] to: Option<&str>, #[case] port: u16) {
    let program = program(&at("postrouting", "nat", 100, rule));
    let branch = only_branch(&program, Hook::Postrouting, &tcp("10.0.0.1", "10.0.0.2", 80));
    assert_eq!(branch.source_nat, Some(SourceNat { address: to.map(address), first_port: port, last_port: port }));
}

/// Chains after source NAT see the new source, once the caller has settled it.
#[rstest]
#[case::postrouting("postrouting", Hook::Postrouting, 99, "accept")]
#[case::postrouting_after("postrouting", Hook::Postrouting, 101, "drop")]
#[case::input("input", Hook::Input, 99, "accept")]
#[case::input_after("input", Hook::Input, 150, "drop")]
fn filters_see_sources_before_or_after(
    #[case] name: &str,
    #[case] hook: Hook,
    #[case] filter: i32,
    #[case] outcome: &str,
) {
    let rules = at(name, "nat", 100, "snat to 192.0.2.7")
        + &at(name, "filter", filter, "ip saddr 192.0.2.7 drop\nip saddr 10.0.0.1 meta mark set 0x1");
    let (program, environment, packet) = (program(&rules), machine(), tcp("10.0.0.1", "10.0.0.2", 80));
    let mut branch = only_branch(&program, hook, &packet);
    assert_eq!(branch.continues(), outcome == "drop");
    branch.settle_source(address("192.0.2.7"), 40_000);
    let arrival = Arrival::first(&environment, hook, &packet);
    let branches = program.continue_settled(arrival, branch);
    let ends: Vec<_> = branches.iter().map(|one| (word(&one.outcome), one.packet.mark, one.share)).collect();
    assert_eq!(ends, [(outcome, u32::from(outcome == "accept"), Share::ONE)]);
}

/// In an `inet` table, `dnat ip to` passes packets of IPv6: what follows it is for them.
#[rstest]
#[case(Family::Ipv4, "192.0.2.1", "10.96.0.1", "10.0.0.1:8080")]
#[case(Family::Ipv6, "2001:db8::1", "fd00::1", "fd00:1::1:8080")]
fn a_translation_of_one_family_passes_the_other(
    #[case] family: Family,
    #[case] from: &str,
    #[case] to: &str,
    #[case] expected: &str,
) {
    let text = "table inet t {\n\tchain c {\n\t\ttype nat hook prerouting priority -100; policy accept;\n\
                \t\tmeta mark set 0x1 dnat ip to 10.0.0.1:8080\n\t\tdnat ip6 to [fd00:1::1]:8080\n\t}\n}\n";
    let rules = parse_all(text).unwrap_or_else(|errors| panic!("{}", errors[0])).rules;
    let program = Program::compile(&rules, family).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let branch = only_branch(&program, Hook::Prerouting, &tcp(from, to, 80));
    assert_eq!((destination(&branch).as_str(), branch.packet.mark), (expected, 1));
}

#[test]
fn a_destination_without_a_port_keeps_its_own() {
    let program = program(&at("prerouting", "nat", -100, "tcp dport 80 dnat to 10.0.0.1"));
    let branch = only_branch(&program, Hook::Prerouting, &tcp("10.9.9.9", "10.96.0.1", 80));
    assert_eq!(destination(&branch), "10.0.0.1:80");
}

#[test]
fn later_packets_are_asked_nothing() {
    let program = program(&at("prerouting", "nat", -100, "dnat to 10.0.0.1:8080"));
    let packet = tcp("10.9.9.9", "10.96.0.1", 80);
    let first = only_branch(&program, Hook::Prerouting, &packet);
    let connection = *first.tracking.connection().unwrap();
    let tracking = Tracking::established(connection, Direction::Original);
    let environment = machine();
    let arrival = Arrival { tracking, ..Arrival::first(&environment, Hook::Prerouting, &packet) };
    let later = program.walk_with(arrival, Path::default()).remove(0);
    assert_eq!((later.packet.tuple(), later.trace.steps().len()), (first.packet.tuple(), 0));
}
