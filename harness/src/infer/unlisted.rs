//! Endpoints of Services that no list shows: `kubectl get services` lists none. A text without any says nothing of them, not that there are none.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde_json::{Value, json};
use svclab_rules::cluster::{Family, ProxyConfig};

use super::accessors::{ips, is_control_plane, name, node_ips, own_name, service_ips, service_of};
use super::merge::Objects;
use super::objects::Around;
use crate::scenario::cluster;
use crate::text::list;

/// The port of the API server.
const API_SERVER: u16 = 6443;

/// The most Services that are named.
const SHOWN: usize = 5;

/// Adds endpoints to Services of which the text shows no list: their pods by name, the API server's node, or one that is made up, in a range of
/// pods. Returns them in words.
pub(super) fn add(objects: &mut Objects, near: &[IpNet]) -> Vec<String> {
    let listed: BTreeSet<String> = objects.endpoints.iter().map(service_of).collect();
    let lacks_list = |service: &&Value| {
        let has_pods = service["spec"]["type"] != "ExternalName" && service["spec"]["clusterIP"] != "None";
        has_pods && !listed.contains(&name(service)) && !service["endpoints"].is_array()
    };
    let services: Vec<Value> = objects.services.iter().filter(lacks_list).cloned().collect();
    let Some(mut room) = (!services.is_empty()).then(|| Room::of(objects, near)).flatten() else { return Vec::new() };
    let (mut by_name, mut made_up) = (Vec::new(), Vec::new());
    for service in &services {
        let known = known_endpoints(service, objects);
        for family in families(service) {
            let mut own: Vec<Value> = known.iter().flatten().filter(|one| is_of(one, family)).cloned().collect();
            if known.is_none() {
                own.extend(room.endpoint(family, objects));
            }
            objects.endpoints.push(slice(service, family, &own));
        }
        match known {
            Some(_) => by_name.push(name(service)),
            None => made_up.push(name(service)),
        }
    }
    let words = [(by_name, "are pods and nodes, by their names"), (made_up, "are made up")];
    let words = words.into_iter().filter(|(all, _)| !all.is_empty());
    words.map(|(all, how)| format!("endpoints of {}, which no list shows, {how}", list(all, SHOWN))).collect()
}

/// The endpoints of a Service as the names of pods and nodes show them; `None` where none has such a name.
fn known_endpoints(service: &Value, objects: &Objects) -> Option<Vec<Value>> {
    if name(service) == "default/kubernetes" {
        let of_node = |node: &Value| node_ips(node).into_iter().map(|ip| json!({"addresses": [ip]})).collect();
        return objects.nodes.iter().find(|node| is_control_plane(node)).map(of_node);
    }
    let prefix = format!("{}-", own_name(service));
    let namespace = |one: &Value| one["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
    let is_own =
        |pod: &&Value| namespace(pod) == namespace(service) && format!("{}-", own_name(pod)).starts_with(&prefix);
    let mut own = objects.pods.iter().filter(is_own).peekable();
    own.peek()?;
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.into_iter().flatten().find(|one| one["type"] == "Ready").is_none_or(|one| one["status"] == "True")
    };
    let endpoint = |pod: &Value, ip: IpAddr| {
        let target = json!({"kind": "Pod", "name": own_name(pod), "namespace": namespace(pod)});
        json!({
            "addresses": [ip], "conditions": {"ready": is_ready(pod)}, "nodeName": pod["spec"]["nodeName"], "targetRef": target,
        })
    };
    Some(own.flat_map(|pod| ips(pod).into_iter().map(|ip| endpoint(pod, ip)).collect::<Vec<_>>()).collect())
}

fn is_of(endpoint: &Value, family: Family) -> bool {
    let ip = endpoint["addresses"][0].as_str().and_then(|ip| ip.parse().ok());
    ip.is_some_and(|ip| Family::of(ip) == family)
}

/// The families of a Service's cluster IPs; IPv4 where none is shown.
fn families(service: &Value) -> BTreeSet<Family> {
    let all: BTreeSet<Family> = service_ips(service).into_iter().map(Family::of).collect();
    if all.is_empty() { [Family::Ipv4].into() } else { all }
}

fn slice(service: &Value, family: Family, endpoints: &[Value]) -> Value {
    let is_api = name(service) == "default/kubernetes";
    let ports = service["spec"]["ports"].as_array().into_iter().flatten().map(|port| {
        let target = port["targetPort"].as_u64().or(is_api.then_some(API_SERVER.into())).or(port["port"].as_u64());
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        json!({"name": port["name"].as_str().unwrap_or_default(), "port": target, "protocol": protocol})
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

/// Where pods can be added: a range of a node for each family, and the addresses that are in use.
struct Room {
    ranges: Vec<(Option<String>, IpNet)>,
    used: BTreeSet<IpAddr>,
}

impl Room {
    /// `None` where the objects cannot be read.
    fn of(objects: &Objects, near: &[IpNet]) -> Option<Self> {
        let plain = cluster(&objects.clone().list().to_string(), Path::new("objects"), ProxyConfig::default()).ok()?;
        let mut around = Around::new(&plain.cluster).near(near.iter().copied());
        Some(Self { ranges: around.room(), used: around.used() })
    }

    /// An endpoint at an address that nothing has.
    fn endpoint(&mut self, family: Family, objects: &mut Objects) -> Option<Value> {
        let (node, range) = self.ranges.iter().find(|(_, range)| Family::of(range.addr()) == family)?;
        let address = range.hosts().skip(FIRST).find(|ip| !self.used.contains(ip))?;
        self.used.insert(address);
        if let Some(node) = node.as_ref().and_then(|name| objects.nodes.iter_mut().find(|node| own_name(node) == *name))
            && node["spec"]["podCIDRs"].is_null()
        {
            node["spec"]["podCIDR"] = json!(range.to_string());
            node["spec"]["podCIDRs"] = json!([range.to_string()]);
        }
        Some(json!({"addresses": [address], "conditions": {"ready": true}, "nodeName": node}))
    }
}

/// The position in a range of the first address that a made-up endpoint has.
const FIRST: usize = 9;
