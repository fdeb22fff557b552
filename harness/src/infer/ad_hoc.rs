//! Ad-hoc probes: probes from the command line.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Cluster;

use super::Assumption;
use super::objects::{around, own_name};
use crate::input::{Diagnostics, Reach, Span, is_manifest, read_argument, unreadable};
use crate::scenario::{
    Change, Extra, Findings, OwnChange, Probe, RawApply, RawProbe, RawStep, ResolvedProbe, Scenario, Tests, parse_into,
};
use crate::yaml;
use crate::yaml::{At, Decoded, Node, decode};

/// A probe that is not part of a scenario, in a scenario's syntax.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AdHocProbe {
    /// The sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    pub from: String,
    /// The destination, as a probe writes it: `service/NAME:PORT`, ...
    pub to: String,
    /// The protocol, if the destination does not determine it.
    pub protocol: Option<String>,
    /// The family; every one that both ends have where it is left out.
    pub family: Option<String>,
    /// The sender's port.
    pub source_port: Option<u16>,
    /// After how many changes by the scenario's steps.
    pub step: usize,
}

/// A scenario with an ad-hoc probe.
#[derive(Debug, Clone, PartialEq)]
pub struct AdHocScenario {
    /// The probe as it was given.
    pub asked: AdHocProbe,
    /// The scenario.
    pub scenario: Scenario,
    /// The cluster as it is when the probe is sent.
    pub cluster: Cluster,
    /// The probe, once for each family; at least one.
    pub probes: Vec<Probe>,
    /// What was assumed for plain objects: a fragment in lower case each.
    pub assumptions: Vec<Assumption>,
}

/// The file name of an [`AdHocProbe`] in errors.
const ARGUMENTS: &str = "the command line";
/// What comes before the number of the step there.
const STEP: &str = "step: ";

/// Reads a scenario as [`load`](crate::scenario::load) does, or makes one of plain objects as [`from_objects`](super::from_objects), and what a probe in its
/// words means in it.
///
/// # Errors
///
/// All errors of both; those of the probe are reported as if it were in a file of its own.
pub fn load_with_ad_hoc_probe(path: &Path, probe: &AdHocProbe) -> Result<AdHocScenario, Diagnostics> {
    let text = read_argument(path).map_err(|error| unreadable(path, &error))?;
    with_ad_hoc_probe(&text, path, probe, Reach::default())
}

/// Reads a scenario from the text of a file, which may name other files within a reach.
///
/// # Errors
///
/// As [`load_with_ad_hoc_probe`].
pub fn with_ad_hoc_probe(
    text: &str,
    path: &Path,
    probe: &AdHocProbe,
    reach: Reach,
) -> Result<AdHocScenario, Diagnostics> {
    with_files(text, path, probe, &reach.reader(path))
}

/// Like [`with_ad_hoc_probe`], with other files read by `reader`.
///
/// # Errors
///
/// As [`load_with_ad_hoc_probe`].
pub(crate) fn with_files(
    text: &str,
    path: &Path,
    probe: &AdHocProbe,
    reader: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<AdHocScenario, Diagnostics> {
    with_changes(text, path, probe, true, &[], reader).map(|(ad_hoc, _)| ad_hoc)
}

/// The file name of an [`AdHocChange::Step`] in errors.
const COMMAND: &str = "the command";

/// Whether a file name in errors stands for what was typed.
pub(crate) fn is_typed(file: &Path) -> bool {
    file == Path::new(ARGUMENTS) || file == Path::new(COMMAND)
}

/// A change of the cluster that is not part of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdHocChange {
    /// Objects of a file change: complete Kubernetes objects, or what a scenario's `apply` says.
    Apply {
        /// The file's absolute path.
        file: PathBuf,
        /// Its text.
        text: String,
    },
    /// A step of a scenario, as YAML.
    Step(String),
}

impl AdHocChange {
    /// The file, or what names one in errors.
    pub(crate) fn file(&self) -> &Path {
        match self {
            Self::Apply { file, .. } => file,
            Self::Step(_) => Path::new(COMMAND),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Apply { text, .. } | Self::Step(text) => text,
        }
    }
}

