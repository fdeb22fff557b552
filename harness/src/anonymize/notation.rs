//! The ways in which texts write addresses, other than those that the standard library reads.
//!
//! - in names of machines and pods: `ip-10-0-1-5`, `fd00-10-244--2.default.pod`; in those of variables: `ETCD_10_0_1_5_HOST`;
//! - in names of reverse zones, whole or in part: `5.1.0.10.in-addr.arpa`, `8.b.d.0.1.0.0.2.ip6.arpa`;
//! - in patterns, whole or in part: `10\.43\.0\.1`, `10\.43\.`, `10.43.0.x`, `10.43.*`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The maximum length that is searched: longer than any name of a reverse zone.
const LONGEST: usize = 80;

/// How an address is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// `10.0.1.5`, `fd00::5`
    Plain,
    /// `10-0-1-5`, `fd00--5`
    Dashed,
    /// `10_0_1_5`
    Underscored,
    /// `5.1.0.10`, in front of `.in-addr.arpa` and `.ip6.arpa`; of a network, only the labels of its prefix.
    Reversed,
    /// `10.43`, before `.x` or `.*`; only the numbers of the network's prefix.
    Partial,
    /// `10\.43`; of a network, only the numbers of its prefix.
    Escaped,
}

impl Notation {
    /// Writes an address, or the labels of a network.
    pub(super) fn write(self, network: IpNet) -> String {
        let ip = network.addr();
        match self {
            Self::Plain => ip.to_string(),
            Self::Dashed => ip.to_string().replace(['.', ':'], "-"),
            Self::Underscored => ip.to_string().replace('.', "_"),
            Self::Partial | Self::Escaped => {
                let text = ip.to_string();
                let shown: Vec<&str> = text.split('.').take(usize::from(network.prefix_len()) / 8).collect();
                shown.join(if self == Self::Escaped { "\\." } else { "." })
            }
            Self::Reversed => {
                let labels: Vec<String> = match ip {
                    IpAddr::V4(ip) => ip.octets().iter().map(u8::to_string).collect(),
                    IpAddr::V6(ip) => format!("{:032x}", ip.to_bits()).chars().map(String::from).collect(),
                };
                let shown = usize::from(network.prefix_len()) / if ip.is_ipv4() { 8 } else { 4 };
                let reversed: Vec<&str> = labels[..shown].iter().rev().map(String::as_str).collect();
                reversed.join(".")
            }
        }
    }
}

/// Matches an address in dashes or underscores at the start of a text.
pub(super) fn dashed(text: &str) -> Option<(IpAddr, usize, Notation)> {
    parts_ipv4(text).or_else(|| dashed_ipv6(text).map(|(ip, length)| (ip, length, Notation::Dashed)))
}

/// Matches four numbers with dashes or underscores between them.
pub(super) fn parts_ipv4(text: &str) -> Option<(IpAddr, usize, Notation)> {
    let numbers = text.bytes().take_while(u8::is_ascii_digit).take(4).count();
    let (mark, notation) = match text.as_bytes().get(numbers)? {
        b'-' => ('-', Notation::Dashed),
        b'_' => ('_', Notation::Underscored),
        _ => return None,
    };
    let is_part = |byte: &u8| byte.is_ascii_digit() || char::from(*byte) == mark;
    let length = text.bytes().take(LONGEST).take_while(is_part).count();
    let end = text[..length].match_indices(mark).nth(3).map_or(length, |(at, _)| at);
    let run = text[..end].trim_end_matches(mark);
    let ip: Ipv4Addr = run.replace(mark, ".").parse().ok()?;
    Some((ip.into(), run.len(), notation))
}

/// Matches only a pod's DNS name (`.NAMESPACE.pod`), since other names look the same.
fn dashed_ipv6(text: &str) -> Option<(IpAddr, usize)> {
    let length = text.bytes().take(LONGEST).take_while(|byte| byte.is_ascii_hexdigit() || *byte == b'-').count();
    let zone = text[length..].strip_prefix('.')?.split_once('.')?.1;
    let ip: Ipv6Addr = text[..length].replace('-', ":").parse().ok()?;
    zone.starts_with("pod").then_some((ip.into(), length))
}

/// Matches the labels of a reverse zone at the start of a text.
pub(super) fn reversed(text: &str) -> Option<(IpNet, usize)> {
    let is_label = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'.';
    let length = text.bytes().take(LONGEST).take_while(is_label).count();
    // The dot before `in-addr` or `ip6` is part of the run.
    let run = text[..length].strip_suffix('.')?;
    let rest = &text[length..];
    let labels = || run.split('.').rev();
    let network: IpNet = if rest.starts_with("in-addr.arpa") {
        network(&labels().map(|label| label.parse().ok()).collect::<Option<Vec<_>>>()?)?
    } else if rest.starts_with("ip6.arpa") && labels().all(|label| label.len() == 1) {
        let nibbles: String = labels().collect();
        let bits = u128::from_str_radix(&format!("{nibbles:0<32}"), 16).ok()?;
        Ipv6Net::new(bits.into(), 4 * u8::try_from(nibbles.len()).ok()?).ok()?.into()
    } else {
        return None;
    };
    Some((network, run.len()))
}

