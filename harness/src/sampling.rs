//! Real packets through the rules of a scenario's node: `svclab cascade --sample`.

use std::net::SocketAddr;
use std::sync::Arc;

use svclab_rules::cascade::{Cascade, Frontend};
use svclab_rules::cluster::{Cluster, Family, Node, Pod};

use crate::cascade::Report;
use crate::cascade::sample::{Sample, expected, is_enough, judge};
use crate::documents;
use crate::lab::{Backend, generate_for_lab, with_lab};
use crate::probe::{Prober, Progress};
use crate::run::RunError;
use crate::scenario::{Destination, Flows, MOST_FLOWS, Place, Probe, Scenario, Span, Vantage};
use crate::stats::{Goal, most_flows};
use crate::topology;

/// How a cascade is sampled.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many flows each cascade gets; `Auto` for as many as it takes until the counts are clear.
    pub flows: Flows,
    /// What installs iptables rules.
    pub backend: Backend,
    /// The bias to find, its power, and how often all samples together may fail although all is right.
    pub goal: Goal,
    /// Progress counter shared by all labs.
    pub progress: Arc<Progress>,
}

/// A sample that can be taken.
struct Plan {
    /// The position of its cascade in the report.
    cascade: usize,
    from: Vantage,
    frontend: Frontend,
    to: SocketAddr,
    /// The most that are sent.
    flows: u64,
    /// Whether fewer are, where the counts are clear before.
    looked: bool,
}

/// How many tests may fail by chance of one sample: its shares, and that endpoints depend neither on the flow before nor on the
/// source port.
const TESTS: usize = 3;

/// Builds a scenario's lab in a state of its cluster, sends fresh flows through every cascade of a node's report, and adds to the
/// report what came of them. Cascades that no flow of one client can show are noted there.
///
/// # Errors
///
/// Where the lab cannot be built or its sockets fail, or where a goal needs more flows than a probe may have.
pub fn sample(
    scenario: &Scenario,
    state: &Cluster,
    node: &Node,
    report: &mut Report,
    options: &Options,
) -> Result<(), RunError> {
    report.samples = vec![None; report.cascades.len()];
    let mut plans = Vec::new();
    for (index, cascade) in report.cascades.iter().enumerate() {
        match aim(scenario, state, node, cascade) {
            Ok((from, frontend, to)) => {
                plans.push(Plan { cascade: index, from, frontend, to, flows: 0, looked: options.flows == Flows::Auto })
            }
            Err(reason) => report.notes.push(format!("{} is not sampled: {reason}", cascade.service)),
        }
    }
    let goal = Goal { false_alarm: options.goal.false_alarm.shared_by(TESTS * plans.len()), ..options.goal };
    for plan in &mut plans {
        plan.flows = flows(&report.cascades[plan.cascade], options.flows, &goal, scenario)?;
    }
    if plans.is_empty() {
        return Ok(());
    }
    let documents = generate_for_lab(scenario, state, options.backend)?;
    let samples = with_lab(&topology::plan_at(scenario, state), &documents, options.backend, |lab| {
        let mut prober = Prober::new(lab, state).map_err(RunError::Prober)?;
        prober.report_to(&options.progress);
        let mut taken = Vec::with_capacity(plans.len());
        for plan in &plans {
            let cascade = &report.cascades[plan.cascade];
            let has_counters = documents::keep_counters(&documents, plan.to.ip());
            taken.push((plan.cascade, take(&mut prober, plan, cascade, has_counters, &goal, scenario)?));
        }
        Ok::<_, RunError>(taken)
    })??;
    for (index, sample) in samples {
        report.samples[index] = Some(sample);
    }
    Ok(())
}

/// The sender and destination of packets that come to a cascade; or why there is none.
fn aim(
    scenario: &Scenario,
    state: &Cluster,
    node: &Node,
    cascade: &Cascade,
) -> Result<(Vantage, Frontend, SocketAddr), &'static str> {
    if cascade.has_affinity {
        return Err("its clients stay with their endpoints, so that one client's flows show no shares");
    }
    if !cascade.cases.is_empty() || !cascade.unknown.is_empty() {
        return Err("its shares depend on more than chance, or are not known");
    }
    if cascade.steps.iter().any(|step| step.endpoint.parse::<SocketAddr>().is_err()) {
        return Err("it is not known where its rules lead to");
    }
    let is_cluster_ip = |frontend: &&Frontend| {
        frontend.address.is_some_and(|own| state.services.iter().any(|service| service.cluster_ips.contains(&own)))
    };
    let frontend = cascade.frontends.iter().find(is_cluster_ip).ok_or("no cluster IP leads to it")?;
    let address = frontend.address.ok_or("no cluster IP leads to it")?;
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

/// How many flows a cascade gets.
fn flows(cascade: &Cascade, wanted: Flows, goal: &Goal, scenario: &Scenario) -> Result<u64, RunError> {
    let needed = match wanted {
        Flows::Exactly(flows) => return Ok(flows),
        Flows::Auto => {
            let shares: Vec<f64> = expected(cascade).iter().map(|(_, share)| share.to_f64()).collect();
            most_flows(&shares, goal)
                .map_err(|source| RunError::Flows { span: Span::start_of(&scenario.file), source })?
        }
    };
    if needed > MOST_FLOWS {
        Err(RunError::TooManyFlows { span: Span::start_of(&scenario.file), needed })
    } else {
        Ok(needed)
    }
}

fn take(
    prober: &mut Prober<'_>,
    plan: &Plan,
    cascade: &Cascade,
    has_counters: bool,
    goal: &Goal,
    scenario: &Scenario,
) -> Result<Sample, RunError> {
    let span = Span::start_of(&scenario.file);
    let to = Destination { label: plan.to.to_string(), address: plan.to.ip(), port: plan.to.port(), via: None };
    let (from, protocol) = (plan.from.clone(), plan.frontend.protocol);
    let probe = Probe {
        span: span.clone(),
        from,
        to,
        protocol,
        source_port: None,
        flows: Flows::Exactly(plan.flows),
        tcp_flags: None,
    };
    let count = |prober: &mut Prober<'_>| {
        if plan.looked {
            prober.count_until(&probe, plan.flows, |tally| is_enough(cascade, tally, goal))
        } else {
            prober.count(&probe, plan.flows)
        }
    };
    let tally = if has_counters { prober.cross_checked(&probe, count) } else { count(prober) };
    let tally = tally.map_err(|source| RunError::Probe { span, source: Box::new(source) })?;
    Ok(judge(cascade, plan.from.to_string(), plan.to, &tally, goal, plan.looked))
}
