//! The packet that a trace belongs to.

use serde::{Deserialize, Serialize};

/// The position of a packet in a traced flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Passage {
    /// The first packet.
    There,
    /// A packet to the sender: a reply or a rejection.
    Back,
}

/// The traced packet: its protocol, and the first bytes after the IP header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    protocol: u8,
    transport: Vec<u8>,
}

const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

impl Header {
    /// Parses an IP packet, which may be truncated after its first bytes.
    pub(super) fn read(packet: &[u8]) -> Option<Self> {
        let length = match packet.first()? >> 4 {
            4 => usize::from(packet[0] & 0x0f) * 4,
            6 => 40,
            _ => return None,
        };
        let (network, transport) = packet.split_at_checked(length)?;
        Self::of(network, transport)
    }

    /// Parses the two headers of a packet.
    pub(super) fn of(network: &[u8], transport: &[u8]) -> Option<Self> {
        let protocol = match network.first()? >> 4 {
            4 => *network.get(9)?,
            6 => *network.get(6)?,
            _ => return None,
        };
        Some(Self { protocol, transport: transport.to_vec() })
    }

    /// Whether it accepts a connection: a SYN-ACK.
    pub(super) fn accepts(&self) -> bool {
        self.protocol == 6 && self.transport.get(13).is_some_and(|flags| flags & (SYN | ACK) == SYN | ACK)
    }

    /// Its position in the flow, if it is part of the flow. A reset before any reply is a rejection; after one, it is
    /// the sender's.
    pub(super) fn passage(&self, is_answered: bool) -> Option<Passage> {
        let byte = |at: usize| self.transport.get(at).copied();
        match self.protocol {
            6 => {
                let flags = byte(13)?;
                match (flags & SYN != 0, flags & ACK != 0, flags & RST != 0) {
                    (true, false, _) => Some(Passage::There),
                    (true, true, _) => Some(Passage::Back),
                    (false, _, true) if !is_answered => Some(Passage::Back),
                    _ => None,
                }
            }
            17 => {
                let payload = self.transport.get(8..)?;
                if crate::wire::is_request(payload) {
                    Some(Passage::There)
                } else {
                    crate::wire::is_answer(payload).then_some(Passage::Back)
                }
            }
            // INIT; INIT ACK, ABORT.
            132 => match byte(12)? {
                1 => Some(Passage::There),
                2 | 6 => Some(Passage::Back),
                _ => None,
            },
            // Destination unreachable; for IPv6, an unknown protocol is a parameter problem.
            1 if byte(0)? == 3 => Some(Passage::Back),
            58 if matches!(byte(0)?, 1 | 4) => Some(Passage::Back),
            _ => None,
        }
    }
}
