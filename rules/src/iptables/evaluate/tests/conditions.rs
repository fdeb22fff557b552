//! Which packets a rule matches.

use rstest::rstest;

use super::*;
use crate::walk::{Assumptions, BridgePorts, Connection, Direction, IpSet, Part, State, Tracked};

/// A packet with mark 0x4001, forwarded from 10.0.0.1 on `eth0` to 10.0.0.2:80 on `eth1`.
fn forwarded() -> Packet {
    let interface = |name| Interface::new(name);
    Packet { input: interface("eth0"), output: interface("eth1"), mark: 0x4001, ..tcp("10.0.0.1", "10.0.0.2", 80) }
}

/// Returns the outcome of a packet for a rule in FORWARD that drops packets with these matches.
fn dropped(conditions: &str, packet: &Packet, tracking: Tracking, environment: &Environment) -> &'static str {
    let program = program(packet.family(), &format!("*filter\n-A FORWARD {conditions} -j DROP\nCOMMIT\n"));
    let branches = program.walk(environment, Hook::Forward, packet, tracking);
    assert_eq!(branches.len(), 1, "{branches:#?}");
    word(&branches[0].outcome)
}

#[rstest]
#[case("")]
#[case("-s 10.0.0.1")]
#[case("-s 10.0.0.0/30 -d 10.0.0.2/32")]
#[case("! -s 10.0.0.2")]
#[case("-s 0.0.0.0/0")]
#[case("-d 10.0.0.2/255.0.255.255")]
#[case("-i eth0 -o eth1")]
#[case("-i eth+ ! -o lo+")]
#[case("-i +")]
#[case("-p tcp")]
#[case("-p 6")]
#[case("! -p udp")]
#[case("-p all")]
#[case("-p tcp -m tcp --dport 80")]
#[case("-p tcp -m tcp --dport 79:81 --sport 1024:65535")]
#[case("-p tcp -m tcp ! --dport 443")]
#[case("-p tcp --syn")]
#[case("-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN")]
#[case("-p tcp -m multiport --dports 22,80,443")]
#[case("-p tcp -m multiport --ports 40000")]
#[case("-p tcp -m multiport ! --dports 22")]
#[case("-m comment --comment \"a word\"")]
#[case("-m mark --mark 0x4000/0x4000")]
#[case("-m mark --mark 0x4001")]
#[case("-m mark ! --mark 0x8000/0x8000")]
#[case("-m connmark --mark 0")]
#[case("-m conntrack --ctstate NEW")]
#[case("-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT")]
#[case("-m state --state NEW,INVALID")]
#[case("-m conntrack --ctorigdst 10.0.0.0/24 --ctorigdstport 80")]
#[case("-m conntrack --ctstate NEW --ctdir ORIGINAL --ctproto tcp")]
#[case("-m conntrack --ctreplsrc 10.0.0.2 ! --ctrepldst 10.0.0.2")]
#[case("-m statistic --mode random --probability 1.0")]
#[case("-m statistic --mode random ! --probability 0.0")]
#[case("-m statistic --mode nth --every 1")]
#[case("-m addrtype --src-type UNICAST ! --dst-type LOCAL")]
#[case("-m limit --limit 5/min")]
#[case("-m physdev ! --physdev-is-in")]
#[case("-m physdev ! --physdev-is-bridged ! --physdev-in veth0")]
#[case("-m set --match-set web dst,dst")]
#[case("-m set ! --match-set web src,src")]
#[case("-m iprange --src-range 10.0.0.0-10.0.0.1")]
#[case("! -f")]
#[case("-m nfacct --nfacct-name counter")]
fn a_rule_holds(#[case] conditions: &str) {
    let packet = forwarded();
    assert_eq!(dropped(conditions, &packet, Tracking::first(&packet), &with_a_set()), "drop");
}

