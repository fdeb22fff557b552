//! Properties of frames, and descriptions of packets.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use rstest::rstest;
use svclab_rules::cluster::{Family, Protocol};

use super::checksum::{checksum_errors, checksum_errors_ip};
use super::decode::DecodeError;
use super::peek::{FlowKey, peek_ip};
use super::*;

const CLIENT_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const POD_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn frame(packet: Packet) -> Frame {
    Frame { source: CLIENT_MAC, destination: POD_MAC, packet }
}

/// An ICMP error about a packet.
fn error(by: &str, icmp_type: u8, code: u8, quoted: Packet) -> Packet {
    let error = IcmpError { icmp_type, code, mtu: None, quoted: Some(Box::new(quoted.clone())) };
    let source: IpAddr = by.parse().unwrap();
    Packet {
        source,
        destination: quoted.source,
        ttl: 64,
        may_fragment: false,
        transport: Transport::Icmp(Icmp::Error(error)),
    }
}

fn vxlan(packet: Packet) -> Packet {
    let vxlan = Vxlan { source_port: 51234, destination_port: 8472, vni: 1, inner: Some(Box::new(frame(packet))) };
    let (source, destination) = ("172.18.0.2".parse().unwrap(), "172.18.0.3".parse().unwrap());
    Packet { source, destination, ttl: 64, may_fragment: false, transport: Transport::Vxlan(vxlan) }
}

fn some_flow() -> Flow {
    Flow::tcp(at("10.244.1.3:37328"), at("10.96.34.82:80"))
}

fn tag() -> Tag {
    Tag::new(0x1234_5678_9abc)
}

prop_compose! {
    fn any_address(family: Family)(bits in any::<u128>(), port in any::<u16>()) -> SocketAddr {
        let ip = match family {
            Family::Ipv4 => IpAddr::from((bits as u32).to_be_bytes()),
            Family::Ipv6 => IpAddr::from(bits.to_be_bytes()),
        };
        SocketAddr::new(ip, port)
    }
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let family = prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)];
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp), Just(Protocol::Sctp)];
    (family, protocol).prop_flat_map(|(family, protocol)| {
        (any_address(family), any_address(family)).prop_map(move |(source, destination)| Flow {
            protocol,
            source,
            destination,
        })
    })
}

fn any_tag() -> impl Strategy<Value = Tag> {
    (0..=Tag::MAX.get()).prop_map(Tag::new)
}

/// Packets of every kind: probes, answers, errors about them, and all of it inside VXLAN.
fn any_packet() -> impl Strategy<Value = Packet> {
    (any_flow(), any_tag(), 0..4_u8, any::<bool>()).prop_map(|(flow, tag, kind, in_vxlan)| {
        let request = probe(&flow, tag);
        let by = if flow.source.is_ipv4() { "172.18.0.2" } else { "fd00::2" };
        let (icmp_type, code) = if flow.source.is_ipv4() { (3, 3) } else { (1, 4) };
        let packet = match kind {
            0 => request,
            1 => answer(&request).unwrap_or(request),
            2 => error(by, icmp_type, code, request),
            _ => {
                let echo = Echo { identifier: flow.source.port(), sequence: 1, payload: vec![7; 9] };
                Packet { transport: Transport::Icmp(Icmp::EchoRequest(echo)), ..request }
            }
        };
        if in_vxlan { vxlan(packet) } else { packet }
    })
}

