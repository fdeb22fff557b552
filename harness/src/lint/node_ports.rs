//! The addresses that node ports are served on.

use std::net::IpAddr;

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::compare::Subject;
use svclab_rules::coverage::nft_table;
use svclab_rules::infer::Infer;
use svclab_rules::nftables::SetKind;

use super::finding::{Finding, Place};
use super::view::View;
use crate::evidence::{MachinePieces, NodeRules};
use crate::infer::find_unassigned;
use crate::text::list;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let pieces = MachinePieces::of(view.evidence);
    view.nodes.iter().filter_map(|node| unassigned(node, &pieces, view.nodes.len() == 1)).collect()
}

/// Addresses that rules serve node ports on, and that the node does not have.
fn unassigned(node: &NodeRules, pieces: &MachinePieces<'_>, is_alone: bool) -> Option<Finding> {
    let found = find_unassigned(&node.rules.infer(), &pieces.addresses(std::slice::from_ref(node), is_alone))?;
    let family = Family::of(*found.addresses.first()?);
    let own: Vec<&IpAddr> = found.own.iter().filter(|ip| Family::of(**ip) == family).collect();
    let set = match node.rules.mode() {
        ProxyMode::Nftables => "the set nodeport-ips has",
        ProxyMode::Iptables => "the rules serve node ports on",
    };
    let message = format!(
        "{set} {}, which the node does not have: its addresses are {}",
        list(&found.addresses, usize::MAX),
        list(own, usize::MAX)
    );
    let effect = if found.has_assigned {
        "no effect, as long as no other node has this address"
    } else {
        "node ports do not work on this node's own addresses: connections to them are rejected"
    };
    let place = Place { file: node.file.clone(), line: node.first };
    let name = "nodeport-ips".to_owned();
    let subject = Subject::Set { table: nft_table(family), kind: SetKind::Set, name };
    Some(Finding::new("node-port-address", place, message, effect).with_mode(node.rules.mode()).about([subject]))
}
