//! The result of `svclab verify` for machines. `svclab schema verify` describes every field.

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{Example, Finding};
use super::verification::{AddressKind, CoverageRow, Verification};
use super::{Options, Verified};
use crate::report::json::ScenarioError;
use crate::report::{Machines, NodeProgram};
use crate::sources::Disagreement;
use crate::text::path_text;

/// The verifications as a serializable value.
pub fn json(all: &[Verified], options: &Options) -> impl Serialize {
    let scenarios: Vec<Scenario<'_>> = all.iter().map(|verified| Scenario::of(verified, options)).collect();
    let has = |status: &str| scenarios.iter().any(|scenario| scenario.status == status);
    let status = ["error", "failed"].into_iter().find(|status| has(status)).unwrap_or("ok");
    Document { status, scenarios }
}

/// The results of `svclab verify`.
#[derive(Serialize, JsonSchema)]
pub struct Document<'a> {
    /// The worst result: `ok`, `failed` or `error`.
    status: &'static str,
    /// The scenarios, in the order of the command line.
    scenarios: Vec<Scenario<'a>>,
}

/// A scenario.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Scenario<'a> {
    /// The name.
    name: &'a str,
    /// The file, as given on the command line.
    file: String,
    /// `ok`, `failed` (sources disagree) or `error`.
    status: &'static str,
    /// The duration.
    seconds: Option<f64>,
    /// The reason why it was not verified; `null` if it was.
    error: Option<ScenarioError<'a>>,
    /// The machines and services at the start.
    machines: &'a Machines,
    /// The programs under test (`--kube-proxy`) that wrote the rules, by node; empty if svclab generated them.
    programs: &'a [NodeProgram],
    /// The rules of the input that are not part of the scenario, in words: their effect is unknown.
    ignored_rules: &'a [String],
    #[serde(flatten)]
    found: Option<Found<'a>>,
}

impl<'a> Scenario<'a> {
    fn of(verified: &'a Verified, options: &Options) -> Self {
        let found = verified.result.as_ref().ok();
        Self {
            name: &verified.name,
            file: path_text(&verified.file),
            ignored_rules: &verified.ignored_rules,
            status: match (found, verified.holds(options)) {
                (None, _) => "error",
                (Some(_), true) => "ok",
                (Some(_), false) => "failed",
            },
            seconds: found.map(|found| found.duration.as_secs_f64()),
            error: verified.result.as_ref().err().map(ScenarioError::from),
            machines: &verified.machines,
            programs: &verified.programs,
            found: found.map(|found| Found::of(found, options)),
        }
    }
}

/// The result of the verification of a scenario.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Found<'a> {
    /// The number of nodes.
    nodes: usize,
    /// The number of services.
    services: usize,
    /// The number of flows sent.
    flows: usize,
    /// The number of classes: sets of packets with the same promise and prediction.
    classes: usize,
    /// The number of sets of packets that were left out, because there are too many classes.
    unexamined_classes: usize,
    /// The number of flows for which the API promises nothing.
    not_promised: usize,
    /// The flows by vantage point and kind of address.
    coverage: Vec<Row<'a>>,
    /// The disagreements, those that fail first.
    findings: Vec<FindingRow<'a>>,
    /// Defects in the structure of nodes' rules, usually the cause of all findings: missing jumps, duplicated rules.
    structure_defects: &'a [String],
    /// Missing and additional rules of services whose connections fail, compared with the rules of the kube-proxy release.
    differences: &'a [String],
    /// Possible causes of contradictions between prediction and kernel other than the rules: settings that predictions ignore, and
    /// earlier packets.
    notes: &'a [String],
}

impl<'a> Found<'a> {
    fn of(verification: &'a Verification, options: &Options) -> Self {
        Self {
            nodes: verification.nodes,
            services: verification.services,
            flows: verification.flows(),
            classes: verification.classes,
            unexamined_classes: verification.left_out,
            not_promised: verification.not_promised,
            coverage: verification.coverage.iter().map(Row::of).collect(),
            structure_defects: &verification.structure_defects,
            differences: &verification.differences,
            notes: &verification.notes,
            findings: verification.findings.iter().map(|finding| FindingRow::of(finding, options)).collect(),
        }
    }
}

