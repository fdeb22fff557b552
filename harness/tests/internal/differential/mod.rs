//! Compares the model with the kernel: for random clusters, rules and flows, predictions and labs must agree.
//!
//! `SVCLAB_SEED` repeats a run, `SVCLAB_CLUSTERS` and `SVCLAB_FLOWS` set its size, `SVCLAB_CASE` selects one of its clusters, and
//! `SVCLAB_KERNEL` another kernel: see `ci/differential`.

mod agreement;
mod case;
mod classes;
mod cluster;
mod dice;
mod flows;
mod machine;
mod minimal;
mod mutations;
mod rules;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::documents;
use crate::input;
use crate::lab::Backend;
use crate::scenario::{self, Probe, Scenario, Step};
use crate::testing;
use agreement::{Agreement, compare_with_kernel};
use case::Case;
use minimal::{Minimal, minimal};
use mutations::Mutation;
use rstest::rstest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Earlier findings: a scenario for each, which holds, and for which prediction and kernel agree.
#[rstest]
fn found_once_stays_mended(
    #[files("tests/internal/differential/found/*.yaml")] path: PathBuf,
    #[values(Backend::Nft, Backend::Legacy)] backend: Backend,
) {
    testing::privileged(|| {
        let scenario = scenario::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        testing::assert_scenario_holds(&scenario, backend);
        let steps = scenario.tests.iter().flat_map(|test| &test.steps);
        let probes: Vec<Probe> = steps
            .filter_map(|step| match step {
                Step::Probe(probe, _) => Some((**probe).clone()),
                Step::Change(_) | Step::During(_) | Step::Wait(_) => None,
            })
            .collect();
        let documents = documents::generate(&scenario, &scenario.cluster).unwrap_or_else(|error| panic!("{error}"));
        let agreement = compare_with_kernel(&scenario, &documents, &probes, backend);
        let agreement = agreement.unwrap_or_else(|error| panic!("{error}"));
        assert!(agreement.contradictions.is_empty(), "{agreement:#?}");
        assert_eq!(agreement.agreed + agreement.unknown.len(), probes.len(), "{agreement:#?}");
    });
}

/// The result of a run.
#[derive(Debug, Default)]
struct Sum {
    clusters: usize,
    agreed: usize,
    by_chance: usize,
    by_port: usize,
    by_memory: usize,
    /// The number of flows without a prediction, by reason.
    unknown: BTreeMap<String, usize>,
    /// The number of clusters by kind of rules.
    kinds: BTreeMap<String, usize>,
    failures: Vec<String>,
}

/// The result of one case.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    agreed: usize,
    by_chance: usize,
    by_port: usize,
    by_memory: usize,
    unknown: Vec<String>,
    /// The kind of its rules.
    kind: String,
    failure: Option<String>,
}

fn number(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[test]
fn prediction_and_kernel_agree() {
    testing::privileged(|| {
        let seed = number("SVCLAB_SEED").unwrap_or(1);
        let clusters = number("SVCLAB_CLUSTERS").unwrap_or(60);
        let flows = number("SVCLAB_FLOWS").unwrap_or(100);
        println!("SVCLAB_SEED={seed} SVCLAB_CLUSTERS={clusters} SVCLAB_FLOWS={flows}");
        let cases = number("SVCLAB_CASE").map_or(0..clusters, |case| case..case + 1);
        let sum = Mutex::new(Sum::default());
        let done = |outcome: Outcome| sum.lock().expect("no thread panics").add(outcome);
        if let Ok(kernel) = std::env::var(machine::KERNEL) {
            let location = machine::started(&kernel);
            machine::outcomes(&location, cases.map(|case| (seed as u64, case, flows))).for_each(done);
        } else {
            let next = AtomicUsize::new(cases.start);
            let case = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|case| *case < cases.end);
            let work = || std::iter::from_fn(case).for_each(|case| done(Outcome::of(seed as u64, case, flows)));
            std::thread::scope(|scope| {
                scope.spawn(work);
                scope.spawn(work);
            });
        }
        let sum = sum.into_inner().expect("no thread panics");
        let Sum { clusters, agreed, by_chance, by_port, by_memory, unknown, kinds, failures } = &sum;
        println!(
            "{clusters} clusters, {agreed} flows agree ({by_chance} of them with one of several branches, {by_port} given the source port that the kernel chose, {by_memory} sent alone), {} unknown, {} clusters disagree",
            unknown.values().sum::<usize>(),
            failures.len(),
        );
        kinds.iter().for_each(|(kind, number)| println!("  {number} clusters: {kind}"));
        unknown.iter().for_each(|(why, number)| println!("  {number} unknown: {why}"));
        assert!(*agreed > 0, "no flow was compared");
        assert!(failures.is_empty(), "{} clusters disagree:\n{}", failures.len(), failures.join("\n"));
    });
}

