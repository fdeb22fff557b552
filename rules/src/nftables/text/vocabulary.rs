//! Words that nft could have printed in a rule, modelled or not.
//!
//! A rule with an expression that is not modelled is kept as text. Text that is not a rule must be rejected: it got between the rules by
//! accident, or is a remnant of one.

use std::net::Ipv4Addr;

use super::words::{Kind, Word};

/// The words that rules start with (`stmt` of nft's `parser_bison.y`, and its expressions), sorted.
const STARTS: [&str; 109] = [
    "accept",
    "add",
    "ah",
    "arp",
    "comp",
    "continue",
    "counter",
    "cpu",
    "cgroup",
    "ct",
    "day",
    "dccp",
    "delete",
    "destroy",
    "dnat",
    "drop",
    "dst",
    "dup",
    "esp",
    "ether",
    "exthdr",
    "fib",
    "flow",
    "frag",
    "fwd",
    "geneve",
    "goto",
    "gre",
    "gretap",
    "hbh",
    "hour",
    "ibriport",
    "ibrhwaddr",
    "ibrname",
    "ibrpvid",
    "ibrvproto",
    "icmp",
    "icmpv6",
    "igmp",
    "iif",
    "iifgroup",
    "iifkind",
    "iifname",
    "iiftype",
    "ip",
    "ip6",
    "ipsec",
    "jhash",
    "jump",
    "l4proto",
    "last",
    "length",
    "limit",
    "log",
    "mark",
    "masquerade",
    "meta",
    "meter",
    "mh",
    "nfproto",
    "nftrace",
    "notrack",
    "numgen",
    "obriport",
    "obrname",
    "oif",
    "oifgroup",
    "oifkind",
    "oifname",
    "oiftype",
    "osf",
    "pkttype",
    "priority",
    "protocol",
    "queue",
    "quota",
    "random",
    "redirect",
    "reject",
    "reset",
    "return",
    "rt",
    "rt0",
    "rt2",
    "rt4",
    "rtclassid",
    "sctp",
    "sdif",
    "sdifname",
    "secmark",
    "set",
    "skgid",
    "skuid",
    "snat",
    "socket",
    "srh",
    "symhash",
    "synproxy",
    "tcp",
    "th",
    "time",
    "tproxy",
    "tunnel",
    "udp",
    "udplite",
    "update",
    "vlan",
    "vxlan",
    "xt",
];

/// Words that may follow the modelled part of a rule: operators, options of statements, and fields (`counter name tcp dport map`).
const GOES_ON: [&str; 44] = [
    "!=",
    "&",
    "*",
    ".",
    ":",
    "<",
    "<<",
    "<=",
    "==",
    ">",
    ">=",
    ">>",
    "^",
    "|",
    "and",
    "burst",
    "comment",
    "eq",
    "fully-random",
    "ge",
    "gt",
    "le",
    "lshift",
    "lt",
    "map",
    "ne",
    "or",
    "over",
    "persistent",
    "rshift",
    "timeout",
    "to",
    "until",
    "vmap",
    "with",
    "xor",
    "level",
    "group",
    "daddr",
    "dport",
    "options",
    "saddr",
    "sequence",
    "sport",
];

/// Protocol names that start with a digit.
const ETHERTYPES: [&str; 2] = ["8021ad", "8021q"];

/// Returns whether a word in place of a value is an nft keyword, not a name.
pub(in crate::nftables) fn is_keyword(word: &str) -> bool {
    const OPTIONS: [&str; 6] = ["device", "expires", "missing", "mod", "offset", "seed"];
    STARTS.contains(&word) || GOES_ON.contains(&word) || OPTIONS.contains(&word)
}

/// Returns whether rules start with this word.
fn starts_rule(word: &str) -> bool {
    // Raw bytes, sets, variables, and words with several parts.
    STARTS.contains(&word) || word.starts_with(['@', '$', '(', '!'])
}

