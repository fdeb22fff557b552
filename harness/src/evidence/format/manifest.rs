//! Kubernetes objects in YAML.

use std::path::Path;

use serde_json::Value;

use super::super::line::Line;
use super::super::model::{Contents, Format};
use super::super::repairs::{Repair, RepairSet};
use super::object_shape::misshapen;
use super::{Block, Context, command};
use crate::{apiserver, yaml};

pub(super) fn knows(line: &str) -> bool {
    line.starts_with("apiVersion: ")
        || line.starts_with("- apiVersion: ")
        || line == "{"
        || is_first_of_slice(line) && line.len() == "addressType: IPv4".len()
}

/// Whether a line is the first one of an EndpointSlice: kubectl sorts fields, and this one is before `apiVersion`.
fn is_first_of_slice(line: &str) -> bool {
    line.starts_with("addressType: IPv")
}

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    let first = lines.first()?.text.trim();
    let is_api_version = |line: &Line<'_>| line.text.trim_start().starts_with("apiVersion:");
    let is_start = first.starts_with("apiVersion:")
        || (is_first_of_slice(first) && lines.get(1).is_some_and(is_api_version))
        || first.starts_with("- apiVersion:")
        || (first == "---" && lines.iter().skip(1).take(6).any(is_api_version))
        || (first.starts_with("kind:") && lines.iter().take(40).any(is_api_version));
    match is_start {
        true => yaml_block(lines, false),
        false => is_configuration(lines).then(|| yaml_block(lines, true))?,
    }
}

/// Fields of a KubeProxyConfiguration.
const FIELDS: [&str; 20] = [
    "bindAddress",
    "bindAddressHardFail",
    "clientConnection",
    "clusterCIDR",
    "configSyncPeriod",
    "conntrack",
    "detectLocal",
    "detectLocalMode",
    "enableProfiling",
    "featureGates",
    "healthzBindAddress",
    "hostnameOverride",
    "iptables",
    "ipvs",
    "metricsBindAddress",
    "mode",
    "nftables",
    "nodePortAddresses",
    "oomScoreAdj",
    "portRange",
];

/// Whether lines are of a KubeProxyConfiguration whose first lines are cut off: several fields that only it has together, and no others.
fn is_configuration(lines: &[Line<'_>]) -> bool {
    let field_of = |line: &'_ Line<'_>| line.text.trim_start().split_once(':').map(|(field, _)| field.to_owned());
    let is_field = |field: &String| FIELDS.contains(&field.as_str());
    if !field_of(&lines[0]).is_some_and(|field| is_field(&field)) {
        return false;
    }
    let start = indent(&lines[0].text);
    let own = lines.iter().take_while(|line| !line.is_blank() && !line.is_fence());
    let mut fields = own.filter(|line| indent(&line.text) == start).map(field_of).peekable();
    let mut count = 0;
    while fields.next_if(|field| field.as_ref().is_some_and(is_field)).is_some() {
        count += 1;
    }
    count >= 3 && fields.next().is_none()
}

/// A block of YAML, which ends at the first line that is none of it. A configuration of kube-proxy may lack its `kind`.
fn yaml_block(lines: &[Line<'_>], lacks_head: bool) -> Option<Block> {
    let indent = indent(&lines[0].text);
    let mut taken = 0;
    for (at, line) in lines.iter().enumerate() {
        if line.is_blank() {
            continue;
        }
        let is_own = !line.is_fence() && may_be_yaml(&line.text, indent);
        if !is_own || (at > 0 && indent == 0 && command(line.text.trim()).is_some()) {
            break;
        }
        taken = at + 1;
    }
    let path = Path::new("");
    let parsed = |lines: &[Line<'_>]| {
        let text = lines.iter().map(|line| format!("{}\n", line.text.get(indent..).unwrap_or_default()));
        yaml::parse(&text.collect::<String>(), path)
    };
    let (mut trees, mut errors) = parsed(&lines[..taken]);
    if let Some(before) = errors.first().and_then(|error| end_before_prose(&lines[..taken], error.span.line))
        && let (own, none) = parsed(&lines[..before])
        && none.is_empty()
    {
        (trees, errors, taken) = (own, none, before);
    }
    let position = |line: usize| line.saturating_sub(1).min(taken - 1);
    let mut unread: Vec<(usize, String)> =
        errors.into_iter().map(|error| (position(error.span.line), error.message)).collect();
    let mut objects = Vec::new();
    for tree in &trees {
        let decoded = yaml::decode::<Value>(path, tree);
        unread.extend(decoded.errors.into_iter().map(|error| (position(error.span.line), error.message)));
        if let Some(mut value) = decoded.value {
            if let Some(fields) = value.as_object_mut().filter(|_| lacks_head) {
                fields.insert("apiVersion".to_owned(), "kubeproxy.config.k8s.io/v1alpha1".into());
                fields.insert("kind".to_owned(), "KubeProxyConfiguration".into());
            }
            unread.extend(flatten(value, &mut objects).into_iter().map(|why| (position(tree.mark.line as usize), why)));
        }
    }
    let is_config = |object: &Value| object["kind"] == "KubeProxyConfiguration";
    let format = if objects.iter().any(is_config) { Format::ProxyConfig } else { Format::Yaml };
    let contents = Contents::Objects(objects);
    let mut block = Block { unread, ..Block::new(format, taken, contents) };
    if lacks_head {
        block.mends.push((lines[0].number, RepairSet::default().with(Repair::Heading)));
    }
    Some(block)
}

/// Whether a line may be one of a block of YAML with this indentation.
fn may_be_yaml(text: &str, indent: usize) -> bool {
    let (own, text) = (self::indent(text.trim_end()), text.trim());
    let is_key = || {
        let key = text.split_once(':');
        key.is_some_and(|(name, rest)| !name.contains(' ') && (rest.is_empty() || rest.starts_with(' ')))
    };
    own > indent
        || (own == indent
            && (text.starts_with("- ") || text == "---" || text == "..." || text.starts_with('#') || is_key()))
}

/// The number of lines before indented prose that follows the block after a blank line, if the parser's first error is there.
fn end_before_prose(lines: &[Line<'_>], error: usize) -> Option<usize> {
    let is_prose = |line: &Line<'_>| {
        let text = line.text.trim();
        !text.starts_with("- ") && !text.contains(": ") && !text.ends_with(':')
    };
    let blank = lines[..error.min(lines.len())].iter().rposition(Line::is_blank)?;
    let end = lines[..blank].iter().rposition(|line| !line.is_blank())? + 1;
    lines[blank + 1..].iter().all(|line| line.is_blank() || is_prose(line)).then_some(end)
}

/// Takes the objects of lists, and of lists in these, in the version in which they are stored. Returns why some of them cannot be used.
pub(super) fn flatten(mut value: Value, objects: &mut Vec<Value>) -> Vec<String> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && value["items"].is_array();
    apiserver::to_stored_slice(&mut value);
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

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}
