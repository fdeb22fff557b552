//! The kinds of packets that svclab sends, and the marks of UDP payloads that identify them.

use super::Tag;

/// What a UDP probe's payload begins with; then come the tag's two words.
pub(super) const REQUEST_MARK: [u8; 8] = *b"svclab>>";
/// What an answer's payload begins with. A datagram with it is never answered, so two pods cannot echo each other for
/// ever.
pub(super) const ANSWER_MARK: [u8; 8] = *b"svclab<<";

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A probe.
    Request(Tag),
    /// The answer to a probe.
    Answer(Tag),
    /// Neither; a rejection, data, or not from svclab.
    Other,
}

/// Whether a UDP payload, of which the first bytes are enough, is a probe's.
pub(crate) fn is_request(payload: &[u8]) -> bool {
    payload.starts_with(&REQUEST_MARK)
}

/// Whether it is an answer's.
pub(crate) fn is_answer(payload: &[u8]) -> bool {
    payload.starts_with(&ANSWER_MARK)
}

/// Reads a UDP payload of svclab's.
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
