//! SCTP packets (RFC 9260), which etherparse does not support: common header, first chunk, CRC32c.

use super::{Chunk, Init, Sctp};

/// Ports, verification tag, checksum.
pub(super) const HEADER: usize = 12;
/// The place of the checksum.
pub(super) const CHECKSUM: std::ops::Range<usize> = 8..12;

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
/// The length of an INIT chunk without parameters, including its four-byte chunk header.
const INIT_LEN: usize = 20;
/// The parameter "state cookie" (type 7) with eight bytes of content, which an INIT ACK must have.
const STATE_COOKIE: [u8; 12] = *b"\x00\x07\x00\x0csvclab\0\0";

/// Parses a packet; `None` if not even the common header is complete.
pub(super) fn read(bytes: &[u8]) -> Option<Sctp> {
    let header: &[u8; HEADER] = bytes.first_chunk()?;
    let chunk = bytes[HEADER..].first_chunk::<4>().map(|&[kind, ..]| match (kind, read_init(&bytes[HEADER..])) {
        (INIT, Some(init)) => Chunk::Init(init),
        (INIT_ACK, Some(init)) => Chunk::InitAck(init),
        (ABORT, _) => Chunk::Abort,
        _ => Chunk::Other(kind),
    });
    Some(Sctp {
        source_port: u16::from_be_bytes([header[0], header[1]]),
        destination_port: u16::from_be_bytes([header[2], header[3]]),
        verification_tag: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        chunk,
    })
}

fn read_init(chunk: &[u8]) -> Option<Init> {
    let c: &[u8; INIT_LEN] = chunk.first_chunk()?;
    Some(Init {
        initiate_tag: u32::from_be_bytes([c[4], c[5], c[6], c[7]]),
        receiver_window: u32::from_be_bytes([c[8], c[9], c[10], c[11]]),
        outbound_streams: u16::from_be_bytes([c[12], c[13]]),
        inbound_streams: u16::from_be_bytes([c[14], c[15]]),
        initial_tsn: u32::from_be_bytes([c[16], c[17], c[18], c[19]]),
    })
}

/// Writes a packet with its checksum.
pub(super) fn write(sctp: &Sctp) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + INIT_LEN + STATE_COOKIE.len());
    bytes.extend(sctp.source_port.to_be_bytes());
    bytes.extend(sctp.destination_port.to_be_bytes());
    bytes.extend(sctp.verification_tag.to_be_bytes());
    bytes.extend([0; 4]);
    match &sctp.chunk {
        Some(Chunk::Init(init)) => write_init(&mut bytes, INIT, init, &[]),
        Some(Chunk::InitAck(init)) => write_init(&mut bytes, INIT_ACK, init, &STATE_COOKIE),
        Some(Chunk::Abort) => bytes.extend([ABORT, 0, 0, 4]),
        Some(Chunk::Other(kind)) => bytes.extend([*kind, 0, 0, 4]),
        None => {}
    }
    let checksum = checksum(&bytes);
    bytes[CHECKSUM].copy_from_slice(&checksum);
    bytes
}

fn write_init(bytes: &mut Vec<u8>, kind: u8, init: &Init, parameters: &[u8]) {
    bytes.extend([kind, 0, 0, (INIT_LEN + parameters.len()) as u8]);
    bytes.extend(init.initiate_tag.to_be_bytes());
    bytes.extend(init.receiver_window.to_be_bytes());
    bytes.extend(init.outbound_streams.to_be_bytes());
    bytes.extend(init.inbound_streams.to_be_bytes());
    bytes.extend(init.initial_tsn.to_be_bytes());
    bytes.extend(parameters);
}

/// The checksum as on the wire: CRC32c over the packet with a zero checksum field, stored with its least significant
/// byte first (RFC 9260, appendix A). The packet has at least a common header.
pub(super) fn checksum(packet: &[u8]) -> [u8; 4] {
    let crc = crc32c::crc32c(&packet[..CHECKSUM.start]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &packet[CHECKSUM.end..]).to_le_bytes()
}
