//! Services that a node rejects or drops as intended: without endpoints, or without local ones under a policy Local.

use std::borrow::Cow;
use std::collections::BTreeSet;

use svclab_rules::iptables::{Rule, TableName, Target};
use svclab_rules::nftables::{Element, Verdict};
use svclab_rules::ruleset::Rules;

use super::finding::{Finding, Place};
use super::view::{Tables, View};
use crate::evidence::NodeRules;
use crate::text::list;

/// The most Services that are named.
const MAX_NAMED: usize = 5;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    view.nodes.iter().flat_map(of_node).collect()
}

fn of_node(node: &NodeRules) -> Vec<Finding> {
    let found_rules = match &node.rules {
        Rules::Iptables(parsed) => of_iptables(Tables { node, parsed }),
        Rules::Nftables(_) => of_nftables(node),
        Rules::OtherTables(_) => Vec::new(),
    };
    let place = |line: usize| Place { file: node.file.clone(), line: if line == 0 { node.first } else { line } };
    let mode = node.rules.mode();
    let mut found: Vec<Finding> = Vec::new();
    for NoEndpoints { service, line, .. } in found_rules.iter().filter(|rule| rule.is_dropped) {
        let message = format!(
            "{service} has traffic policy Local and no endpoint on this node: its connections are dropped here"
        );
        let effect = "as intended: a load balancer's health check keeps connections away from this node";
        found.push(Finding::new("local-drop", place(*line), message, effect).with_mode(mode));
    }
    let rejected: Vec<&NoEndpoints<'_>> = found_rules.iter().filter(|rule| !rule.is_dropped).collect();
    if let Some(first) = rejected.first() {
        let services: BTreeSet<&str> = rejected.iter().map(|rule| &*rule.service).collect();
        let (verb, whose) = if services.len() == 1 { ("has", "its") } else { ("have", "their") };
        let message = format!("{} {verb} no endpoints: {whose} connections are rejected", list(services, MAX_NAMED));
        let effect = "as intended: connections are rejected at once while no pod of the Service is ready";
        found.push(Finding::new("rejected-service", place(first.line), message, effect).with_mode(mode));
    }
    found
}

/// A rule for a service port without a usable endpoint.
struct NoEndpoints<'n> {
    /// Its name; its address, if nothing names it.
    service: Cow<'n, str>,
    /// The line; 0 if it is not known.
    line: usize,
    /// Whether it drops packets, because other nodes have endpoints.
    is_dropped: bool,
}

/// The chains with rules for Services without endpoints.
const LISTS: [&str; 2] = ["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES"];