#[rstest]
#[case("! -s 10.0.0.1")]
#[case("-s 10.0.0.2/31")]
#[case("! -s 0.0.0.0/0")]
#[case("-d 10.0.0.3/255.0.255.255")]
#[case("-i eth1")]
#[case("-i eth")]
#[case("! -i eth+")]
#[case("! -i +")]
#[case("-p udp")]
#[case("! -p tcp")]
#[case("-p udp -m udp --dport 80")]
#[case("-p udp -m udp ! --dport 443")]
#[case("-p tcp -m tcp --dport 443")]
#[case("-p tcp ! --syn")]
#[case("-p udp -m multiport ! --dports 22")]
#[case("-p tcp -m multiport --sports 80")]
#[case("-m mark --mark 0x4000")]
#[case("-m mark --mark 0x4001/0x4000")]
#[case("-m conntrack --ctstate DNAT")]
#[case("-m conntrack --ctstate NEW --ctorigdstport 81")]
#[case("-m conntrack --ctstate INVALID --ctorigdstport 80")]
#[case("-m statistic --mode random --probability 0.0")]
#[case("-m statistic --mode nth ! --every 1")]
#[case("-m addrtype --dst-type LOCAL")]
#[case("-m addrtype --dst-type MULTICAST,BROADCAST")]
#[case("-m physdev --physdev-is-in")]
#[case("-m physdev --physdev-in +")]
#[case("-m set --match-set web src,src")]
#[case("-m iprange ! --src-range 10.0.0.0-10.0.0.1")]
#[case("-f")]
#[case("-p udp -m owner --uid-owner 0")]
#[case("-m owner --uid-owner 0 -s 10.9.9.9")]
#[case("-p icmp -m icmp --icmp-type 8")]
fn a_rule_does_not_hold(#[case] conditions: &str) {
    let packet = forwarded();
    assert_eq!(dropped(conditions, &packet, Tracking::first(&packet), &with_a_set()), "accept");
}

#[rstest]
#[case("-m owner --uid-owner 0", "match `owner --uid-owner 0` is not modelled")]
#[case("-m set --match-set other dst", "nothing is known of the ipset `other`")]
#[case("-m conntrack --ctexpire 5", "match `conntrack --ctexpire 5` is not modelled")]
#[case("-m string --algo bm --string \"a b\"", "match `string --algo bm --string \"a b\"` is not modelled")]
#[case("-m recent --rcheck --rttl --name L", "`recent --rttl` depends on the TTL, which is not modelled")]
fn what_is_not_known_is_said(#[case] conditions: &str, #[case] reason: &str) {
    let packet = forwarded();
    let program =
        v4(&format!("*filter\n-A FORWARD -j ACCEPT\n-A INPUT -s 10.9.9.9\n-A INPUT {conditions} -j DROP\nCOMMIT\n"));
    let HookVerdict::Unknown(unknown) = only_branch(&program, Hook::Input, &packet).outcome else {
        panic!("it is known")
    };
    assert_eq!(&*unknown.why, reason);
    let place = program.place(unknown.rule);
    assert_eq!((place.table, place.chain, place.rule), ("filter", "INPUT", 2));
}

/// The set has 10.0.0.2 with port 80 of TCP.
fn with_a_set() -> Environment {
    let port = Part::Port { protocol: 6, first: 80, last: 80 };
    let entry = vec![Part::Address("10.0.0.2/32".parse().unwrap()), port];
    Environment { sets: [("web".into(), IpSet { entries: vec![entry] })].into(), ..machine() }
}

#[rstest]
#[case("--dst-type LOCAL", "192.0.2.1", "drop")]
#[case("--dst-type LOCAL", "198.51.100.1", "drop")]
#[case("--dst-type LOCAL", "127.9.9.9", "drop")]
#[case("--dst-type LOCAL", "192.0.2.2", "accept")]
#[case("--dst-type LOCAL --limit-iface-in", "192.0.2.1", "drop")]
#[case("--dst-type LOCAL --limit-iface-in", "198.51.100.1", "accept")]
#[case("--dst-type UNICAST --limit-iface-in", "198.51.100.1", "drop")]
#[case("--dst-type BROADCAST", "192.0.2.255", "drop")]
#[case("--dst-type BROADCAST", "255.255.255.255", "drop")]
#[case("--dst-type MULTICAST", "224.0.0.1", "drop")]
#[case("--dst-type UNICAST", "192.0.2.1", "accept")]
#[case("--dst-type UNICAST,LOCAL", "192.0.2.1", "drop")]
#[case("--dst-type UNREACHABLE", "192.0.2.1", "accept")]
// IPv6 differs: a local address is unicast as well.
#[case("--dst-type LOCAL", "fd00:2::1", "drop")]
#[case("--dst-type UNICAST", "fd00:2::1", "drop")]
#[case("--dst-type UNICAST", "fd00:9::1", "drop")]
#[case("--dst-type UNICAST", "ff02::1", "accept")]
#[case("--dst-type MULTICAST", "ff02::1", "drop")]
#[case("--dst-type LOCAL", "::1", "drop")]
#[case("--dst-type LOCAL --limit-iface-in", "fd00:3::1", "accept")]
#[case("--dst-type UNREACHABLE", "fd00:9::1", "unknown")]
fn addresses_have_the_kernels_types(#[case] types: &str, #[case] destination: &str, #[case] outcome: &str) {
    let source = if destination.contains(':') { "fd00:9::9" } else { "10.0.0.1" };
    let packet = Packet { input: Interface::new("eth0"), ..tcp(source, destination, 80) };
    let found = dropped(&format!("-m addrtype {types}"), &packet, Tracking::first(&packet), &machine());
    assert_eq!(found, outcome);
}

