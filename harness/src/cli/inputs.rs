//! Inputs of commands: scenario files, Kubernetes objects, and dumps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::console::Console;
use super::failure::Failure;
use super::{Exit, diagnostics, load};
use svclab::evidence::{self, Evidence, Format, Source};
use svclab::infer::{self, Assumed, Assumption, Connections, from_evidence};
use svclab::input::{self, Diagnostic, Diagnostics, Reach, Span, is_manifest, is_scenario, unreadable};
use svclab::scenario::{OtherRules, Scenario, Tests, print};
use svclab::text::{counted, one_line, printable};

/// Options of commands that read scenarios.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct InputArgs {
    /// Let scenarios read files outside their repository (without a repository: outside their folder).
    #[arg(long)]
    allow_outside: bool,
}

impl InputArgs {
    /// Returns where the files that a scenario names may be.
    pub(super) fn reach(self) -> Reach {
        if self.allow_outside { Reach::Anywhere } else { Reach::Repository }
    }
}

/// The kind of an input, by its content.
pub(super) enum Input {
    /// A scenario; also text of no known kind, which is then reported as an invalid scenario.
    Scenario(String),
    /// Kubernetes objects.
    Objects(String),
    /// Rules, listings, an issue, or a folder or archive of them.
    Evidence(Evidence),
}

/// An input as the text of a scenario or of objects.
#[derive(Debug, Default)]
pub(super) struct InputText {
    /// The text.
    pub(super) text: String,
    /// The assumptions made.
    pub(super) assumptions: Vec<Assumption>,
    /// A description of rules in the input that the text does not contain.
    pub(super) ignored_rules: Vec<String>,
    /// A dump's rules, with their lines there.
    pub(super) rules: Vec<OtherRules>,
}

/// Reads an input; returns it with its name in messages; `-` is standard input.
pub(super) fn input(path: &Path) -> Result<(PathBuf, Input), Diagnostics> {
    let source = source(path)?;
    let file = source.name().to_owned();
    if source.is_archive() || is_dump_folder(path) {
        return Ok((file, Input::Evidence(collected(source)?)));
    }
    let text = source.text().map_err(|error| unreadable(&file, &error))?;
    let input = classify(&file, text);
    Ok((file, input))
}

/// Returns what a path names; `-` is standard input, which is read.
pub(super) fn source(path: &Path) -> Result<Source, Diagnostics> {
    Source::of(path).map_err(|error| unreadable(Path::new(input::STANDARD_INPUT), &error))
}

/// Returns the kind of a text.
fn classify(file: &Path, text: String) -> Input {
    if is_scenario(&text) {
        return Input::Scenario(text);
    }
    let is_manifest = is_manifest(&text);
    if is_manifest && is_plain(&text) {
        return Input::Objects(text);
    }
    // An issue may contain objects among other things.
    let evidence = evidence::read_file(file, &text);
    let are_objects = || evidence.pieces.iter().all(|one| matches!(one.format, Format::Yaml | Format::Json));
    // Errors in objects are reported with their places.
    let is_invalid = || !evidence.unread.is_empty() && !has_fence(&text) && !evidence.has_commands();
    match () {
        () if is_manifest && are_objects() && (evidence.prose.is_empty() || is_invalid()) => Input::Objects(text),
        () if evidence.pieces.is_empty() && !evidence.has_commands() => Input::Scenario(text),
        () => Input::Evidence(evidence),
    }
}

/// Returns whether all lines without indentation may be those of YAML or JSON, so that the text has no rules or commands among objects.
fn is_plain(text: &str) -> bool {
    let is_plain = |line: &str| {
        let (word, _) = line.split_once(' ').unwrap_or((line, ""));
        let is_mark = matches!(word, "" | "-" | "---" | "..." | "%YAML" | "%TAG");
        let is_json = line.starts_with(['{', '}', '[', ']', '"']);
        is_mark || is_json || line.starts_with(['#', ' ', '\t', '\u{feff}']) || word.ends_with(':')
    };
    text.lines().all(is_plain)
}

/// Returns whether a text has a Markdown code fence.
fn has_fence(text: &str) -> bool {
    text.lines().any(|line| line.trim_start_matches(['>', ' ']).starts_with("```"))
}

/// Returns whether a path is a folder with a dump. A folder with scenarios is not.
fn is_dump_folder(path: &Path) -> bool {
    let has_scenarios = || {
        let found = input::find(&[path.to_owned()]);
        !found.is_ok_and(|found| found.files.is_empty() && found.left_out.is_empty())
    };
    path.is_dir() && !has_scenarios()
}

impl Input {
    /// Returns the text that is read as a scenario or as objects. For evidence it is the scenario made from it.
    pub(super) fn into_text(self, file: &Path, connections: Connections) -> Result<InputText, Diagnostics> {
        match self {
            Self::Scenario(text) | Self::Objects(text) => Ok(InputText { text, ..InputText::default() }),
            Self::Evidence(evidence) => {
                let Assumed { scenario, assumptions, .. } = from_evidence(&evidence, file, &[], connections)?;
                let text = print(&scenario, &[], &[]);
                Ok(InputText { text, assumptions, ignored_rules: scenario.ignored_rules, rules: scenario.rules })
            }
        }
    }
}

/// The option to restore connections.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct ConnectionArgs {
    /// Fill the nodes' conntrack tables with the connections to Services that a dump shows (`conntrack -L`).
    #[arg(long)]
    connections: bool,
}

impl From<ConnectionArgs> for Connections {
    fn from(args: ConnectionArgs) -> Self {
        if args.connections { Self::Restored } else { Self::LeftOut }
    }
}