impl Outcome {
    fn of(seed: u64, number: usize, flows: usize) -> Self {
        let case = Case::of(seed, number, flows);
        let result = compare(&text_of(&case.scenario), &case.mutations, &case.probes, case.backend);
        let failure = match &result {
            Ok(agreement) => agreement.contradictions.first().map(|first| {
                let count = agreement.contradictions.len();
                let least = minimal(&case, first.clone());
                format!("cluster {number}, {:?}: {count} flows\n{}", case.backend, words(&least))
            }),
            Err(error) => {
                let made = mutations::listed(&case.mutations);
                Some(format!("cluster {number}, {:?}: {error}\n{}{made}", case.backend, text_of(&case.scenario)))
            }
        };
        let Agreement { agreed, by_chance, by_port, by_memory, unknown, .. } = result.unwrap_or_default();
        Self { agreed, by_chance, by_port, by_memory, unknown, kind: case.kind.to_owned(), failure }
    }
}

impl Sum {
    fn add(&mut self, outcome: Outcome) {
        if let Some(failure) = &outcome.failure {
            println!("{failure}");
        }
        self.clusters += 1;
        self.agreed += outcome.agreed;
        self.by_chance += outcome.by_chance;
        self.by_port += outcome.by_port;
        self.by_memory += outcome.by_memory;
        outcome.unknown.into_iter().for_each(|why| *self.unknown.entry(why).or_default() += 1);
        *self.kinds.entry(outcome.kind).or_default() += 1;
        self.failures.extend(outcome.failure);
    }
}

/// Prints a disagreement as a scenario that reproduces it.
fn words(least: &Minimal) -> String {
    let probe = &least.probes[least.contradiction.probe];
    let to = std::net::SocketAddr::new(probe.to.address, probe.to.port);
    let to = probe.to.via.as_ref().map_or(to.to_string(), |node| format!("{to}@{node}"));
    let mut scenario = least.scenario.clone();
    scenario["tests"] = json!([{
        "name": "a flow about which prediction and kernel disagree",
        "probe": {"from": probe.from.to_string(), "to": to, "protocol": probe.protocol.as_str()},
        "expect": {"dropped": true},
    }]);
    let mut words = text_of(&scenario);
    words.push_str(&mutations::listed(&least.mutations));
    let _ = write!(
        words,
        "# flows: {}\n# predicted: {}\n# observed: {}\n",
        least.probes.len(),
        least.contradiction.predicted.join("\n#   "),
        least.contradiction.observed
    );
    words
}

fn text_of(scenario: &Value) -> String {
    serde_yaml::to_string(scenario).expect("a value can be written")
}

fn load(text: &str) -> Result<Scenario, String> {
    scenario::parse(text, Path::new("random.yaml"), &input::read_file).map_err(|errors| errors.to_string())
}

fn compare(text: &str, mutations: &[Mutation], probes: &[Probe], backend: Backend) -> Result<Agreement, String> {
    let scenario = load(text)?;
    let documents = documents::generate(&scenario, &scenario.cluster).map_err(|error| error.to_string())?;
    let documents = mutations::made(mutations, documents);
    compare_with_kernel(&scenario, &documents, probes, backend).map_err(|error| error.to_string())
}
