//! Scenario files in folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::read::read_file;
use crate::text::reason;

/// A path in which no scenarios can be looked for.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", path.display(), reason(source))]
pub struct FindError {
    /// The path.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// The scenario files that paths stand for, each once and sorted in its folder: a file stands for itself, a folder
/// for all `*.yaml` and `*.yml` below it.
///
/// Of a folder's files those are left out that are Kubernetes objects (they have a line `apiVersion: ...`), and
/// folders called `invalid`, which hold examples of mistakes.
///
/// # Errors
///
/// The first path that does not exist or cannot be listed.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FindError> {
    let mut found = Vec::new();
    for path in paths {
        let failed = |source| FindError { path: path.clone(), source };
        if fs::metadata(path).map_err(failed)?.is_dir() {
            walk(path, &mut found)?;
        } else if !found.contains(path) {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), FindError> {
    let failed = |source| FindError { path: folder.to_owned(), source };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "invalid") {
                walk(&path, found)?;
            }
        } else if is_yaml(&path) && !holds_objects(&path) && !found.contains(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Whether a text is plain Kubernetes objects, in YAML or JSON. A scenario has no `apiVersion`.
pub fn is_manifest(text: &str) -> bool {
    let json = || text.trim_start().starts_with('{') && text.contains("\"apiVersion\"");
    text.lines().any(|line| line.starts_with("apiVersion:")) || json()
}

/// A file that cannot be read counts as a scenario, so that the mistake is told.
fn holds_objects(path: &Path) -> bool {
    read_file(path).is_ok_and(|text| is_manifest(&text))
}
