//! Ad-hoc probes: probes from the command line.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::Cluster;

use super::objects::{around, own_name};
use crate::input::{Diagnostics, Reach, Span, is_manifest, read_argument, unreadable};
use crate::scenario::{Extra, Findings, Probe, RawProbe, ResolvedProbe, Scenario, Tests, parse_into};
use crate::yaml;
use crate::yaml::{At, decode};

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
    let objects = is_manifest(text).then(|| around(text, path)).transpose()?;
    let is_objects = objects.is_some();
    let (scenario, assumptions) = objects.unwrap_or_else(|| (text.to_owned(), Vec::new()));
    let itself = own_name(path);
    let read = |named: &Path| if is_objects && named == itself { Ok(text.to_owned()) } else { reader(named) };
    let mut findings = Findings::default();
    let (arguments, written) = (Path::new(ARGUMENTS), written(probe));
    // The number of the step is not a part of the probe: it is quoted behind it.
    let quoted = format!("{written}{STEP}{}\n", probe.step);
    let step_at = Span { file: arguments.to_owned(), line: quoted.lines().count(), column: STEP.len() + 1 };
    let mut sources =
        BTreeMap::from([(path.to_owned(), Arc::from(text)), (arguments.to_owned(), Arc::from(quoted.as_str()))]);
    let (trees, errors) = yaml::parse(&written, arguments);
    errors.into_iter().for_each(|error| findings.add(error));
    let decoded = trees.first().map(|tree| decode::<RawProbe>(arguments, tree));
    let errors = decoded.as_ref().map(|decoded| decoded.errors.clone()).unwrap_or_default();
    errors.into_iter().for_each(|error| findings.add(error));
    let extra = decoded.as_ref().and_then(|decoded| {
        Some(Extra {
            raw: decoded.value.as_ref()?,
            at: At::root(arguments, &decoded.tree),
            step: probe.step,
            step_at: &step_at,
        })
    });
    match parse_into(&scenario, path, &read, extra, Tests::Optional, &mut sources, &mut findings) {
        Some((scenario, Some(ResolvedProbe { cluster, probes }))) if findings.errors.is_empty() => {
            sources.remove(arguments);
            let scenario = Scenario { inputs: sources, ..scenario };
            Ok(AdHocScenario { asked: probe.clone(), scenario, cluster, probes, assumptions })
        }
        _ => Err(findings.into_diagnostics(sources)),
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
