//! Inputs of commands: scenario files, Kubernetes objects, saved rules.

use std::path::{Path, PathBuf};

use super::console::Console;
use super::{Exit, diagnostics, load, text_of, warn};
use svclab::evidence;
use svclab::infer::{self, Assumed};
use svclab::input::{Diagnostics, Form, Reach, form, is_input, is_manifest};
use svclab::scenario::{self, Scenario, Tests};
use svclab::text::{counted, one_line, printable};

/// Options of commands that read scenarios.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct InputArgs {
    /// Let scenarios read files outside of their repository (without a repository: outside of their folder).
    #[arg(long)]
    allow_outside: bool,
}

impl InputArgs {
    /// Where the files that a scenario names may be.
    pub(super) fn reach(self) -> Reach {
        if self.allow_outside { Reach::Anywhere } else { Reach::Repository }
    }
}

/// Loads scenarios, and files with plain objects or saved rules that are named themselves; `-` is standard input for each of them.
/// All errors are printed before anything is done, and so are the assumptions for inputs that are not scenarios.
pub(super) fn load_all(paths: &[PathBuf], reach: Reach, console: &Console) -> Result<Vec<Scenario>, Exit> {
    let read: Vec<_> = paths.iter().map(|path| read(path, reach, console)).collect();
    let others = paths.iter().zip(&read).filter(|(_, read)| read.is_none());
    let others: Vec<PathBuf> = others.map(|(path, _)| path.clone()).collect();
    let mut scenarios = if others.is_empty() { Ok(Vec::new()) } else { load(&others, reach, Tests::Optional, console) };
    for (file, assumed) in read.into_iter().flatten() {
        match assumed {
            Ok(Assumed { scenario, assumptions }) => {
                report_assumptions(&file, &assumptions, console);
                scenarios.iter_mut().for_each(|all| all.push(scenario.clone()));
            }
            Err(errors) => {
                diagnostics::show(&errors, console);
                scenarios = Err(Exit::Input);
            }
        }
    }
    scenarios
}

/// Reports what was assumed of an input: all of it with `-v`, else in one line.
pub(super) fn report_assumptions(file: &Path, assumptions: &[String], console: &Console) {
    let Some(first) = assumptions.first().filter(|_| !console.quiet) else { return };
    let file = printable(file);
    if console.verbose > 0 || assumptions.len() == 1 {
        let lines = assumptions.iter().map(|words| format!("{file}: assumed: {}", one_line(words)));
        return lines.for_each(|line| console.complain(line));
    }
    let others = counted(assumptions.len() - 1, "other assumption");
    console.complain(format!("{file}: assumed: {}; {others}: see `-v`", one_line(first)));
}

/// The scenario made of a file, and the file's name in messages; `None` for a scenario file, which `load` reads.
fn read(path: &Path, reach: Reach, console: &Console) -> Option<(PathBuf, Result<Assumed, Diagnostics>)> {
    let (file, text) = text_of(path);
    let text = text.ok()?;
    let assumed = if is_manifest(&text) {
        infer::from_objects(&text, &file)
    } else if let Ok(Form::Saved | Form::Listed | Form::Nft) = form(&text) {
        // What is not whole as it stands may be quoted or mangled.
        infer::from_rules(&text, &file).or_else(|errors| infer::from_evidence(&text, &file).map_err(|_| errors))
    } else if form(&text).is_err() && (!is_input(&text) || evidence::read(&text).rules() > 0) {
        infer::from_evidence(&text, &file)
    } else if path.is_file() {
        return None;
    } else {
        let scenario = scenario::parse_with(&text, &file, &reach.reader(&file), Tests::Optional);
        scenario
            .inspect(|scenario| warn(&scenario.notes, console))
            .map(|scenario| Assumed { scenario, assumptions: Vec::new() })
    };
    Some((file, assumed))
}
