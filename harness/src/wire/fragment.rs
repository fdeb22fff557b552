//! Fragmentation of packets for a small MTU, and reassembly.

use std::collections::HashMap;
use std::net::IpAddr;

use etherparse::{IpFragOffset, Ipv4Header, Ipv6FragmentHeader, Ipv6Header, ip_number};

use super::decode::transport_of;
use super::{Fragment, Packet, Transport};

/// Splits an IP packet without options or extension headers into fragments of at most this many bytes. A packet that fits, and anything
/// that is not an IP packet, is returned unchanged.
pub(crate) fn split(packet: Vec<u8>, mtu: u16, identification: u32) -> Vec<Vec<u8>> {
    let mtu = usize::from(mtu);
    if packet.len() <= mtu {
        return vec![packet];
    }
    let Some(parts) = (match packet.first().map(|byte| byte >> 4) {
        Some(4) => split_ipv4(&packet, mtu, identification),
        Some(6) => split_ipv6(&packet, mtu, identification),
        _ => None,
    }) else {
        return vec![packet];
    };
    parts
}

/// The unit of offsets: the content of all fragments except the last is a multiple of it.
const UNIT: usize = 8;

/// The parts of a content, each with its offset in units and the "more fragments" flag.
fn parts(content: &[u8], room: usize) -> impl Iterator<Item = (u16, bool, &[u8])> {
    let size = (room / UNIT).max(1) * UNIT;
    let last = content.len().div_ceil(size).saturating_sub(1);
    content.chunks(size).enumerate().map(move |(index, part)| {
        let units = u16::try_from(index * size / UNIT).unwrap_or(u16::MAX);
        (units, index < last, part)
    })
}

fn split_ipv4(packet: &[u8], mtu: usize, identification: u32) -> Option<Vec<Vec<u8>>> {
    let (header, content) = Ipv4Header::from_slice(packet).ok()?;
    let fragment = |(offset, more, part): (u16, bool, &[u8])| {
        let mut own = header.clone();
        own.identification = identification as u16;
        own.dont_fragment = false;
        own.more_fragments = more;
        own.fragment_offset = IpFragOffset::try_new(offset).ok()?;
        own.set_payload_len(part.len()).ok()?;
        own.header_checksum = own.calc_header_checksum();
        Some([own.to_bytes().as_slice(), part].concat())
    };
    parts(content, mtu.saturating_sub(Ipv4Header::MIN_LEN)).map(fragment).collect()
}

fn split_ipv6(packet: &[u8], mtu: usize, identification: u32) -> Option<Vec<Vec<u8>>> {
    let (header, content) = Ipv6Header::from_slice(packet).ok()?;
    let fragment = |(offset, more, part): (u16, bool, &[u8])| {
        let own =
            Ipv6FragmentHeader::new(header.next_header, IpFragOffset::try_new(offset).ok()?, more, identification);
        let mut outer = header.clone();
        outer.next_header = ip_number::IPV6_FRAGMENTATION_HEADER;
        outer.set_payload_length(Ipv6FragmentHeader::LEN + part.len()).ok()?;
        Some([outer.to_bytes().as_slice(), &own.to_bytes(), part].concat())
    };
    parts(content, mtu.saturating_sub(Ipv6Header::LEN + Ipv6FragmentHeader::LEN)).map(fragment).collect()
}

/// The key that the fragments of a packet have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Whole {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    identification: u32,
}

impl Whole {
    fn of(packet: &Packet) -> Option<(Self, &Fragment)> {
        let Transport::Fragment(fragment) = &packet.transport else { return None };
        let Fragment { protocol, identification, .. } = *fragment;
        Some((Self { source: packet.source, destination: packet.destination, protocol, identification }, fragment))
    }
}

/// The incomplete packets of receivers, which are identified by a number.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    parts: HashMap<(usize, Whole), Vec<Fragment>>,
}

/// The maximum number of fragments that are kept: far more than are in flight at the same time.
const MOST: usize = 4096;

