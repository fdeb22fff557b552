//! Kubernetes objects in YAML and JSON, and JSON of nft and ip.

use std::path::Path;

use serde_json::Value;

use super::super::line::Line;
use super::super::model::{Contents, Format};
use super::object_shape::misshapen;
use super::{Block, Context, command, nft};
use crate::yaml;

/// Lines that are looked at before what starts with a brace is not JSON.
const LONGEST_OPEN: usize = 400_000;

pub(super) fn knows(line: &str) -> bool {
    line.starts_with("apiVersion: ") || line.starts_with("- apiVersion: ") || line == "{" && line.len() == 1
}

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    let first = lines.first()?.text.trim();
    if first.starts_with(['{', '[']) {
        return json_block(lines, first);
    }
    let is_start = first.starts_with("apiVersion:")
        || first.starts_with("- apiVersion:")
        || (first == "---"
            && lines.iter().skip(1).take(6).any(|line| line.text.trim_start().starts_with("apiVersion:")))
        || (first.starts_with("kind:")
            && lines.iter().take(40).any(|line| line.text.trim_start().starts_with("apiVersion:")));
    if is_start { yaml_block(lines) } else { None }
}

fn yaml_block(lines: &[Line<'_>]) -> Option<Block> {
    let indent = indent(&lines[0].text);
    let is_own = |line: &Line<'_>| {
        let text = line.text.trim_end();
        let own = self::indent(text);
        let key = text.trim_start();
        let is_key = || {
            key.split_once(':')
                .is_some_and(|(name, rest)| !name.contains(' ') && (rest.is_empty() || rest.starts_with(' ')))
        };
        own > indent
            || (own == indent
                && (key.starts_with("- ") || key == "---" || key == "..." || key.starts_with('#') || is_key()))
    };
    let mut taken = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.is_blank() {
            continue;
        }
        if line.is_fence() || !is_own(line) || (at > 0 && indent == 0 && command(line.text.trim()).is_some()) {
            break;
        }
        taken = at + 1;
    }
    let block = &lines[..taken];
    let text: String = block.iter().map(|line| format!("{}\n", line.text.get(indent..).unwrap_or_default())).collect();
    let path = Path::new("");
    let (trees, errors) = yaml::parse(&text, path);
    let position = |line: usize| line.saturating_sub(1).min(taken - 1);
    let mut unread: Vec<(usize, String)> =
        errors.into_iter().map(|error| (position(error.span.line), error.message)).collect();
    let mut objects = Vec::new();
    for tree in &trees {
        let decoded = yaml::decode::<Value>(path, tree);
        unread.extend(decoded.errors.into_iter().map(|error| (position(error.span.line), error.message)));
        if let Some(value) = decoded.value {
            unread.extend(flatten(value, &mut objects).into_iter().map(|why| (position(tree.mark.line as usize), why)));
        }
    }
    let is_config = |object: &Value| object["kind"] == "KubeProxyConfiguration";
    let format = if objects.iter().any(is_config) { Format::ProxyConfig } else { Format::Yaml };
    let contents = Contents::Objects(objects);
    Some(Block { unread, ..Block::new(format, taken, contents) })
}

/// Takes the objects of lists, and of lists in these. Returns why some of them cannot be used.
fn flatten(value: Value, objects: &mut Vec<Value>) -> Vec<String> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && value["items"].is_array();
    match value {
        Value::Object(mut fields) if is_list => {
            if let Some(Value::Array(items)) = fields.remove("items") {
                return flatten(Value::Array(items), objects);
            }
        }
        Value::Array(items) => return items.into_iter().flat_map(|item| flatten(item, objects)).collect(),
        Value::Object(_) => match misshapen(&value) {
            None => objects.push(value),
            why => return why.into_iter().collect(),
        },
        _ => {}
    }
    Vec::new()
}

fn json_block(lines: &[Line<'_>], first: &str) -> Option<Block> {
    // A sentence in brackets, or a prompt, is not the start of a document.
    let is_start = matches!(first, "{" | "[" | "[{")
        || first.starts_with("{\"")
        || first.starts_with("[{\"")
        || first.starts_with("{ \"")
        || first.starts_with("[ {");
    let length = if is_start { balanced(lines)? } else { return None };
    let text: String = lines[..length].iter().flat_map(|line| [line.text.as_ref(), "\n"]).collect();
    let value: Value = match serde_json::Deserializer::from_str(&text).into_iter().next()? {
        Ok(value) => value,
        Err(error) if text.contains("\"apiVersion\"") || text.contains("\"nftables\"") => {
            let at = error.line().saturating_sub(1).min(length - 1);
            let block = Block::new(Format::Json, length, Contents::Objects(Vec::new()));
            return Some(Block { unread: vec![(at, error.to_string())], ..block });
        }
        Err(_) => return None,
    };
    if value.get("nftables").is_some() {
        return Some(match nft::read_json(&text) {
            Ok(contents) => Block::new(Format::NftJson, length, contents),
            Err(error) => {
                Block { unread: vec![(0, error)], ..Block::new(Format::NftJson, length, Contents::Entries(0)) }
            }
        });
    }
    if let Value::Array(items) = &value
        && items
            .iter()
            .any(|item| item.get("ifname").is_some() || item.get("dst").is_some() || item.get("dev").is_some())
    {
        return Some(Block::new(Format::IpJson, length, Contents::Entries(items.len())));
    }
    let mut objects = Vec::new();
    let unread: Vec<(usize, String)> = flatten(value, &mut objects).into_iter().map(|why| (0, why)).collect();
    let is_object = objects.iter().any(|object| object.get("kind").is_some() || object.get("apiVersion").is_some());
    (is_object || !unread.is_empty())
        .then(|| Block { unread, ..Block::new(Format::Json, length, Contents::Objects(objects)) })
}

/// How many lines there are to the end of the first value.
fn balanced(lines: &[Line<'_>]) -> Option<usize> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    // Of an object a key or its end follows. Without this each brace of a text that is none would be followed to the end.
    let mut is_opened = false;
    for (at, line) in lines.iter().take(LONGEST_OPEN).enumerate() {
        if line.is_fence() && !in_string {
            return None;
        }
        for byte in line.text.bytes() {
            if is_opened && !byte.is_ascii_whitespace() {
                if !matches!(byte, b'"' | b'}') {
                    return None;
                }
                is_opened = false;
            }
            is_opened |= byte == b'{' && !in_string;
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        // A string does not continue on the next line of a document; a value that does not start is none.
        if in_string || depth == 0 {
            return None;
        }
    }
    None
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
