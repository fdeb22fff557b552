//! Tables of `kubectl get`, with or without their heading.

mod endpoints;
mod services;

use serde_json::{Value, json};

use super::super::endpoints::marked;
use super::super::line::Line;
use super::super::model::{Contents, Format};
use super::super::repairs::{Repair, RepairSet};
use super::{Block, Context, command, knows_block};
use endpoints::EndpointList;
use services::{Columns, service};

/// What a table lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pod,
    Service(Columns),
    Endpoints,
    EndpointSlice,
    Node,
    Other,
}

pub(super) fn knows(line: &str) -> bool {
    heading(line).is_some() || row_kind(line).is_some()
}

/// Whether a line has the names of columns.
pub(super) fn is_heading(line: &str) -> bool {
    heading(line).is_some()
}

/// The names of columns.
fn heading(line: &str) -> Option<Vec<&str>> {
    if !line.starts_with("NAME") && !line.starts_with("LAST SEEN") {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_name = |word: &&str| {
        word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-()_/".contains(&byte))
    };
    (words.len() >= 2 && words.iter().all(is_name)).then_some(words)
}

fn kind_of(heading: &[&str]) -> Kind {
    let has = |name: &str| heading.contains(&name);
    if let Some(columns) = Columns::of(heading) {
        return Kind::Service(columns);
    }
    match () {
        () if has("ADDRESSTYPE") => Kind::EndpointSlice,
        () if has("ENDPOINTS") => Kind::Endpoints,
        () if has("ROLES") || has("KERNEL-VERSION") || has("VERSION") && has("STATUS") => Kind::Node,
        () if has("READY") && has("STATUS") => Kind::Pod,
        () => Kind::Other,
    }
}

/// The kind of a row without its heading.
fn row_kind(line: &str) -> Option<Kind> {
    let mut rest = line.split_whitespace();
    let words = [0; 4].map(|_| rest.next().unwrap_or_default());
    let is_last = |at: usize| words.get(at + 1).is_none_or(|next| next.is_empty()) && rest.clone().next().is_none();
    let is_ratio = |word: &str| word.split_once('/').is_some_and(|(one, other)| is_number(one) && is_number(other));
    let states = [
        "Running",
        "Pending",
        "CrashLoopBackOff",
        "Completed",
        "Error",
        "ContainerCreating",
        "Terminating",
        "ImagePullBackOff",
        "Evicted",
    ];
    let types = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];
    for offset in [1, 2] {
        let [first, second] = [words[offset], words[offset + 1]];
        if is_ratio(first) && (states.contains(&second) || second.starts_with("Init:")) {
            return Some(Kind::Pod);
        }
        if types.contains(&first)
            && (second.parse::<std::net::IpAddr>().is_ok() || second == "None" || second == "<none>")
        {
            return Some(Kind::Service(Columns::default()));
        }
        let is_endpoint = |word: &str| word.parse::<std::net::SocketAddr>().is_ok();
        if first.split(',').all(is_endpoint) && (is_age(second) && is_last(offset + 1) || second == "+") {
            return Some(Kind::Endpoints);
        }
        let is_port = |word: &str| is_number(word) || word == "<unset>";
        if matches!(first, "IPv4" | "IPv6") && second.split(',').all(is_port) {
            return Some(Kind::EndpointSlice);
        }
    }
    let [_, status, roles, _] = words;
    let is_node = (status.starts_with("Ready") || status.starts_with("NotReady"))
        && (roles.contains("control-plane") || roles.contains("master") || roles == "<none>" || roles == "worker");
    is_node.then_some(Kind::Node)
}

/// `3m33s`, `97d`
fn is_age(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h', 'd', 'y'])
        && word.bytes().all(|byte| byte.is_ascii_digit() || b"smhdy".contains(&byte))
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The namespace that a command of kubectl names.
fn namespace_of(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("-n" | "--namespace", name)) => return Some(name),
            None if matches!(word, "-n" | "--namespace") => return words.next(),
            None if word.len() > 2 && word.starts_with("-n") => return Some(&word[2..]),
            _ => {}
        }
    }
    None
}

