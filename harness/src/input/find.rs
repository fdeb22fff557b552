//! Scenario files in folders.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::files::read_file;
use crate::text::{printable, reason};

/// A file, usually empty, whose folder is skipped unless it is named explicitly.
pub const IGNORED: &str = ".svclabignore";

/// A path that cannot be searched for scenarios.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", printable(path), reason(source))]
pub struct FindError {
    /// The path.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// The result of a search for scenarios.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// The scenario files.
    pub files: Vec<PathBuf>,
    /// Folders that were skipped because they have a file [`IGNORED`].
    pub left_out: Vec<PathBuf>,
}

/// Finds the scenario files in paths, without duplicates and sorted within each folder: a file itself, and all `*.yaml` and `*.yml` files
/// in a folder. If a file or folder is found on several paths, such as symbolic links, the first one counts.
///
/// In a folder, files with Kubernetes objects (a line `apiVersion: ...`) and folders with a file [`IGNORED`] are skipped.
///
/// # Errors
///
/// The first path that does not exist, cannot be listed, or is a pipe, socket or device in a folder.
pub fn find(paths: &[PathBuf]) -> Result<Found, FindError> {
    let mut search = Search::default();
    for path in paths {
        let failed = |source| FindError { path: path.clone(), source };
        if fs::metadata(path).map_err(failed)?.is_dir() {
            search.walk(path)?;
        } else {
            search.add(path.clone());
        }
    }
    Ok(search.found)
}

#[derive(Default)]
struct Search {
    found: Found,
    /// The canonical paths of files and folders found so far.
    known: HashSet<PathBuf>,
}

impl Search {
    fn add(&mut self, file: PathBuf) {
        if self.is_new(&file) {
            self.found.files.push(file);
        }
    }

    fn walk(&mut self, folder: &Path) -> Result<(), FindError> {
        if !self.is_new(folder) {
            return Ok(());
        }
        let failed = |source| FindError { path: folder.to_owned(), source };
        let entries = fs::read_dir(folder).map_err(failed)?;
        let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut paths = paths.map_err(failed)?;
        paths.sort();
        for path in paths {
            if path.is_dir() {
                if path.join(IGNORED).exists() {
                    self.found.left_out.push(path);
                } else {
                    self.walk(&path)?;
                }
            } else if is_yaml(&path) && !holds_objects(&path)? {
                self.add(path);
            }
        }
        Ok(())
    }

    /// Returns whether a path resolves to something new. A dangling link counts as itself.
    fn is_new(&mut self, path: &Path) -> bool {
        self.known.insert(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    }
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// Returns whether a text is plain Kubernetes objects, in YAML or JSON. A scenario has no `apiVersion`.
pub fn is_manifest(text: &str) -> bool {
    let json = || text.trim_start().starts_with('{') && text.contains("\"apiVersion\"");
    text.lines().any(|line| line.starts_with("apiVersion:")) || json()
}

/// Returns whether a file contains Kubernetes objects. A file that cannot be read counts as a scenario, so that its error is reported.
/// Anything except a file is an error here: opening it could block.
fn holds_objects(path: &Path) -> Result<bool, FindError> {
    match read_file(path) {
        Err(source) if source.kind() == io::ErrorKind::InvalidInput => Err(FindError { path: path.to_owned(), source }),
        text => Ok(text.is_ok_and(|text| is_manifest(&text))),
    }
}
