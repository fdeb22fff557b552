//! Sends the examples of changes through the kernel, each in a lab of both sides.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Protocol;

use super::Diff;
use super::fate::Aspect;
use super::group::Example;
use super::live_result::{KernelOutcomes, Live};
use super::merge::Change;
use super::side::Side;
use super::target::Target;
use crate::lab::{Backend, generate_for_lab, with_lab};
use crate::observation::FlowObservation;
use crate::predict::Network;
use crate::probe::Prober;
use crate::report::Trouble;
use crate::run::{RunError, guarded};
use crate::scenario::{Destination, Flows, Probe, Scenario, Shape, Span, TcpFlags};
use crate::sources::FlowOutcome;
use crate::topology;
use crate::worker::{self, Kind, Slot, Texts, WorkerError, WorkerLocation};

/// The observed outcome of a packet, and whether it was predicted.
type Seen = (FlowOutcome, bool);

/// Sends the examples of all changes that a lab can send, on both sides.
///
/// The labs of each side are in its worker, if workers are given, and otherwise in the calling process. Workers read the files in
/// [`Scenario::inputs`] again.
///
/// # Errors
///
/// If a lab cannot be built or a packet cannot be sent.
pub fn live(
    diff: &mut Diff,
    [before, after]: [&Scenario; 2],
    backend: Backend,
    workers: Option<&[WorkerLocation; 2]>,
) -> Result<(), Trouble> {
    let releases = workers.map(|both| both.each_ref().map(|worker| Some(worker.environment()?.kernel.as_str())));
    name_kernels(&mut diff.sides, releases.unwrap_or_default());
    let mut chosen: Vec<(usize, Example, Probe)> = Vec::new();
    for (number, change) in diff.changes.iter_mut().enumerate() {
        match chosen_probe(change, before) {
            Ok((example, probe)) => chosen.push((number, example, probe)),
            Err(why) => change.live = Some(Live::NotSent(why)),
        }
    }
    if chosen.is_empty() {
        return Ok(());
    }
    let probes: Vec<(Example, Probe)> =
        chosen.iter().map(|(_, example, probe)| (example.clone(), probe.clone())).collect();
    let sides = workers.map_or([None, None], |[before, after]| [Some(before), Some(after)]);
    let observe = |scenario, worker| observe(scenario, &probes, backend, worker);
    let (was, is) = (observe(before, sides[0])?, observe(after, sides[1])?);
    for ((number, ..), ((was, was_predicted), (is, is_predicted))) in chosen.iter().zip(was.into_iter().zip(is)) {
        let change = &mut diff.changes[*number];
        let alike = was.is_like(&is).then(|| why_alike(change));
        let seen = [was.to_string(), is.to_string()];
        change.live = Some(Live::Sent(KernelOutcomes { seen, is_predicted: [was_predicted, is_predicted], alike }));
    }
    Ok(())
}

/// Adds each side's kernel to its description, if it is not this machine's.
fn name_kernels(sides: &mut [String; 2], releases: [Option<&str>; 2]) {
    for (side, release) in sides.iter_mut().zip(releases) {
        if let Some(release) = release {
            side.push_str(", kernel ");
            side.push_str(release);
        }
    }
}

/// Returns a change's example with the probe that sends it, or why there is none.
fn chosen_probe(change: &Change, scenario: &Scenario) -> Result<(Example, Probe), &'static str> {
    if change.targets.iter().any(|to| matches!(to, Target::Established | Target::Returning)) {
        return Err("a first packet does not show this change");
    }
    let example = change.example.as_ref().ok_or("only one hook on the nodes was compared")?;
    let (protocol, tcp_flags) = example.sendable()?;
    Ok((example.clone(), probe(example, protocol, tcp_flags, scenario)))
}

/// Returns why the kernel's handling of one packet does not show the difference.
fn why_alike(change: &Change) -> &'static str {
    let is_about = |wanted: &[Aspect]| {
        let aspects = change.outcomes.iter().flat_map(|one| &one.contrast.aspects);
        aspects.into_iter().any(|aspect| wanted.contains(aspect))
    };
    if is_about(&[Aspect::FewerEndpoints, Aspect::MoreEndpoints, Aspect::OtherEndpoints, Aspect::Shares]) {
        "no difference: one packet reaches one endpoint, and does not show the other endpoints"
    } else if is_about(&[Aspect::Place]) {
        "no difference: the sender cannot see which machine handled the packet"
    } else if is_about(&[Aspect::SourcePort]) {
        "no difference, although one was predicted: the kernel may choose the same source port"
    } else {
        "no difference, although one was predicted"
    }
}

