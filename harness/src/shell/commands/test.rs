//! `test`: the scenario's own tests.

use std::time::Instant;

use crate::input::did_you_mean;
use crate::probe::is_interrupted;
use crate::report::{Machines, RunReport, ScenarioReport, Status, console};
use crate::run::Selection;
use crate::scenario::Test as TestOf;
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};
use crate::text::counted;

/// Run the tests of the scenario in this lab.
///
/// They run in the present state. If one of them changes the cluster, they start from the scenario's first state, and the present state is
/// restored afterwards. Ctrl-C ends them all. The exit code is 1 if a test fails.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Test {
    /// The test, or part of its name [default: all]
    #[arg(value_name = "TEST")]
    name: Option<String>,
}

impl Test {
    pub(super) fn execute(self, engine: &mut Engine<'_>, view: &View) -> Result<Printed, Printed> {
        let begin = Instant::now();
        let selection = Selection { filter: self.name.clone(), ..Selection::default() };
        let scenario = engine.scenario();
        if selection.of(scenario).next().is_none() {
            return Err(no_such_test(&scenario.tests, self.name.as_deref()));
        }
        let chosen = selection.of(scenario).count();
        let (name, file, machines) = (scenario.name.clone(), scenario.file.clone(), Machines::of(scenario));
        let tests = engine.in_session(|session| session.carry_out_tests(selection))?;
        if is_interrupted() && tests.is_empty() {
            return Err(Printed::interrupted(interrupted(0, chosen)));
        }
        let carried_out = tests.len();
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
        let text = console::scenario(&report, view.settings);
        if carried_out < chosen {
            return Ok(Printed { text, ..Printed::interrupted(interrupted(carried_out, chosen)) });
        }
        let code = match report.status() {
            Status::Ok => 0,
            Status::Failed => 1,
            Status::Error => 3,
        };
        let run = RunReport { duration: report.duration, scenarios: vec![report], ..RunReport::default() };
        Ok(Printed { text: text + &console::summary(&run, view.settings), code, ..Printed::default() })
    }
}

fn interrupted(carried_out: usize, chosen: usize) -> String {
    format!("interrupted after {carried_out} of {}\n", counted(chosen, "test"))
}

fn no_such_test(tests: &[TestOf], name: Option<&str>) -> Printed {
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    if names.is_empty() {
        return Printed::wrong("the scenario has no tests", "Send packets with `probe` instead.");
    }
    let choose = || format!("Choose one of these:\n  {}", names.join("\n  "));
    let help = name.and_then(|name| did_you_mean(name, &names)).unwrap_or_else(choose);
    Printed::wrong("there is no such test", &help)
}
