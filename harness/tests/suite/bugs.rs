//! The library of bugs: the headers of its scenarios, and the table that is generated from them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FOLDER: &str = "../scenarios/bugs";
const README: &str = "../scenarios/bugs/README.md";
/// The suffix of scenarios that show the same traffic with the bug fixed.
const FIXED: &str = "-fixed";
/// The first line of the table; it is the only one of the file.
const HEADING: &str = "| issue | scenario | symptom | cause | releases | fix |";

/// The comment that a scenario starts with.
#[derive(Debug)]
struct Header {
    issue: String,
    releases: String,
    symptom: String,
    cause: String,
    fix: Option<String>,
}

impl Header {
    fn read(file: &str, text: &str) -> Self {
        let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
        for line in text.lines().map_while(|line| line.strip_prefix("# ")) {
            let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("{file}: `{line}` is not `KEY: value`"));
            assert!(fields.insert(key, value).is_none(), "{file}: `{key}` is there twice");
        }
        let mut take = |key: &str| fields.remove(key).map(str::to_owned);
        let [issue, releases, symptom, cause] = ["Issue", "Releases", "Symptom", "Cause"]
            .map(|key| take(key).unwrap_or_else(|| panic!("{file}: the header has no `{key}:`")));
        let fix = take("Fix");
        assert!(fields.is_empty(), "{file}: unknown keys {fields:?}");
        Self { issue, releases, symptom, cause, fix }
    }

    /// Whether a file name has the number of one of the issues, and the project's name if that is not kubernetes.
    fn names(&self, file: &str) -> bool {
        let issues = self.issue.split([',', ' ']).filter_map(|issue| issue.split_once('#'));
        issues.into_iter().any(|(project, number)| match project {
            "kubernetes" => file.starts_with(&format!("{number}-")),
            other => file.starts_with(&format!("{other}-{number}-")),
        })
    }
}

/// The scenarios of the library by their names, without the extension.
fn library() -> BTreeMap<String, Header> {
    let files = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let scenarios = files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let header = Header::read(&name, &fs::read_to_string(&path).unwrap());
        (name, header)
    };
    scenarios.map(read).collect()
}

/// The order of the table: kubernetes' issues by number, then other projects'.
fn rank(name: &str) -> (u32, &str) {
    let number = name.split('-').next().and_then(|start| start.parse().ok());
    (number.unwrap_or(u32::MAX), name)
}

fn table(library: &BTreeMap<String, Header>) -> String {
    let mut names: Vec<&String> = library.keys().filter(|name| !name.ends_with(FIXED)).collect();
    names.sort_by_key(|name| rank(name));
    let mut lines = vec![HEADING.to_owned(), "| --- | --- | --- | --- | --- | --- |".to_owned()];
    for name in names {
        let Header { issue, releases, symptom, cause, fix } = &library[name];
        let fixed = format!("{name}{FIXED}");
        let shown = library.contains_key(&fixed).then(|| link("scenario", &fixed));
        let fix = fix.iter().cloned().chain(shown).collect::<Vec<_>>().join("; ");
        let issues = issue.replace("kubernetes#", "#");
        lines.push(format!("| {issues} | {} | {symptom} | {cause} | {releases} | {fix} |", link(name, name)));
    }
    lines.join("\n") + "\n"
}

fn link(text: &str, name: &str) -> String {
    format!("[{text}]({name}.yaml)")
}

#[test]
fn headers_name_issue_and_cause() {
    for (name, header) in library() {
        assert!(header.names(&name), "{name}: its name should start with the number of one of {}", header.issue);
    }
}

#[test]
fn what_is_fixed_has_a_bug() {
    let library = library();
    for fixed in library.keys() {
        let Some(name) = fixed.strip_suffix(FIXED) else { continue };
        let bug = library.get(name).unwrap_or_else(|| panic!("{fixed} has no {name}"));
        assert_eq!(library[fixed].issue, bug.issue, "{fixed}");
    }
}

#[test]
fn the_table_is_made_of_the_headers() {
    let readme = fs::read_to_string(README).unwrap();
    let start = readme.find(HEADING).expect("the table's heading");
    let end = readme[start..].find("\n\n").map_or(readme.len(), |length| start + length + 1);
    let table = table(&library());
    if std::env::var_os("INSTA_UPDATE").is_some_and(|mode| mode == "always") {
        fs::write(Path::new(README), [&readme[..start], &table, &readme[end..]].concat()).unwrap();
        return;
    }
    assert!(
        readme[start..end] == table,
        "headers in {FOLDER} have changed; regenerate the table with \
         `INSTA_UPDATE=always cargo test -p svclab --test suite bugs::`"
    );
}
