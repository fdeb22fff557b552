//! Names in evidence that are also ordinary words, such as a namespace `example`.

use std::collections::HashSet;

use serde_json::Value;
use svclab_rules::ruleset::Rules;

use super::vocabulary::is_ordinary_word;
use crate::evidence::{Contents, Evidence, node_rules};

/// Fields of objects whose values are names.
const FIELDS: [&str; 7] = ["name", "namespace", "nodeName", "hostname", "serviceName", "generateName", "podName"];

/// Returns the ordinary words that are parts of names in evidence, in lower case.
pub(super) fn in_evidence(evidence: &[Evidence]) -> HashSet<String> {
    let mut names = HashSet::new();
    for piece in evidence.iter().flat_map(|evidence| &evidence.pieces) {
        if let Contents::Objects(objects) = &piece.contents {
            objects.iter().for_each(|object| collect(object, &mut names));
        }
    }
    for rules in evidence.iter().flat_map(node_rules) {
        let Rules::Iptables(parsed) = &rules.rules else { continue };
        let rules = parsed.rules.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
        for name in rules.filter_map(|rule| rule.comment()?.split_whitespace().next()).filter(|name| name.contains('/'))
        {
            add(name, &mut names);
        }
    }
    names
}

fn collect(value: &Value, names: &mut HashSet<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(name) if FIELDS.contains(&field.as_str()) => add(name, names),
                    _ => collect(value, names),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}

fn add(name: &str, names: &mut HashSet<String>) {
    let parts = name.split(|letter: char| !letter.is_alphanumeric());
    names.extend(parts.filter(|part| is_ordinary_word(part)).map(str::to_lowercase));
}
