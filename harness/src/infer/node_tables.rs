//! Tables of nodes: they show one address of each, also where nodes have one of each family.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};
use svclab_rules::cluster::Family;

use super::accessors::{node_ips, own_name, service_ips};
use super::merge::Objects;
use crate::evidence::is_from_table;
use crate::text::list;

/// The most nodes that are named.
const SHOWN: usize = 5;

/// Gives nodes of tables an address of the families that Services have and they lack. Returns that in words.
pub(super) fn add_addresses(objects: &mut Objects) -> Option<String> {
    let families: BTreeSet<Family> = objects.services.iter().flat_map(service_ips).map(Family::of).collect();
    let used: BTreeSet<IpAddr> = objects.nodes.iter().flat_map(node_ips).collect();
    let mut added = Vec::new();
    for family in families {
        let lacks = |node: &&mut Value| {
            let own = node_ips(node);
            is_from_table(node) && !own.is_empty() && !own.iter().any(|ip| Family::of(*ip) == family)
        };
        let free = (1u16..).map(|number| address(family, number)).filter(|ip| !used.contains(ip));
        for (node, ip) in objects.nodes.iter_mut().filter(lacks).zip(free) {
            added.push(format!("{} {ip}", own_name(node)));
            let one = json!({"type": "InternalIP", "address": ip});
            if let Some(all) = node["status"]["addresses"].as_array_mut() {
                all.push(one);
            }
        }
    }
    (!added.is_empty()).then(|| format!("addresses of nodes that a table does not show: {}", list(added, SHOWN)))
}

/// An address for nodes alone.
fn address(family: Family, number: u16) -> IpAddr {
    match family {
        Family::Ipv4 => [172, 31, number.to_be_bytes()[0], number.to_be_bytes()[1]].into(),
        Family::Ipv6 => [0xfd00, 0x172, 0x31, 0, 0, 0, 0, number].into(),
    }
}
