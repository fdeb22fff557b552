//! Samples cascades with real packets through the rules of a scenario's node: `svclab cascade --sample`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use svclab_rules::cascade::{Cascade, Frontend};
use svclab_rules::cluster::{Cluster, Family, Node, Pod, Protocol};

use crate::cascade::Report;
use crate::cascade::sample::{Expected, expected, is_enough, judge};
use crate::documents;
use crate::lab::{Backend, generate_for_lab, with_lab};
use crate::observation::Tally;
use crate::probe::{Prober, Progress};
use crate::report::Trouble;
use crate::run::{RunError, guarded};
use crate::scenario::{Destination, Flows, MAX_FLOWS, Place, Probe, Scenario, Shape, Span, Vantage};
use crate::stats::{Goal, most_flows};
use crate::topology;
use crate::worker::{self, Kind, Slot, Texts, WorkerError, WorkerLocation};

/// Options of sampling.
#[derive(Debug, Clone)]
pub struct Options {
    /// The number of flows for each cascade; `Auto` for as many as are needed until the counts are clear.
    pub flows: Flows,
    /// The implementation of iptables that installs rules.
    pub backend: Backend,
    /// The bias to find, the power, and the false-alarm rate of all samples together.
    pub goal: Goal,
    /// Where the worker with the lab runs: a virtual machine, or a process of svclab, which calls [`serve`] when started with the arguments
    /// [`WORKER`](crate::worker::WORKER) and `sample`. It parses [`Scenario::inputs`] again. `None` for a thread of this process.
    pub worker: Option<WorkerLocation>,
    /// Progress counter shared by all labs.
    pub progress: Arc<Progress>,
}

/// A sample that can be taken.
struct Plan {
    /// The position of its cascade in the report.
    cascade: usize,
    flows: FlowsToSend,
}

/// The flows of a sample.
#[derive(Clone, Serialize, Deserialize)]
struct FlowsToSend {
    from: Vantage,
    to: SocketAddr,
    protocol: Protocol,
    /// The maximum number of flows.
    most: u64,
    /// The shares that end the sample as soon as the counts are clear; `None` to send all.
    until_clear: Option<Expected>,
}

/// The number of tests of one sample that may fail by chance: its shares, and the independence of endpoints from the previous flow and from
/// the source port.
const TESTS: usize = 3;

/// Builds a scenario's lab in a state of its cluster, sends fresh flows through every cascade of a node's report, and adds to the report
/// their outcomes. Cascades that the flows of one client cannot show are noted there.
///
/// # Errors
///
/// If the lab cannot be built or its sockets fail, or if a goal needs more flows than a probe may have.
pub fn sample(
    scenario: &Scenario,
    state: &Cluster,
    node: &Node,
    report: &mut Report,
    options: &Options,
) -> Result<(), Trouble> {
    report.samples = vec![None; report.cascades.len()];
    let (plans, goal) = plan(scenario, state, node, report, options).map_err(RunError::into_trouble)?;
    if plans.is_empty() {
        return Ok(());
    }
    let order = Order {
        scenario: Texts::of(scenario),
        step: scenario.states().take_while(|other| *other != state).count(),
        backend: options.backend,
        goal,
        flows: plans.iter().map(|plan| plan.flows.clone()).collect(),
    };
    let tallies = match &options.worker {
        Some(program) => {
            let taken = Slot::new(program, Kind::Sample).ask(&order, &options.progress);
            taken.map_err(WorkerError::into_trouble)?
        }
        None => order.take(scenario, &options.progress)?,
    };
    for (Plan { cascade, flows: FlowsToSend { from, to, until_clear, .. } }, tally) in
        plans.iter().zip::<Vec<_>>(tallies)
    {
        let judged = judge(&report.cascades[*cascade], from.to_string(), *to, &tally, &goal, until_clear.is_some());
        report.samples[*cascade] = Some(judged);
    }
    Ok(())
}

/// Plans the samples that can be taken, and the bias that each must find. Notes in the report explain why others cannot.
fn plan(
    scenario: &Scenario,
    state: &Cluster,
    node: &Node,
    report: &mut Report,
    options: &Options,
) -> Result<(Vec<Plan>, Goal), RunError> {
    let mut paths = Vec::new();
    for (index, cascade) in report.cascades.iter().enumerate() {
        match path_to(scenario, state, node, cascade) {
            Ok(path) => paths.push((index, path)),
            Err(reason) => report.notes.push(format!("{} is not sampled: {reason}", cascade.service)),
        }
    }
    let goal = Goal { false_alarm: options.goal.false_alarm.shared_by(TESTS * paths.len()), ..options.goal };
    let plan = |(index, (from, frontend, to)): (usize, (Vantage, Frontend, SocketAddr))| {
        let cascade = &report.cascades[index];
        let most = flows(cascade, options.flows, &goal, scenario)?;
        let until_clear = (options.flows == Flows::Auto).then(|| expected(cascade));
        let flows = FlowsToSend { from, to, protocol: frontend.protocol, most, until_clear };
        Ok(Plan { cascade: index, flows })
    };
    Ok((paths.into_iter().map(plan).collect::<Result<_, RunError>>()?, goal))
}

/// An order to a worker: the samples to take in a lab.
#[derive(Serialize, Deserialize)]
struct Order<'a> {
    scenario: Texts<'a>,
    /// The number of changes by the scenario's steps.
    step: usize,
    backend: Backend,
    goal: Goal,
    flows: Vec<FlowsToSend>,
}

