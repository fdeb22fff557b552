//! The plan of a lab: its namespaces, their links, and their settings.
//!
//! [`plan`] turns a scenario into a [`Topology`] without touching the kernel. The structure is always the same:
//!
//! - `underlay`, a namespace with a bridge `br0` that all nodes and outside hosts are connected to; it also routes between them, and routes
//!   external and load-balancer addresses to a node;
//! - one namespace per node, with `eth0` towards the underlay and an interface (or a bridge port) per pod;
//! - one namespace per pod and per outside host, with `eth0`.
//!
//! Pods and outside hosts have no address in their own kernel: svclab sends and answers their packets on their interface, so no kernel
//! sends a stray RST. Only a pod with rules of its own has a full network stack; [`with_stacks`] gives one to all of them, for real
//! programs.

mod links;
mod model;
mod node;
mod peers;
mod pod;
mod sender;
mod stacks;
#[cfg(test)]
mod tests;
mod underlay;

pub(crate) use crate::scenario::pod_label;
pub(crate) use sender::Sender;
pub(crate) use stacks::with_stacks;

pub(crate) use model::{Carrier, Sysctl};
pub(crate) use model::{
    Deviation, ETH0, Fdb, Hop, Interface, InterfaceKind, LOOPBACK, Neighbour, Netns, NetnsId, Role, Route, Topology,
    UNDERLAY, mac_of,
};

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, ObjectName, Pod};

use crate::scenario::{Host, Place, Scenario};

/// Plans the namespaces of a scenario as they are at its start.
///
/// The plan includes all pods of any step, so that nothing has to be rebuilt between steps.
pub(crate) fn plan(scenario: &Scenario) -> Topology {
    plan_at(scenario, &scenario.cluster)
}

/// Plans the namespaces of a scenario for one of the states of its cluster.
///
/// Plans for different states differ in the routes of service addresses to nodes, and in the settings of links.
pub(crate) fn plan_at(scenario: &Scenario, state: &Cluster) -> Topology {
    let cluster = Cluster { pods: all_pods(scenario), ..state.clone() };
    let mut topology = Topology::default();
    underlay::plan(&mut topology);
    node::plan_all(&mut topology, scenario, &cluster);
    for pod in cluster.pods.iter().filter(|pod| !pod.host_network) {
        let has_stack = scenario.rules.iter().any(|rules| rules.place == Place::Pod(pod.name.clone()));
        pod::plan(&mut topology, scenario, &cluster, pod, has_stack);
    }
    for host in &scenario.hosts {
        plan_host(&mut topology, host);
    }
    pod::add_routing_pod_neighbours(&mut topology);
    underlay::route(&mut topology, scenario, &cluster);
    links::plan(&mut topology, &cluster);
    topology
}

/// The pods that the scenario has at its start or after any of its steps.
fn all_pods(scenario: &Scenario) -> Vec<Pod> {
    let mut pods: Vec<Pod> = Vec::new();
    let mut known: HashSet<&ObjectName> = HashSet::new();
    for pod in scenario.states().flat_map(|state| &state.pods) {
        if known.insert(&pod.name) {
            pods.push(pod.clone());
        }
    }
    pods
}

fn plan_host(topology: &mut Topology, host: &Host) {
    let mut netns = Netns::new(format!("host/{}", host.name), Role::Host);
    netns.addresses_on_wire.clone_from(&host.ips);
    netns.silence();
    netns.gateway = Some(underlay::router_mac());
    let id = topology.add(netns);
    topology.owners.extend(host.ips.iter().map(|ip| (*ip, id)));
    underlay::plug_in(topology, id, &host.ips);
}

/// The prefix of a single address.
fn host_prefix(ip: IpAddr) -> IpNet {
    IpNet::from(ip)
}
