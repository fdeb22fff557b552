//! Shared parts of printing.

use crate::cluster::Family;

/// Returns nft's keyword of a family.
pub(crate) fn family(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ip",
        Family::Ipv6 => "ip6",
    }
}

/// Returns `!= ` if a condition is negated.
pub(in crate::nftables) fn not(negated: bool) -> &'static str {
    if negated { "!= " } else { "" }
}

/// Writes items with a separator.
pub(in crate::nftables) fn join<T>(out: &mut String, between: &str, items: &[T], write: impl Fn(&mut String, &T)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(between);
        }
        write(out, item);
    }
}

/// Writes one item as it is, several in braces.
pub(in crate::nftables) fn one_or_braces<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    let (start, end) = if items.len() == 1 { ("", "") } else { ("{ ", " }") };
    out.push_str(start);
    join(out, ", ", items, write);
    out.push_str(end);
}
