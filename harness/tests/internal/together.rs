//! Flows in flight at the same time do not interfere: every scenario's first probes, sent together, have the results that the scenario
//! expects of each alone.

use std::path::PathBuf;

use crate::judge::{Context, judge};
use crate::lab::{Backend, with_lab};
use crate::observation::Observation;
use crate::probe::Prober;
use crate::scenario::{self, Expectation, ExpectedOutcome, Flows, Probe, Scenario, Step};
use crate::{documents, testing, topology};
use rstest::rstest;

/// How often each probe is sent: more flows than can be in flight at a time.
const TIMES: usize = 20;

#[rstest]
fn as_alone(
    #[files("../scenarios/**/*.yaml")]
    // Scenarios that start with a change or with connections, or need a module that few kernels have.
    #[exclude("/(invalid|manifests|affinity|netem)/|/updates/(during-|restored-|stopped-)|/links/node-down")]
    path: PathBuf,
) {
    testing::privileged(|| {
        let scenario = scenario::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let steps = first_steps(&scenario);
        assert!(!steps.is_empty(), "there is nothing to look at before the first change");
        let probes: Vec<Probe> = steps.iter().map(|(probe, _)| probe.clone()).collect();
        let documents = documents::generate(&scenario, &scenario.cluster).expect("rules");
        let flows = with_lab(&topology::plan(&scenario), &documents, Backend::System, |lab| {
            Prober::new(lab, &scenario.cluster).and_then(|mut prober| prober.send_all(&probes))
        });
        let flows = flows.expect("a lab").expect("flows");
        assert_eq!(flows.len(), steps.len());
        for ((probe, expectation), flow) in steps.iter().zip(flows) {
            let context = Context { sender: vec![flow.source.ip()], ..Context::default() };
            let judgment = judge(probe, expectation, &Observation::Flow(Box::new(flow)), &context);
            assert!(judgment.held, "{probe:#?}\n{:#?}", judgment.differences);
        }
    });
}

/// The probes before the first change, each several times, with the expected outcome and reply. For counted flows, a single flow must be
/// delivered to one of the allowed destinations, too.
fn first_steps(scenario: &Scenario) -> Vec<(Probe, Expectation)> {
    let steps = scenario.tests.iter().flat_map(|test| &test.steps).map_while(|step| match step {
        Step::Probe(probe, expectation) => Some((probe.as_ref(), expectation)),
        Step::Change(_) | Step::During(_) | Step::Wait(_) => None,
    });
    let says = |expectation: &Expectation| expectation.outcome.is_some() || expectation.reply.is_some();
    // Their outcome depends on the previous probe.
    let alone = |(probe, expectation): &(&Probe, &Expectation)| {
        probe.tcp_flags.is_none() && expectation.outcome != Some(ExpectedOutcome::SameAsBefore)
    };
    let opening = steps.filter(alone);
    let parts = opening.filter(|(_, expectation)| says(expectation)).map(|(probe, expectation)| {
        let expectation =
            Expectation { outcome: expectation.outcome.clone(), reply: expectation.reply, ..Expectation::default() };
        (Probe { source_port: None, flows: Flows::Exactly(1), ..probe.clone() }, expectation)
    });
    let once: Vec<(Probe, Expectation)> = parts.collect();
    (0..TIMES).flat_map(|_| once.clone()).collect()
}
