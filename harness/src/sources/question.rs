//! How a probe is put to promise and prediction.

use std::net::SocketAddr;

use svclab_rules::cluster::Family;
use svclab_rules::promise::{Question, VantagePoint};

use crate::predict::Sent;
use crate::scenario::{Host, Probe, Vantage};
use crate::topology::{Netns, Role, Topology};

/// A probe as the prediction is asked for it.
pub(crate) fn sent(probe: &Probe, source_port: u16) -> Sent {
    Sent {
        from: probe.from.clone(),
        source_port,
        to: SocketAddr::new(probe.to.address, probe.to.port),
        protocol: probe.protocol,
        via: probe.to.via.clone(),
    }
}

/// A probe as the promise is asked for it: what an outside host sends to a service's address comes in by the node that the network
/// leads it to, where the probe names none. `None` where its sender is an outside host without an address of the destination's
/// family.
pub(crate) fn question(hosts: &[Host], topology: &Topology, probe: &Probe) -> Option<Question> {
    let from = match &probe.from {
        Vantage::Pod(name) => VantagePoint::Pod(name.clone()),
        Vantage::Node(name) => VantagePoint::Node(name.clone()),
        Vantage::Localhost(name) => VantagePoint::Localhost(name.clone()),
        Vantage::Host(name) => {
            let host = hosts.iter().find(|host| host.name == *name)?;
            let own = host.ips.iter().find(|ip| Family::of(**ip) == Family::of(probe.to.address))?;
            VantagePoint::Outside(*own)
        }
    };
    let to = SocketAddr::new(probe.to.address, probe.to.port);
    let is_outside = matches!(from, VantagePoint::Outside(_));
    let entry = || topology.entry_node(to.ip()).filter(|_| is_outside).and_then(Netns::node_name).map(str::to_owned);
    Some(Question { from, to, protocol: probe.protocol, via: probe.to.via.clone().or_else(entry) })
}

/// The same network as Kubernetes wants it: without settings that a scenario asks for, and with bridges that send back and hand
/// packets to iptables.
pub(crate) fn in_order(topology: &Topology) -> Topology {
    let mut topology = topology.clone();
    for netns in topology.namespaces.iter_mut().filter(|netns| netns.role == Role::Node) {
        netns.sysctls.retain(|sysctl| sysctl.asked_for.is_none());
        netns.interfaces.iter_mut().for_each(|interface| interface.hairpin = true);
        for table in ["iptables", "ip6tables"] {
            netns.set(format!("bridge.bridge-nf-call-{table}"), 1);
        }
    }
    topology
}
