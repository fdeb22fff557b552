//! `kubectl describe`.

mod endpoints;

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::endpoints::marked;
use super::super::line::Line;
use super::super::model::{Contents, Format};
use super::super::repairs::{Repair, RepairSet};
use super::{Block, Context, command, knows_block};

/// Lines that stand near the start of every description.
const NEAR: [&str; 6] = ["Namespace:", "Labels:", "Annotations:", "Roles:", "Priority:", "Selector:"];

/// `Name:                     web`
pub(super) fn knows(line: &str) -> bool {
    ["Name:   ", "Namespace:   "]
        .iter()
        .any(|start| line.strip_prefix(start).is_some_and(|rest| rest.split_whitespace().count() == 1))
}

pub(super) fn read(lines: &[Line<'_>], context: &Context) -> Option<Block> {
    let first = lines.first()?.text.trim();
    let is_start = first
        .strip_prefix("Name:")
        .is_some_and(|rest| rest.starts_with([' ', '\t']) && rest.split_whitespace().count() == 1);
    let is_near = |line: &Line<'_>| NEAR.iter().any(|key| line.text.trim_start().starts_with(key));
    let is_whole = is_start && lines.iter().skip(1).take(6).any(is_near);
    if !is_whole && !is_rest(lines) {
        return None;
    }
    let mut taken = 1;
    for (at, line) in lines.iter().enumerate().skip(1) {
        let text = line.text.trim_end();
        let key = text.trim_start();
        let is_field = field(key).is_some();
        if key.is_empty() {
            continue;
        }
        // The next description, or something else.
        if line.is_fence()
            || command(key).is_some()
            || (key.starts_with("Name:") && !text.starts_with(' '))
            || (knows_block(key) && !is_field && !is_annotation(text))
        {
            break;
        }
        if !is_field && !text.starts_with([' ', '\t']) {
            break;
        }
        taken = at + 1;
    }
    let block = &lines[..taken];
    if is_whole {
        let object = object(block, None);
        return Some(Block::new(Format::KubectlDescribe, taken, Contents::Objects(vec![object])));
    }
    let object = object(block, context.command.as_ref().and_then(|command| name_in(&command.text)));
    let mends = vec![(lines[0].number, RepairSet::default().with(Repair::Heading))];
    if object["metadata"]["name"].is_string() {
        return Some(Block { mends, ..Block::new(Format::KubectlDescribe, taken, Contents::Objects(vec![object])) });
    }
    let shown = (0..taken).filter(|at| !block[*at].is_blank());
    let unread = shown.map(|at| (at, NAMELESS.to_owned())).collect();
    Some(Block { mends, unread, ..Block::new(Format::KubectlDescribe, taken, Contents::Objects(Vec::new())) })
}

/// Whether a line is the JSON of an annotation, which kubectl puts on a line of its own and cuts where it is long.
fn is_annotation(text: &str) -> bool {
    text.starts_with([' ', '\t']) && text.trim_start().starts_with('{')
}

/// Why the rest of a description is not read.
const NAMELESS: &str = "the name of the object that it describes is not shown";

/// A field's name and value.
fn field(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let is_name = !name.is_empty()
        && name.len() <= 40
        && name.chars().all(|letter| letter.is_alphanumeric() || " -/._()".contains(letter));
    is_name.then_some((name, value))
}

/// Fields by which a description without its first lines is recognised, if it has three of one kind: a Service, an EndpointSlice,
/// Endpoints, a node or a pod.
const OF_KIND: [&[&str]; 5] = [
    &[
        "IP Family Policy",
        "IP Families",
        "IP",
        "IPs",
        "Port",
        "TargetPort",
        "NodePort",
        "Endpoints",
        "Session Affinity",
        "External Traffic Policy",
    ],
    &["AddressType", "- Addresses", "Conditions", "TargetRef", "NodeName", "Zone"],
    &["Subsets", "Addresses", "NotReadyAddresses"],
    &[
        "PodCIDR",
        "PodCIDRs",
        "InternalIP",
        "System Info",
        "Kubelet Version",
        "Allocatable",
        "Capacity",
        "Kube-Proxy Version",
    ],
    &[
        "Node",
        "IP",
        "IPs",
        "Controlled By",
        "Containers",
        "QoS Class",
        "Service Account",
        "Tolerations",
        "Container ID",
    ],
];

/// Fields that stand in front of these.
const IN_FRONT: [&str; 9] =
    ["Namespace", "Labels", "Annotations", "Selector", "Type", "Roles", "Priority", "Ports", "Endpoints"];

/// The most lines by which the rest of a description is known.
const SAMPLE: usize = 60;

/// Whether lines are a description whose head is cut off: a field, and then several that only one kind has together.
fn is_rest(lines: &[Line<'_>]) -> bool {
    let key = |line: &Line<'_>| {
        let (name, value) = field(line.text.trim())?;
        (value.is_empty() || value.starts_with([' ', '\t'])).then(|| name.to_owned())
    };
    let Some(first) = lines.first().and_then(key) else { return false };
    let is_of_any = || OF_KIND.iter().any(|kind| kind.contains(&&*first)) || IN_FRONT.contains(&&*first);
    let is_spaced =
        || field(lines[0].text.trim()).is_some_and(|(_, value)| value.is_empty() || value.starts_with("  "));
    if !is_of_any() || !is_spaced() {
        return false;
    }
    let own = lines.iter().take(SAMPLE).take_while(|line| !line.is_fence() && !line.text.trim().starts_with("Name:  "));
    let keys: HashSet<String> = own.filter_map(key).collect();
    OF_KIND.iter().any(|kind| kind.iter().filter(|name| keys.contains(**name)).count() >= 3)
}

/// The name after `kubectl describe KIND`.
fn name_in(command: &str) -> Option<String> {
    let mut words = command.split_whitespace().skip_while(|word| *word != "describe").skip(1);
    let kind = words.next()?;
    let name = kind.split_once('/').map(|(_, name)| name).or_else(|| words.next());
    name.filter(|name| !name.starts_with('-') && *name != "|").map(str::to_owned)
}

/// The values of a field.
fn values<'l, 't: 'l>(lines: impl IntoIterator<Item = &'l Line<'t>>, key: &str) -> Vec<String> {
    let value = |line: &Line<'_>| {
        line.text.trim_start().strip_prefix(key)?.strip_prefix(':').map(|value| value.trim().to_owned())
    };
    lines.into_iter().filter_map(value).collect()
}