/// Loads scenarios, and explicitly named files, folders and archives of other inputs; `-` is standard input. All errors are printed before
/// anything is done, and so are the assumptions for inputs that are not scenarios.
pub(super) fn load_all(
    paths: &[PathBuf],
    reach: Reach,
    connections: Connections,
    console: &Console,
) -> Result<Vec<Scenario>, Exit> {
    let read: Vec<_> = paths.iter().map(|path| read(path, reach, connections)).collect();
    let others = paths.iter().zip(&read).filter(|(_, read)| read.is_none());
    let others: Vec<PathBuf> = others.map(|(path, _)| path.clone()).collect();
    let mut scenarios = if others.is_empty() { Ok(Vec::new()) } else { load(&others, reach, Tests::Optional, console) };
    for (file, assumed) in read.into_iter().flatten() {
        match assumed {
            Ok(Assumed { scenario, assumptions, .. }) => {
                if assumptions.is_empty() {
                    super::warn(&scenario.notes, console);
                }
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

/// Reports the assumptions for an input: all of them with `-v`, else the first and those that may hide a defect.
pub(super) fn report_assumptions(file: &Path, assumptions: &[Assumption], console: &Console) {
    let Some(first) = assumptions.first().filter(|_| !console.quiet) else { return };
    let file = printable(file);
    if console.verbose > 0 || assumptions.len() == 1 {
        let lines = assumptions.iter().map(|words| format!("{file}: assumed: {}", one_line(&words.to_string())));
        return lines.for_each(|line| console.complain(line));
    }
    let (important, others): (Vec<&Assumption>, Vec<&Assumption>) =
        assumptions[1..].iter().partition(|one| one.may_hide_a_defect());
    let more = match others.len() {
        0 => String::new(),
        count => format!("; {}: see `-v`", counted(count, "other assumption")),
    };
    console.complain(format!("{file}: assumed: {}{more}", one_line(&first.to_string())));
    for words in important {
        console.complain(format!("{file}: assumed: {}", one_line(&words.to_string())));
    }
}

/// Returns the scenario made from an input, with the input's name in messages; `None` for scenario files and folders of them, which `load`
/// reads.
fn read(path: &Path, reach: Reach, connections: Connections) -> Option<(PathBuf, Result<Assumed, Diagnostics>)> {
    if path.is_dir() && !is_dump_folder(path) {
        return None;
    }
    let (file, input) = match input(path) {
        Ok(read) => read,
        // A file that cannot be opened is reported together with other such files.
        Err(_) if !path.is_dir() && !Source::Path(path.to_owned()).is_archive() => return None,
        Err(errors) => return Some((path.to_owned(), Err(errors))),
    };
    let assumed = match input {
        Input::Scenario(_) if path.is_file() => return None,
        Input::Scenario(text) => {
            let scenario = svclab::scenario::parse_with(&text, &file, &reach.reader(&file), Tests::Optional);
            scenario.map(|scenario| Assumed {
                scenario,
                assumptions: Vec::new(),
                nodes: Vec::new(),
                deviations: Vec::new(),
            })
        }
        Input::Objects(text) => infer::from_objects(&text, &file).map(with_own_text),
        Input::Evidence(evidence) => from_evidence(&evidence, &file, &[], connections).map(with_own_text),
    };
    Some((file, assumed))
}

/// Returns the scenario made from objects, and reports the assumptions.
pub(super) fn scenario_from_objects(text: &str, file: &Path, console: &Console) -> Result<Scenario, Diagnostics> {
    let assumed = infer::from_objects(text, file).map(with_own_text)?;
    report_assumptions(file, &assumed.assumptions, console);
    Ok(assumed.scenario)
}

/// Adds to a scenario made from an input a text that a lab's process can read.
fn with_own_text(assumed: Assumed) -> Assumed {
    let text = print(&assumed.scenario, &[], &[]).into();
    let inputs = BTreeMap::from([(assumed.scenario.file.clone(), text)]);
    Assumed { scenario: Scenario { inputs, ..assumed.scenario }, ..assumed }
}

/// Returns the scenarios of two inputs with rules, for one cluster; `None` if an input is something else. Assumptions are reported.
pub(super) fn scenarios_from_rules(paths: [&PathBuf; 2], console: &Console) -> Option<Result<[Scenario; 2], Failure>> {
    if paths.iter().any(|path| path.as_os_str() == "-" || path.is_dir() && !is_dump_folder(path)) {
        return None;
    }
    let [Ok((first, Input::Evidence(one))), Ok((second, Input::Evidence(other)))] = paths.map(|path| input(path))
    else {
        return None;
    };
    let both = infer::from_pair([(&one, &first), (&other, &second)])?;
    Some(both.map_err(Failure::from).map(|both| {
        let files = [first, second];
        files.iter().zip(&both).for_each(|(file, assumed)| report_assumptions(file, &assumed.assumptions, console));
        both.map(|assumed| assumed.scenario)
    }))
}

/// Returns the evidence in an input of any kind, and the input's name in messages.
pub(super) fn evidence_of(path: &Path) -> Result<(PathBuf, Evidence), Diagnostics> {
    let source = source(path)?;
    let file = source.name().to_owned();
    if source.is_archive() || source.is_folder() {
        return Ok((file, collected(source)?));
    }
    let text = source.text().map_err(|error| unreadable(&file, &error))?;
    let evidence = evidence::read_file(&file, &text);
    Ok((file, evidence))
}

/// Returns the evidence in a folder or archive.
fn collected(source: Source) -> Result<Evidence, Diagnostics> {
    let file = source.name().to_owned();
    evidence::from_source(source).map_err(|error| {
        let errors = vec![Diagnostic::new(Span::start_of(&file), error.message, error.help)];
        Diagnostics { errors, ..Diagnostics::default() }
    })
}
