//! The parts of a text that may be identifying.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use ipnet::IpNet;

use super::markup::{self, is_tag};
use super::notation::{Notation, dashed, parts_ipv4, pattern, reversed};
use super::vocabulary::{is_known, is_ordinary_word};

/// Name prefixes of pods' interfaces, which continue with a hash of the pod's name.
const INTERFACES: [&str; 8] = ["cali", "veth", "lxc", "azv", "gke", "eni", "tap", "ovs"];

/// Longer than an address with port and punctuation: a longer run is no address, and is not examined again from each of its parts.
const LONGEST_IPV4: usize = 24;
const LONGEST_IPV6: usize = 64;

/// Longer than the name of an option, in characters.
const LONGEST_OPTION: usize = 64;

/// Longer than a name in nftables, in bytes (`NFT_NAME_MAXLEN` is 256).
const LONGEST_NAME: usize = 257;

/// The kind of a part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// An address.
    Address(IpAddr, Notation),
    /// An address with its prefix length, including the `/`; in reverse, the labels of a network's prefix.
    Network(IpNet, Notation),
    /// A hardware address or an identifier of an object, whose hexadecimal digits are replaced.
    Digits,
    /// A number in a name that is long enough to identify someone: `123456789012.dkr`.
    Number,
    /// The name of a chain or set that contains a hash.
    Chain,
    /// Letters and digits.
    Word,
    /// The hash in an interface's name.
    Hash,
}

/// A part of a text that may be identifying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) at: Range<usize>,
    pub(super) token: Token,
}

/// The kind of a line, which decides whether an ordinary word in it is a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wording {
    /// Ordinary words are not names, unless a neighbouring word or quotes show that they are.
    Sentence,
    /// Ordinary words are not names, unless they are names elsewhere in the input.
    Output,
    /// All words outside the technical vocabulary are names.
    Command,
}

/// Returns all parts of a text that may be identifying, in order, without words of the vocabulary. Ordinary words in
/// `names` may be names, too.
pub(super) fn tokens(text: &str, names: &HashSet<String>, wording: Wording) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let is_colon = text[at..].starts_with("::");
        if !letter.is_alphanumeric() && !is_colon {
            at += letter.len_utf8();
            continue;
        }
        let before = text[..at].chars().next_back();
        if before == Some('\\') {
            let escape = escape_length(&text[at..]);
            if escape > 0 {
                at += escape;
                continue;
            }
        }
        let is_start =
            before.is_none_or(|before| !before.is_alphanumeric() || is_ideograph(before)) || after_escape(&text[..at]);
        let kept = if is_start { timestamp(&text[at..]).or_else(|| source_position(&text[at..])) } else { None };
        if let Some(length) = kept {
            at += length;
            continue;
        }
        let found_here = if is_start {
            special(&text[at..], before)
        } else {
            after_letter(&text[at..]).map(|(ip, length, notation)| (length, Token::Address(ip, notation)))
        };
        if let Some((length, token)) = found_here {
            found.push(Found { at: at..at + length, token });
            at += length;
            continue;
        }
        if is_colon {
            at += 2;
            continue;
        }
        let end = at + run_length(&text[at..]);
        found.extend(word(text, at..end, names, wording));
        at = end;
    }
    found
}

/// Returns the length of a time at the start of a text: `2026-06-19T13:31:24.986086Z`.
fn timestamp(text: &str) -> Option<usize> {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let bytes = text.as_bytes().get(..FORM.len())?;
    let fits = |(own, form): (&u8, &u8)| if *form == b'0' { own.is_ascii_digit() } else { own == form };
    bytes.iter().zip(FORM).all(fits).then_some(())?;
    let rest = &text[FORM.len()..];
    let fraction = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let zone = usize::from(rest[fraction..].starts_with('Z'));
    Some(FORM.len() + fraction + zone)
}

