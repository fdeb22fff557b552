//! Conditions as text.

use std::fmt::Write;

use super::{family, join};
use crate::cluster::{Family, Protocol};
use crate::nftables::{AddressRange, Addresses, Condition, ConnectionState, LookupKey, Side};

pub(super) fn write_condition(out: &mut String, condition: &Condition, ip: Family) {
    let not = |negated: bool| if negated { "!= " } else { "" };
    let _ = match condition {
        Condition::State { negated, states } => {
            let _ = write!(out, "ct state {}", not(*negated));
            let word = |out: &mut String, state: &ConnectionState| write!(out, "{}", state.as_str());
            // Behind `!=` several without braces would be compared with all bits at once.
            if *negated {
                several(out, states, word)
            } else {
                listed(out, states, ",", word)
            }
            Ok(())
        }
        Condition::Translated => write!(out, "ct status dnat"),
        Condition::Address { side, negated, value } => {
            let _ = write!(out, "{} {} {}", family(ip), side.as_str(), not(*negated));
            write_addresses(out, value);
            Ok(())
        }
        Condition::Ports { protocol, side, negated, ports } => {
            let field = if *side == Side::Source { "sport" } else { "dport" };
            let protocol = protocol.map_or("th", Protocol::as_str);
            let _ = write!(out, "{protocol} {field} {}", not(*negated));
            several(out, ports, |out, ports| match (ports.start(), ports.end()) {
                (first, last) if first == last => write!(out, "{first}"),
                (first, last) => write!(out, "{first}-{last}"),
            });
            Ok(())
        }
        Condition::Protocols { negated, numbers } => {
            let _ = write!(out, "meta l4proto {}", not(*negated));
            several(out, numbers, |out, number| match Protocol::of_number(*number) {
                Some(protocol) => write!(out, "{protocol}"),
                None => write!(out, "{number}"),
            });
            Ok(())
        }
        Condition::Family(Family::Ipv4) => write!(out, "meta nfproto ipv4"),
        Condition::Family(Family::Ipv6) => write!(out, "meta nfproto ipv6"),
        Condition::Interfaces { output, by_name, negated, names } => {
            let word = if *output { "oif" } else { "iif" };
            let _ = write!(out, "{word}{} {}", if *by_name { "name" } else { "" }, not(*negated));
            several(out, names, |out, name| write!(out, "\"{name}\""));
            Ok(())
        }
        Condition::Local(side) => write!(out, "fib {} type local", side.as_str()),
        Condition::Mark { negated, mask: u32::MAX, value } => {
            write!(out, "meta mark {}{value:#010x}", not(*negated))
        }
        Condition::Mark { negated, mask, value } => {
            let comparison = if *negated { "!=" } else { "==" };
            write!(out, "meta mark & {mask:#010x} {comparison} {value:#010x}")
        }
        Condition::InSet(key, set) => {
            write_key(out, key, ip);
            write!(out, " @{set}")
        }
        Condition::Other(json) => write!(out, "{json}"),
    };
}

fn write_addresses(out: &mut String, value: &Addresses) {
    let _ = match value {
        Addresses::One(address) => write!(out, "{address}"),
        Addresses::Prefix(prefix) => write!(out, "{}", AddressRange::from(*prefix)),
        Addresses::Set(name) => write!(out, "@{name}"),
        Addresses::Ranges(ranges) => {
            out.push_str("{ ");
            join(out, ", ", ranges, |out, range| {
                let _ = write!(out, "{range}");
            });
            write!(out, " }}")
        }
    };
}

pub(super) fn write_key(out: &mut String, key: &[LookupKey], ip: Family) {
    join(out, " . ", key, |out, part| {
        let _ = match part {
            LookupKey::Address(side) => write!(out, "{} {}", family(ip), side.as_str()),
            LookupKey::Protocol => write!(out, "meta l4proto"),
            LookupKey::DestinationPort => write!(out, "th dport"),
        };
    });
}

/// One item as it is, several between braces.
fn several<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T) -> std::fmt::Result) {
    let (start, end) = if items.len() == 1 { ("", "") } else { ("{ ", " }") };
    out.push_str(start);
    listed(out, items, ", ", write);
    out.push_str(end);
}

fn listed<T>(out: &mut String, items: &[T], between: &str, write: impl Fn(&mut String, &T) -> std::fmt::Result) {
    join(out, between, items, |out, item| {
        let _ = write(out, item);
    });
}
