//! From a file to a scenario.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use svclab_rules::cluster::Cluster;

use super::assumed::around;
use super::decode::decode;
use super::diagnostics::{Diagnostic, Diagnostics};
use super::document;
use super::find::is_manifest;
use super::limits::FILE_BYTES;
use super::model::{Probe, Scenario, Span};
use super::raw::{RawProbe, RawScenario};
use super::resolve::{Aimed, Extra, Findings, Input, Manifests, RuleFiles, resolve};
use super::tree::{At, Node, Place};
use crate::text::reason;

/// Reads a scenario and the files that it names.
///
/// # Errors
///
/// All mistakes of the scenario and its manifests, or the reason why it could not be read.
pub fn load(path: &Path) -> Result<Scenario, Diagnostics> {
    match read_argument(path) {
        Ok(text) => parse(&text, path, &read_file),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// The report of a file that cannot be read.
pub fn unreadable(path: &Path, error: &io::Error) -> Diagnostics {
    let span = Span::start_of(path);
    let message = format!("the file cannot be read: {}", reason(error));
    let help = match error.kind() {
        io::ErrorKind::InvalidData => "Save it as UTF-8 text, at most 64 MiB of it.",
        io::ErrorKind::InvalidInput => "Name a file, or hand the text over as /dev/stdin.",
        io::ErrorKind::NotFound => "Check the path: it is relative to the folder in which svclab was started.",
        _ => "Check the path and its permissions.",
    };
    let error = Diagnostic { span, length: 1, message, help: Some(help.to_owned()), also: None };
    Diagnostics { errors: vec![error], sources: BTreeMap::new() }
}

/// The text of a file that others name: a scenario, or a folder that it lies in. Nobody writes into a pipe for it.
///
/// # Errors
///
/// That of the system, `InvalidInput` for what is no regular file, or `InvalidData` for a file that is longer than
/// [`FILE_BYTES`] or no UTF-8.
pub fn read_file(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() || metadata.is_file() {
        return read_argument(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe, a socket or a device, and no file"))
}

/// The text of a file that the user named, which may be an open pipe: `/dev/stdin`, or what a shell makes of `<(...)`. One that
/// lies in a folder (a FIFO) may have nobody who ever writes into it.
///
/// # Errors
///
/// As [`read_file`], which refuses open pipes too.
pub(crate) fn read_argument(path: &Path) -> io::Result<String> {
    // The link of an open pipe leads to no file.
    if fs::metadata(path)?.file_type().is_fifo() && fs::canonicalize(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a named pipe (a FIFO), and no file"));
    }
    read_limited(File::open(path)?)
}

/// The text of an open file.
///
/// # Errors
///
/// As [`read_file`].
pub(crate) fn read_limited(file: impl Read) -> io::Result<String> {
    let mut text = String::new();
    let limit = FILE_BYTES as u64 + 1;
    file.take(limit).read_to_string(&mut text)?;
    if text.len() as u64 == limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {} MiB", FILE_BYTES >> 20)));
    }
    Ok(text)
}

/// Turns a scenario's text into a scenario. `path` is its file's name; other files that it names, relative to that
/// one, are read with `read`.
///
/// # Errors
///
/// All mistakes of the scenario and its manifests.
pub fn parse(text: &str, path: &Path, read: &dyn Fn(&Path) -> io::Result<String>) -> Result<Scenario, Diagnostics> {
    sound(text, path, read, true)
}

/// The same for a scenario that need not have tests.
///
/// # Errors
///
/// As [`parse`].
pub(super) fn without_tests(
    text: &str,
    path: &Path,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Scenario, Diagnostics> {
    sound(text, path, read, false)
}

fn sound(
    text: &str,
    path: &Path,
    read: &dyn Fn(&Path) -> io::Result<String>,
    needs_tests: bool,
) -> Result<Scenario, Diagnostics> {
    let mut findings = Findings::default();
    let mut sources = BTreeMap::from([(path.to_owned(), Arc::from(text))]);
    let scenario = parse_into(text, path, read, None, needs_tests, &mut sources, &mut findings);
    match scenario {
        Some((scenario, _)) if findings.mistakes.is_empty() => {
            Ok(Scenario { inputs: sources.into_keys().collect(), ..scenario })
        }
        _ => Err(findings.into_diagnostics(sources)),
    }
}

/// A probe that is asked for beside those of a scenario, in the words of one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aim {
    /// Who sends: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    pub from: String,
    /// To where: `service/NAME:PORT` and all else that a probe may say.
    pub to: String,
    /// The protocol, where the destination does not tell.
    pub protocol: Option<String>,
    /// The family; every one that both ends have where it is left out.
    pub family: Option<String>,
    /// The sender's port.
    pub source_port: Option<u16>,
    /// After how many `apply` of the scenario's steps.
    pub step: usize,
}

/// A scenario with a probe that was asked for beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct AimedScenario {
    /// The scenario.
    pub scenario: Scenario,
    /// The cluster as it is when the probe is sent.
    pub cluster: Cluster,
    /// The probe, once for each family; at least one.
    pub probes: Vec<Probe>,
    /// Of plain objects, what they do not tell: a fragment in lower case each.
    pub assumptions: Vec<String>,
}

/// What mistakes of an [`Aim`] call the place that it stands in.
const ARGUMENTS: &str = "the command line";

/// Reads a scenario as [`load`] does, or makes one of plain objects as [`of_objects`](super::of_objects), and what a probe in its
/// words means in it.
///
/// # Errors
///
/// All mistakes of both; those of the probe are shown as if it stood in a file of its own.
pub fn load_and_aim(path: &Path, aim: &Aim) -> Result<AimedScenario, Diagnostics> {
    let text = read_argument(path).map_err(|error| unreadable(path, &error))?;
    aim_at(&text, path, aim)
}

/// The same for the text of a file of that name.
///
/// # Errors
///
/// As [`load_and_aim`].
pub(crate) fn aim_at(text: &str, path: &Path, aim: &Aim) -> Result<AimedScenario, Diagnostics> {
    let objects = is_manifest(text).then(|| around(text, path)).transpose()?;
    let is_objects = objects.is_some();
    let (scenario, assumptions) = objects.unwrap_or_else(|| (text.to_owned(), Vec::new()));
    let read = |named: &Path| if is_objects && named == path { Ok(text.to_owned()) } else { read_file(named) };
    let mut findings = Findings::default();
    let (arguments, written) = (Path::new(ARGUMENTS), written(aim));
    let mut sources =
        BTreeMap::from([(path.to_owned(), Arc::from(text)), (arguments.to_owned(), Arc::from(written.as_str()))]);
    let (trees, mistakes) = document::read(&written, arguments);
    mistakes.into_iter().for_each(|mistake| findings.add(mistake));
    let decoded = trees.first().map(|tree| decode::<RawProbe>(arguments, tree));
    let mistakes = decoded.as_ref().map(|decoded| decoded.mistakes.clone()).unwrap_or_default();
    mistakes.into_iter().for_each(|mistake| findings.add(mistake));
    let extra = decoded.as_ref().and_then(|decoded| {
        Some(Extra { raw: decoded.value.as_ref()?, at: At::root(arguments, &decoded.tree), step: aim.step })
    });
    match parse_into(&scenario, path, &read, extra, !is_objects, &mut sources, &mut findings) {
        Some((scenario, Some(Aimed { cluster, probes }))) if findings.mistakes.is_empty() => {
            sources.remove(arguments);
            let scenario = Scenario { inputs: sources.into_keys().collect(), ..scenario };
            Ok(AimedScenario { scenario, cluster, probes, assumptions })
        }
        _ => Err(findings.into_diagnostics(sources)),
    }
}

/// A probe as a scenario has it. A JSON string is a YAML string too.
fn written(aim: &Aim) -> String {
    let text = |text: &String| serde_json::Value::from(text.as_str()).to_string();
    let Aim { from, to, protocol, family, source_port, .. } = aim;
    let fields = [
        ("from", Some(text(from))),
        ("to", Some(text(to))),
        ("protocol", protocol.as_ref().map(text)),
        ("family", family.as_ref().map(text)),
        ("sourcePort", source_port.map(|port| port.to_string())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}\n", value?))).collect()
}

fn parse_into(
    text: &str,
    path: &Path,
    read: &dyn Fn(&Path) -> io::Result<String>,
    extra: Option<Extra<'_>>,
    needs_tests: bool,
    sources: &mut BTreeMap<PathBuf, Arc<str>>,
    findings: &mut Findings,
) -> Option<(Scenario, Option<Aimed>)> {
    let (documents, mistakes) = document::read(text, path);
    let readable = mistakes.is_empty();
    mistakes.into_iter().for_each(|mistake| findings.add(mistake));
    let tree = only_document(&documents, path, readable, findings)?;
    if let (Some(_), Some(kind)) = (tree.get("apiVersion"), tree.get("kind")) {
        let kind = kind.value.text().unwrap_or_default();
        let help = "Name the file in `manifests:` of a scenario. `svclab verify`, `mutate`, `explain` and `rules` read it by itself, too.";
        findings.wrong(At::root(path, tree), format!("this is a Kubernetes object ({kind}), no scenario"), help);
        return None;
    }
    if refuse_whole_objects(At::root(path, tree), findings) {
        return None;
    }
    let decoded = decode::<RawScenario>(path, tree);
    decoded.mistakes.into_iter().for_each(|mistake| findings.add(mistake));
    let raw = decoded.value?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut files = Files { folder, read, sources, findings };
    let (manifests, rules) = files.named_by(&raw, At::root(path, &decoded.tree));
    let input = Input {
        raw: &raw,
        at: At::root(path, &decoded.tree),
        written: At::root(path, tree),
        manifests: &manifests,
        rules: &rules,
        folder,
        extra,
        needs_tests,
    };
    Some(resolve(&input, findings))
}

/// The lists whose entries have the fields of an object, but not the object's levels.
const LISTS: [&str; 4] = ["nodes", "pods", "services", "endpoints"];

/// Refuses whole Kubernetes objects in lists of short entries, each in one sentence: their levels would be as many unknown fields.
fn refuse_whole_objects(at: At<'_>, findings: &mut Findings) -> bool {
    let known = findings.mistakes.len();
    for list in LISTS.into_iter().filter(|list| at.has(list)) {
        let entries = at.field(list);
        for entry in (0..entries.node().items().len()).map(|index| entries.item(index)) {
            if entry.has("apiVersion") && entry.has("kind") {
                let kind = entry.field("kind").node().text().unwrap_or_default();
                let message = format!("this is a whole Kubernetes object ({kind}); `{list}:` has short entries");
                let help = "Save the object as a file and name that in `manifests:`, as scenarios/kubernetes-objects does. Or \
                            write its name and the fields of its `spec` without these levels: `{name: web, ports: [{port: 80}]}`.";
                findings.wrong(entry, message, help);
            }
        }
    }
    findings.mistakes.len() > known
}

/// The document of a scenario: there must be exactly one.
fn only_document<'a>(
    documents: &'a [Arc<Node>],
    path: &Path,
    readable: bool,
    findings: &mut Findings,
) -> Option<&'a Arc<Node>> {
    let [first, rest @ ..] = documents else {
        if readable {
            let span = Span::start_of(path);
            let message = "the file is empty".to_owned();
            let help = Some("Start with `name:`, a sentence that says what the scenario shows.".to_owned());
            findings.add(Diagnostic { span, length: 1, message, help, also: None });
        }
        return None;
    };
    if let Some(second) = rest.first() {
        let mistake = At::root(path, second).mistake("a second document starts here");
        findings.add(
            mistake.help(
                "Write one scenario a file; Kubernetes objects go into files of their own, named in `manifests:`.",
            ),
        );
    }
    Some(first)
}

/// Reads the files that a scenario names.
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
                if let Some((path, text)) = raw.file.as_ref().and_then(|file| self.text(file, at)) {
                    rules.insert(path, text);
                }
            }
        }
        (manifests, rules)
    }

    fn manifests(&mut self, named: &[String], at: At<'_>, manifests: &mut Manifests) {
        for (index, file) in named.iter().enumerate() {
            if let Some((path, text)) = self.text(file, at.item(index)) {
                let mistakes = manifests.add(&path, &text);
                mistakes.into_iter().for_each(|mistake| self.findings.add(mistake));
            }
        }
    }

    fn text(&mut self, file: &str, at: At<'_>) -> Option<(PathBuf, String)> {
        let path = self.folder.join(file);
        match (self.read)(&path) {
            Ok(text) => {
                self.sources.insert(path.clone(), Arc::from(text.as_str()));
                Some((path, text))
            }
            Err(error) => {
                let help = format!("The path is relative to the scenario: {} was tried.", path.display());
                self.findings.wrong(at, format!("`{file}` cannot be read: {}", reason(error)), help);
                None
            }
        }
    }
}
