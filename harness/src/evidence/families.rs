//! The address family of rules without addresses, which `iptables-save` and `ip6tables-save` print alike.

use svclab_rules::cluster::Family;
use svclab_rules::iptables;

use super::model::{Contents, Evidence, Piece};

/// Assigns rules that may be of either family to IPv6 if their command or file says so, or if they follow the IPv4 rules of the same
/// machine. `name` is the name of the file, if there is only one.
pub(super) fn assign(evidence: &mut Evidence, name: Option<&str>) {
    // The last rules of IPv4.
    let mut last: Option<usize> = None;
    for at in 0..evidence.pieces.len() {
        let (before, rest) = evidence.pieces.split_at_mut(at);
        let Some(piece) = rest.first_mut() else { return };
        let name = piece.file.as_deref().or(name).map_or("", |name| name.rsplit('/').next().unwrap_or(name));
        let is_said = is_of_ipv6(piece.command.as_deref().unwrap_or(name));
        let is_second = piece.command.is_none() && last.is_some_and(|last| is_ipv4_of(&before[last], piece));
        let is_ipv6 = (is_said || is_second) && may_be_ipv6(piece);
        if let Contents::Iptables { rules, .. } = &mut piece.contents {
            if is_ipv6 {
                rules.rules.family = Family::Ipv6;
            }
            last = if rules.rules.family == Family::Ipv4 { Some(at) } else { last };
        }
    }
}

/// Whether rules were taken for those of IPv4, but might as well be of IPv6.
fn may_be_ipv6(piece: &Piece) -> bool {
    let Contents::Iptables { rules, .. } = &piece.contents else { return false };
    let mut all = rules.rules.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
    rules.rules.family == Family::Ipv4
        && all.all(|rule| rule.source.is_none() && rule.destination.is_none())
        && iptables::parse(&iptables::print(&rules.rules), Family::Ipv6).is_ok()
}

/// Whether a command or file name is one of `ip6tables` alone.
fn is_of_ipv6(name: &str) -> bool {
    name.contains("ip6tables") && !name.replace("ip6tables", "").contains("iptables")
}

/// Whether rules are those of IPv4 that the same machine printed in the same way.
fn is_ipv4_of(earlier: &Piece, piece: &Piece) -> bool {
    let (Contents::Iptables { rules, coverage, .. }, Contents::Iptables { rules: own, coverage: own_coverage, .. }) =
        (&earlier.contents, &piece.contents)
    else {
        return false;
    };
    let is_whole_in_both = |table: &iptables::Table| {
        let name = table.name.as_str();
        coverage.has_table(name) && own_coverage.has_table(name)
    };
    rules.rules.family == Family::Ipv4
        && (&earlier.file, &earlier.host, earlier.format) == (&piece.file, &piece.host, piece.format)
        && own.rules.tables.iter().all(is_whole_in_both)
}
