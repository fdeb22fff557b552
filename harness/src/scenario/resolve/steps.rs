//! Tests: sequences of changes and probes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem;
use std::time::Duration;

use svclab_rules::cluster::Cluster;

use super::during;
use super::expectations::{self, expectation};
use super::findings::Findings;
use super::links::NodePower;
use super::probes::{check_is_on, probes};
use super::promised;
use super::proxies::ProxyAction;
use super::stage::{Stage, State};
use super::step_changes::{Changes, RawChange};
use super::tags::tags;
use super::times;
use crate::input::{Diagnostic, limits};
use crate::scenario::model::{Change, During, DuringProbe, ExpectedOutcome, Flows, Probe, Step, Test};
use crate::scenario::schema::{RawDuring, RawExpect, RawProbe, RawStep, RawTest, RawTime};
use crate::yaml::At;

/// An ad-hoc probe, once for each family, and the cluster at that time.
#[derive(Debug, Default)]
pub(crate) struct ResolvedProbe {
    /// The cluster.
    pub(crate) cluster: Cluster,
    /// The last of the requested changes.
    pub(crate) change: Option<Change>,
    /// The probes; empty if none was requested.
    pub(crate) probes: Vec<Probe>,
}

/// Resolves all tests, and the ad-hoc probe. Each test starts from the state that the previous one left.
pub(crate) fn tests<'a>(
    raw: &'a [RawTest],
    at: At<'a>,
    stage: &Stage<'_, 'a>,
    findings: &mut Findings,
) -> (Vec<Test>, Option<ResolvedProbe>) {
    let mut names = HashSet::new();
    let mut tests = Vec::new();
    let mut now = State { objects: stage.objects.clone(), cluster: stage.cluster.clone(), former: Vec::new() };
    let mut extra = ExtraProbe::default();
    extra.resolve(stage, &now, findings);
    for (index, raw) in raw.iter().enumerate() {
        let at = at.item(index);
        if !names.insert(&raw.name) {
            let message = format!("duplicate test name `{}`", raw.name);
            findings.wrong(at.field("name"), message, "Give each test its own name.");
        }
        let mut run = Run { stage, now: &mut now, steps: Vec::new(), findings, extra: &mut extra };
        run.test(raw, at);
        let name = run.findings.line(&raw.name, at.field("name"));
        let tags = tags(&raw.tags, at.field("tags"), run.findings);
        tests.push(Test { name, span: at.span(), tags, steps: run.steps });
    }
    let ExtraProbe { applied, resolved, .. } = extra;
    // Steps with errors are not counted; their errors are reported separately.
    if let (Some(wanted), None, true) = (stage.extra, &resolved, findings.errors.is_empty()) {
        let (message, help) = step_out_of_range(wanted.step, applied);
        let length = wanted.step.to_string().len();
        findings.add(Diagnostic { length, ..Diagnostic::new(wanted.step_at.clone(), message, help) });
    }
    (tests, resolved)
}

/// Returns the message and help for `--step` if a scenario has fewer changes.
pub fn step_out_of_range(step: usize, changes: usize) -> (String, String) {
    let (has, help) = match changes {
        0 => ("no step that changes".to_owned(), "Omit `--step`.".to_owned()),
        1 => (
            "1 step that changes".to_owned(),
            "Use `--step 1`, or omit `--step` for the cluster at the start.".to_owned(),
        ),
        _ => (
            format!("{changes} steps that change"),
            format!("Use a number from 1 to {changes}, or omit `--step` for the cluster at the start."),
        ),
    };
    (format!("`--step {step}` is out of range: the scenario has {has} its cluster"), help)
}

/// The progress of changes by steps, and the ad-hoc probe once it is resolved.
#[derive(Default)]
struct ExtraProbe {
    applied: usize,
    /// The total number of objects in the states after the changes.
    objects: usize,
    /// Whether that number exceeded the limit.
    is_too_large: bool,
    resolved: Option<ResolvedProbe>,
}

impl ExtraProbe {
    /// Resolves the ad-hoc probe if this is its state.
    fn resolve<'a>(&mut self, stage: &Stage<'_, 'a>, now: &State<'a>, findings: &mut Findings) {
        let Some(extra) = stage.extra.filter(|extra| extra.step == self.applied) else { return };
        let mut then = Cow::Borrowed(now);
        let mut last = None;
        for (raw, at) in extra.changes {
            last = then.to_mut().own_change(*raw, *at, stage, findings);
        }
        let resolved = extra.probe.map(|(raw, at)| probes(raw, at, &stage.scene(&then), findings));
        let probes = resolved.into_iter().flatten().map(|resolved| resolved.probe).collect();
        self.resolved = Some(ResolvedProbe { cluster: then.cluster.clone(), change: last, probes });
    }
}