#[rstest]
#[case("--physdev-is-in", "drop")]
#[case("--physdev-in veth1", "drop")]
#[case("--physdev-in veth+ --physdev-is-bridged", "drop")]
#[case("! --physdev-is-in", "accept")]
#[case("--physdev-in veth2", "accept")]
#[case("--physdev-is-out", "accept")]
#[case("! --physdev-out veth2", "drop")]
fn ports_of_a_bridge_are_seen(#[case] options: &str, #[case] outcome: &str) {
    let bridge = BridgePorts { input: Interface::new("veth1"), output: None, bridged: true };
    let packet = Packet { bridge: Some(bridge), ..forwarded() };
    assert_eq!(dropped(&format!("-m physdev {options}"), &packet, Tracking::first(&packet), &machine()), outcome);
}

#[rstest]
#[case("--icmp-type echo-request", 8, 0, "drop")]
#[case("--icmp-type any", 8, 0, "drop")]
#[case("--icmp-type 3/4", 3, 4, "drop")]
#[case("--icmp-type 3/4", 3, 3, "accept")]
#[case("--icmp-type destination-unreachable", 3, 3, "drop")]
fn icmp_has_types(#[case] options: &str, #[case] kind: u8, #[case] code: u8, #[case] outcome: &str) {
    let transport = Transport::Icmp { v6: false, kind, code, id: 7 };
    let packet = Packet { transport, ..forwarded() };
    let found = dropped(&format!("-p icmp -m icmp {options}"), &packet, Tracking::first(&packet), &machine());
    assert_eq!(found, outcome);
}

#[rstest]
#[case("-m conntrack --ctstate ESTABLISHED", "drop")]
#[case("-m conntrack --ctstate DNAT", "drop")]
#[case("-m conntrack --ctstate SNAT", "accept")]
#[case("-m state --state ESTABLISHED", "drop")]
#[case("-m conntrack --ctorigdst 10.96.0.1 --ctorigdstport 80", "drop")]
#[case("-m conntrack --ctreplsrc 10.0.0.2 --ctreplsrcport 8080", "drop")]
#[case("-m conntrack --ctdir REPLY", "drop")]
#[case("-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT", "accept")]
#[case("-m connmark --mark 0x7", "drop")]
fn a_reply_is_known_by_its_connection(#[case] conditions: &str, #[case] outcome: &str) {
    let first = tcp("10.0.0.1", "10.96.0.1", 80);
    let mut connection = Connection::new(first.tuple());
    connection.bind_destination(address("10.0.0.2"), 8080);
    connection.mark = 7;
    let packet = Packet {
        transport: Transport::Tcp { source: 8080, destination: 40_000, flags: 18 },
        ..tcp("10.0.0.2", "10.0.0.1", 0)
    };
    let tracking = Tracking::established(connection, Direction::Reply);
    assert_eq!(dropped(conditions, &packet, tracking, &machine()), outcome);
}

#[rstest]
#[case(Tracking::Invalid, "INVALID")]
#[case(Tracking::Untracked, "UNTRACKED")]
fn packets_without_a_connection_have_states(#[case] tracking: Tracking, #[case] state: &str) {
    for known in ["INVALID", "UNTRACKED", "NEW", "ESTABLISHED", "DNAT"] {
        let expected = if known == state { "drop" } else { "accept" };
        assert_eq!(dropped(&format!("-m conntrack --ctstate {known}"), &forwarded(), tracking, &machine()), expected);
    }
    // Without a connection the other options have nothing to compare with.
    assert_eq!(dropped("-m conntrack --ctproto tcp", &forwarded(), tracking, &machine()), "accept");
    assert_eq!(dropped("-m connmark ! --mark 5", &forwarded(), tracking, &machine()), "accept");
    let with_state = format!("-m conntrack --ctstate {state} --ctproto udp");
    assert_eq!(dropped(&with_state, &forwarded(), tracking, &machine()), "drop");
}

#[test]
fn related_is_a_state() {
    let packet = forwarded();
    let connection = Connection::new(packet.tuple());
    let (direction, state) = (Direction::Reply, State::Related);
    let tracking = Tracking::Tracked(Tracked { connection, direction, state, attached: true });
    assert_eq!(dropped("-m conntrack --ctstate RELATED", &packet, tracking, &machine()), "drop");
}