/// Returns the length of the name of a source file at the start of a text, as klog writes it: `proxier.go:765`.
fn source_position(text: &str) -> Option<usize> {
    let name = text.bytes().take_while(|byte| byte.is_ascii_lowercase() || *byte == b'_').count();
    let line = text[name..].strip_prefix(".go:")?;
    (name > 0 && line.starts_with(|letter: char| letter.is_ascii_digit())).then_some(name + ".go".len())
}

/// Returns the length of the escape sequence whose backslash precedes a text, in JSON and systemd's names: `n`, `u003c`, `x2d`.
fn escape_length(text: &str) -> usize {
    let digits =
        |count: usize| text.get(1..=count).is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match text.as_bytes().first() {
        Some(b'n' | b'r' | b't' | b'b' | b'f') => 1,
        Some(b'u') if digits(4) => 5,
        Some(b'x') if digits(2) => 3,
        _ => 0,
    }
}

/// Returns whether a text ends in an escaped character.
fn after_escape(text: &str) -> bool {
    let escapes = [1, 3, 5]
        .into_iter()
        .filter_map(|length| text.len().checked_sub(length).filter(|at| text.is_char_boundary(*at)));
    escapes.into_iter().any(|at| text[..at].ends_with('\\') && escape_length(&text[at..]) == text.len() - at)
}

/// Returns whether a letter is of a script without blanks between words, such as Chinese: a name may follow it directly.
pub(super) fn is_ideograph(letter: char) -> bool {
    letter >= '\u{2e80}' && letter.is_alphanumeric()
}

/// Returns the length of a run of letters and digits. It also ends before an address: `address10.0.0.1`, `ip10-0-0-1`, and between scripts.
fn run_length(text: &str) -> usize {
    let mut before = None;
    for (at, letter) in text.char_indices() {
        let starts_number = letter.is_ascii_digit() && before.is_some_and(|before: char| !before.is_ascii_digit());
        let is_other_script = before.is_some_and(|before| is_ideograph(before) != is_ideograph(letter));
        if !letter.is_alphanumeric() || is_other_script || starts_number && after_letter(&text[at..]).is_some() {
            return at;
        }
        before = Some(letter);
    }
    text.len()
}

/// Returns a run of letters and digits, if it may be identifying.
fn word(text: &str, at: Range<usize>, names: &HashSet<String>, wording: Wording) -> Option<Found> {
    let part = &text[at.clone()];
    if is_number_of_name(text, &at) || is_same_number(text, &at, names) {
        return Some(Found { at, token: Token::Number });
    }
    let is_of_option = is_option(text, at.start, part.len()) || is_name_of_option(text, &at);
    if is_known(part) || is_of_option || is_tag(text, &at) || is_ordinary(text, &at, names, wording) {
        return None;
    }
    let is_interface = |prefix: &&&str| part.starts_with(**prefix) && part.len() >= prefix.len() + 4;
    let interface = INTERFACES.iter().find(is_interface).filter(|_| part.bytes().any(|byte| byte.is_ascii_digit()));
    Some(match interface {
        Some(prefix) => Found { at: at.start + prefix.len()..at.end, token: Token::Hash },
        None => Found { at, token: Token::Word },
    })
}

/// Returns whether digits are a part of a name that may identify someone: an account, a project, a build. Counters, ports, rates and
/// settings stand between blanks, brackets and other punctuation.
fn is_number_of_name(text: &str, at: &Range<usize>) -> bool {
    /// Shorter numbers are not unique.
    const DIGITS: usize = 6;
    if at.len() < DIGITS || !text[at.clone()].bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphabetic);
    let mut before = text[..at.start].chars().rev();
    let mut after = text[at.end..].chars();
    let leads = match before.next() {
        Some('-' | '_' | '/' | '@') => is_letter(before.next()),
        Some(':') => before.next() == Some(':'),
        _ => false,
    };
    leads || matches!(after.next(), Some('-' | '_' | '.' | '@' | ':')) && is_letter(after.next())
}

/// Returns whether digits between blanks are a number that is part of a name elsewhere.
fn is_same_number(text: &str, at: &Range<usize>, names: &HashSet<String>) -> bool {
    let part = &text[at.clone()];
    part.bytes().all(|byte| byte.is_ascii_digit()) && names.contains(part) && stands_alone(text, at.start, at.len())
}

