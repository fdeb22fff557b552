//! Rules of Services that match no port, which kube-proxy does not write.

use svclab_rules::iptables::{ChainKind, Match, TableName};

use super::finding::Finding;
use super::severity::Severity;
use super::view::{Placed, Tables, View};
use crate::evidence::Format;
use crate::text::counted;

/// A finding for each rule set with such rules.
pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    view.tables().filter_map(of).collect()
}

fn of(tables: Tables<'_>) -> Option<Finding> {
    let mut all = tables.rules().filter(is_portless);
    let first = all.next()?;
    let rules = counted(all.count() + 1, "rule");
    // People leave columns of listings out.
    let severity = if tables.node.format == Format::IptablesSave { Severity::Warning } else { Severity::Info };
    let message = format!(
        "{rules} for addresses or node ports of Services without a port: the iptables that printed this is older than the one that wrote it, \
         or the text was shortened"
    );
    let effect = "none if so; otherwise, connections to all ports of the address go to the Service";
    Some(Finding::new("reader-skew", tables.place(first.line), message, effect).graded(severity))
}

/// Whether a rule leads from kube-proxy's lists of addresses to a Service for all ports of a protocol.
fn is_portless(placed: &Placed<'_>) -> bool {
    let is_list = ["KUBE-SERVICES", "KUBE-NODEPORTS"].contains(&&*placed.chain.name);
    let next = || placed.rule.next_chain().and_then(|next| ChainKind::of(next));
    placed.table == TableName::Nat
        && is_list
        && placed.rule.protocol.is_some()
        && !placed.rule.is_unread()
        && !placed.rule.matches.iter().any(|one| matches!(one, Match::Ports(_)))
        && next().is_some_and(|(kind, _)| kind != ChainKind::Endpoint)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::tests::BASE;
    use crate::lint::{Severity, lint};

    #[rstest]
    #[case::with_ports("--dport 80", "--dport 80", None)]
    #[case::without(" -m tcp --dport 80", "", Some(Severity::Warning))]
    fn rules_of_services_match_a_port(#[case] old: &str, #[case] new: &str, #[case] expected: Option<Severity>) {
        assert!(BASE.contains(old), "{BASE}");
        let found = lint(&read(&BASE.replace(old, new)));
        let own = found.iter().find(|one| one.id == "reader-skew");
        assert_eq!(own.map(|one| one.severity), expected, "{found:?}");
    }
}
