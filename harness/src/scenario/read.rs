//! Reading of scenario files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::input::{
    Diagnostic, Diagnostics, InputKind, Reach, Span, folder_of, input_kind, is_outside, is_rules, is_yaml,
    read_argument, unreadable,
};
use crate::scenario::model::{Scenario, Tests};
use crate::scenario::resolve::{Extra, Findings, Input, Manifests, OwnChange, ResolvedProbe, RuleFiles, resolve};
use crate::scenario::schema::RawScenario;
use crate::text::{printable, reason};
use crate::yaml;
use crate::yaml::{At, Node, Place, decode};

/// Reads a scenario and the files that it names, which must be in its repository ([`Reach::Repository`]).
///
/// # Errors
///
/// All errors in the scenario and its manifests, or the reason why it could not be read.
pub fn load(path: &Path) -> Result<Scenario, Diagnostics> {
    load_within(path, Reach::default(), Tests::Required)
}

/// The same with files in other places, or for scenarios without tests.
///
/// # Errors
///
/// As [`load`].
pub fn load_within(path: &Path, reach: Reach, tests: Tests) -> Result<Scenario, Diagnostics> {
    match read_argument(path) {
        Ok(text) => parse_with(&text, path, &reach.reader(path), tests),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Parses a scenario's text. `path` is its file's name; other files that it names, relative to that one, are read with `read`.
///
/// # Errors
///
/// All errors of the scenario and its manifests.
pub fn parse(text: &str, path: &Path, read: &dyn Fn(&Path) -> io::Result<String>) -> Result<Scenario, Diagnostics> {
    parse_with(text, path, read, Tests::Required)
}

/// The same for scenarios that may have no tests.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_with(
    text: &str,
    path: &Path,
    read: &dyn Fn(&Path) -> io::Result<String>,
    tests: Tests,
) -> Result<Scenario, Diagnostics> {
    let mut findings = Findings::default();
    let mut sources = BTreeMap::from([(path.to_owned(), Arc::from(text))]);
    let scenario = parse_into(text, path, read, None, tests, &mut sources, &mut findings);
    match scenario {
        Some((scenario, _)) if findings.errors.is_empty() => Ok(Scenario { inputs: sources, ..scenario }),
        _ => Err(findings.into_diagnostics(sources)),
    }
}

/// Reads a scenario's text, and all files that it names, into `sources`; errors go to `findings`.
pub(crate) fn parse_into(
    text: &str,
    path: &Path,
    read: &dyn Fn(&Path) -> io::Result<String>,
    extra: Option<Extra<'_>>,
    tests: Tests,
    sources: &mut BTreeMap<PathBuf, Arc<str>>,
    findings: &mut Findings,
) -> Option<(Scenario, Option<ResolvedProbe>)> {
    let (documents, errors) = yaml::parse(text, path);
    let readable = errors.is_empty();
    if reject_rules(text, path, &documents, findings) {
        return None;
    }
    errors.into_iter().for_each(|error| findings.add(error));
    if !text.trim().is_empty() && !is_yaml(text) {
        // Neither the text nor YAML errors in it are quoted.
        *findings = Findings::default();
        let help = format!("{SCENARIO_HELP}{EVIDENCE_HELP}");
        findings.wrong(At::root(path, &Node::empty()), "this is neither a scenario nor rules", help);
        return None;
    }
    if reject_objects(&documents, path, findings) {
        return None;
    }
    let tree = only_document(&documents, path, readable, findings)?;
    if reject_whole_objects(At::root(path, tree), findings) {
        return None;
    }
    let decoded = decode::<RawScenario>(path, tree);
    decoded.errors.into_iter().for_each(|error| findings.add(error));
    let raw = decoded.value?;
    let folder = &*folder_of(path);
    let mut files = Files { folder, read, sources, findings };
    let (mut manifests, rules) = files.named_by(&raw, At::root(path, &decoded.tree));
    for (change, at) in extra.iter().flat_map(|extra| extra.changes) {
        if let OwnChange::Apply(raw) = change {
            files.manifests(&raw.manifests, at.field("manifests"), &mut manifests);
        }
    }
    let input = Input {
        raw: &raw,
        at: At::root(path, &decoded.tree),
        written: At::root(path, tree),
        manifests: &manifests,
        rules: &rules,
        folder,
        extra,
        tests,
    };
    Some(resolve(&input, findings))
}

/// What an input may be.
const SCENARIO_HELP: &str = "Pass a scenario: YAML that starts with `name:`, a sentence that says what it shows. ";

/// What it may be for most commands; `run` takes only scenarios.
const EVIDENCE_HELP: &str = "All commands but `svclab run` also take the output of iptables-save, iptables -L, nft list ruleset or \
                             kubectl, or a text that quotes it.";

/// Reports rules in place of a scenario, with one error.
fn reject_rules(text: &str, path: &Path, documents: &[Arc<Node>], findings: &mut Findings) -> bool {
    if documents.first().is_some_and(|tree| tree.get("name").is_some() || tree.get("tests").is_some()) {
        return false;
    }
    let Ok(kind @ (InputKind::Saved | InputKind::Listed | InputKind::Nft)) = input_kind(text) else { return false };
    let help = "`svclab dump import` makes a scenario of them; `svclab verify`, `explain`, `mutate`, `cascade` and `diff` take rules by \
                themselves, and `svclab rules SCENARIO --diff RULES`. Or name their file under `rules:` of a scenario.";
    let message = format!("these are rules {}, not a scenario", kind.words());
    findings.add(Diagnostic::new(Span::start_of(path), message, help));
    true
}

/// The lists with short entries: the fields of an object without nesting.
const LISTS: [&str; 4] = ["nodes", "pods", "services", "endpoints"];

/// Reports complete Kubernetes objects in lists of short entries, with one error each: otherwise every nested field would be an unknown
/// field.
fn reject_whole_objects(at: At<'_>, findings: &mut Findings) -> bool {
    let known = findings.errors.len();
    for list in LISTS.into_iter().filter(|list| at.has(list)) {
        let entries = at.field(list);
        for entry in (0..entries.node().items().len()).map(|index| entries.item(index)) {
            if entry.has("apiVersion") && entry.has("kind") {
                let kind = entry.field("kind").node().text().unwrap_or_default();
                let message = format!("this is a complete Kubernetes object ({kind}); `{list}:` expects short entries");
                let help = "Save the object in a file that is listed in `manifests:`. Or write a short \
                            entry, without `metadata` and `spec`: `{name: web, ports: [{port: 80}]}`.";
                findings.wrong(entry, message, help);
            }
        }
    }
    findings.errors.len() > known
}

/// Reports a file of Kubernetes objects in place of a scenario.
fn reject_objects(documents: &[Arc<Node>], path: &Path, findings: &mut Findings) -> bool {
    let Some(first) = documents.first() else { return false };
    let (Some(_), Some(kind)) = (first.get("apiVersion"), first.get("kind")) else { return false };
    let kind = kind.value.text().unwrap_or_default();
    let help = "List the file in `manifests:` of a scenario, or pass it to `svclab shell`, `verify`, `explain`, `graph`, `mutate`, `cascade` \
                or `rules`.";
    findings.wrong(At::root(path, first), format!("this is a Kubernetes object ({kind}), not a scenario"), help);
    true
}

/// Returns the document of a scenario: there must be exactly one.
fn only_document<'a>(
    documents: &'a [Arc<Node>],
    path: &Path,
    readable: bool,
    findings: &mut Findings,
) -> Option<&'a Arc<Node>> {
    let [first, rest @ ..] = documents else {
        if readable {
            let help = format!("{SCENARIO_HELP}{EVIDENCE_HELP}");
            findings.add(Diagnostic::new(Span::start_of(path), "the file is empty", help));
        }
        return None;
    };
    if let Some(second) = rest.first() {
        let error = At::root(path, second).error("a second YAML document starts here");
        findings.add(error.help("Use one file per scenario; list files with Kubernetes objects in `manifests:`."));
    }
    Some(first)
}