pub(super) fn read(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    let namespace = context.command.as_ref().and_then(|command| namespace_of(&command.text));
    let first = lines.first()?.text.trim();
    let names = heading(first);
    let kind = match &names {
        Some(names) => kind_of(names),
        None => row_kind(first)?,
    };
    let has_namespace = match &names {
        Some(names) => names[0] == "NAMESPACE",
        None => {
            row_kind(&format!("x {}", first.split_whitespace().skip(2).collect::<Vec<_>>().join(" "))) == Some(kind)
                && kind != Kind::Node
        }
    };
    let mut objects = Vec::new();
    let (mut unread, mut mends) = (Vec::new(), Vec::new());
    let (mut at, mut taken) = (0, 0);
    if let Some(names) = &names {
        at = 1;
        taken = 1;
        // One empty line may follow the heading, as web pages put it.
        if lines.get(1).is_some_and(Line::is_blank)
            && lines.get(2).is_some_and(|line| is_row(&line.text, kind, names.len()))
        {
            at = 2;
        }
    }
    while let Some(line) = lines.get(at) {
        let text = line.text.trim();
        let is_over = text.is_empty()
            || line.is_fence()
            || line.is_prompt()
            || command(text).is_some()
            || heading(text).is_some()
            || (knows_block(text) && row_kind(text).is_none());
        if is_over {
            break;
        }
        if line.is_gutter() || line.is_ellipsis() {
            at += 1;
            continue;
        }
        let wrapped = || wrapped(&lines[at..], kind, names.as_ref()?.len());
        if let Some((text, count)) = wrapped() {
            objects.extend(row(&text, kind, has_namespace, namespace));
            mends.push((line.number, RepairSet::default().with(Repair::Wrapped)));
            at += count;
            taken = at;
            continue;
        }
        match row(text, kind, has_namespace, namespace) {
            Some(object) => objects.push(object),
            // Sentences follow a table without an empty line.
            None if names.is_none() || text.split_whitespace().count() > 2 * names.as_ref().map_or(0, Vec::len) => {
                break;
            }
            None => unread.push((at, "the row has fewer columns than its table".to_owned())),
        }
        at += 1;
        taken = at;
    }
    let mut block = Block::new(Format::KubectlTable, taken.max(1), Contents::Objects(objects));
    if names.is_none() {
        block.mends.push((lines[0].number, RepairSet::default().with(Repair::Heading)));
    }
    block.mends.append(&mut mends);
    Some(Block { unread, ..block })
}

/// A row that continues on the next lines, which are indented and are no rows, with the number of its lines.
fn wrapped(lines: &[Line<'_>], kind: Kind, columns: usize) -> Option<(String, usize)> {
    let [first, rest @ ..] = lines else { return None };
    let indent = |line: &Line<'_>| line.text.len() - line.text.trim_start().len();
    let is_more = |line: &&Line<'_>| {
        let text = line.text.trim();
        !text.is_empty() && indent(line) > indent(first) + INDENT && row_kind(text).is_none() && heading(text).is_none()
    };
    let mut text = first.text.trim().to_owned();
    for (count, line) in rest.iter().take_while(is_more).enumerate() {
        if words(&text).len() >= columns {
            return None;
        }
        text = format!("{text} {}", line.text.trim());
        if words(&text).len() == columns && row(&text, kind, false, None).is_some() {
            return Some((text, count + 2));
        }
    }
    None
}

/// The least indentation of the rest of a row.
const INDENT: usize = 2;

fn is_row(text: &str, kind: Kind, columns: usize) -> bool {
    row(text.trim(), kind, false, None).is_some()
        && text.split_whitespace().count() >= columns.min(3)
        && heading(text.trim()).is_none()
}

/// The words of a row: text in brackets, or after a `+`, belongs to the word before.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = text.split_whitespace().peekable();
    while let Some(word) = rest.next() {
        if word.starts_with('(') && !words.is_empty() {
            let mut whole = word.to_owned();
            while !whole.ends_with(')')
                && let Some(next) = rest.next()
            {
                whole += " ";
                whole += next;
            }
            if let Some(last) = words.last_mut() {
                *last += " ";
                *last += &whole;
            }
        } else if word == "+" && rest.peek().is_some_and(|next| is_number(next)) {
            let more: Vec<&str> = rest.by_ref().take(2).collect();
            if let Some(last) = words.last_mut() {
                *last += &format!(" + {}", more.join(" "));
            }
        } else {
            words.push(word.to_owned());
        }
    }
    words
}

