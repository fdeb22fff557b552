//! Detection of names that nft looks up on the host: host names in DNS, names of services, users and marks in files. The rule would depend
//! on the machine. `nft list` prints addresses and numbers.

use std::net::{IpAddr, Ipv4Addr};

use super::vocabulary::is_keyword;
use super::words::{Kind, Word};

/// The kind of a field for which nft accepts a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Address,
    /// `/etc/services`.
    Port,
    /// `/etc/passwd`.
    User,
    /// `/etc/group`.
    UserGroup,
    /// `/etc/iproute2`, `connlabel.conf`.
    Number,
}

impl Named {
    /// Returns the error message for a name.
    fn fault(self, name: &str) -> String {
        let (what, instead) = match self {
            Self::Address => ("the name of a host", "address"),
            Self::Port => ("the name of a service", "port"),
            Self::User => ("the name of a user", "ID"),
            Self::UserGroup => ("the name of a user group", "ID"),
            Self::Number => ("a name from a file of the host", "number"),
        };
        format!("`{name}` is {what}: write its {instead}")
    }

    /// Returns whether nft would look up a word.
    fn is_name(self, word: &Word<'_>) -> bool {
        match self {
            Self::Address => is_host(word),
            _ => match word.kind {
                Kind::Quoted => true,
                Kind::Plain => word.text.starts_with(char::is_alphabetic) && !is_keyword(word.text),
                Kind::Sign | Kind::Newline => false,
            },
        }
    }
}

/// Returns the error, with its byte offset, for a name in a rule that nft would look up on the host.
pub(in crate::nftables) fn name_fault(words: &[Word<'_>]) -> Option<(usize, String)> {
    let (named, name) = first_name(words)?;
    Some((name.start, named.fault(name.text)))
}

/// Returns the first such name.
fn first_name<'a>(words: &[Word<'a>]) -> Option<(Named, Word<'a>)> {
    let words: Vec<Word<'a>> = words.iter().flat_map(pieces).collect();
    // After a dot, earlier fields continue.
    let mut starts = (0..words.len()).filter(|at| *at == 0 || !words[at - 1].is("."));
    starts.find_map(|at| compared(&words[at..])).or_else(|| destination(&words))
}

/// Splits a word from operators that nft accepts without blanks.
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

/// Returns a name that is compared with the fields at the start of the words: `ip saddr NAME`, `tcp dport . ip saddr { 80 . NAME }`.
fn compared<'a>(words: &[Word<'a>]) -> Option<(Named, Word<'a>)> {
    // The kernel's registers do not hold more.
    const MAX_FIELDS: usize = 16;
    let mut fields = Vec::new();
    let mut rest = words;
    while fields.len() < MAX_FIELDS {
        let (named, after) = field(rest)?;
        fields.push(named);
        match after {
            [dot, more @ ..] if dot.is(".") => rest = more,
            values => return fields.iter().any(Option::is_some).then(|| value(values, &fields)).flatten(),
        }
    }
    None
}

