//! Evaluation of conditions.

use rstest::rstest;

use super::*;
use crate::nftables::parse_all;
use crate::walk::{Connection, Direction, Effect, Evaluated, RejectResponse, Tracking};

const SETS: &str = "set s {\ntype ipv4_addr\nelements = { 10.0.0.1, 10.0.0.3 }\n}\n\
                    set h {\ntype ipv4_addr . ipv4_addr . inet_proto . inet_service\n\
                    elements = { 10.0.0.1 . 192.0.2.1 . tcp . 80 }\n}\n\
                    set r {\ntype ipv4_addr\nflags interval\nelements = { 10.0.0.0/31, 10.1.0.2-10.1.0.9 }\n}";

/// A TCP packet from 10.0.0.1:40000 on `cali1` to 192.0.2.1:80, a local address, with mark 0x4000; its output interface is `eth0`.
#[rstest]
#[case("ct state new", true)]
#[case("ct state new,established", true)]
#[case("ct state { established, related }", false)]
#[case("ct state established,related", false)]
#[case("ct state != { established, related }", true)]
#[case("ct state != new", false)]
#[case("ct state invalid,untracked", false)]
#[case("ct status dnat", false)]
#[case("ip saddr @r", true)]
#[case("ip daddr @r", false)]
#[case("tcp dport { 22, 80-90 }", true)]
#[case("tcp dport { 22, 81-90 }", false)]
#[case("tcp dport 79-80", true)]
#[case("tcp dport != 80", false)]
#[case("tcp dport != { 22, 53 }", true)]
#[case("udp dport != 80", false)]
#[case("tcp sport 40000", true)]
#[case("tcp sport 1024-39999", false)]
#[case("th dport { 53, 80 }", true)]
#[case("th sport 80", false)]
#[case("meta l4proto { tcp, udp }", true)]
#[case("meta l4proto != { tcp, udp }", false)]
#[case("meta l4proto icmp", false)]
#[case("ip protocol tcp", true)]
#[case("ip protocol { icmp, 112 }", false)]
#[case("icmp type echo-request", false)]
#[case("meta nfproto ipv4", true)]
#[case("meta nfproto ipv6", false)]
#[case("iifname { \"eth0\", \"cali*\" }", true)]
#[case("iifname != { \"eth0\", \"cali*\" }", false)]
#[case("oifname \"eth*\"", true)]
#[case("oifname != \"eth0\"", false)]
#[case("oif \"eth0\"", true)]
#[case("oif \"eth*\"", false)]
#[case("meta mark 0x00004000", true)]
#[case("meta mark != 0x00004000", false)]
#[case("meta mark & 0x0000ff00 == 0x00004000", true)]
#[case("meta mark & 0x0000ff00 != 0x00004000", false)]
#[case("ct status dnat", false)]
#[case("ip saddr 10.0.0.1", true)]
#[case("ip saddr != 10.0.0.1", false)]
#[case("ip daddr 192.0.2.0/24", true)]
#[case("ip daddr != 192.0.2.0/24", false)]
#[case("ip saddr { 10.0.0.2-10.0.0.9, 10.1.0.0/16 }", false)]
#[case("ip saddr { 10.0.0.0-10.0.0.9, 10.1.0.0/16 }", true)]
#[case("ip saddr != { 10.0.0.0-10.0.0.9, 10.1.0.0/16 }", false)]
#[case("ip saddr @s", true)]
#[case("ip daddr @s", false)]
#[case("ip saddr != @s", false)]
#[case("ip saddr . ip daddr . meta l4proto . th dport @h", true)]
#[case("ip daddr . ip saddr . meta l4proto . th dport @h", false)]
#[case("tcp dport 80", true)]
#[case("tcp dport 81", false)]
#[case("udp dport 80", false)]
#[case("meta l4proto tcp", true)]
#[case("meta l4proto udp", false)]
#[case("iif \"cali1\"", true)]
#[case("iif != \"cali1\"", false)]
#[case("iifname \"cali*\"", true)]
#[case("iifname \"calico*\"", false)]
#[case("iifname != \"cali*\"", false)]
#[case("iifname \"cali\"", false)]
#[case("fib daddr type local", true)]
#[case("fib saddr type local", false)]
#[case("meta mark & 0x00004000 != 0x00000000", true)]
#[case("meta mark & 0x00004000 == 0x00000000", false)]
#[case("meta mark & 0x00008000 != 0x00000000", false)]
fn conditions_hold(#[case] condition: &str, #[case] holds: bool) {
    let program = forward(&format!("{condition} drop"), SETS);
    let packet = Packet {
        input: Interface::new("cali1"),
        output: Interface::new("eth0"),
        mark: 0x4000,
        ..tcp("10.0.0.1", "192.0.2.1", 80)
    };
    let branch = only_branch(&program, Hook::Forward, &packet);
    assert_eq!(word(&branch.outcome), if holds { "drop" } else { "accept" });
}