/// Returns whether a text continues with a letter or digit of the same word.
fn goes_on(text: &str) -> bool {
    text.chars().next().is_some_and(|letter| letter.is_alphanumeric() && !is_ideograph(letter))
}

/// Returns whether a word is one of the language, not a name.
fn is_ordinary(text: &str, at: &Range<usize>, names: &HashSet<String>, wording: Wording) -> bool {
    let word = &text[at.clone()];
    if wording == Wording::Command || !is_ordinary_word(word) {
        return false;
    }
    if !stands_alone(text, at.start, word.len()) {
        return false;
    }
    let [before, after] = neighbours(text, at);
    let is_argument = before
        .strip_prefix('-')
        .is_some_and(|option| option.starts_with(|own: char| own.is_alphabetic() || own == '-'));
    let is_named = || names.contains(&word.to_lowercase());
    let is_shown_as_name =
        || is_quoted(text, at) || [before, after].iter().any(|next| NAMED.contains(&next.to_lowercase().as_str()));
    !is_argument && (!is_named() || wording == Wording::Sentence && !is_shown_as_name())
}

/// Returns whether a word is a part of the name of a long option, all of whose parts identify no one: `--write-config-to`.
fn is_name_of_option(text: &str, at: &Range<usize>) -> bool {
    let is_of_option = |letter: &char| letter.is_alphanumeric() || *letter == '-';
    let length = |letters: &mut dyn Iterator<Item = char>| -> usize {
        letters.take(LONGEST_OPTION).take_while(is_of_option).map(char::len_utf8).sum()
    };
    let before = &text[..at.start - length(&mut text[..at.start].chars().rev())];
    let rest = &text[before.len()..];
    let option = &rest[..length(&mut rest.chars())];
    let starts = before.chars().next_back().is_none_or(|letter| letter.is_whitespace() || "([`'\"".contains(letter));
    let name = option.strip_prefix("--").filter(|_| starts);
    name.is_some_and(|name| name.split('-').all(|part| is_known(part) || is_ordinary_word(part)))
}

/// Words next to which an ordinary word is a name: `the service front`, `the front pods`.
const NAMED: [&str; 14] = [
    "service",
    "services",
    "svc",
    "namespace",
    "ns",
    "pod",
    "pods",
    "node",
    "host",
    "deployment",
    "container",
    "endpoints",
    "called",
    "named",
];

/// Returns the words before and after a part of a text, if a single blank separates them from it.
fn neighbours<'t>(text: &'t str, at: &Range<usize>) -> [&'t str; 2] {
    let before = text[..at.start].strip_suffix(char::is_whitespace).unwrap_or_default();
    let after = text[at.end..].strip_prefix(char::is_whitespace).unwrap_or_default();
    let ends = |letter: char| letter.is_whitespace();
    [before.rsplit(ends).next().unwrap_or_default(), after.split(ends).next().unwrap_or_default()]
}

/// Returns whether a part of a text is in quotes, or is marked as code.
fn is_quoted(text: &str, at: &Range<usize>) -> bool {
    let is_mark = |letter: char| "`\"'*#".contains(letter);
    text[..at.start].ends_with(is_mark) || text[at.end..].starts_with(is_mark)
}

/// Splits a text into words without knowledge of formats, and leaves out those that do not identify anyone.
pub(super) fn ordinary_words<'t>(
    text: &'t str,
    names: &HashSet<String>,
    wording: Wording,
) -> impl Iterator<Item = &'t str> {
    let starts = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    starts.filter(move |word| {
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        let is_harmless = || match wording {
            Wording::Sentence => is_ordinary(text, &(at..at + word.len()), names, wording),
            _ => is_ordinary_word(word) && !names.contains(&word.to_lowercase()),
        };
        let is_of_option = || is_option(text, at, word.len()) || is_name_of_option(text, &(at..at + word.len()));
        !is_known(word) && !is_harmless() && !is_of_option() && !is_tag(text, &(at..at + word.len()))
    })
}

