//! DNAT, SNAT, REDIRECT and MASQUERADE.

use rstest::rstest;

use super::*;
use crate::cluster::Kernel;
use crate::walk::{Connection, Direction, SourceNat};

const TO_POD: &str = "*nat\n-A PREROUTING -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.2:8080\n\
                      -A PREROUTING -j DNAT --to-destination 10.9.9.9\n\
                      -A POSTROUTING -m conntrack --ctstate DNAT -j MASQUERADE --random-fully\nCOMMIT\n";

#[test]
fn a_connection_is_translated_there_and_back() {
    let program = v4(TO_POD);
    let packet = tcp("10.0.0.1", "10.96.0.1", 80);
    let there = only_branch(&program, Hook::Prerouting, &packet);
    assert_eq!(there.packet.tuple(), tcp("10.0.0.1", "10.0.0.2", 8080).tuple());
    let mut out = program.walk(&machine(), Hook::Postrouting, &there.packet, there.tracking).remove(0);
    assert_eq!(out.source_nat, Some(SourceNat { address: None, first_port: 1024, last_port: 65535 }));
    assert_eq!(out.packet, there.packet, "it is not said yet what the source becomes");
    let port = out.source_nat.unwrap().choose_port(40_000);
    out.settle_source(address("192.0.2.1"), port);
    // A random port is hardly ever the original one.
    let transport = Transport::Tcp { source: 40_001, destination: 8080, flags: 2 };
    assert_eq!(out.packet.tuple(), Packet { transport, ..tcp("192.0.2.1", "10.0.0.2", 8080) }.tuple());

    let connection = *out.tracking.connection().unwrap();
    let reply = Packet {
        transport: Transport::Tcp { source: 8080, destination: 40_001, flags: 18 },
        ..tcp("10.0.0.2", "192.0.2.1", 0)
    };
    assert_eq!(reply.tuple(), connection.reply);
    let tracking = Tracking::established(connection, Direction::Reply);
    let back = program.walk(&machine(), Hook::Prerouting, &reply, tracking).remove(0);
    assert_eq!((back.packet.source, back.packet.destination), (address("10.0.0.2"), address("10.0.0.1")));
    let back = program.walk(&machine(), Hook::Postrouting, &back.packet, back.tracking).remove(0);
    assert_eq!(back.packet.tuple(), packet.tuple().reversed());

    // Later packets follow the first one, and no rule is evaluated.
    let tracking = Tracking::established(connection, Direction::Original);
    let later = walk_traced(&program, Hook::Prerouting, &packet, tracking).remove(0);
    assert_eq!(later.packet.tuple(), there.packet.tuple());
    assert!(later.trace.steps().is_empty());
}

#[test]
fn what_no_rule_translates_is_settled_too() {
    let program = v4("*nat\n-A OUTPUT -p udp -j DNAT --to-destination 10.9.9.9\nCOMMIT\n");
    let branch = only_branch(&program, Hook::Output, &tcp("192.0.2.1", "10.96.0.1", 80));
    let connection = branch.tracking.connection().unwrap();
    assert!(connection.destination_settled && !connection.source_settled && !connection.is_dnat());
    // A packet that re-enters through `lo` traverses PREROUTING with that translation.
    let again = v4(TO_POD).walk(&machine(), Hook::Prerouting, &branch.packet, branch.tracking).remove(0);
    assert_eq!(again.packet, branch.packet);
}

#[rstest]
#[case("DNAT --to-destination 10.0.0.2:8080", "10.0.0.2", 8080)]
#[case("DNAT --to-destination 10.0.0.2", "10.0.0.2", 80)]
#[case("DNAT --to-destination :8080", "10.96.0.1", 8080)]
#[case("DNAT --to-destination 10.0.0.2:70-90", "10.0.0.2", 80)]
#[case("REDIRECT --to-ports 9090", "127.0.0.1", 9090)]
#[case("REDIRECT", "127.0.0.1", 80)]
fn destinations_of_a_process_change(#[case] target: &str, #[case] to: &str, #[case] port: u16) {
    let program = v4(&format!("*nat\n-A OUTPUT -p tcp -j {target}\nCOMMIT\n"));
    let branch = only_branch(&program, Hook::Output, &tcp("192.0.2.1", "10.96.0.1", 80));
    assert_eq!(branch.packet.tuple(), tcp("192.0.2.1", to, port).tuple());
    assert_eq!(branch.reroute, to != "10.96.0.1");
}

#[rstest]
#[case("DNAT --to-destination 10.0.0.2-10.0.0.5", "the kernel chooses an address from 10.0.0.2 to 10.0.0.5")]
#[case("DNAT --to-destination 10.0.0.2:81-90", "the kernel chooses a port from 81 to 90")]
#[case("DNAT --to-destination 10.0.0.2:70-90 --random", "the kernel chooses a port from 70 to 90")]
fn the_kernels_own_choice_is_not_guessed(#[case] target: &str, #[case] reason: &str) {
    let program = v4(&format!("*nat\n-A OUTPUT -p tcp -j {target}\nCOMMIT\n"));
    let HookVerdict::Unknown(unknown) = only_branch(&program, Hook::Output, &tcp("192.0.2.1", "10.96.0.1", 80)).outcome
    else {
        panic!("it is known");
    };
    assert_eq!(&*unknown.why, reason);
}