/// Matches the first numbers of an address in a pattern at the start of a text.
pub(super) fn pattern(text: &str) -> Option<(IpNet, usize, Notation)> {
    escaped(text).map(|(network, length)| (network, length, Notation::Escaped)).or_else(|| {
        let (network, length) = partial(text)?;
        Some((network, length, Notation::Partial))
    })
}

/// `10\\.43\\.`: two to four numbers with escaped dots between them.
fn escaped(text: &str) -> Option<(IpNet, usize)> {
    let (octets, length) = octets(text, "\\.")?;
    (octets.len() > 1).then_some((network(&octets)?, length))
}

/// `10.43.x.x`: one to three numbers, and placeholders for the rest.
fn partial(text: &str) -> Option<(IpNet, usize)> {
    let (octets, length) = octets(text, ".")?;
    let mut rest = text[length..].strip_prefix('.')?.chars();
    let is_placeholder =
        matches!(rest.next(), Some('x' | 'X' | '*')) && !rest.next().is_some_and(char::is_alphanumeric);
    (octets.len() < 4 && is_placeholder).then_some((network(&octets)?, length))
}

/// Up to four numbers of an address with these marks between them, and their length.
fn octets(text: &str, mark: &str) -> Option<(Vec<u8>, usize)> {
    let (mut octets, mut length) = (Vec::new(), 0);
    while octets.len() < 4 {
        let start =
            if octets.is_empty() { Some(0) } else { text[length..].starts_with(mark).then_some(length + mark.len()) };
        let Some(start) = start else { break };
        let digits = text[start..].bytes().take(4).take_while(u8::is_ascii_digit).count();
        let Ok(octet) = text[start..start + digits].parse() else { break };
        octets.push(octet);
        length = start + digits;
    }
    (!octets.is_empty()).then_some((octets, length))
}

/// The network of all addresses that start with these numbers.
fn network(octets: &[u8]) -> Option<IpNet> {
    let mut all = [0; 4];
    all.get_mut(..octets.len())?.copy_from_slice(octets);
    Some(Ipv4Net::new(all.into(), 8 * u8::try_from(octets.len()).ok()?).ok()?.into())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("82.34.96.10.in-addr.arpa.", "10.96.34.82/32", "82.34.96.10")]
    #[case("96.10.in-addr.arpa", "10.96.0.0/16", "96.10")]
    #[case("8.b.d.0.1.0.0.2.ip6.arpa", "2001:db8::/32", "8.b.d.0.1.0.0.2")]
    #[case(
        "a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa",
        "fd00:10:96::a/128",
        "a.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f"
    )]
    fn reverse_zones_are_written_as_read(#[case] text: &str, #[case] network: IpNet, #[case] labels: &str) {
        assert_eq!(reversed(text), Some((network, labels.len())));
        assert_eq!(Notation::Reversed.write(network), labels);
    }

    #[rstest]
    #[case("10-0-1-5.ec2", Some("10.0.1.5"))]
    #[case("10-0-1-5-6x", Some("10.0.1.5"))]
    #[case("fd00-10-244--2.default.pod.cluster.local", Some("fd00:10:244::2"))]
    #[case("ad--1.example.io", None)]
    #[case("2026-11-27-12", None)]
    #[case("10_0_1_5_HOST", Some("10.0.1.5"))]
    #[case("10-0_1-5", None)]
    fn dashes_are_read(#[case] text: &str, #[case] expected: Option<&str>) {
        let expected = expected.map(|ip| ip.parse::<IpAddr>().expect("an address"));
        assert_eq!(dashed(text).map(|(ip, ..)| ip), expected);
        if let Some((ip, length, notation)) = dashed(text) {
            assert_eq!(notation.write(ip.into()), text[..length]);
        }
    }

    #[rstest]
    #[case(r"10\.43\.|x", Some(("10.43.0.0/16", r"10\.43")))]
    #[case(r"10\.43\.0\.1$", Some(("10.43.0.1/32", r"10\.43\.0\.1")))]
    #[case(r"10\.", None)]
    #[case("10.43.0.x", Some(("10.43.0.0/24", "10.43.0")))]
    #[case("10.43.X.X", Some(("10.43.0.0/16", "10.43")))]
    #[case("10.43.*", Some(("10.43.0.0/16", "10.43")))]
    #[case("172.x.x.x", Some(("172.0.0.0/8", "172")))]
    #[case("1.30.xyz", None)]
    #[case("1.30.2", None)]
    #[case("300.43.x", None)]
    fn patterns_are_written_as_read(#[case] text: &str, #[case] expected: Option<(&str, &str)>) {
        let found = pattern(text);
        let shown = found.map(|(network, length, _)| (network.to_string(), &text[..length]));
        assert_eq!(shown, expected.map(|(network, numbers)| (network.to_owned(), numbers)));
        if let Some((network, length, notation)) = found {
            assert_eq!(notation.write(network), text[..length]);
        }
    }
}
