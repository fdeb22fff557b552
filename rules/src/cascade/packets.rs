//! The connections that a cascade is walked with: one that represents most, and those that rules may handle differently.

use std::net::IpAddr;

use crate::chains::Frontend;
use crate::cluster::{Family, Protocol};
use crate::walk::{Edges, Environment, Interface, Packet, Transport, address_from_bits};

/// Maximum number of packets that are tried.
const MAX: usize = 256;

/// First packets of connections.
pub(super) struct Packets {
    /// The packet that represents most: from an outside client to the first frontend.
    pub(super) main: Packet,
    /// One packet of every other kind that rules may distinguish.
    pub(super) others: Vec<Packet>,
    /// Whether some kinds are left out because there are too many.
    pub(super) is_cut: bool,
}

/// Returns a source address that hardly any rule matches, and the node's own address.
fn addresses(family: Family) -> (IpAddr, IpAddr) {
    match family {
        Family::Ipv4 => ([203, 0, 113, 77].into(), [198, 18, 0, 1].into()),
        Family::Ipv6 => ([0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 0x77].into(), [0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1].into()),
    }
}

/// The input interface of packets if no rule matches one.
const INPUT: &str = "uplink0";
const SOURCE_PORT: u16 = 40_000;

/// A node without recorded clients.
pub(super) fn machine(family: Family) -> Environment {
    let mut environment = Environment::default();
    let interface = Interface::new(INPUT).unwrap_or(Interface::LOOPBACK);
    environment.addresses.assign(addresses(family).1, interface);
    environment
}

/// Returns the packets for a cascade with these frontends; `protocol` is used if it has none.
pub(super) fn packets(family: Family, protocol: Protocol, frontends: &[Frontend], edges: &Edges) -> Packets {
    let (client, own) = addresses(family);
    let target = |frontend: &Frontend| (frontend.protocol.number(), frontend.address.unwrap_or(own), frontend.port);
    let mut targets: Vec<(u8, IpAddr, u16)> = frontends.iter().map(target).collect();
    targets.sort_by_key(|(number, ..)| *number != protocol.number());
    if targets.is_empty() {
        targets.push((protocol.number(), client, 80));
        let (_, address, port) = targets[0];
        targets
            .extend(edges.destinations.iter().map(|bits| (protocol.number(), address_from_bits(*bits, family), port)));
        targets.extend(edges.destination_ports.iter().map(|port| (protocol.number(), address, *port)));
    }
    let node_port = frontends.iter().find(|frontend| frontend.address.is_none());
    if let Some(frontend) = node_port {
        let of = |bits: &u128| (frontend.protocol.number(), address_from_bits(*bits, family), frontend.port);
        targets.extend(edges.destinations.iter().map(of));
    }
    let asks_target = !edges.destinations.is_empty()
        || !edges.destination_ports.is_empty()
        || edges.local_destination
        || targets.iter().any(|(number, ..)| *number != protocol.number());
    if !asks_target {
        targets.truncate(1);
    }
    let local = edges.local_source.then_some(own);
    let sources = edges.sources.iter().map(|bits| address_from_bits(*bits, family));
    let sources: Vec<IpAddr> = std::iter::once(client).chain(local).chain(sources).collect();
    let ports: Vec<u16> = std::iter::once(SOURCE_PORT).chain(edges.source_ports.iter().copied()).collect();
    let inputs: Vec<Option<Interface>> =
        std::iter::once(Interface::new(INPUT)).chain(edges.inputs.iter().map(|bits| interface(*bits))).collect();
    let outputs: Vec<Option<Interface>> =
        std::iter::once(None).chain(edges.outputs.iter().map(|bits| interface(*bits))).collect();
    let marks: Vec<u32> = std::iter::once(0).chain(edges.marks.iter().copied().filter(|mark| *mark != 0)).collect();
    let mut all = Vec::new();
    'all: for &(number, destination, port) in &targets {
        for &output in &outputs {
            for &input in &inputs {
                for (&mark, &source_port) in marks.iter().flat_map(|mark| ports.iter().map(move |port| (mark, port))) {
                    for &source in &sources {
                        if all.len() > MAX {
                            break 'all;
                        }
                        let transport = opening(number, source_port, port);
                        all.push(Packet { input, output, mark, ..Packet::new(source, destination, transport) });
                    }
                }
            }
        }
    }
    let is_cut = all.len() > MAX;
    let others = all.split_off(1.min(all.len()));
    let main = all.pop().unwrap_or_else(|| Packet::new(client, own, opening(protocol.number(), SOURCE_PORT, 80)));
    Packets { main, others, is_cut }
}

fn opening(number: u8, source: u16, destination: u16) -> Transport {
    Protocol::from_number(number)
        .map_or(Transport::Other(number), |protocol| Transport::opening(protocol, source, destination))
}

/// Decodes an interface name from its number in [`Edges`].
fn interface(bits: u128) -> Option<Interface> {
    let bytes = bits.to_be_bytes();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    // A pattern may have no letter; then any name matches.
    Interface::new(std::str::from_utf8(&bytes[..end]).ok()?)
}

/// Describes how a packet differs from the main one: `from 10.0.0.1`, `udp to 10.96.0.10:53`.
pub(super) fn difference(packet: &Packet, main: &Packet) -> String {
    let mut words: Vec<String> = Vec::new();
    if packet.source != main.source {
        words.push(format!("from {}", packet.source));
    }
    let (own, others) = (packet.tuple(), main.tuple());
    if own.source_port != others.source_port {
        words.push(format!("from port {}", own.source_port));
    }
    let target = |packet: &Packet| (packet.transport.protocol(), packet.destination, packet.tuple().destination_port);
    if target(packet) != target(main) {
        let name = Protocol::from_number(own.protocol);
        let name = name.map_or("another protocol", |name| name.as_str());
        words.push(format!("by {name} to {}", std::net::SocketAddr::new(own.destination, own.destination_port)));
    }
    if let Some(input) = packet.input.filter(|_| packet.input != main.input) {
        words.push(format!("that comes in by {input}"));
    }
    if let Some(output) = packet.output.filter(|_| packet.output != main.output) {
        words.push(format!("that goes out by {output}"));
    }
    if packet.mark != main.mark {
        words.push(format!("with mark {:#x}", packet.mark));
    }
    words.join(" ")
}
