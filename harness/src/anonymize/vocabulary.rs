//! Words that cannot identify anyone.

use std::collections::HashSet;
use std::sync::LazyLock;

const TEXT: &str = include_str!("vocabulary.txt");

static WORDS: LazyLock<[HashSet<&str>; 2]> = LazyLock::new(|| {
    let mut sections = TEXT.split("# ").filter(|section| !section.is_empty());
    let mut section = || {
        let words = sections.next().and_then(|section| section.split_once('\n')).map_or("", |(_, words)| words);
        words.split_whitespace().collect()
    };
    [section(), section()]
});

/// Units after a number, of time or memory.
const UNITS: [&str; 21] = [
    "s", "sec", "m", "h", "d", "y", "ms", "us", "ns", "k", "g", "t", "ki", "mi", "gi", "kb", "mb", "gb", "th", "st",
    "nd",
];

/// Maximum number of digits after a word, as in `eth0`, `v1`, `node12`.
const MAX_DIGITS: usize = 5;

/// Returns whether a run of letters and digits cannot identify anyone, not even as a part of a name: each of its words is technical.
pub(super) fn is_known(part: &str) -> bool {
    if part.chars().count() <= 1 || part.bytes().all(|byte| byte.is_ascii_digit()) || is_hexadecimal(part) {
        return true;
    }
    if !part.is_ascii() {
        return false;
    }
    // Of words of a text, these are the most.
    if WORDS[0].contains(part) {
        return true;
    }
    let plain = part.bytes().all(|byte| byte.is_ascii_lowercase());
    if plain {
        return false;
    }
    let lower = part.to_ascii_lowercase();
    if WORDS[0].contains(lower.as_str()) || is_quantity(&lower) {
        return true;
    }
    let segments = segments(part);
    if segments.iter().filter(|segment| segment.starts_with(|letter: char| letter.is_ascii_digit())).count() > 2 {
        return false;
    }
    // `v1`, `p80`.
    if let [first, number] = segments.as_slice()
        && first.len() == 1
    {
        // `I0714`: the severity and date of a log line.
        let is_log = "IWEF".contains(first) && number.len() == 4;
        return is_log || ("vVpP".contains(first) && number.len() <= MAX_DIGITS);
    }
    segments.iter().enumerate().all(|(at, segment)| {
        let is_number = segment.bytes().all(|byte| byte.is_ascii_digit());
        let is_word = || {
            let lower = segment.to_ascii_lowercase();
            WORDS[0].contains(lower.as_str()) || (at == 0 && lower == "v")
        };
        if is_number { at > 0 && segment.len() <= MAX_DIGITS } else { is_word() }
    })
}

/// Returns whether a word cannot identify anyone if it stands alone in a sentence.
pub(super) fn is_ordinary_word(word: &str) -> bool {
    WORDS[1].contains(word.to_ascii_lowercase().as_str())
}

/// `0x4000`, a packet mark.
fn is_hexadecimal(part: &str) -> bool {
    let digits = part.strip_prefix("0x").unwrap_or_default();
    (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `26h`, `7m44s`, `128Mi`.
fn is_quantity(lower: &str) -> bool {
    let mut rest = lower;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let letters = rest[digits..].bytes().take_while(u8::is_ascii_lowercase).count();
        if digits == 0 || digits > MAX_DIGITS || !UNITS.contains(&&rest[digits..digits + letters]) {
            return false;
        }
        rest = &rest[digits + letters..];
    }
    true
}

/// Splits a run into words and numbers: `external`, `Traffic`, `Policy`; `cluster`, `IPs`; `v`, `1`, `beta`, `1`.
fn segments(part: &str) -> Vec<&str> {
    let bytes = part.as_bytes();
    let mut starts = vec![0];
    for at in 1..bytes.len() {
        let (before, own) = (bytes[at - 1], bytes[at]);
        let next = bytes.get(at + 1);
        let is_plural = next == Some(&b's') && bytes.get(at + 2).is_none_or(|byte| !byte.is_ascii_lowercase());
        let starts_word = own.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && next.is_some_and(u8::is_ascii_lowercase) && !is_plural));
        if starts_word || before.is_ascii_digit() != own.is_ascii_digit() {
            starts.push(at);
        }
    }
    starts.push(bytes.len());
    starts.windows(2).map(|pair| &part[pair[0]..pair[1]]).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("externalTrafficPolicy", true)]
    #[case("clusterIPs", true)]
    #[case("podCIDRs", true)]
    #[case("IPFamilies", true)]
    #[case("v1beta1", true)]
    #[case("eth0", true)]
    #[case("26h", true)]
    #[case("7m44s", true)]
    #[case("0x4000", true)]
    #[case("KUBE", true)]
    #[case("8080", true)]
    #[case("I0714", true)]
    #[case("column", true)]
    #[case("gawk", true)]
    #[case("payments", false)]
    #[case("ShopService", false)]
    #[case("5d8f7c9b4", false)]
    #[case("x2x1z", false)]
    #[case("cali1a2b3c4d", false)]
    #[case("Müller", false)]
    fn words_are_known(#[case] part: &str, #[case] expected: bool) {
        assert_eq!(is_known(part), expected);
    }
}
