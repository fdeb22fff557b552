//! Services without endpoints: their rejection, and what precedes it.

use svclab_rules::iptables::{Rule, TableName, Target};

use super::finding::Finding;
use super::view::{Tables, View};

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    view.tables()
        .flat_map(|tables| [before_reject(tables), local_drops(tables)].into_iter().flatten().collect::<Vec<_>>())
        .collect()
}

/// Another program's rule that accepts everything before the rejection of Services without endpoints.
fn before_reject(tables: Tables<'_>) -> Vec<Finding> {
    let rejects = |chain: &str| {
        tables
            .parsed
            .rules
            .rules(TableName::Filter, chain)
            .iter()
            .any(|rule| matches!(rule.target, Some(Target::Reject(_))))
    };
    if !rejects("KUBE-SERVICES") && !rejects("KUBE-EXTERNAL-SERVICES") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for name in ["FORWARD", "OUTPUT"] {
        let Some(chain) = tables.chain(TableName::Filter, name) else { continue };
        let services = chain.rules.iter().position(|rule| {
            rule.next_chain().is_some_and(|next| matches!(&**next, "KUBE-SERVICES" | "KUBE-EXTERNAL-SERVICES"))
        });
        let accepts = chain.rules.iter().position(|rule| rule.target == Some(Target::Accept) && takes_new(rule));
        if let (Some(accepts), Some(services)) = (accepts, services)
            && accepts < services
        {
            let message = format!(
                "a rule of {name} accepts packets before KUBE-SERVICES can reject those to Services without endpoints"
            );
            let effect = "connections to such Services time out where they should be rejected";
            found.push(Finding::new(
                "accept-before-reject",
                tables.place(tables.line(TableName::Filter, name, accepts)),
                message,
                effect,
            ));
        }
    }
    found
}

/// Whether a rule takes first packets to addresses of services.
fn takes_new(rule: &Rule) -> bool {
    let is_conditional = rule.matches.iter().any(|one| !one.always_holds());
    rule.destination.is_none() && rule.in_interface.is_none() && rule.out_interface.is_none() && !is_conditional
}

/// Services whose endpoints are all on other nodes, under a policy Local.
fn local_drops(tables: Tables<'_>) -> Vec<Finding> {
    let is_local = |rule: &Rule| {
        rule.target == Some(Target::Drop)
            && rule.comment().is_some_and(|comment| comment.contains("has no local endpoints"))
    };
    let mut found = Vec::new();
    for placed in tables.rules().filter(|placed| is_local(placed.rule)) {
        let service = placed.rule.comment().and_then(|comment| comment.split(' ').next()).unwrap_or_default();
        let message = format!(
            "{service} has traffic policy Local and no endpoint on this node: its connections are dropped here"
        );
        let effect = "as intended: a load balancer's health check keeps connections away from this node";
        found.push(Finding::new("local-drop", tables.place(placed.line), message, effect));
    }
    found
}