/// The object of a row; without a namespace where neither the table nor its command names one.
fn row(text: &str, kind: Kind, has_namespace: bool, namespace: Option<&str>) -> Option<Value> {
    let mut words = words(text);
    let namespace = if has_namespace && words.len() > 1 { Some(words.remove(0)) } else { namespace.map(str::to_owned) };
    let given = |at: usize| {
        words.get(at).map(String::as_str).filter(|word| !matches!(*word, "<none>" | "<unset>" | "<pending>"))
    };
    let name = given(0)?;
    // `kubectl get all` puts the kind before the name.
    let name = name.rsplit('/').next().unwrap_or(name);
    let metadata = json!({"name": name, "namespace": namespace});
    match kind {
        Kind::Pod => pod(&words, metadata),
        Kind::Service(columns) => service(&words, columns, metadata),
        Kind::Endpoints => {
            words.get(1)?;
            let listed = EndpointList::of(given(1).unwrap_or_default());
            let mut endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata});
            endpoints["subsets"] = listed.subsets().into();
            if let Some(grid) = listed.grid() {
                endpoints["grid"] = grid;
            }
            Some(marked(endpoints, listed.hidden > 0))
        }
        Kind::EndpointSlice => slice(&words, &metadata),
        Kind::Node => node(&words),
        Kind::Other => (words.len() > 1).then(|| json!({"metadata": metadata, "columns": words})),
    }
}

fn pod(words: &[String], metadata: Value) -> Option<Value> {
    let (ready, all) = words.get(1)?.split_once('/')?;
    let status = words.get(2)?;
    let address = words.iter().skip(3).find(|word| word.parse::<std::net::IpAddr>().is_ok());
    let at = address.and_then(|address| words.iter().position(|word| word == address));
    let node = at.and_then(|at| words.get(at + 1)).filter(|node| *node != "<none>");
    let is_ready = ready == all && status == "Running";
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {},
        "status": {"phase": status, "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]},
    });
    if let Some(address) = address {
        pod["status"]["podIP"] = json!(address);
        pod["status"]["podIPs"] = json!([{"ip": address}]);
    }
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    Some(pod)
}

fn slice(words: &[String], metadata: &Value) -> Option<Value> {
    let family = words.get(1).filter(|word| matches!(word.as_str(), "IPv4" | "IPv6" | "FQDN"))?;
    let ports: Vec<Value> = words
        .get(2)?
        .split(',')
        .filter_map(|port| port.parse::<u16>().ok())
        .map(|port| json!({"port": port, "protocol": "TCP"}))
        .collect();
    let listed = words.get(3).map(String::as_str).unwrap_or_default();
    let (listed, is_cut) = listed.split_once(" + ").map_or((listed, false), |(listed, _)| (listed, true));
    let endpoints: Vec<Value> = listed
        .split(',')
        .filter(|ip| ip.parse::<std::net::IpAddr>().is_ok())
        .map(|ip| json!({"addresses": [ip]}))
        .collect();
    let name = metadata["name"].as_str().unwrap_or_default();
    let service = name.rsplit_once('-').map_or(name, |(service, _)| service);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
        "metadata": {"name": name, "namespace": metadata["namespace"], "labels": {"kubernetes.io/service-name": service}},
        "ports": ports, "endpoints": endpoints,
    });
    Some(marked(slice, is_cut))
}

fn node(words: &[String]) -> Option<Value> {
    words
        .get(1)
        .filter(|status| status.starts_with("Ready") || status.starts_with("NotReady") || *status == "Unknown")?;
    let version = words.iter().find(|word| word.starts_with('v') && word.contains('.')).cloned().unwrap_or_default();
    let address = words.iter().skip(3).find(|word| word.parse::<std::net::IpAddr>().is_ok());
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": words[0]},
        "spec": {}, "status": {"nodeInfo": {"kubeletVersion": version}},
    });
    if let Some(role) = words.get(2).filter(|role| role.contains("control-plane") || role.contains("master")) {
        let labels = role.split(',').map(|role| (format!("node-role.kubernetes.io/{role}"), json!("")));
        node["metadata"]["labels"] = labels.collect::<serde_json::Map<_, _>>().into();
    }
    if let Some(address) = address {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": address}]);
    }
    Some(marked(node, false))
}