/// Flows of one vantage point to one kind of address.
#[derive(Serialize, JsonSchema)]
struct Row<'a> {
    /// The vantage point: `pod/client`, `localhost@worker`.
    from: &'a str,
    /// The kind of address: `clusterIP`, `externalIP`, `loadBalancer`, `nodePort`, `loopback` or `other`.
    kind: &'static str,
    /// The number of flows.
    flows: usize,
    /// The number of flows on which the sources disagree, including those that do not fail.
    disagreeing: usize,
}

impl<'a> Row<'a> {
    fn of(row: &'a CoverageRow) -> Self {
        let kind = match row.kind {
            AddressKind::ClusterIp => "clusterIP",
            AddressKind::ExternalIp => "externalIP",
            AddressKind::LoadBalancer => "loadBalancer",
            AddressKind::NodePort => "nodePort",
            AddressKind::Loopback => "loopback",
            AddressKind::Other => "other",
        };
        Self { from: &row.from, kind, flows: row.flows, disagreeing: row.disagreeing }
    }
}

/// A disagreement, with all flows that show it.
#[derive(Serialize, JsonSchema)]
struct FindingRow<'a> {
    /// The source that disagrees, or its cause: `rules`, `network`, `connection`, `earlierPackets`, `unpredicted`,
    /// `kernel`, `model`, `all`, `unknown`, `notShown` or `known`.
    disagreement: &'static str,
    /// Whether it makes the verification fail.
    fails: bool,
    /// The meaning, in a sentence.
    meaning: &'static str,
    /// The difference, a lower-case fragment.
    what: &'a str,
    /// The number of flows.
    flows: usize,
    /// One of the flows.
    example: ExampleFlow<'a>,
}

impl<'a> FindingRow<'a> {
    fn of(finding: &'a Finding, options: &Options) -> Self {
        let Finding { disagreement, what, flows, example } = finding;
        let word = match disagreement {
            Disagreement::Rules => "rules",
            Disagreement::Network => "network",
            Disagreement::Connection => "connection",
            Disagreement::EarlierPackets => "earlierPackets",
            Disagreement::Unpredicted => "unpredicted",
            Disagreement::Kernel => "kernel",
            Disagreement::Model => "model",
            Disagreement::All => "all",
            Disagreement::Unknown => "unknown",
            Disagreement::NotShown => "notShown",
            Disagreement::Known => "known",
        };
        let fails = disagreement.fails(options.allow_unknown);
        let (meaning, example) = (disagreement.sentence(example.is_observed), ExampleFlow::of(example));
        Self { disagreement: word, fails, meaning, what, flows: *flows, example }
    }
}

/// A flow on which the sources disagree.
#[derive(Serialize, JsonSchema)]
struct ExampleFlow<'a> {
    /// The flow, in words.
    flow: &'a str,
    /// The service port of the destination.
    service: Option<&'a str>,
    /// The promise of the Service API, in words.
    promise: &'a str,
    /// The prediction from the rules, in words: each branch with its share.
    prediction: &'a [String],
    /// The observation of the kernel, in words.
    observation: &'a str,
    /// The rules on the path of the decisive branch, in order.
    rules: &'a [String],
    /// The command that explains the flow; null if a later packet of its connection is at fault, because only first packets are explained.
    explain: Option<&'a str>,
}

impl<'a> ExampleFlow<'a> {
    fn of(example: &'a Example) -> Self {
        Self {
            flow: &example.flow,
            service: example.service.as_deref(),
            promise: &example.promise,
            prediction: &example.prediction,
            observation: &example.observation,
            rules: &example.rules,
            explain: example.explain.as_deref(),
        }
    }
}