/// Connection states after the first packet.
#[rstest]
#[case("ct state established,related", "drop")]
#[case("ct state { new, invalid }", "accept")]
fn later_packets_have_another_state(#[case] condition: &str, #[case] outcome: &str) {
    let packet = tcp("10.0.0.1", "192.0.2.1", 80);
    let tracking = Tracking::established(Connection::new(packet.tuple()), Direction::Original);
    let branches = forward(&format!("{condition} drop"), "").walk(&machine(), Hook::Forward, &packet, tracking);
    assert_eq!(word(&branches[0].outcome), outcome);
}

#[rstest]
#[case("meta mark set 0x00000001", 0x1)]
#[case("meta mark set meta mark | 0x00000001", 0x4201)]
#[case("meta mark set meta mark ^ 0x00004000", 0x200)]
#[case("meta mark set meta mark & 0x0000ff00", 0x4200)]
#[case("meta mark set meta mark & 0x0000f000 | 0x00000003", 0x4003)]
#[case("log prefix \"seen: \" level info meta mark set 0x00000007", 0x7)]
fn marks_are_changed(#[case] statement: &str, #[case] mark: u32) {
    let packet = Packet { mark: 0x4200, ..tcp("10.0.0.1", "192.0.2.1", 80) };
    let branch = only_branch(&forward(statement, ""), Hook::Forward, &packet);
    assert_eq!((word(&branch.outcome), branch.packet.mark), ("accept", mark));
}

#[rstest]
#[case("reject", RejectResponse::PortUnreachable)]
#[case("reject with icmp host-unreachable", RejectResponse::HostUnreachable)]
#[case("reject with icmp type net-prohibited", RejectResponse::NetProhibited)]
#[case("reject with icmpx admin-prohibited", RejectResponse::AdminProhibited)]
#[case("reject with icmpx no-route", RejectResponse::NetUnreachable)]
#[case("meta l4proto tcp reject with tcp reset", RejectResponse::TcpReset)]
fn reject_sends_the_response_of_its_rule(#[case] rule: &str, #[case] expected: RejectResponse) {
    let branch = only_branch(&forward(rule, ""), Hook::Forward, &tcp("10.0.0.1", "192.0.2.1", 80));
    assert!(
        matches!(branch.outcome, HookVerdict::Reject(_, rejection) if rejection == expected),
        "{:?}",
        branch.outcome
    );
}

/// Each family of an `inet` table gets the rules that apply to it, with their original numbers.
#[test]
fn a_table_of_both_families_is_one_of_each() {
    let text = "table inet filter {\n\tset known {\n\t\ttype ipv4_addr\n\t\telements = { 10.0.0.1 }\n\t}\n\n\tchain f {\n\
                \t\ttype filter hook forward priority filter; policy accept;\n\
                \t\tip saddr @known drop\n\t\tip6 saddr fd00::1 drop\n\t\ttcp dport 80 reject with icmpx admin-prohibited\n\t}\n}\n";
    let rules = parse_all(text).unwrap().rules;
    for (source, destination, number) in
        [("10.0.0.1", "10.0.0.9", 1), ("10.0.0.2", "10.0.0.9", 3), ("fd00::1", "fd00::9", 2), ("fd00::2", "fd00::9", 3)]
    {
        let packet = tcp(source, destination, 80);
        let program = Program::compile(&rules, packet.family()).unwrap();
        assert_eq!(path(&program, &only_branch(&program, Hook::Forward, &packet)), format!("f:{number}"), "{source}");
    }
}