/// Maximum pause, so that a run ends in reasonable time.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

struct Run<'r, 's, 'a> {
    stage: &'r Stage<'s, 'a>,
    now: &'r mut State<'a>,
    steps: Vec<Step>,
    findings: &'r mut Findings,
    extra: &'r mut ExtraProbe,
}

impl<'a> Run<'_, '_, 'a> {
    fn test(&mut self, raw: &'a RawTest, at: At<'a>) {
        match (&raw.probe, &raw.steps) {
            (Some(probe), None) => self.probe(probe, raw.expect.as_ref(), at),
            (None, Some(steps)) => {
                if raw.expect.is_some() {
                    let message = "`expect` and `steps` are mutually exclusive";
                    self.findings.wrong(at.field("expect").key(), message, "Move it into the step with the probe.");
                }
                for (index, step) in steps.iter().enumerate() {
                    self.step(step, at.field("steps").item(index));
                }
                if !steps.iter().any(|step| step.probe.is_some() || step.during.is_some()) {
                    let help = "Add a step with `probe` and `expect`.";
                    if !at.field("steps").is_pruned() {
                        self.findings.wrong(at.field("steps").key(), "no step has a probe", help);
                    }
                }
            }
            _ => {
                let help = "Use `probe` and `expect` for one probe, or `steps` for several.";
                self.findings.missing(at, "a test needs either a `probe` or `steps`", help);
            }
        }
    }

    fn step(&mut self, raw: &'a RawStep, at: At<'a>) {
        let RawStep { during, wait, probe, expect, .. } = raw;
        let changes = Changes::from_step(raw);
        match (changes.0.as_slice(), probe, during, wait) {
            ([change], None, None, None) => {
                let change = self.change(change, at);
                self.steps.extend(change.map(Step::Change));
            }
            ([], Some(probe), None, None) => self.probe(probe, expect.as_ref(), at),
            ([], None, Some(during), None) => self.during(during, expect.as_ref(), at),
            ([], None, None, Some(time)) => self.wait(time, at.field("wait")),
            ([], None, None, None) if self.has_no_value(at) => {}
            _ => {
                let message = "a step needs exactly one of `apply`, `probe`, `during`, `wait`, `restart`, `stop`, `start`, `link`, `down` or `up`";
                self.findings.missing(at, message, "Use a separate step for each.");
            }
        }
    }

    fn during(&mut self, raw: &'a RawDuring, expect: Option<&RawExpect>, step: At<'a>) {
        let at = step.field("during");
        let before = self.now.cluster.clone();
        let changes = Changes::from_during(raw);
        let change = match changes.0.as_slice() {
            [change] => self.change(change, at),
            [] if self.has_no_value(at) => None,
            _ => {
                let message =
                    "`during` needs exactly one of `apply`, `restart`, `stop`, `start`, `link`, `down` or `up`";
                self.findings.missing(at, message, "Add exactly one change; use a separate step for each.");
                None
            }
        };
        let scene = self.stage.scene(self.now);
        let mut all = Vec::new();
        for (index, raw) in raw.probe.0.iter().enumerate() {
            let at = at.field("probe").item(index);
            during::check_repeatable(raw, at, self.findings);
            let resolved = probes(raw, at, &scene, self.findings);
            resolved.iter().for_each(|one| during::check_together(one, &scene, at, self.findings));
            resolved.iter().for_each(|one| check_is_on(&one.probe.from, &before, at, self.findings));
            all.extend(resolved);
        }
        if raw.probe.0.is_empty() && !at.field("probe").is_pruned() {
            self.findings.wrong(at.field("probe"), "`during` has no probe", "Add a probe, or use a separate step.");
        }
        let has_services = all.iter().all(|one| one.service.is_some());
        let timing = during::timing(raw, all.len(), at, self.findings);
        let expectation = expect
            .map(|expect| during::expectation(expect, has_services, step.field("expect"), self.findings))
            .unwrap_or_default();
        let Some(change) = change else { return };
        if expectation.followed_within.is_some() {
            let at = step.field("expect").field("followedWithin");
            all.iter().for_each(|one| promised::check_follows(&one.probe, &before, at, &scene, self.findings));
        }
        let probe = |super::probes::ResolvedProbe { probe, service }| DuringProbe { probe, service };
        let during::Timing { rate, before, after } = timing;
        let probes = all.into_iter().map(probe).collect();
        self.steps.push(Step::During(Box::new(During { change, probes, rate, before, after, expectation })));
    }