proptest! {
    #[test]
    fn a_packet_survives_the_wire(packet in any_packet()) {
        let bytes = packet.encode().unwrap();
        prop_assert_eq!(checksum_errors_ip(&bytes), vec![]);
        prop_assert_eq!(Packet::decode(&bytes).unwrap(), packet.clone());

        let framed = frame(packet);
        let bytes = framed.encode().unwrap();
        prop_assert_eq!(checksum_errors(&bytes), vec![]);
        prop_assert_eq!(Frame::decode(&bytes).unwrap(), framed);
    }

    #[test]
    fn a_template_writes_what_the_encoder_writes(flow in any_flow(), tag in any_tag()) {
        let expected = frame(probe(&flow, tag)).encode().unwrap();
        let template = Template::frame(CLIENT_MAC, POD_MAC, flow.destination, flow.protocol).unwrap();
        let mut buffer = [0xaa; Template::MAX_LEN];
        let len = template.fill(flow.source, tag, &mut buffer).unwrap();
        prop_assert_eq!(&buffer[..len], &expected[..]);

        let template = Template::packet(flow.destination, flow.protocol).unwrap();
        let len = template.fill(flow.source, tag, &mut buffer).unwrap();
        prop_assert_eq!(&buffer[..len], &expected[14..]);
    }

    #[test]
    fn a_peek_sees_flow_and_tag_of_probe_and_answer(flow in any_flow(), tag in any_tag()) {
        let request = probe(&flow, tag);
        let key = peek(&frame(request.clone()).encode().unwrap());
        prop_assert_eq!(key, Some(FlowKey { flow, content: Content::Request(tag) }));
        prop_assert_eq!(request.tag(), Some(tag));

        if let Some(answer) = answer(&request) {
            let key = peek_ip(&answer.encode().unwrap());
            prop_assert_eq!(key, Some(FlowKey { flow: flow.reversed(), content: Content::Answer(tag) }));
            prop_assert_eq!(answer.tag(), Some(tag));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survive(&bytes);
    }

    #[test]
    fn no_damaged_frame_makes_it_panic(
        packet in any_packet(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = frame(packet).encode().unwrap();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        survive(&bytes);
    }

    #[test]
    fn one_flipped_bit_is_found(packet in any_packet(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        // Only the transport of a bare packet: a flipped bit in a header's length would leave nothing to check.
        let mut bytes = packet.encode().unwrap();
        let start = if packet.source.is_ipv4() { 28 } else { 48 };
        let at = start + at.index(bytes.len() - start);
        bytes[at] ^= 1 << bit;
        prop_assert!(!checksum_errors_ip(&bytes).is_empty());
    }
}

/// Decodes the bytes in every way. Whatever can be decoded can be described, answered and encoded.
fn survive(bytes: &[u8]) {
    let _ = (checksum_errors(bytes), checksum_errors_ip(bytes));
    for packet in [Frame::decode(bytes).map(|frame| frame.packet), Packet::decode(bytes)].into_iter().flatten() {
        assert!(!packet.to_string().is_empty());
        let _ = (packet.tag(), packet.encode(), rejection(&packet, &some_flow()));
        assert!(answer(&packet).is_none_or(|answer| super::answer(&answer).is_none()), "an answer is answered");
    }
    for key in [peek(bytes), peek_ip(bytes)].into_iter().flatten() {
        assert_eq!(key.flow, key.flow.reversed().reversed());
    }
}

#[rstest]
#[case::syn(probe(&some_flow(), tag()), "10.244.1.3:37328 > 10.96.34.82:80 tcp [S]")]
#[case::ipv6(
    probe(&Flow::udp(at("[fd00::3]:4000"), at("[fd00:96::1]:53")), tag()),
    "[fd00::3]:4000 > [fd00:96::1]:53 udp"
)]
#[case::sctp(
    probe(&Flow::sctp(at("10.244.1.3:4000"), at("10.96.0.1:99")), tag()),
    "10.244.1.3:4000 > 10.96.0.1:99 sctp [INIT]"
)]
#[case::icmp(
    error("172.18.0.2", 3, 3, probe(&Flow::udp(at("10.244.1.3:4000"), at("10.96.0.1:80")), tag())),
    "ICMP 172.18.0.2 > 10.244.1.3: port unreachable (type 3, code 3) for 10.244.1.3:4000 > 10.96.0.1:80 udp"
)]
#[case::icmpv6(
    error("fd00::2", 1, 1, probe(&Flow::tcp(at("[fd00::3]:4000"), at("[fd00:96::1]:80")), tag())),
    "ICMPv6 fd00::2 > fd00::3: admin prohibited (type 1, code 1) for [fd00::3]:4000 > [fd00:96::1]:80 tcp [S]"
)]
#[case::vxlan(
    vxlan(probe(&some_flow(), tag())),
    "172.18.0.2 > 172.18.0.3 vxlan 1: 10.244.1.3:37328 > 10.96.34.82:80 tcp [S]"
)]
fn packets_in_words(#[case] packet: Packet, #[case] words: &str) {
    assert_eq!(packet.to_string(), words);
    assert_eq!(Packet::decode(&packet.encode().unwrap()).unwrap().to_string(), words);
}

#[rstest]
#[case(Protocol::Tcp, "10.96.34.82:80 > 10.244.1.3:37328 tcp [S.]")]
#[case(Protocol::Udp, "10.96.34.82:80 > 10.244.1.3:37328 udp")]
#[case(Protocol::Sctp, "10.96.34.82:80 > 10.244.1.3:37328 sctp [INIT ACK]")]
fn a_pod_answers_once(#[case] protocol: Protocol, #[case] words: &str) {
    let request = probe(&Flow { protocol, ..some_flow() }, tag());
    let reply = answer(&request).unwrap();
    assert_eq!(reply.to_string(), words);
    assert_eq!(reply.tag(), Some(tag()));
    assert_eq!(answer(&reply), None);
}