fn of_iptables(tables: Tables<'_>) -> Vec<NoEndpoints<'_>> {
    // Up to 1.23, such packets are marked, and dropped later.
    let drops = |rule: &Rule| {
        rule.target == Some(Target::Drop) || rule.next_chain().is_some_and(|next| **next == *"KUBE-MARK-DROP")
    };
    let mut found_rules = Vec::new();
    for placed in tables.rules() {
        let rule = placed.rule;
        let rejects = matches!(rule.target, Some(Target::Reject(_)));
        let own = match rule.comment().and_then(|comment| comment.split_once(' ')) {
            Some((service, "has no local endpoints")) if drops(rule) => Some((service.into(), true)),
            Some((service, "has no endpoints")) if rejects => Some((service.into(), false)),
            // nft prints no comments of iptables' rules.
            None if LISTS.contains(&&*placed.chain.name) && placed.table == TableName::Filter => {
                let address = rule.destination.as_ref().filter(|to| !to.negated).and_then(|to| to.value.single());
                address.filter(|_| rejects || drops(rule)).map(|address| (address.to_string().into(), !rejects))
            }
            _ => None,
        };
        found_rules.extend(own.map(|(service, is_dropped)| NoEndpoints { service, line: placed.line, is_dropped }));
    }
    found_rules
}

fn of_nftables(node: &NodeRules) -> Vec<NoEndpoints<'_>> {
    let Some(parsed) = node.rules.nftables() else { return Vec::new() };
    let sets = parsed
        .rules
        .tables
        .iter()
        .enumerate()
        .flat_map(|(table, own)| own.sets.iter().enumerate().map(move |(at, set)| (table, at, set)));
    let of_rejections = sets.filter(|(.., set)| set.name.starts_with("no-endpoint-"));
    let drops = |element: &Element| match element.verdict.as_ref()? {
        Verdict::Drop => Some(true),
        Verdict::Goto(_) | Verdict::Jump(_) => Some(false),
        _ => None,
    };
    let mut found_rules = Vec::new();
    for (table, set_at, set) in of_rejections {
        for (at, element) in set.elements.iter().enumerate() {
            let Some((service, drops)) = element.comment.as_deref().zip(drops(element)) else { continue };
            let line = parsed.lines.element(table, set_at, at).unwrap_or_default();
            found_rules.push(NoEndpoints { service: service.into(), line, is_dropped: drops });
        }
    }
    found_rules
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::{Severity, lint};

    /// In saved rules of all releases, in listings, and in maps of nftables; before 1.24, what is dropped is only marked.
    #[rstest]
    #[case::saved(
        "-A KUBE-SERVICES -d 10.43.52.119/32 -p tcp -m comment --comment \"default/x:http has no endpoints\" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable",
        "rejected-service"
    )]
    #[case::listed(
        "Chain KUBE-SERVICES (2 references)\ntarget     prot opt source               destination\nREJECT     tcp  --  anywhere             10.43.52.119         /* default/x:http has no endpoints */ tcp dpt:http reject-with icmp-port-unreachable",
        "rejected-service"
    )]
    #[case::local(
        "-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"default/x:http has no local endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP",
        "local-drop"
    )]
    #[case::marked(
        "-A KUBE-XLB-ICKQE4PTG2WGVXBF -m comment --comment \"default/x:http has no local endpoints\" -j KUBE-MARK-DROP",
        "local-drop"
    )]
    fn services_without_endpoints_are_named(#[case] rules: &str, #[case] id: &str) {
        let found = lint(&read(rules));
        let own: Vec<_> = found.iter().filter(|one| one.id == id).collect();
        assert_eq!(own.len(), 1, "{found:?}");
        let is_named = own[0].message.starts_with("default/x:http has ");
        assert!(is_named && own[0].severity == Severity::Info && own[0].place.line == rules.lines().count(), "{own:?}");
    }

    /// nft prints no comments of iptables' rules: then an address stands for the Service.
    #[test]
    fn a_rejection_without_a_comment_is_that_of_an_address() {
        let text = "*filter\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -d 10.43.52.119/32 -p tcp -m tcp --dport 80 -j REJECT\nCOMMIT\n";
        let found = lint(&read(text));
        let own: Vec<_> = found.iter().filter(|one| one.id == "rejected-service").collect();
        assert!(own.len() == 1 && own[0].message.starts_with("10.43.52.119 has no endpoints"), "{found:?}");
    }

    #[rstest]
    #[case::rejected("goto reject-chain", "rejected-service")]
    #[case::dropped("drop", "local-drop")]
    fn maps_of_nftables_name_services_without_endpoints(#[case] verdict: &str, #[case] id: &str) {
        let file = "../rules/tests/golden/node-hints/v1.33-nftables/nft-ruleset.txt";
        let text = std::fs::read_to_string(file).unwrap();
        let map = "\tmap no-endpoint-services {\n";
        let at = text.find(map).unwrap();
        let elements =
            format!("\t\telements = {{ 10.96.0.99 . tcp . 80 comment \"default/x:http\" : {verdict} }}\n\t}}\n");
        let end = text[at..].find("\t}\n").unwrap() + at;
        let text = format!("{}{elements}{}", &text[..end], &text[end + 3..]);
        let line = text.lines().position(|line| line.contains("10.96.0.99")).unwrap() + 1;
        let found = lint(&read(&text));
        let own: Vec<_> = found.iter().filter(|one| one.message.starts_with("default/x:http has ")).collect();
        assert_eq!(own.iter().map(|one| (one.id, one.place.line)).collect::<Vec<_>>(), [(id, line)], "{found:?}");
    }
}