/// Returns the kind of a field, and the words after it.
fn field<'w, 'a>(words: &'w [Word<'a>]) -> Option<(Option<Named>, &'w [Word<'a>])> {
    let texts: Vec<&str> = words.iter().take(4).map(|word| word.text).collect();
    let (named, length) = match texts[..] {
        ["ip" | "ip6", "saddr" | "daddr", ..] | ["rt", "nexthop", ..] => (Named::Address, 2),
        ["rt", "ip" | "ip6", "nexthop", ..] | ["arp", "saddr" | "daddr", "ip", ..] => (Named::Address, 3),
        ["ct", "original" | "reply", "saddr" | "daddr", ..] => (Named::Address, 3),
        ["ct", "original" | "reply", "ip" | "ip6", "saddr" | "daddr"] => (Named::Address, 4),
        ["tcp" | "udp" | "udplite" | "dccp" | "sctp" | "th", "sport" | "dport", ..] => (Named::Port, 2),
        ["ct", "proto-src" | "proto-dst", ..] => (Named::Port, 2),
        ["ct", "original" | "reply", "proto-src" | "proto-dst", ..] => (Named::Port, 3),
        ["meta", "skuid", ..] => (Named::User, 2),
        ["meta", "skgid", ..] => (Named::UserGroup, 2),
        ["skuid", ..] => (Named::User, 1),
        ["skgid", ..] => (Named::UserGroup, 1),
        ["meta" | "ct", "mark", ..] | ["ct", "label", ..] | ["rt", "classid", ..] => (Named::Number, 2),
        ["meta", "rtclassid" | "iifgroup" | "oifgroup", ..] => (Named::Number, 2),
        ["mark" | "rtclassid" | "iifgroup" | "oifgroup", ..] => (Named::Number, 1),
        // Another field ends at the next dot, or has the usual number of words.
        _ => {
            let dot = texts.iter().position(|text| *text == ".");
            let length = dot.unwrap_or(2).min(words.len());
            let is_word = |word: &Word<'_>| word.kind == Kind::Plain && word.text.starts_with(char::is_alphabetic);
            return (length > 0 && words[..length].iter().all(is_word)).then(|| (None, &words[length..]));
        }
    };
    Some((Some(named), words.get(length..)?))
}

/// Returns a name among the values after fields.
fn value<'a>(words: &[Word<'a>], fields: &[Option<Named>]) -> Option<(Named, Word<'a>)> {
    const OPERATORS: [&str; 8] = ["eq", "ne", "lt", "gt", "le", "ge", "map", "vmap"];
    let words = match words {
        [operator, rest @ ..] if OPERATORS.contains(&operator.text) => rest,
        _ => words,
    };
    let [first, elements @ ..] = words else { return None };
    if !first.is("{") {
        return part(words, fields);
    }
    let end = elements.iter().position(|word| word.is("}") || word.is("{")).unwrap_or(elements.len());
    elements[..end].split(|word| word.is(",")).find_map(|element| part(element, fields))
}

/// Returns the name in `10.0.0.1 . NAME`.
fn part<'a>(element: &[Word<'a>], fields: &[Option<Named>]) -> Option<(Named, Word<'a>)> {
    let parts = element.split(|word| word.is("."));
    parts.zip(fields).find_map(|(part, named)| {
        let named = (*named)?;
        let mut own = part.iter().filter(|word| word.kind != Kind::Newline);
        let first = own.next()?;
        // After a mask: `& 255.0.0.0 == NAME`.
        let is_mark = named == Named::Number && first.text.starts_with(|letter: char| letter.is_ascii_digit());
        let masked = own.next().filter(|_| is_mark || first.text.parse::<IpAddr>().is_ok());
        let name = [Some(first), masked].into_iter().flatten().find(|word| named.is_name(word))?;
        Some((named, *name))
    })
}

/// Returns a name that packets are sent to: `dnat to NAME`, `redirect to :NAME`, `dup to ip saddr map { 10.0.0.1 : NAME }`.
fn destination<'a>(words: &[Word<'a>]) -> Option<(Named, Word<'a>)> {
    let statement =
        |word: &Word<'_>| ["dnat", "snat", "dup", "tproxy", "redirect", "masquerade"].iter().any(|name| word.is(name));
    let first = words.iter().position(statement)?;
    let mut pairs = words[first..].windows(2).filter(|pair| pair[0].is("to") || pair[0].is(":"));
    pairs.find_map(|pair| match pair[1] {
        host if is_host(&host) => Some((Named::Address, host)),
        target => port_name(target).map(|port| (Named::Port, port)),
    })
}

