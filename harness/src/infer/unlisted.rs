//! Endpoints of Services that no list shows: `kubectl get services` lists none. A text without any says nothing of them, not that there are none.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::iter;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde_json::{Value, json};
use svclab_rules::cluster::{Family, ProxyConfig};

use super::accessors::{
    has_endpoints, ips, is_control_plane, name, node_ips, node_ranges, own_name, service_ips, service_of, set_ranges,
};
use super::merge::Objects;
use super::objects::Around;
use super::service_ports::{is_api_server, usual_numbers};
use super::unshown::MAX;
use crate::scenario::cluster;
use crate::text::list;

/// The most Services that are named.
const SHOWN: usize = 5;

/// Adds endpoints to Services of which the text shows no list: their pods by name, the API server's node, or one that is made up, in a range of
/// pods. Returns them in words.
pub(super) fn add(objects: &mut Objects, near: &[IpNet]) -> Vec<String> {
    let listed: HashSet<String> = objects.endpoints.iter().map(service_of).collect();
    let lacks_list = |service: &&Value| has_endpoints(service) && !listed.contains(&name(service));
    let services: Vec<&Value> = objects.services.iter().filter(lacks_list).collect();
    let Some(mut room) = (!services.is_empty()).then(|| Room::of(objects, near)).flatten() else { return Vec::new() };
    let pods = pods_by_service(objects);
    let (mut by_name, mut made_up, mut slices) = (Vec::new(), Vec::new(), Vec::new());
    for service in services {
        let known = known_endpoints(service, objects, &pods);
        for family in families(service) {
            let mut own: Vec<Value> = known.iter().filter(|one| is_of(one, family)).cloned().collect();
            // The text may show the addresses of one family only, as `kubectl get pods` does.
            if own.is_empty() {
                let Some(endpoint) = room.endpoint(family) else { continue };
                own.push(endpoint);
                let which = if known.is_empty() { String::new() } else { format!(" ({family})") };
                made_up.push(format!("{}{which}", name(service)));
            } else {
                by_name.push(name(service));
            }
            slices.push(slice(service, family, &own));
        }
    }
    objects.endpoints.extend(slices);
    room.add_ranges(objects);
    let words = [(by_name, "are pods and nodes, by their names"), (made_up, "are made up")];
    let words = words.into_iter().filter(|(all, _)| !all.is_empty()).map(|(mut all, how)| {
        all.dedup();
        format!("endpoints of {}, which no list shows, {how}", list(all, SHOWN))
    });
    words.collect()
}

/// The pods of each Service by their names: `web-api-7c9-y` is of `web-api`, and of `web` only if there is no `web-api`.
fn pods_by_service(objects: &Objects) -> HashMap<String, Vec<&Value>> {
    let mut all: HashMap<String, Vec<&Value>> =
        objects.services.iter().map(|service| (name(service), Vec::new())).collect();
    for pod in &objects.pods {
        let full = name(pod);
        let mut names = iter::successors(Some(&*full), |name| Some(name.rsplit_once('-')?.0));
        if let Some(of_service) = names.find(|name| all.contains_key(*name)).and_then(|name| all.get_mut(name)) {
            of_service.push(pod);
        }
    }
    all
}

/// The endpoints of a Service as the names of pods and nodes show them.
fn known_endpoints(service: &Value, objects: &Objects, pods: &HashMap<String, Vec<&Value>>) -> Vec<Value> {
    if is_api_server(&name(service)) {
        let of_node = |node: &Value| node_ips(node).into_iter().map(|ip| json!({"addresses": [ip]})).collect();
        let nodes = objects.nodes.iter().filter(|node| is_control_plane(node)).map(of_node);
        return nodes.into_iter().find(|own: &Vec<Value>| !own.is_empty()).unwrap_or_default();
    }
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.into_iter().flatten().find(|one| one["type"] == "Ready").is_none_or(|one| one["status"] == "True")
    };
    let endpoint = |pod: &Value, ip: IpAddr| {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
        let target = json!({"kind": "Pod", "name": own_name(pod), "namespace": namespace});
        json!({
            "addresses": [ip], "conditions": {"ready": is_ready(pod)}, "nodeName": pod["spec"]["nodeName"], "targetRef": target,
        })
    };
    let own = pods.get(&name(service)).into_iter().flatten();
    own.flat_map(|pod| ips(pod).into_iter().map(move |ip| endpoint(pod, ip))).collect()
}

