//! Ad-hoc flows on the command line, in the cluster of an input.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::console::Console;
use super::inputs::{InputText, input, report_assumptions};
use super::{Exit, diagnostics};
use svclab::explain::Explanation;
use svclab::infer::{AdHocProbe, AdHocScenario, Connections, with_ad_hoc_probe};
use svclab::input::Reach;
use svclab::run::SCENARIO;
use svclab::scenario::{OtherRules, Scenario};
use svclab::text::counted;

/// Reads an input and an ad-hoc probe, and reports assumptions and errors.
pub(super) fn ad_hoc(
    path: &Path,
    probe: &AdHocProbe,
    reach: Reach,
    connections: Connections,
    console: &Console,
) -> Result<AdHocScenario, Exit> {
    let read = input(&scenario_of(path)).and_then(|(path, input)| {
        let InputText { text, assumptions, ignored_rules, rules } = input.into_text(&path, connections)?;
        let mut ad_hoc = with_ad_hoc_probe(&text, &path, probe, reach)?;
        ad_hoc.scenario.ignored_rules = ignored_rules;
        place_in_dump(&mut ad_hoc.scenario, &rules);
        ad_hoc.assumptions.splice(0..0, assumptions);
        Ok((ad_hoc, path))
    });
    let (ad_hoc, path) = read.map_err(|diagnostics| {
        diagnostics::show(&diagnostics, console);
        Exit::Input
    })?;
    report_assumptions(&path, &ad_hoc.assumptions, console);
    Ok(ad_hoc)
}

/// Gives the rules of a dump the places that they have there: the scenario was read from a text made from it, whose lines are others.
fn place_in_dump(scenario: &mut Scenario, rules: &[OtherRules]) {
    for own in &mut scenario.rules {
        let is_it = |dumped: &&OtherRules| {
            (&dumped.place, dumped.family, dumped.install) == (&own.place, own.family, own.install)
                && dumped.rules.print() == own.rules.print()
        };
        if let Some(dumped) = rules.iter().find(is_it) {
            own.rules = Arc::clone(&dumped.rules);
        }
    }
}

/// Rejects the number of a path that does not exist.
pub(super) fn check_path(wanted: NonZeroUsize, explanation: &Explanation, console: &Console) -> Result<(), Exit> {
    let paths = explanation.paths.len();
    // If there is no prediction, the page says so.
    if wanted.get() <= paths.max(1) {
        return Ok(());
    }
    console.complain(format!("there is no path {wanted}: the rules allow {}", counted(paths, "path")));
    console.complain("help: Choose a smaller `--path`; without it the first path is taken.");
    Err(Exit::Input)
}

/// Returns the scenario in a folder of artifacts; any other path is a scenario itself.
pub(super) fn scenario_of(path: &Path) -> PathBuf {
    let named = std::fs::read_to_string(path.join(SCENARIO)).ok().filter(|_| path.is_dir());
    let inside = named.map(|name| path.join(name.trim_end())).filter(|file| is_inside(file, path));
    inside.unwrap_or_else(|| path.to_owned())
}

/// Returns whether a file is inside a folder, with links resolved: artifacts may be untrusted, and messages quote lines of files.
fn is_inside(file: &Path, folder: &Path) -> bool {
    let target = |path: &Path| path.canonicalize().ok();
    target(folder).zip(target(file)).is_some_and(|(folder, file)| file.starts_with(folder))
}
