//! The kernel's trace of the rules that a packet matches.
//!
//! A `Tracer` asks the kernel for it by a table of its own (`Lab::trace`), which sets a bit on every packet and nothing
//! else, and listens in each namespace that has rules:
//!
//! - `nftables`: rules of nftables and of iptables-nft are reported over netlink (`nf_tables_trace.c`), by their handles; a handle
//!   becomes a number by listing the rules of its chain;
//! - `legacy`: iptables-legacy writes to the log of its namespace (`trace_packet` in `ip_tables.c`), which is sent over netlink
//!   too (`nfnetlink_log`);
//! - `headers`: which packet a message is about;
//! - `comparison`: the trace compared with the prediction.
//!
//! The kernel reports neither rules that do not match nor the hook; tables and chains imply the latter.

mod comparison;
mod headers;
mod legacy;
mod nftables;

use std::io;

use serde::{Deserialize, Serialize};

use crate::lab::netfilter::Socket;
use crate::lab::{Lab, LabError};
use crate::observation::FlowObservation;
use crate::probe::{ProbeError, Prober};
use crate::scenario::{Flows, Probe};
use crate::topology::{NetnsId, Role};
use headers::Header;

pub(crate) use comparison::{Comparison, Difference, nearest};
pub(crate) use headers::Passage;

/// A rule that a packet matched, or the end of a chain, as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traced {
    /// The namespace.
    pub netns: NetnsId,
    /// Which packet of a flow it is about.
    pub passage: Passage,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// What happened.
    pub what: TracedWhat,
    /// The part of the kernel that reported it.
    pub trace_source: TraceSource,
}

/// A part of the kernel that traces rules. Events of different ones have no common order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TraceSource {
    /// nftables, which has iptables-nft's rules too.
    Nftables,
    /// iptables-legacy.
    Legacy,
}

/// An event of a packet in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TracedWhat {
    /// A rule matched, and was carried out: its number in the chain, from 1; `None` if the rule is gone.
    Rule(Option<usize>),
    /// The end of a chain: back to the one that it came from.
    Return,
    /// The end of a chain of the kernel's own: the policy applies.
    Policy,
}

/// Sends one flow of a probe while the kernel traces it; returns the observation and the trace.
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

/// An event as a socket gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    header: Option<Header>,
    table: String,
    chain: String,
    what: TracedWhat,
    trace_source: TraceSource,
}

/// Listens to the kernel's traces in a lab. It has to be stopped with [`Tracer::stop`], so that the lab is as before.
pub(crate) struct Tracer {
    raw_listeners: Vec<(NetnsId, TraceSockets)>,
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
    /// If the kernel gives no sockets, or the program nft is missing.
    pub(crate) fn start(lab: &Lab) -> Result<Self, LabError> {
        let topology = lab.topology();
        let ruled = |netns: &NetnsId| matches!(topology.namespaces[*netns].role, Role::Node | Role::RoutingPod);
        let namespaces: Vec<NetnsId> = (0..topology.namespaces.len()).filter(ruled).collect();
        let open = |netns: NetnsId| {
            let name = &topology.namespaces[netns].name;
            let listener = lab.inside(netns, || {
                // Without nfnetlink_log there is no trace of iptables-legacy; that of nftables works all the same.
                Ok::<_, io::Error>(TraceSockets { nftables: nftables::listen()?, legacy: legacy::listen().ok() })
            })?;
            Ok((netns, listener.map_err(LabError::socket(name, "listening to the kernel's traces"))?))
        };
        let raw_listeners = namespaces.iter().map(|netns| open(*netns)).collect::<Result<_, LabError>>()?;
        lab.trace(&namespaces, true)?;
        Ok(Self { raw_listeners })
    }

    /// Switches tracing off, and returns the trace: namespace by namespace, in the order of events.
    ///
    /// # Errors
    ///
    /// If a receive buffer overflowed, or tracing cannot be switched off.
    pub(crate) fn stop(self, lab: &Lab) -> Result<Vec<Traced>, LabError> {
        let namespaces: Vec<NetnsId> = self.raw_listeners.iter().map(|(netns, _)| *netns).collect();
        let heard = self.raw_listeners.iter().map(|(netns, listener)| {
            let name = &lab.topology().namespaces[*netns].name;
            let events = listener.receive().map_err(LabError::socket(name, "reading the kernel's traces"))?;
            Ok(traced(*netns, events))
        });
        let heard = heard.collect::<Result<Vec<_>, LabError>>();
        lab.trace(&namespaces, false)?;
        Ok(heard?.into_iter().flatten().collect())
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

/// The events of a probe and what is said to it; others (a router's advertisement, the end of a connection) are left out.
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
