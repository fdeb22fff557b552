//! YAML as people write it: a line for what fits on one.

use serde_yaml::{Mapping, Value};

/// The widest line.
const WIDTH: usize = 140;

/// A map of fields in this order, without those that are null, or empty lists and maps.
pub(super) fn map(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let is_given = |value: &Value| match value {
        Value::Null => false,
        Value::Sequence(items) => !items.is_empty(),
        Value::Mapping(fields) => !fields.is_empty(),
        _ => true,
    };
    let given = fields.into_iter().filter(|(_, value)| is_given(value));
    Value::Mapping(given.map(|(name, value)| (name.into(), value)).collect())
}

/// The text of a document. Lists of its first level have an item a line at least.
pub(super) fn document(fields: &Mapping) -> String {
    let mut out = String::new();
    for (name, value) in fields {
        field(&scalar(name), value, 0, matches!(value, Value::Sequence(_)), &mut out);
    }
    out
}

fn field(name: &str, value: &Value, depth: usize, is_block: bool, out: &mut String) {
    let margin = "  ".repeat(depth);
    if let Some(text) = value.as_str().filter(|text| is_text(text)) {
        out.push_str(&format!("{margin}{name}: |\n"));
        for line in text.lines() {
            let line = if line.is_empty() { "\n".to_owned() } else { format!("{margin}  {line}\n") };
            out.push_str(&line);
        }
        return;
    }
    let flow = flow(value).filter(|flow| margin.len() + name.len() + flow.len() + 2 <= WIDTH && !is_block);
    if let Some(flow) = flow {
        out.push_str(&format!("{margin}{name}: {flow}\n"));
        return;
    }
    out.push_str(&format!("{margin}{name}:\n"));
    block(value, depth + 1, out);
}

fn block(value: &Value, depth: usize, out: &mut String) {
    let margin = "  ".repeat(depth);
    match value {
        Value::Mapping(fields) => {
            for (name, value) in fields {
                field(&scalar(name), value, depth, false, out);
            }
        }
        Value::Sequence(items) => {
            for item in items {
                if let Some(flow) = flow(item).filter(|flow| margin.len() + flow.len() + 2 <= WIDTH) {
                    out.push_str(&format!("{margin}- {flow}\n"));
                    continue;
                }
                let mut inner = String::new();
                block(item, depth + 1, &mut inner);
                // The first line's margin has the hyphen in it.
                out.push_str(&format!("{margin}- {}", inner.trim_start()));
            }
        }
        other => out.push_str(&format!("{margin}{}\n", scalar(other))),
    }
}

/// A value on one line; `None` where it has a text of several lines.
fn flow(value: &Value) -> Option<String> {
    Some(match value {
        Value::Mapping(fields) => {
            let fields: Option<Vec<String>> =
                fields.iter().map(|(name, value)| Some(format!("{}: {}", scalar(name), flow(value)?))).collect();
            format!("{{{}}}", fields?.join(", "))
        }
        Value::Sequence(items) => {
            let items: Option<Vec<String>> = items.iter().map(flow).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::String(text) if is_text(text) => return None,
        other => scalar(other),
    })
}

/// Whether it is written as a block of lines.
fn is_text(text: &str) -> bool {
    text.ends_with('\n')
        && !text.starts_with([' ', '\n'])
        && !text.chars().any(|letter| letter.is_control() && letter != '\n' && letter != '\t')
}

/// A scalar, in quotes where it would be read as something else.
fn scalar(value: &Value) -> String {
    let is_plain = |text: &str| {
        text.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            && !text.ends_with([' ', ':'])
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || " ._-/@:>".contains(letter))
            && !text.contains(": ")
            && serde_yaml::from_str::<Value>(text).is_ok_and(|read| read.as_str() == Some(text))
    };
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(text) => serde_json::to_string(text).unwrap_or_default(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        _ => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let text = "a:\n- {b: \"1.30\", c: [x, \"no\", \"a, b\"], d: 5}\n- e: |\n    *nat\n    -A X\n\n    COMMIT\n  f: \"- x\"\ng: {h: \"k: l\", i: false, j: \"é\\t\"}\nk: {l: \"10:20\", m: \"2026-01-01\"}\n";
        let value: Value = serde_yaml::from_str(text).expect("YAML");
        let written = document(value.as_mapping().expect("a map"));
        assert_eq!(serde_yaml::from_str::<Value>(&written).expect("YAML"), value, "{written}");
        assert!(written.contains("- {b: \"1.30\", c: [x, no, \"a, b\"], d: 5}"), "{written}");
        assert!(written.contains("    e: |\n      *nat\n") || written.contains("- e: |\n"), "{written}");
    }
}