fn is_of(endpoint: &Value, family: Family) -> bool {
    let ip = endpoint["addresses"][0].as_str().and_then(|ip| ip.parse().ok());
    ip.is_some_and(|ip| Family::of(ip) == family)
}

/// The families of a Service's addresses; IPv4 where none is shown.
fn families(service: &Value) -> BTreeSet<Family> {
    let all: BTreeSet<Family> = service_ips(service).into_iter().map(Family::of).collect();
    if all.is_empty() { [Family::Ipv4].into() } else { all }
}

fn slice(service: &Value, family: Family, endpoints: &[Value]) -> Value {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten().map(|port| {
        let own = port["name"].as_str().unwrap_or_default();
        let usual = usual_numbers(&format!("{}:{own}", name(service))).filter(|(number, _)| port["port"] == *number);
        let target = port["targetPort"].as_u64().or(usual.map(|(_, target)| target.into())).or(port["port"].as_u64());
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        json!({"name": own, "port": target, "protocol": protocol})
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family.to_string(),
        "metadata": {
            "name": format!("{}-{family}", own_name(service)).to_lowercase(),
            "namespace": service["metadata"]["namespace"],
            "labels": {"kubernetes.io/service-name": own_name(service)},
        },
        "ports": ports.collect::<Vec<_>>(),
        "endpoints": endpoints,
    })
}

/// Where endpoints can be made up.
struct Room {
    ranges: Vec<Range>,
    used: HashSet<IpAddr>,
}

/// A range of pods of a node, if objects name one.
struct Range {
    node: Option<String>,
    range: IpNet,
    /// The addresses for more endpoints: a lab needs the others.
    free: Box<dyn Iterator<Item = IpAddr>>,
    /// The last one that has been.
    last: Option<IpAddr>,
}

impl Room {
    /// `None` where the objects cannot be read.
    fn of(objects: &Objects, near: &[IpNet]) -> Option<Self> {
        let plain = cluster(&objects.clone().list().to_string(), Path::new("objects"), ProxyConfig::default()).ok()?;
        let mut around = Around::new(&plain.cluster).near(near.iter().copied());
        let ranges = around.room().into_iter().map(|(node, range)| {
            let free = Box::new(range.hosts().skip(FIRST).take(MAX));
            Range { node, range, free, last: None }
        });
        Some(Self { ranges: ranges.collect(), used: around.used().into_iter().collect() })
    }

    /// An endpoint at an address that nothing has. If there are more Services than addresses, the last endpoint serves all others.
    fn endpoint(&mut self, family: Family) -> Option<Value> {
        let range = self.ranges.iter_mut().find(|range| Family::of(range.range.addr()) == family)?;
        range.last = range.free.find(|ip| !self.used.contains(ip)).or(range.last);
        Some(json!({"addresses": [range.last?], "conditions": {"ready": true}, "nodeName": range.node}))
    }

    /// Gives the nodes of made-up endpoints the ranges of these, where they have none of the family.
    fn add_ranges(&self, objects: &mut Objects) {
        for Range { node, range, .. } in self.ranges.iter().filter(|range| range.last.is_some()) {
            let Some(node) = objects.nodes.iter_mut().find(|own| Some(own_name(own)) == *node) else { continue };
            let mut all = node_ranges(node);
            if !all.iter().any(|own| Family::of(own.addr()) == Family::of(range.addr())) {
                all.push(*range);
                set_ranges(node, &all);
            }
        }
    }
}

/// The position in a range of the first address that a made-up endpoint has.
const FIRST: usize = 9;
