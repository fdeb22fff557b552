//! Names of hosts where a rule has an address: nft asks the resolver of the host for them, so the same rule has other addresses
//! on another machine. `nft list` prints addresses alone.

use std::net::{IpAddr, Ipv4Addr};

use super::vocabulary::is_keyword;
use super::words::{Kind, Word};

/// What is wrong with the words of a rule that has a name of a host, and the byte where that is.
pub(in crate::nftables) fn host_fault(words: &[Word<'_>]) -> Option<(usize, String)> {
    let name = host_name(words)?;
    Some((name.start, format!("`{}` is the name of a host: write its address", name.text)))
}

/// The first name of a host.
fn host_name<'a>(words: &[Word<'a>]) -> Option<Word<'a>> {
    let words: Vec<Word<'a>> = words.iter().flat_map(pieces).collect();
    // Behind a dot, fields go on that started before.
    let mut starts = (0..words.len()).filter(|at| *at == 0 || !words[at - 1].is("."));
    starts.find_map(|at| compared(&words[at..])).or_else(|| destination(&words))
}

/// A word, apart from the operators that nft lets stand right next to it.
fn pieces<'a>(word: &Word<'a>) -> impl Iterator<Item = Word<'a>> + use<'a> {
    let word = *word;
    let is_operator = move |letter: char| word.kind == Kind::Plain && "=!<>&|^()".contains(letter);
    let mut start = word.start;
    word.text.split_inclusive(is_operator).filter_map(move |piece| {
        let text = piece.trim_end_matches(is_operator);
        let one = Word { text, start, ..word };
        start += piece.len();
        (!text.is_empty() || word.kind != Kind::Plain).then_some(one)
    })
}

/// A name that is compared with the fields that words start with: `ip saddr NAME`, `tcp dport . ip saddr { 80 . NAME }`.
fn compared<'a>(words: &[Word<'a>]) -> Option<Word<'a>> {
    // The kernel's registers have room for no more.
    const MAX_FIELDS: usize = 16;
    let mut addresses = Vec::new();
    let mut rest = words;
    while addresses.len() < MAX_FIELDS {
        let (is_address, behind) = field(rest)?;
        addresses.push(is_address);
        match behind {
            [dot, more @ ..] if dot.is(".") => rest = more,
            values => return addresses.contains(&true).then(|| value(values, &addresses)).flatten(),
        }
    }
    None
}

/// Whether a field is an address, and what follows it.
fn field<'w, 'a>(words: &'w [Word<'a>]) -> Option<(bool, &'w [Word<'a>])> {
    let texts: Vec<&str> = words.iter().take(4).map(|word| word.text).collect();
    let length = match texts[..] {
        ["ip" | "ip6", "saddr" | "daddr", ..] | ["rt", "nexthop", ..] => 2,
        ["rt", "ip" | "ip6", "nexthop", ..] | ["arp", "saddr" | "daddr", "ip", ..] => 3,
        ["ct", "original" | "reply", "saddr" | "daddr", ..] => 3,
        ["ct", "original" | "reply", "ip" | "ip6", "saddr" | "daddr"] => 4,
        // The words of another one are as many as stand before the next dot, or what all but a few have.
        _ => {
            let dot = texts.iter().position(|text| *text == ".");
            let length = dot.unwrap_or(2).min(words.len());
            let is_named = |word: &Word<'_>| word.kind == Kind::Plain && word.text.starts_with(char::is_alphabetic);
            return (length > 0 && words[..length].iter().all(is_named)).then(|| (false, &words[length..]));
        }
    };
    Some((true, &words[length..]))
}

/// The name among the values behind fields, of which those that are addresses are known.
fn value<'a>(words: &[Word<'a>], addresses: &[bool]) -> Option<Word<'a>> {
    const OPERATORS: [&str; 8] = ["eq", "ne", "lt", "gt", "le", "ge", "map", "vmap"];
    let words = match words {
        [operator, rest @ ..] if OPERATORS.contains(&operator.text) => rest,
        _ => words,
    };
    let [first, elements @ ..] = words else { return None };
    if !first.is("{") {
        return part(words, addresses);
    }
    let end = elements.iter().position(|word| word.is("}") || word.is("{")).unwrap_or(elements.len());
    elements[..end].split(|word| word.is(",")).find_map(|element| part(element, addresses))
}

/// The name in `10.0.0.1 . NAME`.
fn part<'a>(element: &[Word<'a>], addresses: &[bool]) -> Option<Word<'a>> {
    let parts = element.split(|word| word.is("."));
    parts.zip(addresses).filter(|(_, is_address)| **is_address).find_map(|(part, _)| {
        let mut own = part.iter().filter(|word| word.kind != Kind::Newline);
        let first = own.next()?;
        // Behind an address, as that is a mask: `& 255.0.0.0 == NAME`.
        let masked = own.next().filter(|_| first.text.parse::<IpAddr>().is_ok());
        [Some(first), masked].into_iter().flatten().find(|word| is_host(word)).copied()
    })
}