#[test]
fn data_and_fin_are_acknowledged() {
    let mut packet = probe(&some_flow(), tag());
    let Transport::Tcp(tcp) = &mut packet.transport else { panic!("a TCP probe is TCP") };
    tcp.flags = TcpFlags::FIN.with(TcpFlags::ACK);
    tcp.payload = b"GET /".to_vec();
    let expected = tcp.sequence + 6;
    let Some(Packet { transport: Transport::Tcp(reply), .. }) = answer(&packet) else { panic!("no answer") };
    assert_eq!((reply.flags.to_string().as_str(), reply.acknowledgment), (".", expected));
}

#[test]
fn a_foreign_datagram_is_echoed_behind_a_mark() {
    let udp = Udp { source_port: 1, destination_port: 53, payload: b"hello".to_vec() };
    let packet = Packet { transport: Transport::Udp(udp), ..probe(&some_flow(), tag()) };
    let reply = answer(&packet).unwrap();
    let Transport::Udp(echo) = &reply.transport else { panic!("UDP is answered by UDP") };
    assert_eq!(echo.payload, b"svclab<<hello");
    assert_eq!(answer(&reply), None);
}

#[rstest]
#[case::multicast("224.0.0.1:80")]
#[case::broadcast("255.255.255.255:80")]
fn an_address_of_many_is_not_answered(#[case] destination: &str) {
    assert_eq!(answer(&probe(&Flow::udp(at("10.0.0.1:1"), at(destination)), tag())), None);
}

/// The segment that opens a flow.
fn opening() -> Tcp {
    match probe(&some_flow(), tag()).transport {
        Transport::Tcp(tcp) => tcp,
        other => panic!("{other:?} is no segment"),
    }
}

/// The segment or packet by which `flow`'s receiver rejects it.
fn rejected(flow: Flow) -> Packet {
    let mut packet = answer(&probe(&flow, tag())).unwrap();
    match &mut packet.transport {
        Transport::Tcp(tcp) => tcp.flags = TcpFlags::RST.with(TcpFlags::ACK),
        Transport::Sctp(sctp) => sctp.chunk = Some(Chunk::Abort),
        other => panic!("{other:?} has no rejection of its own"),
    }
    packet
}

#[rstest]
#[case::rst(rejected(some_flow()), some_flow(), RejectKind::TcpReset, "TCP [R.]")]
#[case::abort(
    rejected(Flow { protocol: Protocol::Sctp, ..some_flow() }),
    Flow { protocol: Protocol::Sctp, ..some_flow() },
    RejectKind::SctpAbort,
    "SCTP [ABORT]"
)]
#[case::port(
    error("172.18.0.2", 3, 3, probe(&some_flow(), tag())),
    some_flow(),
    RejectKind::PortUnreachable,
    "ICMP port unreachable (type 3, code 3)"
)]
#[case::other(
    error("172.18.0.2", 3, 13, probe(&some_flow(), tag())),
    some_flow(),
    RejectKind::OtherUnreachable,
    "ICMP admin prohibited (type 3, code 13)"
)]
#[case::icmpv6(
    error("fd00::2", 1, 4, probe(&Flow::udp(at("[fd00::3]:4000"), at("[fd00:96::1]:80")), tag())),
    Flow::udp(at("[fd00::3]:4000"), at("[fd00:96::1]:80")),
    RejectKind::PortUnreachable,
    "ICMPv6 port unreachable (type 1, code 4)"
)]
#[case::next_header(
    error("fd00::2", 4, 1, probe(&Flow::udp(at("[fd00::3]:4000"), at("[fd00:96::1]:80")), tag())),
    Flow::udp(at("[fd00::3]:4000"), at("[fd00:96::1]:80")),
    RejectKind::OtherUnreachable,
    "ICMPv6 unknown next header (type 4, code 1)"
)]
#[case::size(
    error("172.18.0.2", 3, 4, probe(&some_flow(), tag())),
    some_flow(),
    RejectKind::TooBig { mtu: 0 },
    "ICMP fragmentation needed (type 3, code 4)"
)]
fn rejections(#[case] packet: Packet, #[case] flow: Flow, #[case] kind: RejectKind, #[case] what: &str) {
    let found = rejection(&Packet::decode(&packet.encode().unwrap()).unwrap(), &flow);
    assert_eq!(found, Some(Rejection { kind, what: what.to_owned(), by: packet.source }));
}

