//! That modules import only what stands below them, as ARCHITECTURE.md draws it.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules, the lowest first. Those of one line do not know of each other.
const LAYERS: [&[&str]; 12] = [
    &["wire", "stats", "output", "page", "svg", "input"],
    &["yaml"],
    &["scenario", "observation"],
    &["documents", "topology", "infer"],
    &["lab", "predict", "judge", "cascade"],
    &["probe", "sources", "report"],
    &["trace"],
    &["run", "explain"],
    &["verify", "sampling"],
    &["mutate"],
    &["testing", "doctor"],
    &["cli"],
];
/// What all messages share stands beside them; this file and the root are in no layer.
const BESIDE: [&str; 4] = ["text", "layers", "lib", "main"];

#[test]
fn modules_import_only_what_stands_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    let mut imports = 0;
    for file in sources(&root) {
        let module = module_of(file.strip_prefix(&root).unwrap());
        if BESIDE.contains(&module.as_str()) {
            continue;
        }
        let own = layer(&module).unwrap_or_else(|| panic!("{module} is in no layer"));
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for other in imported(code).filter(|other| *other != module && !BESIDE.contains(other)) {
            imports += 1;
            if layer(other).is_none_or(|layer| layer >= own) {
                wrong.push(format!("{} imports {other}", crate::text::printable(&file)));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(imports > 100, "imports are found: {imports}");
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The modules that a file names as `crate::module` or `crate::{module, other::Name}`.
fn imported(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::")
        .skip(1)
        .flat_map(|path| match path.strip_prefix('{') {
            Some(group) => names_in(group),
            None => vec![path],
        })
        .map(|path| {
            &path[..path.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap_or(path.len())]
        })
        .filter(|module| !module.is_empty())
}

/// What stands between the commas of a group of imports; groups inside of it belong to what stands before them.
fn names_in(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth > 0 => {}
            ',' | '}' => {
                names.push(group[start..at].trim());
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

#[test]
fn grouped_imports_are_seen() {
    let text = "use crate::{output, topology::{self, Plan}, lab};\nuse crate::wire::Packet;";
    assert_eq!(imported(text).collect::<Vec<_>>(), ["output", "topology", "lab", "wire"]);
}

fn module_of(path: &Path) -> String {
    let first = path.iter().next().unwrap_or_default().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}

/// All files with code. Tests may know everything.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match (path.is_dir(), path.extension()) {
        (true, _) => sources(&path),
        (false, Some(ending)) if ending == "rs" && !path.ends_with("tests.rs") => vec![path],
        _ => Vec::new(),
    };
    entries.flat_map(of).collect()
}
