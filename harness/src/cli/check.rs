//! `svclab check`: parses and resolves scenarios; needs no privileges.

use std::path::PathBuf;

use serde_json::json;

use super::complete;
use super::console::Console;
use super::format::Format;
use super::inputs::InputArgs;
use super::{Exit, Read, diagnostics, read, warn};
use svclab::Backend;
use svclab::Goal;
use svclab::environment::Environment;
use svclab::input::Diagnostics;
use svclab::input::{IGNORED, read_file};
use svclab::run::balance_errors;
use svclab::scenario::{Scenario, Tests};
use svclab::text::{counted, path_text, printable};

/// Find the errors in scenarios without running them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders of them.
    #[arg(required = true, add = complete::scenario_files())]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let (mut results, left_out) = match read(&args.paths, args.inputs.reach(), Tests::Required, console) {
        Ok(read) => read,
        Err(exit) => return exit,
    };
    reject_endless_tests(&mut results);
    if args.format == Format::Json {
        if let Err(exit) = print_json(&results, console) {
            return exit;
        }
    } else {
        print(&results, console);
        if console.verbose > 0 {
            let note = |folder: &PathBuf| format!("{}: skipped, it contains a file {IGNORED}", printable(folder));
            left_out.iter().for_each(|folder| console.line(note(folder)));
        }
    }
    if results.iter().all(|(_, result)| result.is_ok()) { Exit::Held } else { Exit::Input }
}

/// Rejects balance tests that need more flows than a probe may send when all scenarios run together.
fn reject_endless_tests(results: &mut [Read]) {
    let sound: Vec<&Scenario> = results.iter().filter_map(|(_, result)| result.as_ref().ok()).collect();
    let mut found = balance_errors(&sound, &Goal::default()).into_iter();
    for (file, result) in results.iter_mut().filter(|(_, result)| result.is_ok()) {
        let errors = found.next().unwrap_or_default();
        if !errors.is_empty() {
            let text = read_file(file).map(|text| (file.clone(), text.into()));
            *result = Err(Diagnostics { errors, sources: text.into_iter().collect() });
        }
    }
}

fn print(results: &[Read], console: &Console) {
    let mut errors = 0;
    let mut broken = 0;
    let mut tests = 0;
    for (file, result) in results {
        match result {
            Ok(scenario) => {
                tests += scenario.tests.len();
                warn(&scenario.notes, console);
                if console.verbose > 0 {
                    console.line(format!("{}: {}", printable(file), contents(scenario)));
                    let notes = scenario.notes.iter().filter(|note| !note.is_warning);
                    notes.for_each(|note| console.line(format!("  {}: {}", note.span, note.message)));
                }
            }
            Err(diagnostics) => {
                broken += 1;
                errors += diagnostics.errors.len();
                diagnostics::show(diagnostics, console);
            }
        }
    }
    match (results.len(), broken) {
        (all, 0) => console.inform(format!("{} with {}, no errors", counted(all, "scenario"), counted(tests, "test"))),
        (all, broken) => {
            console.complain(format!("{} in {broken} of {}", counted(errors, "error"), counted(all, "scenario")))
        }
    }
}

/// Summarises a scenario: `2 nodes, 3 pods, 1 service, 4 tests`.
fn contents(scenario: &Scenario) -> String {
    let cluster = &scenario.cluster;
    [
        counted(cluster.nodes.len(), "node"),
        counted(cluster.pods.len(), "pod"),
        counted(cluster.services.len(), "service"),
        counted(scenario.tests.len(), "test"),
    ]
    .join(", ")
}

fn print_json(results: &[Read], console: &Console) -> Result<(), Exit> {
    let files = results.iter().map(|(file, result)| match result {
        Ok(scenario) => json!({ "file": path_text(file), "errors": [], "notes": scenario.notes }),
        Err(diagnostics) => json!({ "file": path_text(file), "errors": diagnostics.errors, "notes": [] }),
    });
    let document = serde_json::Value::Array(files.collect());
    console.json("check", &Environment::of(Backend::System), &document)
}