    /// Reports a change without a value.
    fn has_no_value(&mut self, at: At<'_>) -> bool {
        let proxies = [ProxyAction::Restart, ProxyAction::Stop, ProxyAction::Start].map(ProxyAction::as_str);
        let power = [NodePower::Down, NodePower::Up].map(NodePower::as_str);
        let Some(action) = proxies.into_iter().chain(power).chain(["link"]).find(|action| at.has(action)) else {
            return false;
        };
        let help = if proxies.contains(&action) {
            format!("Write `{action}: proxy` for all kube-proxies, or `{action}: proxy@NODE`.")
        } else if power.contains(&action) {
            format!("Write `{action}: node/NAME`.")
        } else {
            "Name the link and its new state, for example `link: {node: NAME, state: down}`.".to_owned()
        };
        self.findings.wrong(at.field(action).key(), format!("`{action}` has no value"), help);
        true
    }

    /// Resolves a change; `None` if it is invalid.
    fn change(&mut self, change: &RawChange<'a>, at: At<'a>) -> Option<Change> {
        if !self.has_room(at) {
            return None;
        }
        let change = self.now.change(change, at, self.stage, self.findings)?;
        self.extra.applied += 1;
        self.extra.resolve(self.stage, self.now, self.findings);
        Some(change)
    }

    /// Returns whether the states up to this step are within the limit.
    fn has_room(&mut self, at: At<'a>) -> bool {
        let Cluster { nodes, pods, services, slices, .. } = &self.now.cluster;
        let endpoints: usize = slices.iter().map(|slice| slice.endpoints.len()).sum();
        self.extra.objects += nodes.len() + pods.len() + services.len() + slices.len() + endpoints;
        if self.extra.objects > limits::OBJECTS_OF_CHANGES {
            let message =
                format!("the cluster's states up to this step exceed {} objects in total", limits::OBJECTS_OF_CHANGES);
            // Reported once, not for every later step.
            if !mem::replace(&mut self.extra.is_too_large, true) {
                let help = "Use fewer steps that change it, or a smaller cluster: each state has all of its objects.";
                self.findings.wrong(at, message, help);
            }
            return false;
        }
        true
    }

    fn wait(&mut self, raw: &RawTime, at: At<'_>) {
        match times::time(raw, at, self.findings) {
            Some(time) if time <= LONGEST_PAUSE => self.steps.push(Step::Wait(time)),
            Some(_) => {
                let longest = LONGEST_PAUSE.as_secs();
                let message = format!("`{}` is longer than {longest} s", raw.0);
                let help = format!(
                    "Use at most `{longest}s`; if the pause waits for a kernel timeout, shorten that timeout in the node's \
                     `sysctls`."
                );
                self.findings.wrong(at, message, help);
            }
            None => {}
        }
    }

    fn probe(&mut self, raw: &RawProbe, expect: Option<&RawExpect>, at: At<'a>) {
        let scene = self.stage.scene(self.now);
        let resolved = probes(raw, at.field("probe"), &scene, self.findings);
        let Some(expect) = expect else {
            let help = "Add `expect:` with one of `delivered`, `rejected` or `dropped`.";
            if !at.is_pruned() {
                self.findings.wrong(at.field("probe").key(), "the probe has no `expect`", help);
            }
            return;
        };
        if resolved.is_empty() {
            expectations::words(expect, at.field("expect"), &scene, self.findings);
            // Fallback: every known reason has its own error.
            if self.findings.errors.is_empty() {
                let help = "Use another form for both ends, for example addresses.";
                self.findings.wrong(at.field("probe"), "the probe cannot be sent: both ends are unknown", help);
            }
        }
        let is_followed = |step: &Step| matches!(step, Step::Probe(probe, _) if probe.flows == Flows::Exactly(1));
        let is_first = !self.steps.iter().any(is_followed);
        for resolved in resolved {
            let expectation = expectation(expect, at.field("expect"), &resolved, &scene, self.findings);
            if is_first && expectation.outcome == Some(ExpectedOutcome::SameAsBefore) {
                let message = "this test has no earlier probe of a single flow";
                let help = "Put both steps into one test, or name the destination.";
                self.findings.wrong(at.field("expect").field("delivered"), message, help);
            }
            self.steps.push(Step::Probe(Box::new(resolved.probe), expectation));
        }
    }
}
