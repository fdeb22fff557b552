//! Files of xz, whose blocks are unpacked at the same time: packages of Debian have one every 24 MiB.

use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread;

use flate2::Crc;
use lzma_rust2::XzReader;

/// The most bytes that a file may unpack to.
pub(super) const LIMIT: u64 = 2 << 30;

/// The parts of a stream around its blocks (The .xz File Format, 2.1.1 and 2.1.2): a header, and after the index a footer, with the
/// places in it of the index's size and of the flags, and what it ends with.
const HEADER: usize = 12;
const FOOTER: usize = 12;
const INDEX_SIZE: Range<usize> = 4..8;
const FLAGS: Range<usize> = 8..10;
const END: &[u8] = b"YZ";

/// The index of a file that is one stream.
#[derive(Debug)]
struct Index {
    /// Where it is: after the last block.
    at: usize,
    records: Vec<Record>,
}

/// What an index has of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    /// The size of the block, without the padding after it.
    packed: u64,
    /// The size of what it unpacks to.
    plain: u64,
}

/// A reader of what a file has. Its blocks are in memory whole where the index says that this is little, and several.
///
/// # Errors
///
/// If a block is damaged; other damage is found while the rest is read.
pub(super) fn plain(bytes: &[u8]) -> io::Result<Box<dyn Read + '_>> {
    match index(bytes).filter(|index| index.records.len() > 1).and_then(|index| streams(bytes, &index)) {
        Some(streams) => Ok(Box::new(Cursor::new(unpacked(&streams)?))),
        None => Ok(Box::new(XzReader::new(bytes, true))),
    }
}

/// The index at the end of a file.
fn index(bytes: &[u8]) -> Option<Index> {
    let (rest, footer) = bytes.split_at_checked(bytes.len().checked_sub(FOOTER)?)?;
    if !footer.ends_with(END) {
        return None;
    }
    let units = u32::from_le_bytes(footer[INDEX_SIZE].try_into().ok()?);
    let at = rest.len().checked_sub((usize::try_from(units).ok()? + 1).checked_mul(4)?)?;
    let (indicator, mut numbers) = rest[at..].split_first()?;
    let blocks = (*indicator == 0).then(|| number(&mut numbers)).flatten()?;
    let record = |_| Some(Record { packed: number(&mut numbers)?, plain: number(&mut numbers)? });
    Some(Index { at, records: (0..blocks).map(record).collect::<Option<_>>()? })
}

/// A number of an index: seven bits a byte, the lowest first, of which all but the last have the eighth.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// A block as a stream of its own, whose reader checks it as any.
struct Stream<'b> {
    parts: [&'b [u8]; 2],
    end: Vec<u8>,
    plain: usize,
}

/// The blocks of a stream; none where they are not all that it has, or are not little.
fn streams<'b>(bytes: &'b [u8], index: &Index) -> Option<Vec<Stream<'b>>> {
    let header = bytes.get(..HEADER)?;
    let flags = &bytes[bytes.len().checked_sub(FOOTER)?..][FLAGS];
    let mut at = HEADER;
    let mut total = 0_u64;
    let mut streams = Vec::new();
    for record in &index.records {
        total = total.checked_add(record.plain).filter(|total| *total <= LIMIT)?;
        let size = usize::try_from(record.packed.checked_next_multiple_of(4)?).ok()?;
        let block = bytes.get(at..at.checked_add(size)?)?;
        let end = end(*record, flags);
        streams.push(Stream { parts: [header, block], end, plain: usize::try_from(record.plain).ok()? });
        at += size;
    }
    (at == index.at).then_some(streams)
}

/// The index of one block, and the footer after it.
fn end(record: Record, flags: &[u8]) -> Vec<u8> {
    let mut index = vec![0, 1];
    for mut number in [record.packed, record.plain] {
        while number > 0x7f {
            index.push(number as u8 | 0x80);
            number >>= 7;
        }
        index.push(number as u8);
    }
    index.resize(index.len().next_multiple_of(4), 0);
    let units = index.len() as u32 / 4;
    let about = [&units.to_le_bytes(), flags].concat();
    [&index[..], &sum(&index), &sum(&about), &about, END].concat()
}

/// The checksum of a part of a stream: CRC32.
fn sum(bytes: &[u8]) -> [u8; 4] {
    let mut sum = Crc::new();
    sum.update(bytes);
    sum.sum().to_le_bytes()
}

/// What streams unpack to, one after the other: each processor takes the next.
fn unpacked(streams: &[Stream<'_>]) -> io::Result<Vec<u8>> {
    let mut plain = vec![0; streams.iter().map(|stream| stream.plain).sum()];
    let mut rest = &mut plain[..];
    let places = streams.iter().map(|stream| {
        let (own, others) = std::mem::take(&mut rest).split_at_mut(stream.plain);
        rest = others;
        (stream, own)
    });
    let queue = Mutex::new(places.collect::<Vec<_>>().into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> io::Result<()> {
        while let Some((stream, place)) = next() {
            unpack(stream, place)?;
        }
        Ok(())
    };
    let processors = thread::available_parallelism().map_or(1, usize::from).min(streams.len());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let ended = |worker: thread::ScopedJoinHandle<'_, io::Result<()>>| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("it cannot be unpacked")))
        };
        workers.into_iter().try_for_each(ended)
    })?;
    Ok(plain)
}

fn unpack(stream: &Stream<'_>, place: &mut [u8]) -> io::Result<()> {
    let [header, block] = stream.parts;
    let mut reader = XzReader::new(header.chain(block).chain(&stream.end[..]), false);
    reader.read_exact(place)?;
    // The checksum is after the last byte.
    match reader.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use data_encoding::BASE64;

    use super::*;

    pub(in super::super) const TEXT: &str = "first block here!second block her";
    /// The text by `xz --block-size=17 --check=crc32`.
    const BLOCKS: &str = "/Td6WFoAAAFpIt42AgAhARYAAAB0L+WjAQAQZmlyc3QgYmxvY2sgaGVyZSEAAAAAl5VAlQIAIQEWAAAAdC/lowEAD3NlY29uZCBibG9j\
                          ayBoZXIAFep6dAACJREkEAAA7n8qyz4wDYsCAAAAAAFZWg==";

    pub(in super::super) fn blocks() -> Vec<u8> {
        BASE64.decode(BLOCKS.as_bytes()).expect("it is whole")
    }

    fn read(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        plain(bytes)?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn blocks_are_unpacked_by_their_index() {
        let bytes = blocks();
        let index = index(&bytes).expect("it has one");
        assert_eq!(index.records.iter().map(|record| record.plain).collect::<Vec<_>>(), [17, 16]);
        assert!(streams(&bytes, &index).is_some_and(|streams| streams.len() == 2));
        assert_eq!(read(&bytes).expect("it is whole"), TEXT);
    }

    #[test]
    fn consecutive_streams_are_one_file() {
        assert_eq!(read(&[blocks(), blocks()].concat()).expect("two"), TEXT.repeat(2));
    }

    #[test]
    fn no_damage_is_overlooked() {
        let bytes = blocks();
        for length in 1..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length} bytes");
        }
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            assert!(read(&broken).map_or(true, |text| text == TEXT), "byte {at}");
        }
    }

    #[test]
    fn what_is_not_little_is_not_in_memory_whole() {
        let mut index = index(&blocks()).expect("it has one");
        index.records[0].plain = LIMIT;
        assert!(streams(&blocks(), &index).is_none());
    }
}