impl Reassembly {
    /// Adds a packet that a receiver got. Returns the whole packet, and the number of its fragments, as soon as it is complete; an
    /// unfragmented packet is returned at once.
    pub(crate) fn take(&mut self, receiver: usize, packet: &Packet) -> Option<(Packet, u16)> {
        let Some((whole, fragment)) = Whole::of(packet) else { return Some((packet.clone(), 1)) };
        if self.parts.len() > MOST {
            // Discard incomplete packets.
            self.parts.clear();
        }
        let parts = self.parts.entry((receiver, whole)).or_default();
        // A link may deliver a fragment twice.
        if parts.iter().all(|part| part.offset != fragment.offset) {
            parts.push(fragment.clone());
            parts.sort_by_key(|part| part.offset);
        }
        let mut content: Vec<u8> = Vec::new();
        for part in parts.iter() {
            if part.offset != content.len() {
                return None;
            }
            content.extend(&part.content);
        }
        if parts.last().is_none_or(|last| last.more) {
            return None;
        }
        let count = u16::try_from(parts.len()).unwrap_or(u16::MAX);
        self.parts.remove(&(receiver, whole));
        let transport = transport_of(fragment.protocol, &content, packet.source.is_ipv4());
        Some((Packet { transport, ..packet.clone() }, count))
    }
}

/// The keys of the packets that fragments belong to.
#[derive(Debug, Default)]
pub(crate) struct FragmentKeys(HashMap<Whole, u32>);

impl FragmentKeys {
    /// The key of a packet's tag: see [`Packet::key`]. For a fragment, it is that of the whole packet, once its first fragment has been
    /// seen.
    pub(crate) fn key(&mut self, packet: &Packet) -> Option<u32> {
        let Some((whole, fragment)) = Whole::of(packet) else { return packet.key() };
        if fragment.offset > 0 {
            return self.0.get(&whole).copied();
        }
        if self.0.len() > MOST {
            self.0.clear();
        }
        let key = packet.begun()?.key()?;
        self.0.insert(whole, key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::wire::{Flow, Tag, probe};

    #[rstest]
    #[case::ipv4("10.244.1.2:33000", "10.96.0.53:53")]
    #[case::ipv6("[fd00::2]:33000", "[fd00::53]:53")]
    fn fragments_are_put_together_in_any_order(
        #[case] from: &str,
        #[case] to: &str,
        #[values((3000, 1400, 3), (3000, 1280, 3), (1500, 1499, 2), (1280, 1280, 1), (9000, 1280, 8))] sizes: (
            u16,
            u16,
            u16,
        ),
        #[values(false, true)] backwards: bool,
    ) {
        let (size, mtu, number) = sizes;
        let flow = Flow::udp(from.parse().unwrap(), to.parse().unwrap());
        let whole = probe(&flow, Tag::new(7)).with_size(size);
        let mut parts = split(whole.encode().unwrap(), mtu, 77);
        assert_eq!(parts.len(), usize::from(number));
        assert!(parts.iter().all(|part| part.len() <= usize::from(mtu)));
        if backwards {
            parts.reverse();
        }
        let mut reassembly = Reassembly::default();
        let mut came: Vec<(Packet, u16)> = Vec::new();
        for part in &parts {
            came.extend(reassembly.take(1, &Packet::decode(part).unwrap()));
            assert_eq!(
                reassembly.take(2, &Packet::decode(part).unwrap()).is_some(),
                came.len() == 1,
                "receivers are apart"
            );
        }
        assert_eq!(came.len(), 1);
        assert_eq!((&came[0].0.transport, came[0].1), (&whole.transport, number));
        assert!(reassembly.parts.is_empty());
    }

    #[test]
    fn a_fragment_belongs_to_the_packet_of_its_first() {
        let flow = Flow::udp("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let whole = probe(&flow, Tag::new(9)).with_size(3000);
        let parts: Vec<Packet> =
            split(whole.encode().unwrap(), 1400, 5).iter().map(|part| Packet::decode(part).unwrap()).collect();
        let mut keys = FragmentKeys::default();
        assert_eq!(keys.key(&parts[1]), None, "its first has not been seen");
        let expected = vec![whole.key(); 3];
        assert_eq!(parts.iter().map(|part| keys.key(part)).collect::<Vec<_>>(), expected);
        assert!(expected[0].is_some());
    }
}
