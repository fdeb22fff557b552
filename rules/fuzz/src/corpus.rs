//! The corpus that fuzzing starts from.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum size of an input in bytes, to keep mutation and execution fast.
const LONGEST: u64 = 12 << 10;

/// Reads the small files below folders whose names have one of these endings, in the order of their paths. A folder need not exist.
///
/// # Panics
///
/// If there is no such file: a campaign would start from nothing.
pub fn files(folders: &[&Path], endings: &[&str]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    folders.iter().for_each(|folder| collect(folder, endings, &mut found));
    found.sort();
    let inputs: Vec<Vec<u8>> = found.iter().map(|file| read(file)).collect();
    assert!(!inputs.is_empty(), "no inputs in {folders:?}");
    inputs
}

/// Reads a file.
///
/// # Panics
///
/// If it cannot be read.
pub fn read(file: &Path) -> Vec<u8> {
    fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn collect(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, endings, found);
        } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending))
            && entry.metadata().is_ok_and(|metadata| metadata.len() <= LONGEST)
        {
            found.push(path);
        }
    }
}