/// The list L has 10.0.0.1, seen 5 and 50 seconds ago.
#[rstest]
#[case("--rcheck --name L", "drop")]
#[case("--rcheck --seconds 5 --name L", "drop")]
#[case("--rcheck --seconds 4 --name L", "accept")]
#[case("! --rcheck --seconds 4 --name L", "drop")]
#[case("--rcheck --seconds 10 --hitcount 2 --name L", "accept")]
#[case("--rcheck --seconds 50 --hitcount 2 --name L", "drop")]
#[case("--update --seconds 60 --reap --name L", "drop")]
#[case("--remove --name L", "drop")]
#[case("--set --name L", "drop")]
#[case("--rcheck --name M", "accept")]
#[case("--rcheck --name L --rdest", "accept")]
#[case("--rcheck --name N --mask 255.255.255.0", "drop")]
fn recent_asks_its_lists(#[case] options: &str, #[case] outcome: &str) {
    let packet = forwarded();
    let mut environment = machine();
    environment.recent.add("L", address("10.0.0.1"), 2);
    environment.recent.add("L", address("10.0.0.1"), 47);
    environment.recent.pass(3);
    environment.recent.add("N", address("10.0.0.0"), 0);
    let found = dropped(&format!("-m recent {options} --rsource"), &packet, Tracking::first(&packet), &environment);
    let found = if options.ends_with("--rdest") {
        dropped(&format!("-m recent {options}"), &packet, Tracking::first(&packet), &environment)
    } else {
        found
    };
    assert_eq!(found, outcome);
}

#[test]
fn recent_sees_what_the_same_packet_did() {
    let program = v4("*filter\n-A FORWARD -m recent --set --name L --mask 255.255.0.0\n\
                      -A FORWARD -m recent --rcheck --seconds 1 --name L --mask 255.255.0.0 -j MARK --set-mark 1\n\
                      -A FORWARD -m recent --remove --name L --mask 255.255.0.0\n\
                      -A FORWARD -m recent --rcheck --name L --mask 255.255.0.0 -j DROP\nCOMMIT\n");
    let branch = only_branch(&program, Hook::Forward, &forwarded());
    assert_eq!((branch.outcome, branch.packet.mark), (HookVerdict::Accept, 1));
    let (list, address) = ("L".into(), address("10.0.0.0"));
    let [list, again]: [std::sync::Arc<str>; 2] = [std::sync::Arc::clone(&list), list];
    let expected = [crate::walk::Effect::Add { list, address }, crate::walk::Effect::Remove { list: again, address }];
    assert_eq!(branch.effects.to_vec(), expected);
}

#[test]
fn what_fails_first_leaves_no_effect() {
    let program = v4("*filter\n-A FORWARD -p udp -m recent --set --name L -m udp -j DROP\nCOMMIT\n");
    assert!(only_branch(&program, Hook::Forward, &forwarded()).effects.is_empty());
    let program = v4("*filter\n-A FORWARD -p tcp -m recent --set --name L -m mark --mark 9 -j DROP\nCOMMIT\n");
    assert_eq!(only_branch(&program, Hook::Forward, &forwarded()).effects.len(), 1, "the mark is asked for later");
}

/// Whether the address is added to the list is unknown, and a later rule looks it up.
#[test]
fn an_effect_after_the_unknown_is_not_guessed() {
    let program = v4("*filter\n-A FORWARD -m owner --uid-owner 5 -m recent --set --name L\n\
                      -A FORWARD -m recent --rcheck --name L -j DROP\nCOMMIT\n");
    let branch = only_branch(&program, Hook::Forward, &forwarded());
    assert_eq!((word(&branch.outcome), branch.effects.len()), ("unknown", 0));
}

#[rstest]
#[case("-m limit --limit 5/min -p tcp", Assumptions::BELOW_LIMIT)]
#[case("-m limit --limit 5/min -m mark --mark 9", Assumptions::NONE)]
#[case("-m limit --limit 5/min -m recent --set --name L -m mark --mark 9", Assumptions::BELOW_LIMIT)]
fn a_limit_is_assumed_where_something_depends_on_it(#[case] conditions: &str, #[case] assumed: Assumptions) {
    let program = v4(&format!("*filter\n-A FORWARD {conditions} -j DROP\nCOMMIT\n"));
    assert_eq!(only_branch(&program, Hook::Forward, &forwarded()).assumptions, assumed);
}
