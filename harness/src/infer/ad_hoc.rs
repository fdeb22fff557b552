//! Ad-hoc probes: probes from the command line.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Cluster;

use super::objects::{around, own_name};
use crate::input::{Diagnostics, Reach, Span, is_manifest, read_argument, unreadable};
use crate::scenario::{Extra, Findings, Probe, RawApply, RawProbe, ResolvedProbe, Scenario, Tests, parse_into};
use crate::yaml;
use crate::yaml::{At, Decoded, Node, decode};

/// A probe that is not part of a scenario, in a scenario's syntax.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AdHocProbe {
    /// The sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    pub from: String,
    /// To where: `service/NAME:PORT` and all else that a probe may say.
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
    pub assumptions: Vec<String>,
}

/// The file name of an [`AdHocProbe`] in errors.
const ARGUMENTS: &str = "the command line";
/// What stands before the number of the step there.
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

/// The same for the text of a file of that name, which may name others within a reach.
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

/// The same, if other files are read with `reader`.
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
    with_changes(text, path, probe, true, &[], reader)
}

/// A file whose objects change a cluster: complete Kubernetes objects, or what a scenario's `apply` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The file's absolute path.
    pub(crate) file: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// The same after changes of one's own. Where the probe is not sent, the cluster after them is all that is asked for.
///
/// # Errors
///
/// As [`load_with_ad_hoc_probe`], and those of the changes.
pub(crate) fn with_changes(
    text: &str,
    path: &Path,
    probe: &AdHocProbe,
    is_sent: bool,
    applied: &[Applied],
    reader: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<AdHocScenario, Diagnostics> {
    let objects = is_manifest(text).then(|| around(text, path)).transpose()?;
    let is_objects = objects.is_some();
    let (scenario, assumptions) = objects.unwrap_or_else(|| (text.to_owned(), Vec::new()));
    let itself = own_name(path);
    let read = |named: &Path| match applied.iter().rfind(|applied| applied.file == named) {
        Some(applied) => Ok(applied.text.clone()),
        None if is_objects && named == itself => Ok(text.to_owned()),
        None => reader(named),
    };
    let mut findings = Findings::default();
    let (arguments, written) = (Path::new(ARGUMENTS), if is_sent { written(probe) } else { String::new() });
    // The number of the step is not a part of the probe: it is quoted behind it.
    let quoted = format!("{written}{STEP}{}\n", probe.step);
    let step_at = Span { file: arguments.to_owned(), line: quoted.lines().count(), column: STEP.len() + 1 };
    let mut sources =
        BTreeMap::from([(path.to_owned(), Arc::from(text)), (arguments.to_owned(), Arc::from(quoted.as_str()))]);
    sources.extend(applied.iter().map(|applied| (applied.file.clone(), Arc::from(applied.text.as_str()))));
    let decoded: Option<Decoded<RawProbe>> = decoded(&written, arguments, &mut findings);
    let changes: Vec<(RawApply, Arc<Node>, &Path)> =
        applied.iter().filter_map(|applied| change(applied, &mut findings)).collect();
    let changes: Vec<(&RawApply, At<'_>)> =
        changes.iter().map(|(raw, tree, file)| (raw, At::root(file, tree))).collect();
    let sent = decoded.as_ref().and_then(|one| Some((one.value.as_ref()?, At::root(arguments, &one.tree))));
    let extra = Extra { probe: sent, step: probe.step, step_at: &step_at, applied: &changes };
    match parse_into(&scenario, path, &read, Some(extra), Tests::Optional, &mut sources, &mut findings) {
        Some((scenario, Some(ResolvedProbe { cluster, probes }))) if findings.errors.is_empty() => {
            sources.remove(arguments);
            let scenario = Scenario { inputs: sources, ..scenario };
            Ok(AdHocScenario { asked: probe.clone(), scenario, cluster, probes, assumptions })
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

/// What a file changes, as a step of a scenario has it, with its tree.
fn change<'f>(applied: &'f Applied, findings: &mut Findings) -> Option<(RawApply, Arc<Node>, &'f Path)> {
    let file = applied.file.as_path();
    if is_manifest(&applied.text) {
        let manifests = vec![file.to_string_lossy().into_owned()];
        return Some((RawApply { manifests, ..RawApply::default() }, Arc::new(Node::empty()), file));
    }
    let Decoded { value, tree, .. } = decoded(&applied.text, file, findings)?;
    Some((value?, tree, file))
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
