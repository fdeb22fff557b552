//! A JSON Schema as a page of Markdown: a section for each kind of object, a row for each field.

use std::collections::VecDeque;
use std::fmt::Write;

use serde_json::{Map, Value};

/// Renders the page.
pub(super) fn page(schema: &Value) -> String {
    let mut page = Page { schema, known: Vec::new(), waiting: VecDeque::new() };
    let title = schema["title"].as_str().unwrap_or_default();
    let mut text = format!("# {title}\n\n{}\n", prose(schema));
    text += &page.body(schema);
    while let Some(name) = page.waiting.pop_front() {
        let definition = &schema["$defs"][&name];
        // Writing to a string does not fail.
        let _ = write!(text, "\n## {}\n\n{}\n{}", heading(&name), prose(definition), page.body(definition));
    }
    text
}

struct Page<'a> {
    schema: &'a Value,
    /// The definitions that have a section.
    known: Vec<String>,
    /// Types whose section is not written yet.
    waiting: VecDeque<String>,
}

impl Page<'_> {
    /// Renders the fields of an object, or the variants of anything else.
    fn body(&mut self, schema: &Value) -> String {
        let Some(fields) = schema["properties"].as_object() else { return self.forms(schema) };
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut table = "\n| field | type | meaning |\n| --- | --- | --- |\n".to_owned();
        for (name, field) in fields {
            let mark = if required.contains(&name.as_str()) { " (required)" } else { "" };
            let (kind, meaning) = (self.kind(field), cell(&prose(field)));
            let _ = writeln!(table, "| `{name}`{mark} | {} | {meaning} |", cell(&kind));
        }
        table
    }

    fn forms(&mut self, schema: &Value) -> String {
        let forms = ["oneOf", "anyOf"].iter().find_map(|word| schema[word].as_array());
        let Some(forms) = forms else { return format!("\n{}\n", self.kind(schema)) };
        let mut table = "\n| value | meaning |\n| --- | --- |\n".to_owned();
        for form in forms {
            let _ = writeln!(table, "| {} | {} |", cell(&self.kind(form)), cell(&prose(form)));
        }
        table
    }

    /// Describes the type of a value.
    fn kind(&mut self, schema: &Value) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            return self.reference(name);
        }
        if let Some(value) = schema.get("const") {
            return format!("`{}`", plain(value));
        }
        if let Some(values) = schema["enum"].as_array() {
            let values = values.iter().filter(|value| !value.is_null());
            return values.map(|value| format!("`{}`", plain(value))).collect::<Vec<_>>().join(", ");
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(forms) = schema[word].as_array() {
                let mut kinds: Vec<String> = forms.iter().map(|form| self.kind(form)).collect();
                kinds.retain(|kind| kind != "null");
                kinds.dedup();
                return kinds.join(", or ");
            }
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect(),
            name => name.as_str().into_iter().collect(),
        };
        let kinds: Vec<String> = types.iter().map(|name| self.simple(name, schema)).collect();
        if kinds.is_empty() { "any value".to_owned() } else { kinds.join(" or ") }
    }

    fn simple(&mut self, name: &str, schema: &Value) -> String {
        match name {
            "array" => format!("list of {}", self.kind(&schema["items"])),
            "object" => match schema.get("additionalProperties").filter(|values| values.is_object()) {
                Some(values) => format!("map to {}", self.kind(values)),
                None => self.fields(schema["properties"].as_object()),
            },
            "integer" | "number" => match (schema["minimum"].as_u64(), schema["maximum"].as_u64()) {
                (Some(least), Some(most)) => format!("{name} from {least} to {most}"),
                _ => name.to_owned(),
            },
            "string" => match schema["pattern"].as_str() {
                Some(pattern) => format!("string that matches `{pattern}`"),
                None => name.to_owned(),
            },
            name => name.to_owned(),
        }
    }

    /// Describes an object without a name.
    fn fields(&mut self, fields: Option<&Map<String, Value>>) -> String {
        let fields = fields.into_iter().flatten().map(|(name, field)| format!("`{name}`: {}", self.kind(field)));
        format!("object with {}", fields.collect::<Vec<_>>().join(", "))
    }

    /// Returns a link to the section of a definition. A plain value needs none.
    fn reference(&mut self, name: &str) -> String {
        let definition = &self.schema["$defs"][name];
        let is_plain = definition.get("properties").is_none() && definition.get("oneOf").is_none();
        if is_plain && definition.get("anyOf").is_none() {
            return self.kind(definition);
        }
        if !self.known.iter().any(|known| known == name) {
            self.known.push(name.to_owned());
            self.waiting.push_back(name.to_owned());
        }
        format!("[{0}](#{1})", heading(name), heading(name).to_lowercase())
    }
}

/// Returns the title of a definition's section, without the prefix `Raw` of types that scenarios are decoded into.
fn heading(name: &str) -> &str {
    name.strip_prefix("Raw").unwrap_or(name)
}

fn prose(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().to_owned()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}