/// Returns whether a word is not part of a name: it is surrounded by blanks or punctuation.
fn stands_alone(text: &str, at: usize, length: usize) -> bool {
    let before = text[..at].chars().next_back();
    let mut following = text[at + length..].chars();
    let (next, after) = (following.next(), following.next());
    let opens = before.is_none_or(|letter| letter.is_whitespace() || "(\"'*>#`".contains(letter));
    let ends_sentence = || after.is_none_or(char::is_whitespace) || markup::is_closing(&text[at + length + 1..]);
    let closes = next.is_none_or(|letter| {
        letter.is_whitespace() || ")\"'`*=".contains(letter) || (".,:;!?".contains(letter) && ends_sentence())
    });
    opens && closes
}

/// Letters of common options of iptables, tcpdump, ss, netstat, ps, ls and kubectl.
const OPTIONS: [&str; 30] = [
    "nv", "vn", "nl", "vl", "nvl", "vnl", "nvx", "vx", "ni", "in", "nn", "nni", "nnvv", "vv", "vvv", "vvvv", "it",
    "ti", "tnlp", "tlnp", "tlpn", "ulpn", "anp", "eo", "ef", "la", "al", "owide", "oyaml", "ojson",
];

/// Returns whether a part consists of option letters: `-ni`, or is an option with a number: `-f1`.
fn is_option(text: &str, at: usize, length: usize) -> bool {
    let before = text[..at].strip_suffix('-');
    let letters = text[at..at + length].to_ascii_lowercase();
    let is_number = |digits: &str| (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let has_number = || letters.strip_prefix(|own: char| own.is_ascii_lowercase()).is_some_and(is_number);
    (OPTIONS.contains(&letters.as_str()) || has_number())
        && before.is_some_and(|before| before.is_empty() || before.ends_with(char::is_whitespace))
}

/// Returns a token other than a word at the start of a text, with its length.
fn special(text: &str, before: Option<char>) -> Option<(usize, Token)> {
    uuid(text)
        .or_else(|| hardware(text))
        .or_else(|| chain(text, before))
        .or_else(|| reversed(text).map(|(network, length)| (length, Token::Network(network, Notation::Reversed))))
        .or_else(|| dashed(text).map(|(ip, length, notation)| (length, Token::Address(ip, notation))))
        .or_else(|| pattern(text).map(|(network, length, notation)| (length, Token::Network(network, notation))))
        .or_else(|| address(text))
}

/// `550e8400-e29b-41d4-a716-446655440000`
fn uuid(text: &str) -> Option<(usize, Token)> {
    grouped(text, b"-", &[8, 4, 4, 4, 12])
}

/// `02:42:ac:11:00:02`
fn hardware(text: &str) -> Option<(usize, Token)> {
    grouped(text, b":-", &[2, 2, 2, 2, 2, 2])
}

/// Matches groups of hexadecimal digits of these lengths, with separators.
fn grouped(text: &str, marks: &[u8], lengths: &[usize]) -> Option<(usize, Token)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for (number, length) in lengths.iter().enumerate() {
        if number > 0 {
            marks.contains(bytes.get(at)?).then_some(())?;
            at += 1;
        }
        bytes.get(at..at + length)?.iter().all(u8::is_ascii_hexdigit).then_some(())?;
        at += length;
    }
    let is_end = !goes_on(&text[at..]) && !text[at..].starts_with(':');
    is_end.then_some((at, Token::Digits))
}