#[rstest]
#[case(Some("eth0"), "10.0.0.1", "192.0.2.1", "accept")]
#[case(Some("eth0"), "fd00::1", "fd00:2::1", "accept")]
#[case(Some("eth9"), "10.0.0.1", "", "drop")]
fn redirect_sends_to_the_interface(
    #[case] input: Option<&str>,
    #[case] source: &str,
    #[case] to: &str,
    #[case] outcome: &str,
) {
    let destination = if source.contains(':') { "fd00::9" } else { "10.0.0.9" };
    let packet = Packet { input: input.and_then(Interface::new), ..tcp(source, destination, 80) };
    let program = program(packet.family(), "*nat\n-A PREROUTING -j REDIRECT\nCOMMIT\n");
    let branch = only_branch(&program, Hook::Prerouting, &packet);
    assert_eq!(word(&branch.outcome), outcome);
    if outcome == "accept" {
        assert_eq!(branch.packet.destination, address(to));
    }
}

/// Loopback and IPv4-compatible addresses have scopes of their own, in which an interface has no address. No scenario can send a packet to
/// `::1` over a link, but the bridge of a node passes it to the rules (`br_netfilter`).
#[rstest]
#[case("::1", "drop")]
#[case("::2", "drop")]
#[case("::ffff:ffff", "drop")]
#[case("::1:0:0", "accept")]
#[case("fd00::9", "accept")]
fn redirect_looks_for_an_ipv6_address_of_the_same_scope(#[case] destination: &str, #[case] outcome: &str) {
    let packet = Packet { input: Interface::new("eth0"), ..tcp("fd00::1", destination, 80) };
    let program = program(Family::Ipv6, "*nat\n-A PREROUTING -j REDIRECT\nCOMMIT\n");
    assert_eq!(word(&only_branch(&program, Hook::Prerouting, &packet).outcome), outcome);
}

/// Before Linux 6.7 the first address is taken, whatever its scope.
#[test]
fn redirect_of_an_old_kernel_takes_an_ipv6_address_of_any_scope() {
    let packet = Packet { input: Interface::new("eth0"), ..tcp("fd00::1", "::2", 80) };
    let program = program(Family::Ipv6, "*nat\n-A PREROUTING -j REDIRECT\nCOMMIT\n");
    let old = Environment { kernel: Kernel::of("6.1.55", ""), ..machine() };
    let branches = program.walk(&old, Hook::Prerouting, &packet, Tracking::first(&packet));
    assert_eq!(branches.len(), 1, "{branches:#?}");
    assert_eq!(branches[0].packet.destination, address("fd00:2::1"));
}

#[rstest]
#[case("MASQUERADE", 40_000, None, (40_000, 40_000))]
#[case("MASQUERADE --random-fully", 40_000, None, (1024, 65535))]
#[case("MASQUERADE --random-fully", 700, None, (600, 1023))]
#[case("MASQUERADE --random", 53, None, (1, 511))]
#[case("MASQUERADE --to-ports 1000-2000", 40_000, None, (1000, 2000))]
#[case("MASQUERADE --to-ports 1000-2000", 1500, None, (1500, 1500))]
#[case("SNAT --to-source 192.0.2.9", 40_000, Some("192.0.2.9"), (40_000, 40_000))]
#[case("SNAT --to-source 192.0.2.9:5000", 40_000, Some("192.0.2.9"), (5000, 5000))]
#[case("SNAT --to-source 192.0.2.9 --random-fully", 40_000, Some("192.0.2.9"), (1024, 65535))]
fn sources_get_ports_of_their_class(
    #[case] target: &str,
    #[case] port: u16,
    #[case] source: Option<&str>,
    #[case] (first_port, last_port): (u16, u16),
) {
    let program = v4(&format!("*nat\n-A POSTROUTING -p tcp -j {target}\nCOMMIT\n"));
    let packet = Packet { transport: Transport::opening(Protocol::Tcp, port, 80), ..tcp("10.0.0.1", "10.0.0.2", 80) };
    let branch = only_branch(&program, Hook::Postrouting, &packet);
    assert_eq!(branch.source_nat, Some(SourceNat { address: source.map(address), first_port, last_port }));
}

#[test]
fn a_mark_set_in_mangle_brings_a_new_route() {
    let program = v4(
        "*raw\n-A OUTPUT -p udp -j MARK --set-mark 1\nCOMMIT\n*mangle\n-A OUTPUT -p tcp -j MARK --set-mark 1\nCOMMIT\n\
                      *filter\n-A OUTPUT -j MARK --set-mark 9\nCOMMIT\n",
    );
    let packet = tcp("192.0.2.1", "10.96.0.1", 80);
    assert!(only_branch(&program, Hook::Output, &packet).reroute);
    let udp = Packet { transport: Transport::Udp { source: 1, destination: 2 }, ..packet };
    assert!(!only_branch(&program, Hook::Output, &udp).reroute);
}

#[test]
fn an_icmp_error_is_translated_by_its_addresses() {
    let mut connection = Connection::new(tcp("10.0.0.1", "10.96.0.1", 80).tuple());
    connection.bind_destination(address("10.0.0.2"), 8080);
    let transport = Transport::Icmp { v6: false, kind: 3, code: 3, id: 0 };
    let mut error = Packet::new(address("10.0.0.2"), address("10.0.0.1"), transport);
    connection.translate(Direction::Reply, Hook::Prerouting, &mut error);
    connection.translate(Direction::Reply, Hook::Postrouting, &mut error);
    assert_eq!(
        (error.source, error.destination, error.transport),
        (address("10.96.0.1"), address("10.0.0.1"), transport)
    );
}
