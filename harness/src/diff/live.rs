//! Examples of changes on the kernel: each is sent in a lab of either side.

use svclab_rules::cluster::Protocol;

use super::Diff;
use super::group::Example;
use super::side::Side;
use super::target::Target;
use crate::lab::{Backend, generate_for_lab, with_lab};
use crate::observation::FlowObservation;
use crate::predict::{Network, NewFlow};
use crate::probe::Prober;
use crate::report::Trouble;
use crate::run::{RunError, guarded};
use crate::scenario::{Destination, Flows, Probe, Scenario, Span};
use crate::sources::FlowOutcome;

/// What the kernel did with a change's example, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// What was observed on each side, in words.
    pub seen: [String; 2],
    /// Whether that is what the rules are predicted to do.
    pub is_predicted: [bool; 2],
}

/// What was observed of a packet, and whether it was predicted.
type Seen = (String, bool);

/// Sends the examples of all changes that a lab can send, on both sides.
///
/// # Errors
///
/// What kept a lab from being built, or a packet from being sent.
pub fn live(diff: &mut Diff, [before, after]: [&Scenario; 2], backend: Backend) -> Result<(), Trouble> {
    let chosen: Vec<(usize, Probe)> = diff
        .changes
        .iter()
        .enumerate()
        // A first packet does not show these.
        .filter(|(_, change)| !change.targets.iter().any(|to| matches!(to, Target::Established | Target::Returning)))
        .filter_map(|(number, change)| Some((number, change.example.as_ref()?)))
        .filter_map(|(number, example)| Some((number, probe(example, example.can_be_sent()?, before))))
        .collect();
    if chosen.is_empty() {
        return Ok(());
    }
    let probes: Vec<Probe> = chosen.iter().map(|(_, probe)| probe.clone()).collect();
    let observe = |scenario| guarded(|| observe(scenario, &probes, backend)).map_err(RunError::into_trouble);
    let (was, is) = (observe(before)?, observe(after)?);
    for ((number, _), ((was, was_predicted), (is, is_predicted))) in chosen.iter().zip(was.into_iter().zip(is)) {
        diff.changes[*number].live = Some(Live { seen: [was, is], is_predicted: [was_predicted, is_predicted] });
    }
    Ok(())
}

/// What comes of packets in a lab of a scenario's first state.
fn observe(scenario: &Scenario, probes: &[Probe], backend: Backend) -> Result<Vec<Seen>, RunError> {
    let documents = generate_for_lab(scenario, &scenario.cluster, backend)?;
    let side = Side { documents, ..Side::of(scenario)? };
    let network = side.network()?;
    let flows = with_lab(&side.topology, &side.documents, backend, |lab| {
        Prober::new(lab, &scenario.cluster).and_then(|mut prober| prober.send_together(probes))
    })?;
    let span = Span::start_of(&scenario.file);
    let flows = flows.map_err(|source| RunError::Probe { span, source: Box::new(source) })?;
    Ok(probes.iter().zip(&flows).map(|(probe, observed)| seen(&network, probe, observed)).collect())
}

fn seen(network: &Network<'_>, probe: &Probe, observed: &FlowObservation) -> Seen {
    let prediction = network.predict(&NewFlow::of(probe, observed.source.port()));
    let mut seen = FlowOutcome::observed(observed);
    let branches = prediction.map(|prediction| prediction.branches).unwrap_or_default();
    branches.iter().for_each(|branch| seen.explain(&branch.outcome));
    let predicted = branches.iter().filter_map(|branch| FlowOutcome::predicted(&branch.outcome));
    let is_predicted = predicted.into_iter().any(|predicted| predicted.is_like(&seen));
    (seen.to_string(), is_predicted)
}

fn probe(example: &Example, protocol: Protocol, scenario: &Scenario) -> Probe {
    let (address, port) = (example.packet.destination, example.packet.transport.ports().map_or(0, |(_, port)| port));
    let to = Destination { label: example.to(), address, port, via: example.via.clone() };
    let (span, from) = (Span::start_of(&scenario.file), example.from.clone());
    Probe { span, from, to, protocol, source_port: None, flows: Flows::Exactly(1), tcp_flags: None }
}