/// The lines with fields of the object itself, which are indented least. Those of its parts may have the same names: volumes have a `Type:`.
fn of_object<'l, 't>(lines: &'l [Line<'t>]) -> Vec<&'l Line<'t>> {
    let indent = |line: &Line<'_>| line.text.len() - line.text.trim_start().len();
    // The first line may have lost its indentation.
    let least = lines.iter().skip(1).filter(|line| !line.is_blank()).map(indent).min().unwrap_or_default();
    let (first, rest) = lines.split_at(lines.len().min(1));
    first.iter().chain(rest.iter().filter(|line| indent(line) == least)).collect()
}

/// The fields that svclab uses, as the API has them. The name is that of the command if the head is cut off.
fn object(lines: &[Line<'_>], named: Option<String>) -> Value {
    let own_lines = of_object(lines);
    let all = |key: &str| values(own_lines.iter().copied(), key);
    let of_any = |key: &str| values(lines, key);
    let one = |key: &str| all(key).into_iter().next().filter(|value| !value.starts_with('<') && !value.is_empty());
    let has = |key: &str| !of_any(key).is_empty();
    let has_itself = |key: &str| !all(key).is_empty();
    let name = lines
        .first()
        .and_then(|line| line.text.trim().strip_prefix("Name:"))
        .map(|name| name.trim().to_owned())
        .or(named);
    let metadata = json!({"name": name, "namespace": one("Namespace").unwrap_or_else(|| "default".to_owned())});
    match () {
        () if has("AddressType") || has("TargetRef") => endpoints::slice(lines, metadata),
        () if has("Subsets") || has("NotReadyAddresses") => endpoints::endpoints(lines, &metadata),
        () if has_itself("Node") => pod(&one, &metadata),
        () if has_itself("IP") && has_itself("Type") || has_itself("Session Affinity") => {
            service(&all, &one, &metadata)
        }
        () if has_itself("PodCIDR") || has_itself("Roles") || has("Kubelet Version") => {
            let address = of_any("InternalIP").into_iter().next().filter(|ip| !ip.is_empty());
            let name = metadata["name"].as_str().map(str::to_owned).or_else(|| of_any("Hostname").into_iter().next());
            let mut node =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}, "status": {}});
            if let Some(range) = one("PodCIDR") {
                node["spec"] = json!({"podCIDR": range, "podCIDRs": [range]});
            }
            if let Some(address) = address {
                node["status"] = json!({"addresses": [{"type": "InternalIP", "address": address}]});
            }
            node
        }
        () => json!({"metadata": metadata}),
    }
}

