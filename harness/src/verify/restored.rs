//! The next packets of connections that conntrack tables have from the start.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use svclab_rules::cluster::{Node, ObjectName, Pod};
use svclab_rules::promise::Question;

use super::finding::Findings;
use super::prepared::vantages;
use super::run::Verifying;
use super::tally::Tally;
use crate::predict::NewFlow;
use crate::probe::Prober;
use crate::run::RunError;
use crate::scenario::{ConntrackEntry, Destination, Flows, Probe, Shape, Span, Vantage};
use crate::sources::{Context, Sources};

/// A packet of each connection whose sender is in the lab and examined, with the question about it: where a new connection of the same
/// sender may go.
pub(super) struct Restored<'v, 's, 'c> {
    verifying: &'v Verifying<'s, 'c>,
    context: &'v Context<'v>,
    packets: Vec<(Question, Probe)>,
}

impl<'s, 'c> Verifying<'s, 'c> {
    /// The next packets of the scenario's connections, which the context contains.
    pub(super) fn restored<'v>(&'v self, context: &'v Context<'v>) -> Restored<'v, 's, 'c> {
        let all = vantages(self.scenario);
        let senders = self.senders(&all);
        let packet = |entry: &ConntrackEntry| {
            let mut with_address = senders.get(&entry.from.ip())?.iter();
            let from = with_address.find(|vantage| match vantage {
                Vantage::Node(name) | Vantage::Localhost(name) => *name == entry.node,
                Vantage::Pod(_) | Vantage::Host(_) => true,
            })?;
            let probe = self.next_packet(entry, from);
            let question = context.question(&probe)?;
            let is_asked = self.options.selects_sender(from, self.scenario)
                && self.options.selects_service(context.promise(&question).service.as_deref());
            is_asked.then_some((question, probe))
        };
        let packets = self.scenario.connections.iter().filter_map(packet).collect();
        Restored { verifying: self, context, packets }
    }

    /// The senders by address.
    fn senders<'a>(&self, all: &'a [Vantage]) -> HashMap<IpAddr, Vec<&'a Vantage>> {
        let cluster = &self.scenario.cluster;
        let pods: HashMap<&ObjectName, &Pod> = cluster.pods.iter().map(|pod| (&pod.name, pod)).collect();
        let nodes: HashMap<&str, &Node> = cluster.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let mut senders: HashMap<IpAddr, Vec<&Vantage>> = HashMap::new();
        for vantage in all {
            let addresses: Vec<IpAddr> = match vantage {
                Vantage::Pod(name) => {
                    pods.get(name).filter(|pod| !pod.host_network).map(|pod| pod.ips.clone()).unwrap_or_default()
                }
                Vantage::Node(name) => nodes.get(name.as_str()).iter().flat_map(|node| node.addresses()).collect(),
                Vantage::Localhost(_) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
                Vantage::Host(name) => {
                    let hosts = self.scenario.hosts.iter().filter(|host| host.name == *name);
                    hosts.flat_map(|host| host.ips.iter().copied()).collect()
                }
            };
            addresses.into_iter().for_each(|ip| senders.entry(ip).or_default().push(vantage));
        }
        senders
    }

    fn next_packet(&self, entry: &ConntrackEntry, from: &Vantage) -> Probe {
        let via = matches!(from, Vantage::Host(_)).then(|| entry.node.clone());
        Probe {
            span: Span::start_of(&self.scenario.file),
            from: from.clone(),
            to: Destination { label: entry.to.to_string(), address: entry.to.ip(), port: entry.to.port(), via },
            protocol: entry.protocol,
            source_port: Some(entry.from.port()),
            flows: Flows::Exactly(1),
            tcp_flags: None,
            shape: Shape::default(),
        }
    }
}

impl Restored<'_, '_, '_> {
    /// Compares promise and prediction of these packets.
    pub(super) fn ask(&self, (tally, findings): (&mut Tally, &mut Findings)) {
        for (question, probe) in &self.packets {
            let sent = NewFlow::of(probe, probe.source_port.unwrap_or_default());
            if let Some(sources) = Sources::about_flow(self.context, question, &sent) {
                self.verifying.count(&sources, &sent, question, (&mut *tally, &mut *findings));
            }
        }
    }

    /// Sends these packets through a lab whose tables have the connections, and no others.
    pub(super) fn send(
        &self,
        prober: &mut Prober<'_>,
        (tally, findings): (&mut Tally, &mut Findings),
    ) -> Result<(), RunError> {
        if self.packets.is_empty() {
            return Ok(());
        }
        prober.lab().forget()?;
        prober.lab().restore(&self.verifying.scenario.connections)?;
        let probes: Vec<Probe> = self.packets.iter().map(|(_, probe)| probe.clone()).collect();
        let flows = prober.send_all(&probes).map_err(|source| self.verifying.error(source))?;
        for ((question, probe), observed) in self.packets.iter().zip(&flows) {
            let sent = NewFlow::of(probe, observed.source.port());
            let sources = Sources::about(self.context, question, &sent, observed);
            self.verifying.count(&sources, &sent, question, (&mut *tally, &mut *findings));
        }
        Ok(())
    }
}
