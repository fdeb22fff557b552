//! Stored objects.
//!
//! An object is serialised once. Its text excludes the fields that the server itself sets, which are written before it, so that an
//! unchanged object is recognised by its text, and one text is used for all versions of the object in events.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::resource::{Form, Index, RESOURCES, Served};

/// Namespace (empty if there is none) and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    /// The namespace.
    pub(super) namespace: String,
    /// The name.
    pub(super) name: String,
}

/// An admitted object, before it gets a resourceVersion.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) index: Index,
    pub(super) key: Key,
    pub(super) uid: Option<String>,
    pub(super) created: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) fields: Vec<String>,
    text: Box<str>,
    /// The text in the other form.
    other_text: OnceLock<Box<str>>,
}

impl Content {
    /// Creates the content from a complete object in its stored form.
    pub(super) fn new(index: Index, mut object: Map<String, Value>) -> Self {
        let resource = &RESOURCES[index];
        let fields = resource.fields.iter().map(|(_, pointer)| field(&object, pointer)).collect();
        object.remove("kind");
        object.remove("apiVersion");
        let mut metadata = match object.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        let mut taken = |name| match metadata.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let (uid, created) = (taken("uid"), taken("creationTimestamp"));
        ["resourceVersion", "generation", "selfLink"].into_iter().for_each(|name| _ = metadata.remove(name));
        let text_of = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = Key {
            namespace: if resource.namespaced { text_of("namespace") } else { String::new() },
            name: text_of("name"),
        };
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(label, value)| Some((label.clone(), value.as_str()?.to_owned()))).collect();
        let text = text_after_server_fields(metadata, object);
        Self { index, key, uid, created, labels, fields, text, other_text: OnceLock::new() }
    }

    /// Returns whether the contents are equal.
    pub(super) fn equals(&self, other: &Self) -> bool {
        self.text == other.text
    }

    /// Returns the text in a form, converted on first use.
    fn text(&self, form: Form) -> &str {
        if form == Form::Stored {
            return &self.text;
        }
        self.other_text.get_or_init(|| {
            let (metadata, mut rest) = self.parsed();
            form.encode(&mut rest);
            text_after_server_fields(metadata, rest)
        })
    }

    /// Parses metadata, and everything else except kind and version.
    pub(super) fn parsed(&self) -> (Map<String, Value>, Map<String, Value>) {
        let mut object: Map<String, Value> =
            serde_json::from_str(&format!("{{\"metadata\":{{{}", self.text)).unwrap_or_default();
        match object.remove("metadata") {
            Some(Value::Object(metadata)) => (metadata, object),
            _ => (Map::new(), object),
        }
    }
}

/// `"name":"web"},"spec":{…}}`: the text after the fields that the server sets.
fn text_after_server_fields(metadata: Map<String, Value>, rest: Map<String, Value>) -> Box<str> {
    let metadata = Value::Object(metadata).to_string();
    let rest = Value::Object(rest).to_string();
    let comma = if rest == "{}" { "" } else { "," };
    format!("{}{comma}{}", &metadata[1..], &rest[1..]).into_boxed_str()
}

/// Returns the text of a scalar field; empty if it is missing.
fn field(object: &Map<String, Value>, pointer: &str) -> String {
    let mut steps = pointer.split('/').skip(1);
    let first = steps.next().and_then(|step| object.get(step));
    match steps.try_fold(first, |value, step| value.map(|value| value.get(step))).flatten() {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// An object in the store.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) content: Content,
    /// The resourceVersion of its last change.
    pub(super) version: u64,
    pub(super) generation: u64,
    pub(super) uid: String,
    pub(super) created: String,
}

impl Stored {
    /// Writes the object in a version of its group, with a resourceVersion.
    pub(super) fn write(&self, served: &Served, version: u64, out: &mut Vec<u8>) {
        let resource = &RESOURCES[self.content.index];
        let Self { uid, created, generation, .. } = self;
        let head = format!(
            "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{{\"resourceVersion\":\"{version}\",\"uid\":{},\"creationTimestamp\":{},",
            resource.kind,
            served.api_version(),
            Value::from(uid.as_str()),
            Value::from(created.as_str()),
        );
        out.extend_from_slice(head.as_bytes());
        if resource.counts_generations {
            _ = write!(out, "\"generation\":{generation},");
        }
        out.extend_from_slice(self.content.text(served.form).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::resource::{Endpoint, index_of};
    use super::*;

    #[test]
    fn an_object_is_written_as_it_was_given() {
        let object = json!({
            "kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": "a", "labels": {"x": "y"}, "resourceVersion": "7", "uid": "u"},
            "status": {"phase": "Active"},
        });
        let content = Content::new(index_of("Namespace").unwrap(), object.as_object().unwrap().clone());
        assert_eq!(
            (content.uid.as_deref(), content.fields.as_slice()),
            (Some("u"), &["a".into(), "Active".into()][..])
        );
        let stored = Stored { content, version: 9, generation: 1, uid: "u".into(), created: "then".into() };
        let mut text = Vec::new();
        stored.write(Endpoint::from_object(&object).unwrap().served, 12, &mut text);
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = "12".into();
        expected["metadata"]["creationTimestamp"] = "then".into();
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), expected);
    }
}
