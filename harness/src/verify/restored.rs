//! The next packets of connections that connection tables have from the start.

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

impl Verifying<'_, '_> {
    /// A packet of each of these connections whose sender is in the lab and is examined, with what the promise is asked: where a new connection of
    /// the same sender may go.
    pub(super) fn restored(&self, context: &Context<'_>) -> Vec<(Question, Probe)> {
        let all = vantages(self.scenario);
        let of_entry = |entry: &ConntrackEntry| {
            let from = all.iter().find(|vantage| self.is_at(vantage, entry))?;
            let probe = self.next_packet(entry, from);
            let question = context.question(&probe)?;
            let is_asked = self.options.selects_sender(from, self.scenario)
                && self.options.selects_service(context.promise(&question).service.as_deref());
            is_asked.then_some((question, probe))
        };
        self.scenario.connections.iter().filter_map(of_entry).collect()
    }

    /// Whether a sender has the source of a connection.
    fn is_at(&self, vantage: &Vantage, entry: &ConntrackEntry) -> bool {
        let cluster = &self.scenario.cluster;
        let ip = entry.from.ip();
        match vantage {
            Vantage::Pod(name) => cluster.pod(name).is_some_and(|pod| !pod.host_network && pod.ips.contains(&ip)),
            Vantage::Node(name) => {
                *name == entry.node && cluster.node(name).is_some_and(|node| node.addresses().any(|own| own == ip))
            }
            Vantage::Localhost(name) => *name == entry.node && ip.is_loopback(),
            Vantage::Host(name) => self.scenario.hosts.iter().any(|host| host.name == *name && host.ips.contains(&ip)),
        }
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

    /// Compares promise and prediction of these packets.
    pub(super) fn ask_restored(
        &self,
        context: &Context<'_>,
        restored: &[(Question, Probe)],
        (tally, findings): (&mut Tally, &mut Findings),
    ) {
        for (question, probe) in restored {
            let sent = NewFlow::of(probe, probe.source_port.unwrap_or_default());
            if let Some(sources) = Sources::about_flow(context, question, &sent) {
                self.count(&sources, &sent, question, (&mut *tally, &mut *findings));
            }
        }
    }

    /// Sends these packets through a lab whose tables have the connections, and no others.
    pub(super) fn send_restored(
        &self,
        prober: &mut Prober<'_>,
        context: &Context<'_>,
        restored: &[(Question, Probe)],
        (tally, findings): (&mut Tally, &mut Findings),
    ) -> Result<(), RunError> {
        if restored.is_empty() {
            return Ok(());
        }
        prober.lab().forget()?;
        prober.lab().restore(&self.scenario.connections)?;
        let probes: Vec<Probe> = restored.iter().map(|(_, probe)| probe.clone()).collect();
        let flows = prober.send_all(&probes).map_err(|source| self.error(source))?;
        for ((question, probe), observed) in restored.iter().zip(&flows) {
            let sent = NewFlow::of(probe, observed.source.port());
            let sources = Sources::about(context, question, &sent, observed);
            self.count(&sources, &sent, question, (&mut *tally, &mut *findings));
        }
        Ok(())
    }
}
