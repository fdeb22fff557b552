//! Captured frames as a pcapng file, for Wireshark and tshark.

use std::borrow::Cow;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::{DataLink, PcapError};

use crate::observation::{Capture, Direction};

/// Time stamps in 10^-9 s (if_tsresol of the pcapng specification).
const NANOSECONDS: u8 = 9;

/// Writes frames in the order of their time stamps. Each interface of each namespace is an interface of the file: `node/worker eth0`.
///
/// # Errors
///
/// In practice none, because it writes to memory.
pub fn render(captures: &[Capture]) -> Result<Vec<u8>, PcapError> {
    let mut ordered: Vec<&Capture> = captures.iter().collect();
    ordered.sort_by_key(|capture| capture.time);
    let mut interfaces: Vec<(&str, &str)> = Vec::new();
    let mut writer = PcapNgWriter::new(Vec::new())?;
    for capture in ordered {
        let interface = (capture.place.as_str(), capture.interface.as_str());
        let known = interfaces.iter().position(|candidate| *candidate == interface);
        let id = known.unwrap_or(interfaces.len());
        if known.is_none() {
            interfaces.push(interface);
            writer.write_pcapng_block(described(interface))?;
        }
        writer.write_pcapng_block(EnhancedPacketBlock {
            interface_id: u32::try_from(id).unwrap_or(u32::MAX),
            timestamp: capture.time,
            original_len: u32::try_from(capture.frame.len()).unwrap_or(u32::MAX),
            data: Cow::Borrowed(&capture.frame),
            options: options(capture),
        })?;
    }
    Ok(writer.into_inner())
}

/// The packet's direction, and the test and probe that it belongs to.
fn options(capture: &Capture) -> Vec<EnhancedPacketOption<'_>> {
    let flags = EnhancedPacketOption::Flags(match capture.direction {
        Direction::In => 1,
        Direction::Out => 2,
    });
    let comment = capture.comment.as_deref().map(|text| EnhancedPacketOption::Comment(Cow::Borrowed(text)));
    comment.into_iter().chain([flags]).collect()
}

fn described((place, interface): (&str, &str)) -> InterfaceDescriptionBlock<'static> {
    InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: 0,
        options: vec![
            InterfaceDescriptionOption::IfName(Cow::Owned(format!("{place} {interface}"))),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;

    fn capture(place: &str, nanoseconds: u64, byte: u8) -> Capture {
        Capture {
            place: place.to_owned(),
            interface: "eth0".to_owned(),
            direction: Direction::Out,
            time: Duration::new(1_700_000_000, 0) + Duration::from_nanos(nanoseconds),
            comment: Some("a test: pod/a > pod/b".into()),
            frame: vec![byte; 60],
        }
    }

    #[test]
    fn frames_are_read_back_in_the_order_of_time() {
        let captures = [capture("node/b", 7, 2), capture("node/a", 3, 1), capture("node/b", 9, 3)];
        let file = render(&captures).expect("a file");
        let mut reader = PcapNgReader::new(file.as_slice()).expect("a header");
        let mut read = Vec::new();
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.expect("a block") {
                let is_comment = |option: &&EnhancedPacketOption<'_>| matches!(option, EnhancedPacketOption::Comment(text) if text.starts_with("a test: "));
                assert_eq!(packet.options.iter().filter(is_comment).count(), 1);
                read.push((packet.interface_id, packet.timestamp.subsec_nanos(), packet.data[0]));
            }
        }
        assert_eq!(read, [(0, 3, 1), (1, 7, 2), (1, 9, 3)]);
    }
}