impl Order<'_> {
    /// Takes the samples in a lab of this process. A panic is an error of this scenario only.
    fn take(&self, scenario: &Scenario, progress: &Arc<Progress>) -> Result<Vec<Tally>, Trouble> {
        guarded(|| self.try_to_take(scenario, progress)).map_err(RunError::into_trouble)
    }

    fn try_to_take(&self, scenario: &Scenario, progress: &Arc<Progress>) -> Result<Vec<Tally>, RunError> {
        let state = scenario.states().nth(self.step).unwrap_or(&scenario.cluster);
        let documents = generate_for_lab(scenario, state, self.backend)?;
        with_lab(&topology::plan_at(scenario, state), &documents, self.backend, |lab| {
            let mut prober = Prober::new(lab, state).map_err(RunError::Prober)?;
            prober.report_to(progress);
            let mut take = |flows: &FlowsToSend| {
                let has_counters = documents::keep_counters(&documents, flows.to.ip());
                count(&mut prober, flows, has_counters, &self.goal, scenario)
            };
            self.flows.iter().map(&mut take).collect()
        })?
    }
}

/// Serves [`sample`] as a lab's worker process, over standard input and output.
///
/// # Errors
///
/// If these are not the pipes of a parent svclab.
pub fn serve() -> io::Result<()> {
    worker::serve(|order: Order<'static>, progress, _| order.take(&order.scenario.scenario()?, progress))
}

/// The sender and destination of packets that reach a cascade, or the reason why there are none.
fn path_to(
    scenario: &Scenario,
    state: &Cluster,
    node: &Node,
    cascade: &Cascade,
) -> Result<(Vantage, Frontend, SocketAddr), &'static str> {
    if cascade.has_affinity {
        return Err("its clients keep their endpoints, so one client cannot show the shares");
    }
    if !cascade.cases.is_empty() || !cascade.unknown.is_empty() {
        return Err("its shares depend on more than chance, or are unknown");
    }
    if cascade.steps.iter().any(|step| step.endpoint.parse::<SocketAddr>().is_err()) {
        return Err("its destination is unknown");
    }
    let is_cluster_ip = |frontend: &&Frontend| {
        frontend.address.is_some_and(|own| state.services.iter().any(|service| service.cluster_ips.contains(&own)))
    };
    let frontend = cascade.frontends.iter().find(is_cluster_ip).ok_or("it has no cluster IP")?;
    let address = frontend.address.ok_or("it has no cluster IP")?;
    let family = Family::of(address);
    let is_endpoint = |pod: &Pod| {
        let own = |step: &svclab_rules::cascade::Step| step.endpoint.parse::<SocketAddr>().map(|at| at.ip()).ok();
        cascade.steps.iter().filter_map(own).any(|at| pod.ips.contains(&at))
    };
    let has_rules = |pod: &Pod| scenario.rules.iter().any(|rules| rules.place == Place::Pod(pod.name.clone()));
    let can_send = |pod: &&Pod| {
        let has_address = pod.ips.iter().any(|ip| Family::of(*ip) == family);
        pod.node == node.name && !pod.host_network && has_address && !is_endpoint(pod) && !has_rules(pod)
    };
    let from = match state.pods.iter().find(can_send) {
        Some(pod) => Vantage::Pod(pod.name.clone()),
        None => Vantage::Node(node.name.clone()),
    };
    Ok((from, *frontend, SocketAddr::new(address, frontend.port)))
}

/// The number of flows for a cascade.
fn flows(cascade: &Cascade, wanted: Flows, goal: &Goal, scenario: &Scenario) -> Result<u64, RunError> {
    let needed = match wanted {
        Flows::Exactly(flows) => return Ok(flows),
        Flows::Auto => {
            let shares: Vec<f64> = expected(cascade).iter().map(|(_, share)| share.to_f64()).collect();
            most_flows(&shares, goal)
                .map_err(|source| RunError::Flows { span: Span::start_of(&scenario.file), source })?
        }
    };
    if needed > MAX_FLOWS {
        Err(RunError::TooManyFlows { span: Span::start_of(&scenario.file), needed })
    } else {
        Ok(needed)
    }
}

fn count(
    prober: &mut Prober<'_>,
    flows: &FlowsToSend,
    has_counters: bool,
    goal: &Goal,
    scenario: &Scenario,
) -> Result<Tally, RunError> {
    let span = Span::start_of(&scenario.file);
    let FlowsToSend { from, to, protocol, most, until_clear } = flows;
    let to = Destination { label: to.to_string(), address: to.ip(), port: to.port(), via: None };
    let probe = Probe {
        span: span.clone(),
        from: from.clone(),
        to,
        protocol: *protocol,
        source_port: None,
        flows: Flows::Exactly(*most),
        tcp_flags: None,
        shape: Shape::default(),
    };
    let count = |prober: &mut Prober<'_>| match until_clear {
        Some(expected) => prober.count_until(&probe, *most, |tally| is_enough(expected, tally, goal)),
        None => prober.count(&probe, *most),
    };
    let tally = if has_counters { prober.cross_checked(&probe, count) } else { count(prober) };
    tally.map_err(|source| RunError::Probe { span, source: Box::new(source) })
}
