//! Interfaces that rules name.

use std::collections::BTreeSet;

use svclab_rules::cluster::DetectLocal;

use crate::scenario::{CniKind, Overlay, Scenario};
use crate::text::list;

/// The names of a lab's interfaces: of the underlay, of the bridge of pods, and of the tunnel.
const UNDERLAY: &str = "eth0";
const BRIDGE: &str = "cni0";
const TUNNEL: &str = "flannel.1";

/// The most interfaces that are named.
const MAX_NAMED: usize = 5;

/// Connects pods to a bridge if rules of nodes name it. Returns what was assumed, and the interfaces that a lab lacks.
pub(super) fn connect(scenario: &mut Scenario) -> Vec<String> {
    let named = named(scenario);
    let mut notes = Vec::new();
    if named.iter().any(|(name, _)| name == BRIDGE) && scenario.cni.kind == CniKind::Ptp {
        scenario.cni.kind = CniKind::Bridge { hairpin: true, nf_call_iptables: true };
        notes.push(format!("pods are assumed to be on a bridge, because rules name {BRIDGE}"));
    }
    let has_bridge = matches!(scenario.cni.kind, CniKind::Bridge { .. });
    let own = match &scenario.cluster.proxy.detect_local {
        DetectLocal::BridgeInterface(name) | DetectLocal::InterfaceNamePrefix(name) => name.trim_end_matches('+'),
        _ => "",
    };
    let is_there = |name: &str| {
        ["lo", UNDERLAY].contains(&name)
            || name == BRIDGE && has_bridge
            || name == TUNNEL && scenario.cni.overlay == Overlay::Vxlan
            || name == own
    };
    // A prefix may be that of a lab's interfaces.
    let lacking = named.iter().filter(|(name, is_negated)| !is_negated && !name.ends_with('+') && !is_there(name));
    let lacking: Vec<&str> = lacking.map(|(name, _)| name.as_str()).collect();
    if !lacking.is_empty() {
        let named = list(lacking, MAX_NAMED);
        notes.push(format!("rules for interfaces that a lab does not have match nothing there: {named}"));
    }
    notes
}

/// The interfaces that rules of iptables name, and whether with `!`: a rule for all others matches in a lab, too.
fn named(scenario: &Scenario) -> BTreeSet<(String, bool)> {
    let tables = scenario.rules.iter().filter_map(|rules| rules.rules.iptables()).flat_map(|rules| &rules.tables);
    let rules = tables.flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
    let names = rules.flat_map(|rule| [&rule.in_interface, &rule.out_interface]).flatten();
    names.map(|name| (name.value.to_string(), name.negated)).collect()
}
