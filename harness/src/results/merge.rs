//! Merges the documents of several shards.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::model::Results;
use super::read::{Document, ReadError};
use crate::environment::{Environment, SCHEMA_VERSION};
use crate::report::ShardOf;
use crate::text::counted;

/// Why documents cannot be merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A file is not a report.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The reason.
        source: ReadError,
    },
    /// Two documents differ in a value that must be equal.
    #[error("{first_file} and {file} differ: {what} is {first} in {first_file} and {other} in {file}")]
    Differ {
        /// What differs: `svclab`, `kernel`, ...
        what: &'static str,
        /// The first file.
        first_file: String,
        /// Its value.
        first: String,
        /// The other file.
        file: String,
        /// Its value.
        other: String,
    },
    /// A document is not a shard's.
    #[error("{0} is the report of a whole run, not of a shard")]
    NoShard(String),
    /// There are two reports of a shard.
    #[error("{0} and {1} are both the report of shard {2}")]
    Twice(String, String, usize),
    /// Shards are missing.
    #[error("{} of {of} {} missing: {}", counted(missing.len(), "shard"), if missing.len() == 1 { "is" } else { "are" }, list(missing))]
    Missing {
        /// The numbers of the missing shards.
        missing: Vec<usize>,
        /// The expected number.
        of: usize,
    },
    /// The shards' scenarios do not add up to the number that each of them recorded.
    #[error(
        "the shards did not have the same scenarios: together they ran {found} files, but the run had {expected} scenarios"
    )]
    Scenarios {
        /// The number of scenarios found.
        found: usize,
        /// The expected number.
        expected: usize,
    },
    /// There is nothing to merge.
    #[error("no report is given")]
    Nothing,
}

impl MergeError {
    /// The fix, in a sentence.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Read { source: ReadError::Version(_), .. } => {
                "Merge with the version of svclab that wrote the reports."
            }
            Self::Read { .. } | Self::Nothing => {
                "Pass the files that `svclab run --report json=FILE` wrote, one per shard."
            }
            Self::Differ { what: "svclab" | "command", .. } => {
                "Run every shard with the same command of the same version of svclab."
            }
            Self::Differ { what: "shards" | "scenarios", .. } | Self::Scenarios { .. } => {
                "Pass the reports of one run: every shard needs the same N in `--shard K/N`, the same scenarios and the same selection of tests."
            }
            Self::Differ { .. } => "Run every shard on the same kind of machine, or pass `--allow-mixed`.",
            Self::NoShard(_) => "Run each part with `--shard K/N`, and pass all of them; or pass this report alone.",
            Self::Twice(..) => {
                "Pass one report of each shard: remove files left by a repeated job, or give each shard its own file name."
            }
            Self::Missing { .. } => {
                "Pass the report of every shard. A job that was cancelled or crashed has written none: run it again."
            }
        }
    }
}

/// The first numbers of a list, followed by `...` if there are more.
fn list(all: &[usize]) -> String {
    let shown: Vec<String> = all.iter().take(20).map(ToString::to_string).collect();
    shown.join(", ") + if all.len() > 20 { ", ..." } else { "" }
}

/// Several documents as one.
#[derive(Debug)]
pub struct Merged {
    /// The JSON document.
    pub json: Value,
    /// The parsed results.
    pub results: Results,
}

/// Merges the documents of all shards of one run, given with their file names. With `mixed`, machines may differ.
///
/// # Errors
///
/// If a shard is missing, or the documents differ in run, svclab version or machine.
pub fn merge(texts: &[(String, String)], mixed: bool) -> Result<Merged, MergeError> {
    let mut documents: Vec<(&str, Document)> = Vec::new();
    for (file, text) in texts {
        let document = Document::read(text).map_err(|source| MergeError::Read { file: file.clone(), source })?;
        documents.push((file, document));
    }
    let Some((first, others)) = documents.split_first() else { return Err(MergeError::Nothing) };
    if let Some((file, _)) = documents.iter().find(|(_, document)| documents.len() > 1 && shard_of(document).is_none())
    {
        return Err(MergeError::NoShard((*file).to_owned()));
    }
    others.iter().try_for_each(|other| same(first, other, mixed))?;
    let json = if others.is_empty() && shard_of(&first.1).is_none() {
        serde_json::from_str(&texts[0].1).unwrap_or_default()
    } else {
        let ordered = complete(&documents)?;
        joined(&ordered)
    };
    let read = |json: &Value| Results::of(serde_json::from_value(json.clone())?);
    let results = read(&json).map_err(|source| MergeError::Read { file: first.0.to_owned(), source })?;
    Ok(Merged { json, results })
}

