//! Traces the kernel while a flow is sent.

use std::io;

use super::event::{Event, Traced};
use super::{legacy, nftables};
use crate::lab::netfilter::Socket;
use crate::lab::{Lab, LabError};
use crate::observation::FlowObservation;
use crate::probe::{ProbeError, Prober};
use crate::scenario::{Flows, Probe};
use crate::topology::{NetnsId, Role};

/// Sends one flow of a probe while the kernel traces it, and returns the observation and the trace.
///
/// # Errors
///
/// If the probe cannot be sent, or the trace cannot be read. Tracing is switched off again in any case.
pub(crate) fn send_traced(
    prober: &mut Prober<'_>,
    probe: &Probe,
) -> Result<(FlowObservation, Vec<Traced>), ProbeError> {
    let probe = Probe { flows: Flows::Exactly(1), ..probe.clone() };
    let tracer = Tracer::start(prober.lab())?;
    let sent = prober.send_all(std::slice::from_ref(&probe));
    let traced = tracer.stop(prober.lab())?;
    Ok((sent?.swap_remove(0), traced))
}

/// A listener for the kernel's traces in a lab. It must be stopped with [`Tracer::stop`], which restores the lab.
struct Tracer {
    sockets: Vec<(NetnsId, TraceSockets)>,
}

/// The sockets of one namespace.
struct TraceSockets {
    nftables: Socket,
    legacy: Option<Socket>,
}

impl Tracer {
    /// Switches tracing on in every namespace with rules.
    ///
    /// # Errors
    ///
    /// If the kernel provides no sockets, or nft is not installed.
    fn start(lab: &Lab) -> Result<Self, LabError> {
        let topology = lab.topology();
        let ruled = |netns: &NetnsId| matches!(topology.namespaces[*netns].role, Role::Node | Role::RoutingPod);
        let namespaces: Vec<NetnsId> = (0..topology.namespaces.len()).filter(ruled).collect();
        let open = |netns: NetnsId| {
            let name = &topology.namespaces[netns].name;
            let listener = lab.inside(netns, || {
                // Without nfnetlink_log there is no trace of iptables-legacy, but nftables is still traced.
                Ok::<_, io::Error>(TraceSockets { nftables: nftables::listen()?, legacy: legacy::listen().ok() })
            })?;
            Ok((netns, listener.map_err(LabError::socket(name, "listening to the kernel's traces"))?))
        };
        let sockets = namespaces.iter().map(|netns| open(*netns)).collect::<Result<_, LabError>>()?;
        lab.trace(&namespaces, true)?;
        Ok(Self { sockets })
    }

    /// Switches tracing off, and returns the trace: namespace by namespace, in the order of events.
    ///
    /// # Errors
    ///
    /// If a receive buffer overflowed, or tracing cannot be switched off.
    fn stop(self, lab: &Lab) -> Result<Vec<Traced>, LabError> {
        let namespaces: Vec<NetnsId> = self.sockets.iter().map(|(netns, _)| *netns).collect();
        let events = self.sockets.iter().map(|(netns, sockets)| {
            let name = &lab.topology().namespaces[*netns].name;
            let events = sockets.receive().map_err(LabError::socket(name, "reading the kernel's traces"))?;
            Ok(traced(*netns, events))
        });
        let events = events.collect::<Result<Vec<_>, LabError>>();
        lab.trace(&namespaces, false)?;
        Ok(events?.into_iter().flatten().collect())
    }
}

impl TraceSockets {
    fn receive(&self) -> io::Result<Vec<Event>> {
        let mut events = nftables::receive(&self.nftables)?;
        if let Some(socket) = &self.legacy {
            events.extend(legacy::receive(socket)?);
        }
        Ok(events)
    }
}

/// The events of a probe and its replies; others (router advertisements, the end of a connection) are left out.
fn traced(netns: NetnsId, events: Vec<Event>) -> Vec<Traced> {
    let mut is_answered = false;
    let mut traced = Vec::new();
    for Event { header, table, chain, what, trace_source } in events {
        let Some(passage) = header.as_ref().and_then(|header| header.passage(is_answered)) else { continue };
        // A reset is reported at each of its hooks.
        is_answered |= header.is_some_and(|header| header.accepts());
        if table != crate::lab::TRACING_TABLE {
            traced.push(Traced { netns, passage, table, chain, what, trace_source });
        }
    }
    traced
}
