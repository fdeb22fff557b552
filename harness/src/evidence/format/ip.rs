//! `ip addr`, `ip route`, `ip rule`.

use std::net::IpAddr;

use ipnet::IpNet;

use super::super::filter::Filter;
use super::super::line::Line;
use super::super::model::{Contents, Format, Route};
use super::{Block, Context, run};

pub(super) fn knows(line: &str) -> bool {
    is_link(line) || is_route(line) || is_rule(line)
}

/// `inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0`, which `grep` picked.
fn is_address(line: &str) -> bool {
    let mut words = line.split_whitespace();
    matches!(words.next(), Some("inet" | "inet6"))
        && words.next().is_some_and(|word| word.parse::<IpNet>().is_ok())
        && words.any(|word| word == "scope")
}

/// `2: eth0: <BROADCAST,UP> mtu 1500 ...`, or `2: eth0    inet 10.0.0.1/24 ...` of `ip -o`.
fn is_link(line: &str) -> bool {
    if !line.trim_start().starts_with(|letter: char| letter.is_ascii_digit()) {
        return false;
    }
    let mut words = line.split_whitespace();
    let (number, name, next) =
        (words.next().unwrap_or_default(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_numbered = number
        .strip_suffix(':')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    is_numbered && ((name.ends_with(':') && next.starts_with('<')) || matches!(next, "inet" | "inet6"))
}

/// What follows an interface.
fn is_detail(line: &str) -> bool {
    ["link/", "inet ", "inet6 ", "valid_lft ", "altname ", "vxlan ", "bridge", "veth", "RX:", "TX:"]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Types of routes, of which the third to the sixth need no interface.
const TYPES: [&str; 8] =
    ["local", "broadcast", "blackhole", "unreachable", "prohibit", "throw", "multicast", "anycast"];

fn is_route(line: &str) -> bool {
    // A destination is a word of small letters or an address.
    if !line.starts_with(|letter: char| letter.is_ascii_hexdigit() || letter.is_ascii_lowercase() || letter == ':') {
        return false;
    }
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    let Some(first) = words.first() else { return false };
    let (destination, rest) =
        if TYPES.contains(first) { (words.get(1), &words[1..]) } else { (words.first(), &words[..]) };
    let is_network = |word: &str| {
        word == "default"
            || word.contains(['.', ':']) && (word.parse::<IpAddr>().is_ok() || word.parse::<IpNet>().is_ok())
    };
    destination.is_some_and(|word| is_network(word))
        && (rest.contains(&"via") || rest.contains(&"dev") || TYPES[2..6].contains(first))
}

fn route(line: &Line<'_>) -> Option<Route> {
    let text = line.text.trim();
    let mut words = text.split_whitespace().peekable();
    let kind = words.next_if(|word| TYPES.contains(word)).unwrap_or("unicast").to_owned();
    let destination = words.next()?;
    let network = || destination.parse().ok().or_else(|| destination.parse::<IpAddr>().ok().map(IpNet::from));
    let to = if destination == "default" { None } else { Some(network()?) };
    let words: Vec<&str> = words.collect();
    let after = |name: &str| words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1]);
    // `via inet6 fe80::1`
    let via = after("via").filter(|next| *next != "inet6").or_else(|| after("inet6"));
    let address = |word: Option<&str>| word.and_then(|word| word.parse().ok());
    let (via, source) = (address(via), address(after("src")));
    let device = after("dev").map(str::to_owned);
    Some(Route { line: line.number, text: text.to_owned(), kind, to, via, device, source })
}

/// `0: from all lookup local`
fn is_rule(line: &str) -> bool {
    let Some((number, rest)) = line.split_once(':') else { return false };
    !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && (rest.trim_start().starts_with("from ") || rest.trim_start().starts_with("not from "))
}

/// The addresses after `inet` and `inet6`, but for those that every machine has.
pub(super) fn addresses(lines: &[Line<'_>]) -> Vec<IpAddr> {
    let words = lines.iter().flat_map(|line| line.text.split_whitespace().zip(line.text.split_whitespace().skip(1)));
    let of_pair = |(word, next): (&str, &str)| {
        let own = next.trim_start_matches("addr:").split('/').next()?;
        matches!(word, "inet" | "inet6").then(|| own.parse::<IpAddr>().ok()).flatten()
    };
    words.filter_map(of_pair).filter(is_own).collect()
}

/// Whether an address is not one that every machine has.
pub(super) fn is_own(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback(),
        IpAddr::V6(ip) => !ip.is_loopback() && ip.segments()[0] != 0xfe80,
    }
}

pub(super) fn read(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    let first = lines.first()?.text.trim();
    let is_picked = context.command.as_ref().is_some_and(|command| matches!(command.filter(), Filter::Lines(_)));
    let (format, is_own): (_, fn(&str) -> bool) = match () {
        () if is_link(first) || is_picked && is_address(first) => {
            (Format::IpAddr, |line| is_link(line) || is_detail(line))
        }
        () if is_rule(first) => (Format::IpRule, is_rule),
        () if is_route(first) => (Format::IpRoute, is_route),
        () => return None,
    };
    let taken = run(lines, |line| is_own(line.trim()));
    let has_links = is_link(first);
    let is_entry = |line: &&Line<'_>| match format {
        Format::IpAddr if has_links => is_link(line.text.trim()),
        _ => !line.is_blank(),
    };
    let entries = lines[..taken].iter().filter(is_entry).count();
    let contents = match format {
        Format::IpAddr => Contents::Addresses(addresses(&lines[..taken]), entries),
        Format::IpRoute => {
            Contents::Routes(lines[..taken].iter().filter(|line| !line.is_blank()).filter_map(route).collect())
        }
        _ => Contents::Entries(entries),
    };
    Some(Block::new(format, taken, contents))
}
