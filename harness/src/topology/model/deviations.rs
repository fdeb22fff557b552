//! How a network differs from the one that Kubernetes expects.

use std::collections::BTreeSet;

use svclab_rules::cluster::Impairment;

use super::{Carrier, Interface, InterfaceKind, Netns, Role, Topology};
use crate::text::list;

/// The names of the settings that pass bridged packets to iptables.
const BRIDGE_CALLS: [&str; 2] = ["bridge.bridge-nf-call-iptables", "bridge.bridge-nf-call-ip6tables"];

/// The most machines that are named.
const MAX_NAMED: usize = 3;

/// Something that Kubernetes does not expect of a network, on one or several machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deviation {
    /// A setting that the scenario asks for: its name without `net.`, and its value.
    Setting(String, String),
    /// Bridged packets are not passed to iptables: the setting's name without `net.`.
    BridgeCall(&'static str),
    /// Ports of bridges are not in hairpin mode.
    NoHairpin,
    /// Links are down, impaired, or have another MTU than usual. All links of a machine that is off are down.
    Links,
}

impl Deviation {
    /// Whether it is one of a namespace.
    fn is_of(&self, netns: &Netns) -> bool {
        let is_node = netns.role == Role::Node;
        match self {
            Self::Setting(name, value) => is_node && asked_for(netns).any(|own| own == (name, value)),
            Self::BridgeCall(name) => {
                let own = netns.sysctls.iter().rfind(|sysctl| sysctl.name == *name);
                is_node && own.is_some_and(|own| own.value == "0")
            }
            Self::NoHairpin => {
                is_node && netns.interfaces.iter().any(|interface| interface.bridge.is_some() && !interface.hairpin)
            }
            Self::Links => netns.is_off || netns.interfaces.iter().any(|interface| !interface.is_usual()),
        }
    }

    /// Removes it from a namespace.
    fn remove_from(&self, netns: &mut Netns) {
        match self {
            Self::Setting(name, value) => netns
                .sysctls
                .retain(|sysctl| sysctl.asked_for.is_none() || sysctl.name != *name || sysctl.value != *value),
            Self::BridgeCall(name) => netns.set(*name, 1),
            Self::NoHairpin => netns.interfaces.iter_mut().for_each(|interface| interface.hairpin = true),
            Self::Links => {
                netns.is_off = false;
                netns.interfaces.iter_mut().for_each(Interface::make_usual);
            }
        }
    }
}

impl Topology {
    /// The deviations of the network.
    pub(crate) fn deviations(&self) -> Vec<Deviation> {
        let nodes = self.namespaces.iter().filter(|netns| netns.role == Role::Node);
        let mut all: Vec<Deviation> = Vec::new();
        for (name, value) in nodes.flat_map(asked_for) {
            let setting = Deviation::Setting(name.clone(), value.clone());
            if !all.contains(&setting) {
                all.push(setting);
            }
        }
        let others =
            BRIDGE_CALLS.map(Deviation::BridgeCall).into_iter().chain([Deviation::NoHairpin, Deviation::Links]);
        all.extend(others.filter(|one| self.namespaces.iter().any(|netns| one.is_of(netns))));
        all
    }

    /// The same network without these deviations.
    pub(crate) fn without_deviations<'d>(&self, deviations: impl IntoIterator<Item = &'d Deviation>) -> Self {
        let mut topology = self.clone();
        for deviation in deviations {
            let own = topology.namespaces.iter_mut().filter(|netns| deviation.is_of(netns));
            own.for_each(|netns| deviation.remove_from(netns));
        }
        topology
    }

    /// A deviation in words, with its machines.
    pub(crate) fn words_of_deviation(&self, deviation: &Deviation) -> String {
        let own = self.namespaces.iter().filter(|netns| deviation.is_of(netns));
        let places = || list(own.clone().map(|netns| netns.name.as_str()).collect::<BTreeSet<&str>>(), MAX_NAMED);
        match deviation {
            Deviation::Setting(name, value) => format!("net.{name} = {value} on {}", places()),
            Deviation::BridgeCall(name) => format!("net.{name} = 0 on {}", places()),
            Deviation::NoHairpin => format!("no hairpin mode of bridge ports on {}", places()),
            Deviation::Links => {
                let links: BTreeSet<String> = own.flat_map(|netns| self.unusual_links(netns)).collect();
                list(links.iter().map(String::as_str), MAX_NAMED)
            }
        }
    }

    /// The links of a namespace that are not as usual, in words.
    fn unusual_links(&self, netns: &Netns) -> Vec<String> {
        let unusual = netns.interfaces.iter().filter(|interface| !interface.is_usual());
        let links = unusual.filter_map(|interface| match interface.kind {
            InterfaceKind::VethOwner(far) | InterfaceKind::VethPeer(far) => {
                let near = self.namespaces.get(far.netns)?.interface(far.index)?;
                let (InterfaceKind::VethOwner(near) | InterfaceKind::VethPeer(near)) = near.kind else { return None };
                Some(format!("the link of {} {}", self.link_owner(near.netns, far.netns), interface.state_words()))
            }
            InterfaceKind::Bridge | InterfaceKind::Vxlan { .. } => None,
        });
        links.collect()
    }
}

impl Interface {
    /// Whether its link has the default settings.
    fn is_usual(&self) -> bool {
        let mut usual = self.clone();
        usual.make_usual();
        usual == *self
    }

    /// What is unusual about its link, in words.
    fn state_words(&self) -> String {
        match self.carrier {
            Carrier::Lost | Carrier::Down => "is down".to_owned(),
            Carrier::Up if self.impairment != Impairment::default() => "is impaired".to_owned(),
            Carrier::Up => format!("has an MTU of {}", self.mtu),
        }
    }

    /// Restores the default settings of its link.
    fn make_usual(&mut self) {
        (self.carrier, self.mtu) = (Carrier::Up, self.kind.usual_mtu());
        self.impairment = Impairment::default();
    }
}

/// The settings that the scenario asks for.
fn asked_for(netns: &Netns) -> impl Iterator<Item = (&String, &String)> {
    netns.sysctls.iter().filter(|sysctl| sysctl.asked_for.is_some()).map(|sysctl| (&sysctl.name, &sysctl.value))
}