/// A name that packets are sent to: `dnat to NAME`, `dup to ip saddr map { 10.0.0.1 : NAME }`.
fn destination<'a>(words: &[Word<'a>]) -> Option<Word<'a>> {
    let statement = |word: &Word<'_>| ["dnat", "snat", "dup", "tproxy"].iter().any(|name| word.is(name));
    let first = words.iter().position(statement)?;
    let pairs = words[first..].windows(2);
    let leads_to = |pair: &&[Word<'_>]| (pair[0].is("to") || pair[0].is(":")) && is_host(&pair[1]);
    pairs.filter(leads_to).map(|pair| pair[1]).next()
}

/// Whether nft would look a word up, where it expects an address.
fn is_host(word: &Word<'_>) -> bool {
    if word.kind == Kind::Quoted {
        return true;
    }
    let first = word.text.split(['-', '/', ':']).next().unwrap_or_default();
    let is_ipv6 = word.text.contains(':') && first.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = first.starts_with("0x") || first.bytes().all(|byte| byte.is_ascii_digit());
    let starts = word.text.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
    word.kind == Kind::Plain
        && starts
        && !is_ipv6
        && !is_number
        && first.parse::<Ipv4Addr>().is_err()
        && !is_keyword(word.text)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::Words;
    use super::*;

    #[rstest]
    #[case::source("ip saddr localhost accept", "localhost")]
    #[case::in_quotes("ip saddr \"localhost\" accept", "localhost")]
    #[case::domain("ip6 daddr != www.example.com drop", "www.example.com")]
    #[case::without_blanks("ip saddr!=localhost drop", "localhost")]
    #[case::range("ip saddr 10.0.0.1-10.0.0.9 ip daddr my-host drop", "my-host")]
    #[case::prefix("ip saddr localhost/8 drop", "localhost/8")]
    #[case::set("tcp dport 80 ip daddr { 10.0.0.1, localhost } drop", "localhost")]
    #[case::several_fields("tcp dport . ip saddr { 80 . 10.0.0.1, 81 . localhost } drop", "localhost")]
    #[case::behind_other_words("counter ip saddr . meta l4proto . th dport { localhost . tcp . 80 } drop", "localhost")]
    #[case::verdicts("ip daddr vmap { localhost : drop }", "localhost")]
    #[case::mask("ip saddr & 255.0.0.0 == localhost", "localhost")]
    #[case::connection("ct original ip saddr localhost drop", "localhost")]
    #[case::route("rt ip nexthop gateway drop", "gateway")]
    #[case::arp("arp saddr ip localhost drop", "localhost")]
    #[case::translated("tcp dport 80 dnat to localhost", "localhost")]
    #[case::translated_with_port("dnat ip to localhost:80", "localhost:80")]
    #[case::copied("dup to localhost device eth0", "localhost")]
    #[case::mapped("dnat to ip daddr map { 10.0.0.1 : localhost }", "localhost")]
    #[case::by_hash("snat to jhash ip saddr mod 2 map { 0 : 10.0.0.1, 1 : localhost }", "localhost")]
    fn names_of_hosts_are_found(#[case] text: &str, #[case] expected: &str) {
        let words: Vec<Word<'_>> = Words::of(text).all().collect();
        assert_eq!(host_name(&words).map(|word| word.text), Some(expected));
    }

    #[rstest]
    #[case::addresses("ip saddr { 10.0.0.1-10.0.0.5, 10.1.0.0/16 } ip6 daddr fe80::/10 drop")]
    #[case::types("icmp type { echo-request, echo-reply } ip saddr 10.0.0.0/8 drop")]
    #[case::interface("iifname . ip saddr { \"eth0\" . 10.0.0.1 } drop")]
    #[case::verdicts("ip saddr . tcp dport vmap { 10.0.0.1 . 80 : goto web, 10.0.0.2 . 81 : drop }")]
    #[case::update("update @clients { ip saddr timeout 5m limit rate 5/second } accept")]
    #[case::named("ip saddr @blocked drop")]
    #[case::hash("jhash ip saddr . tcp sport mod 4 seed 0x1 vmap { 0 : drop }")]
    #[case::mark("meta mark set ip saddr & 0xff accept")]
    #[case::route("fib saddr . iif oif missing drop")]
    #[case::hardware("ether saddr 00:11:22:33:44:55 drop")]
    #[case::translated("dnat ip6 to [2001:db8::1]:80")]
    #[case::port("tproxy to :50080 accept")]
    #[case::mapped("dnat ip to ip daddr . tcp dport map @services")]
    fn what_nft_prints_has_none(#[case] text: &str) {
        let words: Vec<Word<'_>> = Words::of(text).all().collect();
        assert_eq!(host_name(&words), None);
    }
}
