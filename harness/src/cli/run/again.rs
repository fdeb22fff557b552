//! `svclab run --watch`: repeated runs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::console::Console;
use super::super::failure::Failure;
use super::super::watch::Watched;
use super::super::{Exit, diagnostics, interrupt, read, warn};
use super::{Args, run_once};
use svclab::scenario::{Scenario, Tests};
use svclab::text::{counted, list, printable, reason};
use svclab::worker::Kind;

/// Runs the tests, and again whenever a file has changed. It ends only with an error of the machine, a signal, or a closed output.
pub(super) fn run(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let rejected = if args.reports.take_stdout() {
        Some(("a report on standard output has one run", "Write the report to a file: `--report json=FILE`."))
    } else if args.paths.iter().any(|path| path.as_os_str() == "-") {
        Some(("standard input does not change", "Name files or folders."))
    } else if args.kernels.has_several() {
        Some(("tests run again on one kernel", "Give --kernel once."))
    } else {
        None
    };
    if let Some((message, help)) = rejected {
        return Err(Failure::new(format!("`--watch`: {message}"), help).report(console));
    }
    if let Some(missing) = args.paths.iter().find(|path| !path.exists()) {
        let message = format!("`--watch`: {} does not exist", printable(missing));
        return Err(Failure::new(message, "Name an existing file or folder.").report(console));
    }
    // Only once, and before any thread is started.
    let location = args.kernels.location(Kind::Run, args.labs.backend.into(), console)?;
    let failed = |error: io::Error| {
        console.complain(format!("`--watch`: files cannot be watched: {}", reason(&error)));
        Exit::Environment
    };
    let mut watched = Watched::new(&args.paths).map_err(failed)?;
    let mut changed = Vec::new();
    loop {
        watched.look();
        // The result of a run does not end the loop: tests may fail, and files may be invalid while they are edited.
        let _ = scenarios(args, &changed, &mut watched, console)
            .and_then(|all| run_once(all, Some(&location), args, console));
        console.inform(format!("\nwatching {}; Ctrl-C ends", counted(watched.len(), "file")));
        if console.is_broken() {
            return Ok(Exit::Held);
        }
        changed = interrupt::idle(|| watched.changed()).map_err(failed)?;
        console.inform(format!("\nchanged: {}\n", list(changed.iter().map(|file| printable(file)), 3)));
    }
}

/// Returns the scenarios, those with a changed file first. If there are errors, they are printed and none is run.
fn scenarios(
    args: &Args,
    changed: &[PathBuf],
    watched: &mut Watched,
    console: &Console,
) -> Result<Vec<Scenario>, Exit> {
    let (read, _) = read(&args.paths, args.inputs.reach(), Tests::Required, console)?;
    let mut scenarios = Vec::new();
    let mut is_broken = false;
    for (_, result) in read {
        let texts: BTreeMap<PathBuf, Arc<str>> = match result {
            Ok(scenario) => {
                let texts = scenario.inputs.clone();
                scenarios.push(scenario);
                texts
            }
            Err(errors) => {
                diagnostics::show(&errors, console);
                is_broken = true;
                errors.sources
            }
        };
        watched.note(texts);
    }
    if is_broken {
        return Err(Exit::Input);
    }
    scenarios.iter().for_each(|scenario| warn(&scenario.notes, console));
    let is_changed = |file: &Path| changed.iter().any(|one| one == file);
    scenarios.sort_by_key(|scenario| !scenario.inputs.keys().any(|file| is_changed(file)));
    Ok(scenarios)
}
