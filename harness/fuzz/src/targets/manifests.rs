//! Kubernetes objects in YAML.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use svclab::scenario::cluster;
use svclab_rules_fuzz::{Target, corpus};

use super::{are_shown, repository_path};

/// The target.
pub const TARGET: Target = Target { name: "manifests", corpus, check };

fn corpus() -> Vec<Vec<u8>> {
    let folders = [
        repository_path("rules/tests/golden"),
        repository_path("scenarios/kubernetes-objects/manifests"),
        repository_path("harness/fuzz/regressions/manifests"),
    ];
    corpus::files(&folders.each_ref().map(AsRef::as_ref), &["cluster.yaml", "web.yaml", "manifest.yaml"])
}

/// Objects are rejected with printable errors, or give the same cluster as the same values in JSON, as parsed by `serde_yaml`.
///
/// # Panics
///
/// If that does not hold.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let path = Path::new("fuzzed.yaml");
    match cluster(text, path, Default::default()) {
        Err(errors) => are_shown(&errors, text),
        Ok(plain) => {
            let documents = serde_yaml::Deserializer::from_str(text).map(Value::deserialize);
            let Ok(items) = documents.collect::<Result<Vec<Value>, _>>() else { return };
            if items.iter().any(|item| item["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))) {
                return;
            }
            let items: Vec<Value> = items.into_iter().filter(|item| !item.is_null()).collect();
            let again = cluster(&json!({"kind": "List", "items": items}).to_string(), path, Default::default());
            assert_eq!(again.as_ref().map(|again| &again.cluster), Ok(&plain.cluster));
        }
    }
}