fn pod(one: &dyn Fn(&str) -> Option<String>, metadata: &Value) -> Value {
    let node = one("Node").map(|node| node.split('/').next().unwrap_or_default().to_owned());
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}, "status": {}});
    if let Some(address) = one("IP") {
        pod["status"] = json!({"podIP": address, "podIPs": [{"ip": address}]});
    }
    pod
}

fn service(all: &dyn Fn(&str) -> Vec<String>, one: &dyn Fn(&str) -> Option<String>, metadata: &Value) -> Value {
    let mut spec = json!({"type": one("Type").unwrap_or_else(|| "ClusterIP".to_owned()), "ports": service_ports(all)});
    if let Some(ip) = one("IP").filter(|ip| ip.parse::<std::net::IpAddr>().is_ok()) {
        spec["clusterIP"] = json!(ip);
        spec["clusterIPs"] = json!([ip]);
    }
    for (field, key) in [
        ("externalTrafficPolicy", "External Traffic Policy"),
        ("internalTrafficPolicy", "Internal Traffic Policy"),
        ("sessionAffinity", "Session Affinity"),
    ] {
        if let Some(value) = one(key) {
            spec[field] = json!(value);
        }
    }
    if let Some(port) = one("HealthCheck NodePort").and_then(|port| port.parse::<u16>().ok()) {
        spec["healthCheckNodePort"] = json!(port);
    }
    if let Some(name) = one("External Name") {
        spec["externalName"] = json!(name);
    }
    let external = addresses(&all("External IPs"));
    if !external.is_empty() {
        spec["externalIPs"] = json!(external);
    }
    let listed = all("Endpoints");
    let is_cut = listed.iter().any(|text| text.ends_with("more..."));
    let endpoints: Vec<String> = listed
        .iter()
        .flat_map(|text| {
            text.split(',').map(|one| one.split_whitespace().next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        })
        .filter(|one| one.parse::<std::net::SocketAddr>().is_ok())
        .collect();
    let mut service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "endpoints": endpoints});
    let ingress: Vec<Value> = addresses(&all("LoadBalancer Ingress")).iter().map(|ip| json!({"ip": ip})).collect();
    if !ingress.is_empty() {
        service["status"] = json!({"loadBalancer": {"ingress": ingress}});
    }
    if let Some(served) = endpoints::of_service(&listed, &service, is_cut) {
        service["served"] = served;
    }
    if is_cut { marked(service, true) } else { service }
}

/// The addresses in values such as `203.0.113.77 (VIP)`.
fn addresses(values: &[String]) -> Vec<String> {
    let words = values.join(" ");
    let words = words.split([',', ' ']).filter(|word| word.parse::<std::net::IpAddr>().is_ok());
    words.map(str::to_owned).collect()
}

/// The ports of a description of a Service.
fn service_ports(all: &dyn Fn(&str) -> Vec<String>) -> Vec<Value> {
    // `Port:  http  80/TCP`
    let port = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (number, protocol) = words.last()?.split_once('/')?;
        let name = words.first().filter(|_| words.len() > 1).filter(|name| **name != "<unset>").copied();
        Some((name.unwrap_or_default().to_owned(), number.parse::<u16>().ok()?, protocol.to_owned()))
    };
    let node_ports: Vec<_> = all("NodePort").iter().filter_map(|text| port(text)).collect();
    let targets = all("TargetPort");
    let listed = all("Port");
    let ports =
        listed.iter().filter_map(|text| port(text)).zip(0..).map(|((name, number, protocol), at): (_, usize)| {
            let mut value = json!({"port": number, "protocol": protocol});
            if !name.is_empty() {
                value["name"] = json!(name);
            }
            if let Some((_, number, _)) = node_ports.get(at) {
                value["nodePort"] = json!(number);
            }
            let target = targets.get(at).and_then(|target| target.split('/').next());
            match target.map(|target| (target, target.parse::<u16>())) {
                Some((_, Ok(number))) => value["targetPort"] = json!(number),
                Some((name, Err(_))) if !name.starts_with('<') => value["targetPort"] = json!(name),
                _ => {}
            }
            value
        });
    ports.collect()
}