/// The same after changes of one's own, and what the last of them does. Where the probe is not sent, these are all that is asked for.
///
/// # Errors
///
/// As [`load_with_ad_hoc_probe`], and those of the changes.
pub(crate) fn with_changes(
    text: &str,
    path: &Path,
    probe: &AdHocProbe,
    is_sent: bool,
    changes: &[AdHocChange],
    reader: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<(AdHocScenario, Option<Change>), Diagnostics> {
    let objects = is_manifest(text).then(|| around(text, path, &[])).transpose()?;
    let is_objects = objects.is_some();
    let (scenario, assumptions) = objects.unwrap_or_else(|| (text.to_owned(), Vec::new()));
    let assumptions: Vec<Assumption> = assumptions.into_iter().map(Assumption::Assumed).collect();
    let itself = own_name(path);
    let read = |named: &Path| match changes.iter().rfind(|change| change.file() == named) {
        Some(change) => Ok(change.text().to_owned()),
        None if is_objects && named == itself => Ok(text.to_owned()),
        None => reader(named),
    };
    let mut findings = Findings::default();
    let (arguments, written) = (Path::new(ARGUMENTS), if is_sent { written(probe) } else { String::new() });
    // The number of the step is not a part of the probe: it is quoted after it, where there is one.
    let step = if probe.step == 0 { String::new() } else { format!("{STEP}{}\n", probe.step) };
    let step_at = Span { file: arguments.to_owned(), line: written.lines().count() + 1, column: STEP.len() + 1 };
    let quoted = written.clone() + &step;
    let mut sources =
        BTreeMap::from([(path.to_owned(), Arc::from(text)), (arguments.to_owned(), Arc::from(quoted.as_str()))]);
    sources.extend(changes.iter().map(|change| (change.file().to_owned(), Arc::from(change.text()))));
    let decoded: Option<Decoded<RawProbe>> = decoded(&written, arguments, &mut findings);
    let changes: Vec<RawChange<'_>> =
        changes.iter().filter_map(|change| RawChange::of(change, &mut findings)).collect();
    let changes: Vec<(OwnChange<'_>, At<'_>)> = changes.iter().map(RawChange::with_place).collect();
    let sent = decoded.as_ref().and_then(|one| Some((one.value.as_ref()?, At::root(arguments, &one.tree))));
    let extra = Extra { probe: sent, step: probe.step, step_at: &step_at, changes: &changes };
    match parse_into(&scenario, path, &read, Some(extra), Tests::Optional, &mut sources, &mut findings) {
        Some((scenario, Some(ResolvedProbe { cluster, change, probes }))) if findings.errors.is_empty() => {
            sources.remove(arguments);
            let scenario = Scenario { inputs: sources, ..scenario };
            Ok((AdHocScenario { asked: probe.clone(), scenario, cluster, probes, assumptions }, change))
        }
        _ => Err(findings.into_diagnostics(sources)),
    }
}

/// Decodes a text that has at most one document; its errors are among the findings.
fn decoded<T: DeserializeOwned>(text: &str, file: &Path, findings: &mut Findings) -> Option<Decoded<T>> {
    let (trees, errors) = yaml::parse(text, file);
    errors.into_iter().for_each(|error| findings.add(error));
    let decoded = trees.first().map(|tree| decode::<T>(file, tree))?;
    decoded.errors.iter().for_each(|error| findings.add(error.clone()));
    Some(decoded)
}

/// A change as decoded, with its tree and its file.
struct RawChange<'f> {
    raw: RawKind,
    tree: Arc<Node>,
    file: &'f Path,
}

enum RawKind {
    Apply(RawApply),
    Step(Box<RawStep>),
}

impl<'f> RawChange<'f> {
    /// Decodes a change; `None` if that is not possible.
    fn of(change: &'f AdHocChange, findings: &mut Findings) -> Option<Self> {
        let (file, text) = (change.file(), change.text());
        let (raw, tree) = match change {
            AdHocChange::Step(_) => {
                let Decoded { value, tree, .. } = decoded(text, file, findings)?;
                (RawKind::Step(Box::new(value?)), tree)
            }
            AdHocChange::Apply { .. } if is_manifest(text) => {
                let manifests = vec![file.to_string_lossy().into_owned()];
                (RawKind::Apply(RawApply { manifests, ..RawApply::default() }), Arc::new(Node::empty()))
            }
            AdHocChange::Apply { .. } => {
                let Decoded { value, tree, .. } = decoded(text, file, findings)?;
                (RawKind::Apply(value?), tree)
            }
        };
        Some(Self { raw, tree, file })
    }

    fn with_place(&self) -> (OwnChange<'_>, At<'_>) {
        let raw = match &self.raw {
            RawKind::Apply(raw) => OwnChange::Apply(raw),
            RawKind::Step(raw) => OwnChange::Step(raw),
        };
        (raw, At::root(self.file, &self.tree))
    }
}

/// A probe as a scenario has it. A JSON string is a YAML string too.
fn written(probe: &AdHocProbe) -> String {
    let text = |text: &String| serde_json::Value::from(text.as_str()).to_string();
    let AdHocProbe { from, to, protocol, family, source_port, .. } = probe;
    let fields = [
        ("from", Some(text(from))),
        ("to", Some(text(to))),
        ("protocol", protocol.as_ref().map(text)),
        ("family", family.as_ref().map(text)),
        ("sourcePort", source_port.map(|port| port.to_string())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}\n", value?))).collect()
}