/// A locally generated packet has no input interface.
#[rstest]
#[case("iifname != \"cali*\"", "drop")]
#[case("iifname \"cali*\"", "accept")]
fn a_packet_without_interface_has_another_one(#[case] condition: &str, #[case] outcome: &str) {
    let program = forward(&format!("{condition} drop"), "");
    assert_eq!(word(&only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80)).outcome), outcome);
}

#[rstest]
#[case("ct state new", "accept")]
#[case("ct status dnat", "drop")]
fn replies_belong_to_their_connection(#[case] condition: &str, #[case] outcome: &str) {
    let mut connection = Connection::new(tcp("10.0.0.1", "10.96.0.1", 80).tuple());
    connection.bind_destination(address("10.0.0.2"), 8080);
    let program = forward(&format!("{condition} drop"), "");
    let reply = tcp("10.0.0.2", "10.0.0.1", 40_000);
    let tracking = Tracking::established(connection, Direction::Reply);
    let branches = program.walk(&machine(), Hook::Forward, &reply, tracking);
    assert_eq!(word(&branches[0].outcome), outcome);
}

/// In place of a port, ICMP has a checksum.
#[test]
fn ports_of_packets_without_them_are_not_guessed() {
    let ping =
        Packet { transport: Transport::Icmp { v6: false, kind: 8, code: 0, id: 7 }, ..tcp("10.0.0.1", "10.0.0.2", 0) };
    let ports = "map p {\ntype inet_service : verdict\nelements = { 0 : drop }\n}";
    assert_eq!(word(&only_branch(&forward("th dport vmap @p", ports), Hook::Forward, &ping).outcome), "unknown");
    let with_protocol = "map p {\ntype inet_proto . inet_service : verdict\nelements = { tcp . 0 : drop }\n}";
    let program = forward("meta l4proto . th dport vmap @p", with_protocol);
    assert_eq!(word(&only_branch(&program, Hook::Forward, &ping).outcome), "accept");
}

#[rstest]
#[case::nothing_else_holds("ip saddr 10.9.9.9 tcp flags syn drop", "accept")]
#[case::all_else_holds("ip saddr 10.0.0.1 tcp flags syn drop", "unknown")]
#[case::a_statement("tcp dport 80 queue to 3", "unknown")]
#[case::of_another_packet("tcp dport 81 queue to 3", "accept")]
fn what_is_not_modelled_is_not_guessed(#[case] rule: &str, #[case] outcome: &str) {
    let program = forward(rule, "");
    let branch = only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    assert_eq!(word(&branch.outcome), outcome);
    if let HookVerdict::Unknown(unknown) = &branch.outcome {
        assert_eq!(program.place(unknown.rule).chain, "f");
        assert!(unknown.why.contains("is not modelled"), "{}", unknown.why);
        assert_eq!(branch.trace.last().map(|step| step.did), Some(Evaluated::Stop));
    }
}

/// Session affinity as in kube-proxy's chains.
#[test]
fn a_set_remembers_sources_for_its_time() {
    let others = "set known {\ntype ipv4_addr\nsize 65535\nflags dynamic,timeout\ntimeout 10s\n}\n\
                  chain endpoint {\nupdate @known { ip saddr }\nip saddr @known drop\n}";
    let program = forward("ip saddr @known goto endpoint\nmeta mark set meta mark | 0x1\ngoto endpoint", others);
    let packet = tcp("10.0.0.1", "10.0.0.2", 80);
    let first = only_branch(&program, Hook::Forward, &packet);
    let [Effect::Add { list, address }] = &first.effects[..] else { panic!("{:?}", first.effects) };
    assert_eq!((&**list, *address), ("kube-proxy known", packet.source));
    assert_eq!((first.packet.mark, word(&first.outcome)), (1, "drop"), "the packet itself is remembered at once");
    let mut environment = machine();
    environment.recent.add(list, *address, 0);
    for (seconds, mark) in [(9, 0), (1, 1)] {
        environment.recent.pass(seconds);
        let later = ways(&program, &environment, Hook::Forward, &packet).remove(0);
        assert_eq!(later.packet.mark, mark, "{seconds} s later");
    }
}
