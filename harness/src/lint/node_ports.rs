//! The addresses that node ports are served on.

use std::collections::BTreeSet;
use std::net::IpAddr;

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::infer::Infer;

use super::finding::{Finding, Place};
use super::view::View;
use crate::evidence::{Contents, NodeRules, Piece};

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    view.nodes.iter().filter_map(|node| not_its_own(view, node)).collect()
}

/// Addresses that rules serve node ports on, and that the node does not have.
fn not_its_own(view: &View<'_>, node: &NodeRules) -> Option<Finding> {
    let served = node.rules.infer().proxy.node_port_addresses;
    let own = addresses(view, node);
    let is_strange = |ip: &&IpAddr| {
        !ip.is_loopback() && !own.contains(*ip) && own.iter().any(|other| Family::of(*other) == Family::of(**ip))
    };
    let strange: Vec<&IpAddr> = served.iter().filter(is_strange).collect();
    let first = *strange.first()?;
    let listed = |all: &[&IpAddr]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let others: Vec<&IpAddr> =
        own.iter().filter(|ip| Family::of(**ip) == Family::of(*first) && !ip.is_loopback()).collect();
    let set = match node.rules.mode() {
        ProxyMode::Nftables => "the set nodeport-ips has",
        ProxyMode::Iptables => "the rules serve node ports on",
    };
    let message =
        format!("{set} {}, which the node does not have: its addresses are {}", listed(&strange), listed(&others));
    let effect = if served.iter().any(|ip| own.contains(ip)) {
        "no effect, as long as no other node has this address"
    } else {
        "node ports do not work on this node's own addresses: connections to them are rejected"
    };
    let place = Place { file: node.file.clone(), line: node.first };
    Some(Finding::new("node-port-address", place, message, effect).with_mode(node.rules.mode()))
}

/// The addresses that the text shows of a node: all, where its rules are the only ones, else those with its host or file.
fn addresses(view: &View<'_>, node: &NodeRules) -> BTreeSet<IpAddr> {
    let is_own = |piece: &&Piece| {
        let is_of_host = node.host.is_some() && piece.host == node.host;
        let is_of_file = node.file.is_some() && piece.file == node.file;
        view.nodes.len() == 1 || is_of_host || is_of_file
    };
    let all = view.evidence.pieces.iter().filter(is_own).filter_map(|piece| match &piece.contents {
        Contents::Addresses(all, _) => Some(all),
        _ => None,
    });
    all.flatten().copied().collect()
}
