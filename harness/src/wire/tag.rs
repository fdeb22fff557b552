//! The number that identifies a probe.

/// A number of at most 63 bits that a probe carries through every translation, and its answer carries back.
///
/// On the wire it is two words that netfilter does not touch: a *key* (the lower 31 bits, with the top bit set,
/// because SCTP forbids an initiate tag of 0) and a *rest* (the upper 32 bits).
///
/// | | key | rest |
/// | --- | --- | --- |
/// | TCP SYN | sequence number | timestamp value |
/// | TCP SYN-ACK | acknowledgment number - 1 | timestamp echo |
/// | UDP | payload, after the mark | payload |
/// | SCTP INIT | initiate tag | initial TSN |
/// | SCTP INIT ACK | verification tag | initial TSN |
///
/// A rejection (RST, ABORT) carries only the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Tag(u64);

/// The bit that is set in every key.
const KEY_BIT: u32 = 1 << 31;

impl Tag {
    /// The least tag.
    pub(crate) const ZERO: Self = Self(0);
    /// The greatest tag.
    pub(crate) const MAX: Self = Self((1 << 63) - 1);

    /// The tag of a number's lower 63 bits, so that 0 follows [`Self::MAX`].
    pub(crate) const fn new(number: u64) -> Self {
        Self(number & Self::MAX.0)
    }

    /// The number.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// The word that every reply carries, rejections included.
    pub(crate) const fn key(self) -> u32 {
        self.0 as u32 | KEY_BIT
    }

    /// The word that a rejection lacks.
    pub(crate) const fn rest(self) -> u32 {
        (self.0 >> 31) as u32
    }

    /// The tag of two words; `None` if the first is not a key.
    pub(crate) const fn from_words(key: u32, rest: u32) -> Option<Self> {
        if key & KEY_BIT == 0 { None } else { Some(Self((rest as u64) << 31 | (key & !KEY_BIT) as u64)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0)]
    #[case(1)]
    #[case(0x7fff_ffff)]
    #[case(0x8000_0000)]
    #[case(u64::from(u32::MAX))]
    #[case(Tag::MAX.get())]
    fn words_carry_the_whole_tag(#[case] number: u64) {
        let tag = Tag::new(number);
        assert_eq!(tag.get(), number);
        assert_ne!(tag.key(), 0);
        assert_eq!(Tag::from_words(tag.key(), tag.rest()), Some(tag));
    }

    #[test]
    fn a_tag_has_63_bits_and_a_key_its_top_bit() {
        assert_eq!(Tag::new(1 << 63), Tag::ZERO);
        assert_eq!(Tag::from_words(7, 0), None);
    }
}
