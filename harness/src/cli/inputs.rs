//! Inputs that are made scenarios of: scenario files, Kubernetes objects, saved rules.

use std::path::{Path, PathBuf};

use super::console::Console;
use super::{Exit, load, mistakes};
use crate::scenario::{self, Assumed, Diagnostics, Form, Scenario};

/// Loads scenarios, and files with plain objects or saved rules that are named themselves; mistakes of all are told before anything is
/// done, and so is what was assumed of what is no scenario.
pub(super) fn load_all(paths: &[PathBuf], console: &Console) -> Result<Vec<Scenario>, Exit> {
    let assumed: Vec<_> = paths.iter().map(|path| assume(path)).collect();
    let others = paths.iter().zip(&assumed).filter(|(_, assumed)| assumed.is_none());
    let others: Vec<PathBuf> = others.map(|(path, _)| path.clone()).collect();
    let mut scenarios = if others.is_empty() { Ok(Vec::new()) } else { load(&others, console) };
    for (path, assumed) in paths.iter().zip(assumed) {
        match assumed {
            None => {}
            Some(Ok(Assumed { scenario, assumptions })) => {
                let told = assumptions.iter().filter(|_| !console.quiet);
                told.for_each(|words| console.complain(format!("{}: assumed: {words}", path.display())));
                scenarios.iter_mut().for_each(|all| all.push(scenario.clone()));
            }
            Some(Err(mistakes)) => {
                mistakes::show(&mistakes, console);
                scenarios = Err(Exit::Input);
            }
        }
    }
    scenarios
}

/// A scenario around what a file holds, if that is no scenario itself.
fn assume(path: &Path) -> Option<Result<Assumed, Diagnostics>> {
    let text = scenario::read_file(path).ok()?;
    if scenario::is_manifest(&text) {
        return Some(scenario::of_objects(&text, path));
    }
    match scenario::form(&text) {
        Ok(Form::Saved | Form::Listed | Form::Nft) => Some(scenario::of_rules(&text, path)),
        Ok(Form::Scenario) | Err(_) => None,
    }
}
