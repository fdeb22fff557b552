//! The kinds of packets that svclab sends, and the marks of UDP payloads that identify them.

use super::Tag;

/// The start of a UDP probe's payload, followed by the tag's two words.
pub(super) const REQUEST_MARK: [u8; 8] = *b"svclab>>";
/// The start of an answer's payload. A datagram with it is never answered, so two pods cannot echo each other forever.
pub(super) const ANSWER_MARK: [u8; 8] = *b"svclab<<";

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A probe.
    Request(Tag),
    /// The answer to a probe.
    Answer(Tag),
    /// Neither: a rejection, data, or not from svclab.
    Other,
}

/// Whether a UDP payload is a probe's. Its first bytes are enough.
pub(crate) fn is_request(payload: &[u8]) -> bool {
    payload.starts_with(&REQUEST_MARK)
}

/// Whether it is an answer's.
pub(crate) fn is_answer(payload: &[u8]) -> bool {
    payload.starts_with(&ANSWER_MARK)
}

/// Parses a UDP payload of svclab.
pub(super) fn read_payload(payload: &[u8]) -> Option<Content> {
    let (mark, rest) = payload.split_first_chunk::<8>()?;
    let &[a, b, c, d, e, f, g, h] = rest.first_chunk()?;
    let tag = Tag::from_words(u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))?;
    match *mark {
        REQUEST_MARK => Some(Content::Request(tag)),
        ANSWER_MARK => Some(Content::Answer(tag)),
        _ => None,
    }
}