fn shard_of(document: &Document) -> Option<ShardOf> {
    serde_json::from_value(document.result.get("shard")?.clone()).ok()
}

/// Checks the values that must be equal in all documents.
fn same(first: &(&str, Document), other: &(&str, Document), mixed: bool) -> Result<(), MergeError> {
    let facts = |document: &Document| {
        let Environment { svclab_version, kernel, iptables, nft, machine } = &document.environment;
        let iptables = iptables.as_ref().map(|iptables| format!("{} ({:?})", iptables.version, iptables.backend));
        let none = || "none".to_owned();
        let shard = shard_of(document);
        let mut facts = vec![
            ("svclab", svclab_version.clone()),
            ("command", document.command.clone()),
            ("shards", shard.map_or_else(none, |shard| shard.total.to_string())),
            ("scenarios", shard.map_or_else(none, |shard| shard.scenarios.to_string())),
        ];
        if !mixed {
            facts.push(("kernel", kernel.clone()));
            facts.push(("iptables", iptables.unwrap_or_else(none)));
            facts.push(("nft", nft.clone().unwrap_or_else(none)));
            facts.push(("architecture", machine.architecture.clone()));
        }
        facts
    };
    for ((what, ours), (_, theirs)) in facts(&first.1).into_iter().zip(facts(&other.1)) {
        if ours != theirs {
            let (first_file, file) = (first.0.to_owned(), other.0.to_owned());
            return Err(MergeError::Differ { what, first_file, first: ours, file, other: theirs });
        }
    }
    Ok(())
}

/// Sorts the documents by shard, and checks that each shard is there once.
fn complete<'d>(documents: &'d [(&str, Document)]) -> Result<Vec<&'d Document>, MergeError> {
    let mut of = 0;
    let mut found: Vec<(usize, &str, &Document)> = Vec::new();
    for (file, document) in documents {
        let shard = shard_of(document).ok_or_else(|| MergeError::NoShard((*file).to_owned()))?;
        of = shard.total;
        if let Some((_, other, _)) = found.iter().find(|(number, ..)| *number == shard.number) {
            return Err(MergeError::Twice((*other).to_owned(), (*file).to_owned(), shard.number));
        }
        found.push((shard.number, file, document));
    }
    let missing: Vec<usize> = (1..=of).filter(|number| !found.iter().any(|(found, ..)| found == number)).collect();
    if !missing.is_empty() {
        return Err(MergeError::Missing { missing, of });
    }
    found.sort_by_key(|(number, ..)| *number);
    let ordered: Vec<&Document> = found.into_iter().map(|(.., document)| document).collect();
    let expected = shard_of(ordered[0]).map_or(0, |shard| shard.scenarios);
    let files: BTreeSet<&str> =
        ordered.iter().flat_map(|document| scenarios(document)).filter_map(|one| one["file"].as_str()).collect();
    let is_whole =
        ordered.iter().all(|document| document.result["counts"]["notStarted"].as_u64().unwrap_or_default() == 0);
    if is_whole && files.len() != expected {
        return Err(MergeError::Scenarios { found: files.len(), expected });
    }
    Ok(ordered)
}

fn scenarios(document: &Document) -> impl Iterator<Item = &Value> {
    document.result["scenarios"].as_array().into_iter().flatten()
}

/// Joins documents: scenarios are concatenated, numbers added up; the worst status and the longest time are kept.
fn joined(documents: &[&Document]) -> Value {
    let first = documents[0];
    let mut result = first.result.clone();
    result["shard"] = Value::Null;
    result["scenarios"] = documents.iter().flat_map(|document| scenarios(document)).cloned().collect();
    let worst =
        ["error", "failed"].into_iter().find(|status| documents.iter().any(|one| one.result["status"] == **status));
    result["status"] = worst.unwrap_or("ok").into();
    let seconds = documents.iter().filter_map(|document| document.result["seconds"].as_f64()).fold(0.0, f64::max);
    result["seconds"] = seconds.into();
    if let Some(counts) = result["counts"].as_object_mut() {
        for (name, value) in counts.iter_mut() {
            let sum: u64 = documents.iter().filter_map(|document| document.result["counts"][name].as_u64()).sum();
            // Every shard counts the same tests as filtered out.
            *value = if name == "filtered" { value.clone() } else { sum.into() };
        }
    }
    let mut whole = json!({ "schemaVersion": SCHEMA_VERSION, "command": first.command, "result": result });
    if let (Some(whole), Ok(Value::Object(environment))) =
        (whole.as_object_mut(), serde_json::to_value(&first.environment))
    {
        whole.extend(environment);
    }
    whole
}
