//! Service ports with rules for other addresses and none for a cluster IP: every Service with those has one.

use svclab_rules::compare::Subject;
use svclab_rules::infer::InferredPort;
use svclab_rules::iptables::TableName;
use svclab_rules::ruleset::Rules;

use super::finding::{Finding, Place};
use super::lines::PortLines;
use super::view::View;
use crate::evidence::NodeRules;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let of_node = |(node, ports): (&NodeRules, &Vec<InferredPort>)| -> Vec<Finding> {
        if !shows_cluster_ips(node) {
            return Vec::new();
        }
        let lines = PortLines::of(node);
        let has_rejections = ports.iter().any(is_rejection);
        let lost = ports.iter().filter(|port| lacks_cluster_ip(port) && !(port.is_unnamed() && has_rejections));
        lost.map(|port| finding(node, port, &lines)).collect()
    };
    view.nodes.iter().zip(&view.ports).flat_map(of_node).collect()
}

/// Whether the text shows all rules for cluster IPs: in iptables mode, one table translates and another one rejects.
fn shows_cluster_ips(node: &NodeRules) -> bool {
    let of_iptables = [TableName::Nat, TableName::Filter];
    match &node.rules {
        Rules::Iptables(_) => of_iptables.iter().all(|table| node.coverage.has_table(table.as_str())),
        _ => node.is_whole(),
    }
}

fn lacks_cluster_ip(port: &InferredPort) -> bool {
    let has_others = port.node_port.is_some() || !port.external_ips.is_empty() || !port.load_balancer.is_empty();
    has_others && port.cluster_ips.is_empty()
}

/// Whether it is a rejection without a comment, which names no Service: its address may be that of any whose name is not known.
fn is_rejection(port: &InferredPort) -> bool {
    port.is_unnamed() && port.endpoints.is_empty() && port.local.is_empty()
}

fn finding(node: &NodeRules, port: &InferredPort, lines: &PortLines<'_>) -> Finding {
    let place = Place { file: node.file.clone(), line: lines.line_of_port(port).unwrap_or(node.first) };
    let message = format!("{}: no rule is for its cluster IP, and rules are for its other addresses", port.full_name());
    let effect = "connections to the cluster IP are neither load-balanced nor rejected";
    let subject = Subject::Service(port.full_name());
    Finding::new("missing-rule", place, message, effect).with_mode(node.rules.mode()).about([subject])
}
