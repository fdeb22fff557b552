//! `test`: the scenario's own tests.

use std::time::Instant;

use crate::input::did_you_mean;
use crate::report::{Machines, ScenarioReport, Status, console};
use crate::run::Selection;
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};

/// Run the tests of the scenario in this lab.
///
/// They see the present state. Where one of them changes the cluster, they start from the scenario's first state, and the lab is brought back afterwards. The exit code is
/// 1 if a test fails.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Test {
    /// The test, or a part of its name [default: all]
    #[arg(value_name = "TEST")]
    name: Option<String>,
}

impl Test {
    pub(super) fn carry_out(self, engine: &mut Engine<'_>, view: &View) -> Result<Printed, Printed> {
        let begin = Instant::now();
        let selection = Selection { filter: self.name.clone(), ..Selection::default() };
        let scenario = engine.scenario();
        if selection.of(scenario).next().is_none() {
            let names: Vec<&str> = scenario.tests.iter().map(|test| test.name.as_str()).collect();
            let help = match names.as_slice() {
                [] => "Send packets with `probe` instead.".to_owned(),
                names => self
                    .name
                    .as_deref()
                    .and_then(|name| did_you_mean(name, names))
                    .unwrap_or_else(|| format!("Choose one of these:\n  {}", names.join("\n  "))),
            };
            return Err(Printed::wrong("there is no such test", &help));
        }
        let (name, file, machines) = (scenario.name.clone(), scenario.file.clone(), Machines::of(scenario));
        let tests = engine.in_session(|session| session.carry_out_tests(selection))?;
        let report = ScenarioReport {
            name,
            file,
            repetition: None,
            machines,
            tests,
            error: None,
            programs: Vec::new(),
            syncs: Vec::new(),
            notes: Vec::new(),
            duration: begin.elapsed(),
        };
        let code = match report.status() {
            Status::Ok => 0,
            Status::Failed => 1,
            Status::Error => 3,
        };
        Ok(Printed { text: console::scenario(&report, view.settings), code, ..Printed::default() })
    }
}