/// Returns the first word that cannot be in a rule, with the reason, given the words from the first unknown one on. `is_first` is whether
/// the rule starts with them.
pub(in crate::nftables) fn fault(words: &[Word<'_>], is_first: bool) -> Option<(usize, String)> {
    let is_plain = |word: &&Word<'_>| word.kind == Kind::Plain;
    let first = words.first()?;
    let goes_on = first.kind != Kind::Plain || GOES_ON.contains(&first.text);
    if !starts_rule(first.text) && (is_first || !goes_on) {
        return Some((first.start, format!("`{}` is not valid nft syntax here", first.text)));
    }
    let broken = words.iter().filter(is_plain).find(|word| !is_value(word.text))?;
    Some((broken.start, format!("`{}` is neither a number nor an address", broken.text)))
}

/// Returns whether a word that starts with a digit is a value: a number, a time, an address, or a range or pair of them.
fn is_value(word: &str) -> bool {
    let word = word.trim_end_matches(')');
    if !word.starts_with(|letter: char| letter.is_ascii_digit()) || ETHERTYPES.contains(&word) {
        return true;
    }
    // An element of a map: `25:accept`.
    if let Some((key, value)) = word.split_once(':')
        && value.starts_with(|letter: char| letter.is_ascii_lowercase())
        && !value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
    {
        return is_value(key);
    }
    // `2001:db8::1`, `00:11:22:33:44:55`, `10.0.0.1:80`
    if word.contains(':') {
        return word.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.' | b'/' | b'-' | b'%'));
    }
    word.split(['-', '/', '|', '.']).all(is_part) && word.split(['-', '/', '|']).all(is_dotted)
}

/// Returns whether a part between separators is a number, a time (`1h30m`), or a unit (`second`).
fn is_part(part: &str) -> bool {
    if let Some(digits) = part.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    if !part.starts_with(|letter: char| letter.is_ascii_digit()) {
        return !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
    }
    let mut rest = part;
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let unit = number.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
        let (digits, unit) = (rest.len() - number.len(), &number[..number.len() - unit.len()]);
        let is_known = matches!(unit, "" | "ms" | "s" | "m" | "h" | "d" | "w");
        if digits == 0 || !is_known {
            return false;
        }
        rest = &number[unit.len()..];
    }
    true
}

/// Returns whether a part with dots is an IPv4 address.
fn is_dotted(part: &str) -> bool {
    !part.contains('.') || part.parse::<Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::Words;
    use super::*;

    #[rstest]
    #[case::raw("@th,16,16 80 accept", None)]
    #[case::rate("limit rate over 10/second burst 5 packets drop", None)]
    #[case::bytes("quota over 25 mbytes drop", None)]
    #[case::addresses("ip daddr { 10.0.0.1-10.0.0.5, 10.1.0.0/16 } dup to 2001:db8::1", None)]
    #[case::hardware("ether saddr 00:11:22:33:44:55 drop", None)]
    #[case::mask("tcp flags & (fin|syn) == 0x2/0x12", None)]
    #[case::time("add @s { ip saddr timeout 1h30m5s500ms }", None)]
    #[case::ports("redirect to :1024-2000", None)]
    #[case::zone("ct zone set 5", None)]
    #[case::parentheses("ct mark set (meta mark | 0x10) << 8", None)]
    #[case::protocol("meta protocol { ip, 8021q }", None)]
    #[case::element("tcp dport vmap { 25:accept, 28:drop }", None)]
    #[case::noise("x=1 y=2 z", Some("x=1"))]
    #[case::element_that_is_not_a_number("tcp dport vmap { 2z:accept }", Some("2z:accept"))]
    #[case::log("<3>eth0: link-down", Some("<3>eth0:"))]
    #[case::rest_of_a_wrapped_rule("mark-for-masquerade", Some("mark-for-masquerade"))]
    #[case::operator("== 3 accept", Some("=="))]
    #[case::port("tcp dport 8zz0 accept", Some("8zz0"))]
    #[case::hexadecimal("meta mark set 0x40zz", Some("0x40zz"))]
    #[case::address("ip daddr 10.96.0.999 accept", Some("10.96.0.999"))]
    #[case::address_and_port("dnat to 10.0.0.1:8o", Some("10.0.0.1:8o"))]
    #[case::unit("limit rate 5xs accept", Some("5xs"))]
    fn text_that_is_no_rule_is_rejected(#[case] text: &str, #[case] expected: Option<&str>) {
        let words: Vec<Word<'_>> = Words::of(text).all().collect();
        let found = fault(&words, true).map(|(at, _)| text[at..].split([' ', ',']).next().unwrap_or_default());
        assert_eq!(found, expected);
    }

    #[rstest]
    #[case::operator("| established accept", false)]
    #[case::option("persistent", false)]
    #[case::field("dport map { 443 : \"cnt1\" }", false)]
    #[case::noise("zz drop", true)]
    fn known_words_may_be_followed_by_operators_and_options(#[case] text: &str, #[case] expected: bool) {
        let words: Vec<Word<'_>> = Words::of(text).all().collect();
        assert_eq!(fault(&words, false).is_some(), expected);
    }
}
