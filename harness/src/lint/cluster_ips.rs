//! Service ports with rules for other addresses and none for a cluster IP: every Service with those has one.

use svclab_rules::infer::InferredPort;

use super::finding::{Finding, Place};
use super::view::View;
use crate::evidence::NodeRules;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let of_node = |(node, ports): (&NodeRules, &Vec<InferredPort>)| -> Vec<Finding> {
        let lost = ports.iter().filter(|port| node.is_whole() && lacks_cluster_ip(port));
        lost.map(|port| finding(node, port)).collect()
    };
    view.nodes.iter().zip(&view.ports).flat_map(of_node).collect()
}

fn lacks_cluster_ip(port: &InferredPort) -> bool {
    let has_others = port.node_port.is_some() || !port.external_ips.is_empty() || !port.load_balancer.is_empty();
    has_others && port.cluster_ips.is_empty()
}

fn finding(node: &NodeRules, port: &InferredPort) -> Finding {
    let place = Place { file: node.file.clone(), line: node.first };
    let message = format!("{}: no rule is for its cluster IP, and rules are for its other addresses", port.full_name());
    let effect = "connections to the cluster IP are neither load-balanced nor rejected";
    Finding::new("missing-rule", place, message, effect).with_mode(node.rules.mode())
}