/// The content that a file must have, and the help if it does not.
type Wanted = (&'static str, &'static str);

const OBJECTS: Wanted =
    ("Kubernetes objects", "Use a YAML or JSON file of objects, each with `apiVersion` and `kind`.");
const RULES: Wanted =
    ("rules in a known format", "Use the unmodified output of `iptables-save` or `nft list ruleset`.");

/// A reader of the files that a scenario names.
struct Files<'f> {
    folder: &'f Path,
    read: &'f dyn Fn(&Path) -> io::Result<String>,
    sources: &'f mut BTreeMap<PathBuf, Arc<str>>,
    findings: &'f mut Findings,
}

impl Files<'_> {
    fn named_by(&mut self, raw: &RawScenario, at: At<'_>) -> (Manifests, RuleFiles) {
        let mut manifests = Manifests::default();
        self.manifests(&raw.manifests, at.field("manifests"), &mut manifests);
        for (test, raw) in raw.tests.iter().enumerate() {
            for (step, raw) in raw.steps.iter().flatten().enumerate() {
                let at = at.field("tests").item(test).field("steps").item(step).field("apply").field("manifests");
                let named = raw.apply.as_ref().map(|apply| apply.manifests.as_slice()).unwrap_or_default();
                self.manifests(named, at, &mut manifests);
            }
        }
        let mut rules = RuleFiles::new();
        for (owner, list) in &raw.rules {
            for (index, raw) in list.0.iter().enumerate() {
                let at = at.field("rules").field(owner).item(index).field("file");
                let read = raw.file.as_ref().and_then(|file| self.text(file, at, (is_rules, RULES)));
                if let Some((path, text)) = read {
                    rules.insert(path, text);
                }
            }
        }
        (manifests, rules)
    }

    fn manifests(&mut self, named: &[String], at: At<'_>, manifests: &mut Manifests) {
        for (index, file) in named.iter().enumerate() {
            if let Some((path, text)) = self.text(file, at.item(index), (is_yaml, OBJECTS)) {
                let errors = manifests.add(&path, &text);
                errors.into_iter().for_each(|error| self.findings.add(error));
            }
        }
    }

    /// Returns the text of a file in the wanted format. Other files are not quoted: the scenario's author may try to see files that only
    /// svclab's user can read.
    fn text(
        &mut self,
        file: &str,
        at: At<'_>,
        (is_wanted, wanted): (fn(&str) -> bool, Wanted),
    ) -> Option<(PathBuf, String)> {
        let path = self.folder.join(file);
        match (self.read)(&path) {
            Ok(text) if !is_wanted(&text) => {
                self.findings.wrong(at, format!("`{file}` contains no {}", wanted.0), wanted.1);
                None
            }
            Ok(text) => {
                self.sources.insert(path.clone(), Arc::from(text.as_str()));
                Some((path, text))
            }
            Err(error) if is_outside(&error) => {
                let help = "Move the file there, or pass `--allow-outside` if you trust the scenario.";
                self.findings.wrong(at, format!("cannot read `{file}`: {error}"), help);
                None
            }
            Err(error) => {
                let help = format!("Paths are relative to the scenario file; tried {}.", printable(&path));
                self.findings.wrong(at, format!("cannot read `{file}`: {}", reason(error)), help);
                None
            }
        }
    }
}