/// `KUBE-SVC-2CMXP7HKUVJN7L6M`; the part of `service-ULMVA6XW-ns1/svc1/tcp/p80` after the first hyphen.
fn chain(text: &str, before: Option<char>) -> Option<(usize, Token)> {
    let is_base32 = |part: &str| part.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'));
    if let Some(rest) = text.strip_prefix("KUBE-") {
        let kind = rest.split_once('-')?.0.len();
        let hash = rest.get(kind + 1..kind + 17).filter(|hash| is_base32(hash))?;
        let length = "KUBE-".len() + kind + 1 + hash.len();
        return (!goes_on(&text[length..])).then_some((length, Token::Chain));
    }
    if before != Some('-') {
        return None;
    }
    text.get(..8).filter(|hash| is_base32(hash))?;
    let name = text[8..].strip_prefix('-')?;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._/".contains(byte);
    let length = name.bytes().take(LONGEST_NAME).take_while(is_part).count();
    (length < LONGEST_NAME && name[..length].matches('/').count() >= 3).then_some((9 + length, Token::Chain))
}

/// Matches an address, with its prefix length if one follows.
fn address(text: &str) -> Option<(usize, Token)> {
    let (ip, length) = ipv4(text).or_else(|| ipv6(text))?;
    let network = text[length..].strip_prefix('/').unwrap_or_default();
    let digits: String = network.chars().take(4).take_while(char::is_ascii_digit).collect();
    let network = digits.parse().ok().and_then(|prefix| IpNet::new(ip, prefix).ok());
    Some(match network {
        Some(network) => (length + 1 + digits.len(), Token::Network(network, Notation::Plain)),
        None => (length, Token::Address(ip, Notation::Plain)),
    })
}

/// Matches an address at a digit that follows a letter: `address10.0.0.1`, `ip10-0-0-1`.
fn after_letter(text: &str) -> Option<(IpAddr, usize, Notation)> {
    let plain = || ipv4(text).map(|(ip, length)| (ip, length, Notation::Plain));
    plain().or_else(|| parts_ipv4(text))
}

fn ipv4(text: &str) -> Option<(IpAddr, usize)> {
    let run = text.bytes().take(LONGEST_IPV4).take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    // A fifth number is a port, as tcpdump writes it.
    let end = text[..run].match_indices('.').nth(3).map_or(run, |(at, _)| at);
    let run = text[..end].trim_end_matches('.');
    let ip: Ipv4Addr = run.parse().ok()?;
    Some((ip.into(), run.len()))
}