/// Returns the name in `10.0.0.1:NAME`, `[2001:db8::1]:NAME` or `:NAME`.
fn port_name(target: Word<'_>) -> Option<Word<'_>> {
    let (address, port) = target.text.rsplit_once(':')?;
    let is_address = address.is_empty() || address.ends_with(']') || address.parse::<Ipv4Addr>().is_ok();
    let port = Word { text: port, start: target.end - port.len(), ..target };
    (target.kind == Kind::Plain && is_address && Named::Port.is_name(&port)).then_some(port)
}

/// Returns whether nft would look up a word in place of an address.
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
    #[case::after_other_words("counter ip saddr . meta l4proto . th dport { localhost . tcp . 80 } drop", "localhost")]
    #[case::verdicts("ip daddr vmap { localhost : drop }", "localhost")]
    #[case::mask("ip saddr & 255.0.0.0 == localhost", "localhost")]
    #[case::connection("ct original ip saddr localhost drop", "localhost")]
    #[case::route("rt ip nexthop gateway drop", "gateway")]
    #[case::arp("arp saddr ip localhost drop", "localhost")]
    #[case::translated("tcp dport 80 dnat to localhost", "localhost")]
    #[case::translated_with_port("dnat ip to localhost:80", "localhost:80")]
    #[case::copied("dup to localhost device eth0", "localhost")]
    #[case::mapped("dnat to ip daddr map { 10.0.0.1 : localhost }", "localhost")]
    #[case::service("tcp dport http drop", "http")]
    #[case::services("th dport { 443, http-alt } drop", "http-alt")]
    #[case::service_in_quotes("tcp dport \"http\" drop", "http")]
    #[case::service_of_a_range("tcp dport http-https drop", "http-https")]
    #[case::services_with_verdicts("tcp dport vmap { http : drop }", "http")]
    #[case::connection_port("ct original proto-dst http drop", "http")]
    #[case::port_after_address("ip daddr . tcp dport { 10.0.0.1 . http } drop", "http")]
    #[case::redirected("tcp dport 81 redirect to :http", "http")]
    #[case::translated_port("dnat ip to 10.0.0.1:http", "http")]
    #[case::translated_port_of_ipv6("dnat ip6 to [2001:db8::1]:http", "http")]
    #[case::user("meta skuid != root drop", "root")]
    #[case::users("skuid { 0, daemon } drop", "daemon")]
    #[case::group("meta skgid daemon drop", "daemon")]
    #[case::mark("meta mark foo drop", "foo")]
    #[case::masked_mark("meta mark & 0xff == foo drop", "foo")]
    #[case::label("ct label web drop", "web")]
    #[case::realm("rtclassid cosmos drop", "cosmos")]
    #[case::interfaces("iifgroup default drop", "default")]
    #[case::by_hash("snat to jhash ip saddr mod 2 map { 0 : 10.0.0.1, 1 : localhost }", "localhost")]
    fn names_are_found(#[case] text: &str, #[case] expected: &str) {
        let words: Vec<Word<'_>> = Words::of(text).all().collect();
        assert_eq!(first_name(&words).map(|(_, word)| word.text), Some(expected));
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
    #[case::ports("tcp dport { 80, 443-445 } th sport != 22 drop")]
    #[case::port_verdicts("tcp dport vmap { 80 : drop, 81-90 : goto web }")]
    #[case::redirected("tcp dport 81 redirect to :80-90")]
    #[case::random("tcp dport 81 masquerade to :1024-65535 random")]
    #[case::users("meta skuid { 0-999, 65534 } meta skgid 0 drop")]
    #[case::old_marks("mark and 0x4000 == 0x4000 ct mark set mark or 0x1 accept")]
    #[case::marks("meta mark & 0x4000 == 0x0 meta mark set meta mark ^ 0x4000 ct label 1 accept")]
    #[case::mark_by_chance("meta mark set numgen random mod 2 map { 0 : 0x1, 1 : 0x2 }")]
    fn what_nft_prints_has_none(#[case] text: &str) {
        let words: Vec<Word<'_>> = Words::of(text).all().collect();
        assert_eq!(first_name(&words), None);
    }
}