#[rstest]
#[case::answer(answer(&probe(&some_flow(), tag())).unwrap())]
#[case::time(error("172.18.0.2", 11, 0, probe(&some_flow(), tag())))]
#[case::other_flow(error("172.18.0.2", 3, 3, probe(&some_flow().reversed(), tag())))]
#[case::own_reset(Packet { source: some_flow().source.ip(), destination: some_flow().destination.ip(), ..rejected(some_flow()) })]
#[case::later_segment(error("172.18.0.2", 3, 13, Packet {
    transport: Transport::Tcp(Tcp { flags: TcpFlags::ACK, ..opening() }), ..probe(&some_flow(), tag())
}))]
fn no_rejections(#[case] packet: Packet) {
    assert_eq!(rejection(&packet, &some_flow()), None);
}

#[test]
fn an_error_that_quotes_eight_bytes_names_the_ports() {
    let bytes = error("172.18.0.2", 3, 3, probe(&some_flow(), tag())).encode().unwrap();
    // Outer header, ICMP header, quoted header, eight bytes: the minimum that RFC 792 requires.
    let packet = Packet::decode(&bytes[..20 + 8 + 20 + 8]).unwrap();
    let words =
        "ICMP 172.18.0.2 > 10.244.1.3: port unreachable (type 3, code 3) for 10.244.1.3:37328 > 10.96.34.82:80 tcp";
    assert_eq!(packet.to_string(), words);
    assert_eq!(rejection(&packet, &some_flow()).unwrap().kind, RejectKind::PortUnreachable);
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Captured on the loopback interface of Linux 6.18, where the kernel leaves the TCP checksum unfinished.
const LINUX_SYN: &str = "4500003c dd164000 40065fa3 7f000001 7f000001 abf01f90 46c40ff0 00000000 a002ffd7 fe300000 \
                         0204ffd7 0402080a 07083de5 00000000 0103030a";

#[test]
fn a_syn_of_linux_is_decoded() {
    let bytes = from_hex(LINUX_SYN);
    let packet = Packet::decode(&bytes).unwrap();
    assert_eq!(packet.to_string(), "127.0.0.1:44016 > 127.0.0.1:8080 tcp [S]");
    let Transport::Tcp(tcp) = &packet.transport else { panic!("not TCP") };
    let timestamps = Some((0x0708_3de5, 0));
    let options = TcpOptions { maximum_segment_size: Some(65_495), selective_acknowledgments: true, timestamps };
    assert_eq!((tcp.sequence, tcp.window, tcp.options), (0x46c4_0ff0, 65_495, options));
    // Its sequence number has no key bit, so it cannot be mistaken for a probe.
    assert_eq!(peek_ip(&bytes).unwrap().content, Content::Other);
    let layers: Vec<_> = checksum_errors_ip(&bytes).into_iter().map(|error| error.layer).collect();
    assert_eq!(layers, ["TCP"]);
}

#[test]
fn nesting_has_an_end() {
    let mut packet = probe(&some_flow(), tag());
    for _ in 0..8 {
        packet = vxlan(packet);
    }
    let words = Packet::decode(&packet.encode().unwrap()).unwrap().to_string();
    assert_eq!(words, format!("{}not IP", "172.18.0.2 > 172.18.0.3 vxlan 1: ".repeat(4)));
}

#[test]
fn what_is_not_ip_is_named() {
    let mut arp = [0; 42];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    arp[14..20].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
    assert_eq!(Frame::decode(&arp).unwrap_err().to_string(), "not an IP packet (EtherType 0x0806)");
    assert!(matches!(Frame::decode(&arp[..9]), Err(DecodeError::Malformed(_))));
    assert_eq!(peek(&arp), None);
}

#[test]
fn mixed_families_and_short_buffers_are_rejected() {
    let flow = Flow::udp(at("10.0.0.1:1"), at("[fd00::1]:2"));
    assert!(matches!(probe(&flow, tag()).encode(), Err(EncodeError::MixedFamilies(..))));
    let template = Template::packet(flow.destination, Protocol::Udp).unwrap();
    let mut buffer = [0; Template::MAX_LEN];
    assert_eq!(template.fill(flow.source, tag(), &mut buffer), None);
    assert_eq!(template.fill(flow.destination, tag(), &mut buffer[..template.len() - 1]), None);
}

#[test]
fn a_wrong_checksum_is_shown_with_the_right_one() {
    let mut bytes = probe(&some_flow(), tag()).encode().unwrap();
    let right = u16::from_be_bytes([bytes[36], bytes[37]]);
    bytes[36..38].fill(0);
    let [error] = checksum_errors_ip(&bytes).try_into().unwrap();
    assert_eq!(error.to_string(), format!("TCP checksum is 0x0000, should be {right:#06x}"));
}
