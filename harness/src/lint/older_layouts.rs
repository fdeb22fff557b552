//! Layouts of releases that are older than those that kube-proxy's rules are compared with.

use svclab_rules::compare::{Difference, Fact};
use svclab_rules::iptables::{Match, Rule, RuleSet, TableName};

use super::deviation_places::is_in;
use crate::evidence::NodeRules;
use crate::infer::Deviation;

/// Leaves out the deviations that are those of older layouts.
pub(super) fn leave_out(deviations: &mut Vec<Deviation>, nodes: &[NodeRules]) {
    let is_old = |node: &&NodeRules| node.rules.iptables().is_some_and(is_before_1_10);
    let old: Vec<&NodeRules> = nodes.iter().filter(is_old).collect();
    deviations.retain(|deviation| {
        !is_of_rejections(deviation, nodes)
            && !is_of_newer_chains(deviation, &old)
            && !is_of_load_balancer(deviation, &old)
    });
}

/// Whether it is the jump from FORWARD to KUBE-EXTERNAL-SERVICES, where INPUT jumps to KUBE-SERVICES instead: up to 1.19, rejections of load
/// balancers are there (kubernetes#95252). The recordings that 1.18 is modelled by have that change.
fn is_of_rejections(deviation: &Deviation, nodes: &[NodeRules]) -> bool {
    let is_jump = matches!(&deviation.finding.difference, Difference::Missing(Fact::Rule(rule))
        if rule.starts_with("-A FORWARD ") && rule.ends_with("-j KUBE-EXTERNAL-SERVICES"));
    let jumps = |rule: &Rule| rule.next_chain().is_some_and(|next| **next == *"KUBE-SERVICES");
    let is_older = |node: &NodeRules| {
        let tables = node.rules.iptables().filter(|_| is_in(node, deviation));
        tables.is_some_and(|tables| tables.rules(TableName::Filter, "INPUT").iter().any(jumps))
    };
    is_jump && nodes.iter().any(is_older)
}

/// Whether it is about a chain that 1.9 or 1.10 added to table `filter`, or the match for new connections that came with it, and the node,
/// one of a release before 1.10, has neither such a chain nor a rule that jumps there: a loss of rules leaves one of them.
fn is_of_newer_chains(deviation: &Deviation, old: &[&NodeRules]) -> bool {
    let Some(tables) = old.iter().find(|node| is_in(node, deviation)).and_then(|node| node.rules.iptables()) else {
        return false;
    };
    let words = deviation.finding.to_string();
    let is_of_output = words.contains("-A OUTPUT ") && words.contains("-j KUBE-SERVICES");
    let lacks = |chain: &str| words.contains(chain) && is_unknown(tables, chain);
    is_of_output || ["KUBE-FORWARD", "KUBE-EXTERNAL-SERVICES", "KUBE-FIREWALL"].into_iter().any(lacks)
}

/// Whether it is about chains for load balancers, which came after 1.2, where the node, one of an older release, has none: rules of KUBE-SERVICES mark
/// these connections, and lead them to the Service's chain.
fn is_of_load_balancer(deviation: &Deviation, old: &[&NodeRules]) -> bool {
    let tables = old.iter().find(|node| is_in(node, deviation)).and_then(|node| node.rules.iptables());
    let Some(nat) = tables.and_then(|tables| tables.table(TableName::Nat)) else { return false };
    let is_of_chain = |name: &str| name.starts_with("KUBE-FW-");
    let leads = |rule: &Rule| rule.next_chain().is_some_and(|next| is_of_chain(next));
    if nat.chains.iter().any(|chain| is_of_chain(&chain.name) || chain.rules.iter().any(leads)) {
        return false;
    }
    match &deviation.finding.difference {
        Difference::Missing(Fact::Masquerade(None) | Fact::RejectResponse(None))
        | Difference::Unexpected(Fact::Masquerade(Some(_))) => true,
        _ => deviation.finding.to_string().contains(" KUBE-FW-"),
    }
}

/// Whether rules are those of a release before 1.10: they have no chain that came later, and OUTPUT jumps to filter's KUBE-SERVICES for all
/// packets.
fn is_before_1_10(tables: &RuleSet) -> bool {
    let later = ["KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-CANARY", "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL"];
    let jumps_always = |rule: &Rule| {
        let has_conditions = rule.matches.iter().any(|one| !matches!(one, Match::Comment(_)));
        !has_conditions && rule.next_chain().is_some_and(|next| **next == *"KUBE-SERVICES")
    };
    later.iter().all(|chain| is_unknown(tables, chain))
        && tables.rules(TableName::Filter, "OUTPUT").iter().any(jumps_always)
}

/// Whether table `filter` neither has a chain nor jumps to it.
fn is_unknown(tables: &RuleSet, name: &str) -> bool {
    let Some(filter) = tables.table(TableName::Filter) else { return true };
    let mut rules = filter.chains.iter().flat_map(|chain| &chain.rules);
    filter.chain(name).is_none() && !rules.any(|rule| rule.next_chain().is_some_and(|next| **next == *name))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::{Severity, lint};

    /// The rules of 1.7.
    const SAVED: &str = r#"$ iptables-save
*nat
:PREROUTING ACCEPT [2:120]
:INPUT ACCEPT [2:120]
:OUTPUT ACCEPT [10:600]
:POSTROUTING ACCEPT [10:600]
:KUBE-MARK-DROP - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SEP-GWQABTP5GBYXHJY5 - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-CDGGSHYLG3RE2FKL - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j KUBE-MARK-MASQ
-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web:http" -m tcp --dport 30080 -j KUBE-SVC-CDGGSHYLG3RE2FKL
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -m mark --mark 0x4000/0x4000 -j MASQUERADE
-A KUBE-SEP-GWQABTP5GBYXHJY5 -s 10.244.1.10/32 -m comment --comment "default/web:http" -j KUBE-MARK-MASQ
-A KUBE-SEP-GWQABTP5GBYXHJY5 -p tcp -m comment --comment "default/web:http" -m tcp -j DNAT --to-destination 10.244.1.10:8080
-A KUBE-SERVICES ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-CDGGSHYLG3RE2FKL
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
-A KUBE-SVC-CDGGSHYLG3RE2FKL -m comment --comment "default/web:http" -j KUBE-SEP-GWQABTP5GBYXHJY5
COMMIT
*filter
:INPUT ACCEPT [100:6000]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [100:6000]
:KUBE-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL -m comment --comment "kubernetes firewall for dropping marked packets" -m mark --mark 0x8000/0x8000 -j DROP
COMMIT
"#;

    /// A chain that is declared has lost its rules.
    #[rstest]
    #[case::older("*nat", "*nat", true)]
    #[case::declared(":KUBE-FIREWALL - [0:0]", ":KUBE-FIREWALL - [0:0]\n:KUBE-FORWARD - [0:0]", false)]
    #[case::of_new_connections(
        "kubernetes service portals\" -j KUBE-SERVICES\n-A OUTPUT -j",
        "kubernetes service portals\" -m conntrack --ctstate NEW -j KUBE-SERVICES\n-A OUTPUT -j",
        false
    )]
    fn chains_of_later_releases_are_not_missing(#[case] from: &str, #[case] to: &str, #[case] is_older: bool) {
        assert!(SAVED.contains(from));
        let found = lint(&read(&SAVED.replace(from, to)));
        let grave: Vec<&str> =
            found.iter().filter(|one| one.severity != Severity::Info).map(|one| &*one.message).collect();
        assert_eq!(grave.is_empty(), is_older, "{grave:?}");
    }
}
