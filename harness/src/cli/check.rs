//! `svclab check`: parses and resolves scenarios; needs no privileges.

use std::path::PathBuf;

use serde_json::json;

use super::console::Console;
use super::{Exit, mistakes};
use crate::scenario::{self, Diagnostics, Scenario};

/// Find the mistakes of scenarios, without running them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders to look for them in.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Print the mistakes and notes as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let files = match scenario::find(&args.paths) {
        Ok(files) => files,
        Err(error) => {
            console.complain(error);
            return Exit::Input;
        }
    };
    let results: Vec<_> = files.iter().map(|file| (file, scenario::load(file))).collect();
    if args.json {
        print_json(&results, console);
    } else {
        print(&results, console);
    }
    let sound = !results.is_empty() && results.iter().all(|(_, result)| result.is_ok());
    if sound { Exit::Held } else { Exit::Input }
}

type Checked<'f> = (&'f PathBuf, Result<Scenario, Diagnostics>);

fn print(results: &[Checked<'_>], console: &Console) {
    let mut mistakes = 0;
    let mut broken = 0;
    let mut tests = 0;
    for (file, result) in results {
        match result {
            Ok(scenario) => {
                tests += scenario.tests.len();
                if console.verbose > 0 {
                    console.line(format!("{}: {}", file.display(), contents(scenario)));
                    scenario.notes.iter().for_each(|note| console.line(format!("  {}: {}", note.span, note.message)));
                }
            }
            Err(diagnostics) => {
                broken += 1;
                mistakes += diagnostics.errors.len();
                mistakes::show(diagnostics, console);
            }
        }
    }
    match (results.len(), broken) {
        (0, _) => console.complain("no scenario found: a scenario is a file *.yaml that is no Kubernetes object"),
        (all, 0) => {
            console.inform(format!("{} with {} without mistakes", count(all, "scenario"), count(tests, "test")))
        }
        (all, broken) => {
            console.complain(format!("{} in {broken} of {}", count(mistakes, "mistake"), count(all, "scenario")))
        }
    }
}

/// What a scenario has: `2 nodes, 3 pods, 1 service, 4 tests`.
fn contents(scenario: &Scenario) -> String {
    let cluster = &scenario.cluster;
    [
        count(cluster.nodes.len(), "node"),
        count(cluster.pods.len(), "pod"),
        count(cluster.services.len(), "service"),
        count(scenario.tests.len(), "test"),
    ]
    .join(", ")
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn print_json(results: &[Checked<'_>], console: &Console) {
    let files = results.iter().map(|(file, result)| match result {
        Ok(scenario) => json!({ "file": file, "errors": [], "notes": scenario.notes }),
        Err(diagnostics) => json!({ "file": file, "errors": diagnostics.errors, "notes": [] }),
    });
    console.line(serde_json::Value::Array(files.collect()));
}
