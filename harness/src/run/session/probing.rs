//! One probe: its number of flows, its observation and its judgment.

use std::net::IpAddr;
use std::time::Instant;

use svclab_rules::cluster::Family;

use super::super::RunError;
use super::{Failed, Session};
use crate::documents;
use crate::judge::{Context, Judgment, cells, expected_parts, judge};
use crate::observation::{Observation, ObservedOutcome, Tally};
use crate::probe::Prober;
use crate::report::{ProbeReport, probe_words};
use crate::scenario::{Balance, Expectation, ExpectedOutcome, Flows, MAX_FLOWS, Probe, Shape};
use crate::stats::{Goal, flows_to_meet_all, is_clear, most_flows, sample_size};
use crate::text::{printable, shell_word};

impl<'scenario> Session<'_, 'scenario> {
    pub(super) fn probe(
        &mut self,
        probe: &'scenario Probe,
        expectation: &Expectation,
    ) -> Result<ProbeReport, RunError> {
        let begin = Instant::now();
        let (observation, context, judgment) = self.send_and_judge(probe, expectation)?;
        // Only probes that open a connection can be explained.
        let explain_command = (!judgment.held && probe.tcp_flags.is_none() && probe.shape == Shape::default())
            .then(|| self.look_further(probe));
        if !judgment.held {
            self.failed.push(Failed { probe, position: self.probed, applied: self.applied });
        }
        self.probed += 1;
        Ok(ProbeReport {
            span: probe.span.clone(),
            title: probe_words(probe),
            expected: expected_parts(probe, expectation, &context.sender),
            observation,
            judgment,
            diagnosis: None,
            rules: Vec::new(),
            explain_command,
            duration: begin.elapsed(),
        })
    }

    pub(super) fn send_and_judge(
        &mut self,
        probe: &Probe,
        expectation: &Expectation,
    ) -> Result<(Observation, Context, Judgment), RunError> {
        let is_tested = !matches!(expectation.balance, None | Some(Balance::All));
        let looked = (probe.flows == Flows::Auto && is_tested).then_some(self.goal);
        let observation = self.observe(probe, expectation, looked.as_ref())?;
        let before = &mut self.delivered[Family::of(probe.to.address) as usize];
        let delivered = match &observation {
            Observation::Flow(flow) => match &flow.outcome {
                ObservedOutcome::Delivered(delivery) => Some(delivery.destination),
                _ => None,
            },
            Observation::Tally(_) | Observation::Stream(_) => None,
        };
        let before = std::mem::replace(before, delivered);
        let context = Context { looked, before, ..self.context(&observation) };
        let judgment = judge(probe, expectation, &observation, &context);
        Ok((observation, context, judgment))
    }

    /// Sends a probe, with interim looks until the counts are clear. Counts whose balance is judged are
    /// cross-checked, if rules keep counters.
    fn observe(
        &mut self,
        probe: &Probe,
        expectation: &Expectation,
        looked: Option<&Goal>,
    ) -> Result<Observation, RunError> {
        let flows = flows(probe, expectation, &self.goal)?;
        let failed = |source| RunError::Probe { span: probe.span.clone(), source: Box::new(source) };
        if probe.flows == Flows::Exactly(1) {
            return self.prober.send(probe, flows).map_err(failed);
        }
        // More flows do not help if nothing can be judged.
        let is_enough = |tally: &Tally, goal: &Goal| {
            let cells = cells(expectation, tally);
            is_clear(&cells.counts, &cells.shares, goal).unwrap_or(true)
        };
        let count = |prober: &mut Prober<'_>| match looked {
            Some(goal) => prober.count_until(probe, flows, |tally| is_enough(tally, goal)),
            None => prober.count(probe, flows),
        };
        let tally = if expectation.balance.is_some() && documents::keep_counters(&self.documents, probe.to.address) {
            self.prober.cross_checked(probe, count)
        } else {
            count(&mut self.prober)
        };
        tally.map(Observation::Tally).map_err(failed)
    }

    /// The command that explains the probe, rule by rule.
    fn look_further(&self, probe: &Probe) -> String {
        let (from, to) = (shell_word(&probe.from.to_string()), shell_word(&probe.to.label));
        let mut flow = format!(" --protocol={} --family={}", probe.protocol, family_word(probe.to.address));
        if let Some(port) = probe.source_port {
            flow += &format!(" --source-port={port}");
        }
        if self.is_explained_here {
            return format!("explain {from} {to}{flow} --live");
        }
        let mut command = format!("svclab explain --from={from} --to={to}{flow}");
        if self.applied > 0 {
            command += &format!(" --step={}", self.applied);
        }
        let kernel = self.kernel.as_ref().map(|options| format!(" {options}")).unwrap_or_default();
        // A file name that starts with a hyphen would be parsed as an option.
        format!("{command} --live{kernel} -- {}", shell_word(&printable(&self.scenario.file).to_string()))
    }

    /// The facts about the lab that judging needs.
    fn context(&mut self, observation: &Observation) -> Context {
        let sender = match observation {
            Observation::Flow(flow) => vec![flow.source.ip()],
            Observation::Tally(tally) => tally.sender.into_iter().collect(),
            Observation::Stream(_) => Vec::new(),
        };
        Context {
            nodes: self.prober.lab().topology().node_addresses(),
            sender,
            rate: self.goal.false_alarm,
            before: None,
            looked: None,
        }
    }
}

/// The value of `--family` for an address.
fn family_word(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ipv4" } else { "ipv6" }
}

/// The number of flows of a probe: that of its author, or the maximum that its balance test needs.
pub(in crate::run) fn flows(probe: &Probe, expectation: &Expectation, goal: &Goal) -> Result<u64, RunError> {
    let shares = match (probe.flows, &expectation.balance, &expectation.outcome) {
        (Flows::Exactly(number), ..) => return Ok(number),
        (Flows::Auto, Some(Balance::All), Some(ExpectedOutcome::Delivered(targets))) => {
            return Ok(flows_to_meet_all(targets.len()));
        }
        (Flows::Auto, Some(Balance::Shares(shares)), _) => shares.iter().map(|(_, share)| *share).collect(),
        (Flows::Auto, _, Some(ExpectedOutcome::Delivered(targets))) => {
            vec![1.0 / targets.len().max(1) as f64; targets.len()]
        }
        (Flows::Auto, ..) => vec![1.0],
    };
    let span = || probe.span.clone();
    let needed = if expectation.balance.is_some() { most_flows(&shares, goal) } else { sample_size(&shares, goal) };
    let needed = needed.map_err(|source| RunError::Flows { span: span(), source })?;
    if needed > MAX_FLOWS { Err(RunError::TooManyFlows { span: span(), needed }) } else { Ok(needed) }
}