/// Observes packets in a lab of a scenario's first state.
fn observe(
    scenario: &Scenario,
    probes: &[(Example, Probe)],
    backend: Backend,
    worker: Option<&WorkerLocation>,
) -> Result<Vec<Seen>, Trouble> {
    let packets: Vec<Probe> = probes.iter().map(|(_, probe)| probe.clone()).collect();
    let flows = match worker {
        Some(location) => {
            let order = Order { scenario: Texts::of(scenario), probes: Cow::Borrowed(&packets), backend };
            let flows = Slot::new(location, Kind::Diff).ask(&order, &Arc::default());
            flows.map_err(WorkerError::into_trouble)?
        }
        None => sent(scenario, &packets, backend)?,
    };
    let all_seen = || -> Result<Vec<Seen>, RunError> {
        let side = Side::of(scenario)?;
        let network = side.network()?;
        Ok(probes.iter().zip(&flows).map(|((example, _), observed)| seen(&network, example, observed)).collect())
    };
    all_seen().map_err(RunError::into_trouble)
}

/// Sends packets in a lab of a scenario's first state.
fn sent(scenario: &Scenario, probes: &[Probe], backend: Backend) -> Result<Vec<FlowObservation>, Trouble> {
    let send = || {
        let documents = generate_for_lab(scenario, &scenario.cluster, backend)?;
        let flows = with_lab(&topology::plan(scenario), &documents, backend, |lab| {
            Prober::new(lab, &scenario.cluster).and_then(|mut prober| prober.send_all(probes))
        })?;
        let span = Span::start_of(&scenario.file);
        flows.map_err(|source| RunError::Probe { span, source: Box::new(source) })
    };
    guarded(send).map_err(RunError::into_trouble)
}

/// Packets that a worker sends.
#[derive(Serialize, Deserialize)]
struct Order<'a> {
    scenario: Texts<'a>,
    probes: Cow<'a, [Probe]>,
    backend: Backend,
}

/// Serves [`live`] as the process of a lab, over standard input and output.
///
/// # Errors
///
/// If these are not the pipes of a command.
pub fn serve() -> io::Result<()> {
    worker::serve(|order: Order<'static>, _, _| sent(&order.scenario.scenario()?, &order.probes, order.backend))
}

fn seen(network: &Network<'_>, example: &Example, observed: &FlowObservation) -> Seen {
    let prediction = example.predict(network, example.packet_from(observed.source.port()));
    let mut seen = FlowOutcome::observed(observed);
    let branches = prediction.map(|prediction| prediction.branches).unwrap_or_default();
    branches.iter().for_each(|branch| seen.explain(&branch.outcome));
    let predicted = branches.iter().filter_map(|branch| FlowOutcome::predicted(&branch.outcome));
    // A segment that opens no connection gets no reply.
    let is_segment = example.segment().is_some();
    let mut predicted = predicted.map(|one| if is_segment { one.without_reply() } else { one });
    let is_predicted = predicted.any(|predicted| predicted.is_like(&seen));
    (seen, is_predicted)
}

fn probe(example: &Example, protocol: Protocol, tcp_flags: Option<TcpFlags>, scenario: &Scenario) -> Probe {
    let (address, port) = (example.packet.destination, example.packet.transport.ports().map_or(0, |(_, port)| port));
    let to = Destination { label: example.to(), address, port, via: example.via.clone() };
    let (span, from) = (Span::start_of(&scenario.file), example.from.clone());
    Probe { span, from, to, protocol, source_port: None, flows: Flows::Exactly(1), tcp_flags, shape: Shape::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_of_kernels_names_both() {
        let mut sides = ["1.27, iptables mode", "1.27, iptables mode"].map(str::to_owned);
        name_kernels(&mut sides, [None, Some("6.12.117")]);
        assert_eq!(sides, ["1.27, iptables mode", "1.27, iptables mode, kernel 6.12.117"]);
    }
}
