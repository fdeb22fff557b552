//! `apply`: a change of the cluster.

use std::path::{Path, PathBuf};

use svclab_rules::cluster::Cluster;

use crate::infer::AdHocChange;
use crate::input::STANDARD_INPUT;
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};
use crate::text::{counted, printable};

/// Change the cluster with a file; kube-proxy's rules follow.
///
/// The file has complete Kubernetes objects, or the lists `nodes`, `pods`, `services` and `endpoints` of a step. Nodes and pods must exist
/// already; `delete: true` deletes.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Apply {
    /// The file; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "filename")]
    file: Option<PathBuf>,
    /// The file, as for kubectl.
    #[arg(short, long, value_name = "FILE", conflicts_with = "file", hide = true)]
    filename: Option<PathBuf>,
}

impl Apply {
    /// The file.
    pub(in crate::shell) fn file(&self) -> PathBuf {
        self.file.clone().or_else(|| self.filename.clone()).unwrap_or_default()
    }

    pub(super) fn execute(self, engine: &mut Engine<'_>, view: &View) -> Result<Printed, Printed> {
        let file = view.folder.join(self.file());
        let text = view.file.clone().unwrap_or_default();
        let named = if self.file().as_os_str() == "-" { STANDARD_INPUT.into() } else { self.file() };
        // Empty output of a failed program before a pipe.
        if text.trim().is_empty() {
            let help = "Name a file of Kubernetes objects, or of the lists of a step.";
            return Err(Printed::wrong(format_args!("{} is empty", printable(&named)), help));
        }
        let before = engine.cluster().clone();
        let changed_by = engine.change(AdHocChange::Apply { file, text });
        let (ended, notes) = changed_by.map_err(|wrong| as_typed(wrong, &view.folder))?;
        let changed = changed(&before, engine.cluster());
        let text = format!("applied {}: {changed}{ended}\n", printable(&named));
        Ok(Printed { text, errors: notes.iter().map(|note| format!("note: {note}\n")).collect(), ..Printed::default() })
    }
}

/// Names files in an error as they were typed, relative to a folder.
fn as_typed(wrong: Printed, folder: &Path) -> Printed {
    let errors = wrong.errors.replace(&format!("{}/", printable(folder)), "");
    Printed { errors, ..wrong }
}

/// The differences, in words.
fn changed(before: &Cluster, after: &Cluster) -> String {
    let kinds = [
        ("node", differ(&before.nodes, &after.nodes, |one| one.name.clone())),
        ("pod", differ(&before.pods, &after.pods, |one| one.name.to_string())),
        ("service", differ(&before.services, &after.services, |one| one.name.to_string())),
        ("EndpointSlice", differ(&before.slices, &after.slices, |one| one.name.to_string())),
    ];
    let words: Vec<String> =
        kinds.into_iter().filter(|(_, count)| *count > 0).map(|(kind, count)| counted(count, kind)).collect();
    if words.is_empty() { "nothing has changed".to_owned() } else { format!("{} changed", words.join(", ")) }
}

/// The number of objects of a kind that are new, gone or different.
fn differ<T: PartialEq>(before: &[T], after: &[T], name: impl Fn(&T) -> String) -> usize {
    let gone = before.iter().filter(|old| !after.iter().any(|new| name(new) == name(old))).count();
    gone + after.iter().filter(|new| !before.contains(new)).count()
}