fn ipv6(text: &str) -> Option<(IpAddr, usize)> {
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || b":.".contains(byte);
    let run = text.bytes().take(LONGEST_IPV6).take_while(is_part).count();
    if run == LONGEST_IPV6 || text[..run].matches(':').count() < 2 || goes_on(&text[run..]) {
        return None;
    }
    let run = text[..run].trim_end_matches('.');
    let shorter = [run, run.trim_end_matches(':'), run.rsplit_once('.').map_or(run, |(address, _)| address)];
    shorter.iter().find_map(|part| Some((IpAddr::V6(part.parse::<Ipv6Addr>().ok()?), part.len())))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10.0.0.1:80", &["10.0.0.1"])]
    #[case("10.244.0.0/16,", &["10.244.0.0/16"])]
    #[case("IP 10.0.0.1.443 > fd00::2.53: tcp", &["10.0.0.1", "fd00::2"])]
    #[case("[fd00::1]:80 ::1 12:30:45 std::vector", &["fd00::1", "::1", "std", "vector"])]
    #[case("at 52:54:00:12:34:56, v1.30.2", &["52:54:00:12:34:56"])]
    #[case("uid: 550e8400-e29b-41d4-a716-446655440000", &["550e8400-e29b-41d4-a716-446655440000"])]
    #[case("-j KUBE-SVC-2CMXP7HKUVJN7L6M", &["KUBE-SVC-2CMXP7HKUVJN7L6M"])]
    #[case("goto service-ULMVA6XW-ns1/svc1/tcp/p80,", &["ULMVA6XW-ns1/svc1/tcp/p80"])]
    #[case("ip-10-0-1-5.ec2", &["10-0-1-5", "ec2"])]
    #[case("ip10-0-1-5 vm_10_0_1_5 ETCD_10_0_1_5_HOST", &["10-0-1-5", "10_0_1_5", "10_0_1_5"])]
    #[case("cali12ab34 web-0 default/shop:http", &["12ab34", "web", "shop"])]
    #[case("It is the bug.", &[])]
    #[case("bug/please", &["bug", "please"])]
    #[case("tcpdump -ni eth0 x -verbs", &["verbs"])]
    #[case("kubectl get po -owide | cut -f1 -xy12", &["xy12"])]
    #[case("Müller\u{a0}10.0.0.1\u{a0}sagt", &["Müller", "10.0.0.1", "sagt"])]
    #[case("1.2.3.4.5.6 300.1.1.1", &["1.2.3.4"])]
    #[case("地址是10.0.0.1谢谢 address10.0.0.2port", &["地址是", "10.0.0.1", "谢谢", "10.0.0.2"])]
    #[case("foo -acme -j KUBE-FW-2CMXP7HKUVJN7L6M tcp dpt:80", &["foo", "acme", "KUBE-FW-2CMXP7HKUVJN7L6M"])]
    #[case(r#"{"a":"x: y\nacme: 1\u003c10.0.0.1\u003e\t10.0.0.2"}"#, &["acme", "10.0.0.1", "10.0.0.2"])]
    #[case("5.1.0.10.in-addr.arpa fd00-10--5.default.pod.", &["5.1.0.10", "fd00-10--5"])]
    #[case("123456789012.dkr.ecr arn:aws:iam::123456789012:role/a", &["123456789012", "dkr", "arn", "aws", "iam", "123456789012"])]
    #[case("[1234567:7654321] --limit 1000000/sec seq 1234567:2345678, 0.33333333349", &[])]
    #[case("通过KUBE-SVC-2CMXP7HKUVJN7L6M转跳", &["通过", "KUBE-SVC-2CMXP7HKUVJN7L6M", "转跳"])]
    fn tokens_are_found(#[case] text: &str, #[case] expected: &[&str]) {
        let found = tokens(text, &HashSet::new(), Wording::Output);
        let found: Vec<&str> = found.into_iter().map(|found| &text[found.at]).collect();
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case("2026-06-19T13:31:24.986086273Z stderr F shopfront", &["shopfront"])]
    #[case("at 2026-06-19T13:31:24+02:00 webshop.go:12] x", &[])]
    #[case("2026-06-19Tenant7x", &["19Tenant7x"])]
    fn times_and_source_files_are_no_names(#[case] text: &str, #[case] expected: &[&str]) {
        let found = tokens(text, &HashSet::new(), Wording::Output);
        assert_eq!(found.into_iter().map(|found| &text[found.at]).collect::<Vec<_>>(), expected);
    }

    /// An ordinary word that is a name somewhere is one where its place says so.
    #[rstest]
    #[case::sentence("it should work in front of work", Wording::Sentence, &[])]
    #[case::in_quotes("goes to `work`, not \"front\"", Wording::Sentence, &["work", "front"])]
    #[case::by_its_kind("the service work and the front pods", Wording::Sentence, &["work", "front"])]
    #[case::path("reach front/work here", Wording::Sentence, &["front", "work"])]
    #[case::argument("run it with -n work", Wording::Sentence, &["work"])]
    #[case::output("it should work in front", Wording::Output, &["work", "front"])]
    #[case::other_argument("-m other --name answer --names good", Wording::Output, &["answer", "good"])]
    #[case::option("flags other than --write-config-to, and 'x --work', --shopfront-name", Wording::Output, &["shopfront"])]
    #[case::command("kubectl get svc fine", Wording::Command, &["fine"])]
    #[case::options("conntrack -L --orig-dst front --tuple-src=work --hashlimit-above 5", Wording::Command, &["front", "work"])]
    fn ordinary_words_are_names_by_their_place(
        #[case] text: &str,
        #[case] wording: Wording,
        #[case] expected: &[&str],
    ) {
        let names = HashSet::from(["work", "front"].map(str::to_owned));
        let found = tokens(text, &names, wording);
        let found: Vec<&str> = found.into_iter().map(|found| &text[found.at]).collect();
        assert_eq!(found, expected);
    }
}
