//! Kubernetes objects that a text shows, and those that rules show → one list.
//!
//! Tables and descriptions leave fields out, and so do rules; each completes the other. Where they contradict each other, the objects
//! count, and the contradiction is reported: rules are what is judged.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};
use svclab_rules::cluster::{Family, ObjectName};
use svclab_rules::infer::{Inferred, InferredPort};

use super::accessors::{
    for_each_endpoint, has_ended, has_endpoints, ips, name, node_ips, node_ranges, own_name, service_ips, service_of,
    set_ranges,
};
use super::compared_endpoints::contradiction;
use super::endpoint_pods::{EndpointPod, EndpointPods};
use super::ranges::assigned;
use super::unshown_fields::explain_missing;
use super::usual_ranges::wide;
use super::validity::make_valid;
use super::{Assumption, cut_tables};
use crate::evidence::{Release, fill_service, is_cut, is_from_table, name_ports, remove_marks};
use crate::text::{counted, list};

/// The most contradictions that are listed.
const SHOWN: usize = 5;

/// Objects by kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    pub(super) nodes: Vec<Value>,
    pub(super) pods: Vec<Value>,
    pub(super) services: Vec<Value>,
    /// EndpointSlices and Endpoints.
    pub(super) endpoints: Vec<Value>,
    /// KubeProxyConfigurations.
    pub(super) configurations: Vec<Value>,
    /// Releases that the text names.
    pub(super) releases: Vec<Release>,
}

/// How the endpoints of a Service are listed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lists {
    /// Whether only tables list them.
    pub(super) are_tables: bool,
    /// Whether a list leaves some out.
    lack_endpoints: bool,
    /// Whether a list does not show all of their ports.
    lack_ports: bool,
}

impl Lists {
    /// Whether they leave endpoints out, which nothing else lists.
    fn are_cut(self) -> bool {
        self.are_tables && self.lack_endpoints
    }

    /// Whether rules complete them.
    pub(super) fn are_completed(self) -> bool {
        self.are_tables && (self.lack_endpoints || self.lack_ports)
    }
}

/// What the rules that complete objects are of.
pub(super) struct Extent<'a> {
    /// Whether they are all that their nodes have.
    pub(super) is_whole: bool,
    /// The endpoints among them that are made up.
    pub(super) made_up: &'a BTreeSet<IpAddr>,
    /// Whether an endpoint is on a node of these rules.
    pub(super) is_here: &'a dyn Fn(IpAddr) -> bool,
}

impl Objects {
    /// Sorts objects of all kinds.
    pub(super) fn of(items: impl IntoIterator<Item = Value>) -> Self {
        let mut all = Self::default();
        for mut item in items {
            make_valid(&mut item);
            match item["kind"].as_str() {
                Some("Node") => all.nodes.push(item),
                Some("Pod") if !ips(&item).is_empty() && item["spec"]["nodeName"].is_string() && !has_ended(&item) => {
                    all.pods.push(item);
                }
                Some("Service") => all.services.push(item),
                Some("EndpointSlice" | "Endpoints") => all.endpoints.push(item),
                _ => {}
            }
        }
        cut_tables::complete(&mut all.endpoints, &all.services);
        cut_tables::add_protocols(&mut all.endpoints, &all.services);
        all
    }

    /// Adds the Services of a log, with endpoints of those of which no object lists any.
    pub(super) fn add_logged(&mut self, logged: Vec<Value>) {
        let logged = Self::of(logged);
        let listed: BTreeSet<String> = self.endpoints.iter().map(service_of).collect();
        self.endpoints.extend(logged.endpoints.into_iter().filter(|one| !listed.contains(&service_of(one))));
        self.services.extend(logged.services);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.pods.is_empty() && self.services.is_empty() && self.endpoints.is_empty()
    }

    /// A node by its name.
    pub(super) fn node(&self, name: &str) -> Option<&Value> {
        self.nodes.iter().find(|node| node["metadata"]["name"] == name)
    }

    /// Whether machines are among them.
    pub(super) fn has_machines(&self) -> bool {
        !self.nodes.is_empty() || !self.pods.is_empty()
    }

    /// The Services with their cluster IPs.
    pub(super) fn services(&self) -> Vec<(ObjectName, Vec<IpAddr>)> {
        let of = |service: &Value| {
            let namespace = service["metadata"]["namespace"].as_str().unwrap_or("default");
            let listed =
                service["spec"]["clusterIPs"].as_array().into_iter().flatten().chain([&service["spec"]["clusterIP"]]);
            let ips = listed.filter_map(|ip| ip.as_str()?.parse().ok()).collect();
            (ObjectName::new(namespace, own_name(service)), ips)
        };
        self.services.iter().map(of).collect()
    }

    /// The node ports of Services, those of health checks included.
    pub(super) fn node_ports(&self) -> impl Iterator<Item = u16> + '_ {
        let of = |service: &Value| {
            let ports = service["spec"]["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
            let all = ports.chain([&service["spec"]["healthCheckNodePort"]]).filter_map(Value::as_u64);
            all.filter_map(|port| u16::try_from(port).ok()).collect::<Vec<_>>()
        };
        self.services.iter().flat_map(of)
    }

    /// The endpoints that the API has without a node, with their Services: kube-proxy takes them for those of other nodes.
    pub(super) fn endpoints_without_node(&self) -> BTreeSet<(String, IpAddr)> {
        self.endpoints_whose_node(|node| node.is_none())
    }

    /// The endpoints whose node an object other than a table names, with their Services.
    pub(super) fn endpoints_with_node(&self) -> BTreeSet<(String, IpAddr)> {
        self.endpoints_whose_node(|node| node.is_some())
    }

    fn endpoints_whose_node(&self, matches: impl Fn(Option<&str>) -> bool) -> BTreeSet<(String, IpAddr)> {
        let mut all = BTreeSet::new();
        for slice in self.endpoints.iter().filter(|one| !is_from_table(one)) {
            let service = service_of(slice);
            for_each_endpoint(&mut slice.clone(), |ip, node, _| {
                if matches(node) {
                    all.insert((service.clone(), ip));
                }
            });
        }
        all
    }

    /// The Services with endpoints, and how these are listed.
    fn served(&self) -> BTreeMap<String, Lists> {
        let mut all: BTreeMap<String, Lists> = BTreeMap::new();
        for one in &self.endpoints {
            let lists = all.entry(service_of(one)).or_insert(Lists { are_tables: true, ..Lists::default() });
            lists.are_tables &= is_from_table(one);
            lists.lack_endpoints |= is_cut(one);
            lists.lack_ports |= cut_tables::has_assumed_ports(one);
        }
        all
    }

    /// The Services of which tables leave endpoints out, in words.
    pub(super) fn cut_tables(&self) -> Option<String> {
        words_of_cut(
            &self
                .served()
                .into_iter()
                .filter_map(|(service, lists)| lists.are_cut().then_some(service))
                .collect::<Vec<_>>(),
        )
    }

    /// Leaves out Services that rules do not show, with their endpoints. Returns how many these are.
    pub(super) fn retain_shown(&mut self, inferred: &Inferred) -> usize {
        let shown: BTreeSet<String> = inferred.ports.iter().map(|port| port.service.to_string()).collect();
        let before = self.services.len();
        self.services.retain(|service| shown.contains(&name(service)));
        self.endpoints.retain(|one| shown.contains(&service_of(one)));
        before - self.services.len()
    }

    /// Leaves out Services that neither rules nor lists of endpoints show, and returns their names.
    pub(super) fn retain_served(&mut self, inferred: &Inferred) -> Vec<String> {
        let shown: BTreeSet<String> = inferred.ports.iter().map(|port| port.service.to_string()).collect();
        let listed: BTreeSet<String> = self.endpoints.iter().map(service_of).collect();
        let is_unknown = |service: &mut Value| {
            let own = name(service);
            has_endpoints(service) && !shown.contains(&own) && !listed.contains(&own)
        };
        self.services.extract_if(.., is_unknown).map(|service| name(&service)).collect()
    }

    /// Leaves out Services behind a number of them, with their endpoints. Returns what is left out, in words.
    pub(super) fn truncate(&mut self, most: usize) -> Option<String> {
        let left_out = self.services.len().checked_sub(most).filter(|left_out| *left_out > 0)?;
        self.services.truncate(most);
        let kept: BTreeSet<String> = self.services.iter().map(name).collect();
        self.endpoints.retain(|one| kept.contains(&service_of(one)));
        Some(format!("{} left out: no more than {most} are used", counted(left_out, "Service")))
    }

    /// A list as `kubectl` prints it.
    pub(super) fn list(self) -> Value {
        let mut items = Vec::new();
        for mut item in [self.nodes, self.pods, self.services, self.endpoints].into_iter().flatten() {
            remove_marks(&mut item);
            cut_tables::remove_marks(&mut item);
            items.push(item);
        }
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }

    /// The nodes that pods name.
    pub(super) fn named_nodes(&self) -> impl Iterator<Item = &str> {
        self.pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str())
    }

    /// The nodes of pods, by address.
    pub(super) fn nodes_of_pods(&self) -> BTreeMap<IpAddr, String> {
        let of_pod = |pod: &Value| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            ips(pod).into_iter().map(move |ip| (ip, node.clone()))
        };
        self.pods.iter().flat_map(of_pod).collect()
    }

    /// Adds what rules show: Services and endpoints that are not there, and fields that are not.
    pub(super) fn complete(
        &mut self,
        shown: Self,
        inferred: &Inferred,
        extent: &Extent<'_>,
        notes: &mut Vec<Assumption>,
    ) {
        let of_rules: BTreeMap<String, &Value> = shown.services.iter().map(|one| (name(one), one)).collect();
        if extent.is_whole {
            notes.extend(explain_missing(&mut self.services, inferred));
        }
        for service in &mut self.services {
            if let Some(shown) = of_rules.get(&name(service)) {
                fill_service(service, shown);
            }
        }
        let known: BTreeSet<String> = self.services.iter().map(name).collect();
        let new: Vec<Value> = shown.services.iter().filter(|one| !known.contains(&name(one))).cloned().collect();
        if !new.is_empty() && !known.is_empty() {
            notes.push(format!("{} from the rules alone", counted(new.len(), "service")).into());
        }
        self.services.extend(new);
        let served = self.served();
        self.add_endpoints(shown.endpoints, &served, (inferred, extent), notes);
        let unknown = |(service, lists): (&String, &Lists)| {
            (lists.are_cut() && !of_rules.contains_key(service)).then(|| service.clone())
        };
        let unknown: Vec<String> = served.iter().filter_map(unknown).collect();
        notes.extend(words_of_cut(&unknown).map(Assumption::Assumed));
        let mut compared: BTreeMap<String, (Vec<&Value>, Vec<&InferredPort>)> = BTreeMap::new();
        let is_compared =
            |(service, lists): &(&String, &Lists)| !lists.are_completed() && of_rules.contains_key(*service);
        for (service, _) in served.iter().filter(is_compared) {
            compared.insert(service.clone(), (Vec::new(), Vec::new()));
        }
        for one in &self.endpoints {
            compared.entry(service_of(one)).and_modify(|(objects, _)| objects.push(one));
        }
        for port in &inferred.ports {
            compared.entry(port.service.to_string()).and_modify(|(_, ports)| ports.push(port));
        }
        let compared = compared.iter();
        let contradictions =
            compared.filter_map(|(service, (objects, ports))| contradiction(service, objects, ports, extent.is_whole));
        let contradictions: Vec<Assumption> = contradictions.collect();
        let more = contradictions.len().saturating_sub(SHOWN);
        notes.extend(contradictions.into_iter().take(SHOWN));
        if more > 0 {
            notes.push(format!("{more} more contradictions of objects and rules").into());
        }
    }

    /// Makes up what objects need that tables leave out: names of ports, nodes of pods, ranges of nodes. Returns the pods that are left out, in words.
    pub(super) fn repair(&mut self) -> Option<Assumption> {
        self.services.iter_mut().for_each(name_ports);
        self.align_endpoints();
        if !self.has_machines() {
            return None;
        }
        let known: BTreeSet<String> = self.nodes.iter().map(own_name).collect();
        let named: BTreeSet<String> = self.named_nodes().map(str::to_owned).collect();
        let new = named.difference(&known);
        self.nodes.extend(new.map(|name| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})));
        let left_out = self.mark_host_network();
        self.assign_ranges();
        self.add_pods();
        let words = || format!("left out, because another pod has the same address: {}", list(&left_out, SHOWN));
        (!left_out.is_empty()).then(|| Assumption::Contradiction(words()))
    }

    /// Pods with their node's address are in its network. Of other pods with one address, the first is kept; the others are returned.
    fn mark_host_network(&mut self) -> Vec<String> {
        let mut addresses: BTreeMap<IpAddr, String> =
            self.nodes.iter().flat_map(|node| node_ips(node).into_iter().map(|ip| (ip, own_name(node)))).collect();
        let mut users: BTreeMap<(IpAddr, String), usize> = BTreeMap::new();
        for pod in &self.pods {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            ips(pod).into_iter().for_each(|ip| *users.entry((ip, node.to_owned())).or_default() += 1);
        }
        // An address that several pods of a node have is the node's.
        for ((ip, node), _) in users.into_iter().filter(|(_, count)| *count > 1) {
            let lacks_family = |one: &&mut Value| {
                own_name(one) == node && !node_ips(one).iter().any(|own| Family::of(*own) == Family::of(ip))
            };
            if let Some(owner) = self.nodes.iter_mut().find(lacks_family) {
                let own = json!({"type": "InternalIP", "address": ip});
                match owner["status"]["addresses"].as_array_mut() {
                    Some(list) => list.push(own),
                    None => owner["status"] = json!({"addresses": [own]}),
                }
                addresses.insert(ip, node);
            }
        }
        let mut known: BTreeSet<IpAddr> = addresses.keys().copied().collect();
        let mut left_out = Vec::new();
        self.pods.retain_mut(|pod| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            let own = ips(pod);
            if own.iter().any(|ip| addresses.get(ip).is_some_and(|owner| owner == node)) {
                pod["spec"]["hostNetwork"] = json!(true);
                return true;
            }
            // One of two machines with the same address is gone by now.
            let is_first = own.iter().all(|ip| known.insert(*ip));
            left_out.extend((!is_first && pod["status"]["phase"] == "Running").then(|| name(pod)));
            is_first
        });
        left_out
    }

    fn assign_ranges(&mut self) {
        let mut given: BTreeMap<String, Vec<IpNet>> = BTreeMap::new();
        for node in &self.nodes {
            given.insert(own_name(node), node_ranges(node));
        }
        let pods = self.pods.iter().filter(|pod| pod["spec"]["hostNetwork"] != true);
        let pods = pods.flat_map(|pod| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            ips(pod).into_iter().map(move |ip| (node.clone(), ip))
        });
        let pods: Vec<(String, IpAddr)> = pods.collect();
        let services = self.services.iter().flat_map(service_ips);
        let taken: Vec<IpAddr> = services.chain(self.nodes.iter().flat_map(node_ips)).collect();
        let ranges = assigned(&given, &pods, &taken);
        for node in &mut self.nodes {
            if let Some(own) = ranges.get(&own_name(node)) {
                set_ranges(node, own);
            }
        }
    }

    /// Endpoints among the addresses of pods that no pod has get one.
    fn add_pods(&mut self) {
        let ranges: Vec<(String, IpNet)> = self
            .nodes
            .iter()
            .flat_map(|node| node_ranges(node).into_iter().map(|range| (own_name(node), range)))
            .collect();
        let mut known: BTreeSet<IpAddr> =
            self.nodes.iter().flat_map(node_ips).chain(self.pods.iter().flat_map(ips)).collect();
        let nodes: BTreeSet<String> = self.nodes.iter().map(own_name).collect();
        let taken: BTreeSet<String> = self.pods.iter().map(name).collect();
        let mut made = EndpointPods::default();
        for slice in &mut self.endpoints {
            // A pod serves Services of its own namespace.
            let namespace = slice["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
            for_each_endpoint(slice, |address, node, endpoint| {
                // Rules alone do not say which node an endpoint is on.
                if node.is_some_and(|node| !nodes.contains(node)) {
                    endpoint.remove("nodeName");
                }
                let near = |(_, range): &&(String, IpNet)| wide(*range, Family::of(address)).contains(&address);
                let Some(first) = ranges.iter().find(near) else { return };
                if !known.insert(address) {
                    return;
                }
                let by_range = ranges.iter().find(|(_, range)| range.contains(&address)).map(|(node, _)| node);
                let other = || ranges.iter().rev().find(near).unwrap_or(first);
                let node = by_range.unwrap_or_else(|| &other().0);
                let referred = endpoint.get("targetRef").filter(|reference| reference["kind"] == "Pod");
                let referred =
                    referred.and_then(|reference| Some(ObjectName::new(&*namespace, reference["name"].as_str()?)));
                let named = referred.filter(|name| !taken.contains(&name.to_string()));
                made.add(named, (&namespace, node), address);
            });
        }
        self.pods.extend(made.into_pods().iter().map(EndpointPod::object));
    }

    /// Ports of endpoints have the names of the Service's; tables show none.
    fn align_endpoints(&mut self) {
        let ports: BTreeMap<String, Vec<Value>> = self
            .services
            .iter()
            .map(|one| (name(one), one["spec"]["ports"].as_array().cloned().unwrap_or_default()))
            .collect();
        for one in &mut self.endpoints {
            let Some(of_service) = ports.get(&service_of(one)) else { continue };
            let lists: Vec<&mut Value> = match one["kind"].as_str() {
                Some("Endpoints") => match one["subsets"].as_array_mut() {
                    Some(subsets) => subsets.iter_mut().map(|subset| &mut subset["ports"]).collect(),
                    None => Vec::new(),
                },
                _ => vec![&mut one["ports"]],
            };
            for list in lists {
                for port in list.as_array_mut().into_iter().flatten() {
                    let is_named = port["name"].as_str().is_some_and(|name| !name.is_empty());
                    let knows = |own: &&Value| {
                        own["name"].as_str().unwrap_or_default() == port["name"].as_str().unwrap_or_default()
                    };
                    if of_service.iter().any(|own| knows(&own)) && (is_named || of_service.len() == 1) {
                        continue;
                    }
                    let protocol = |one: &Value| one["protocol"].as_str().unwrap_or("TCP").to_owned();
                    let number = port["port"].as_u64();
                    let leads_here = |own: &&Value| {
                        let target = own["targetPort"].as_u64().or(own["port"].as_u64());
                        protocol(own) == protocol(port) && target == number
                    };
                    let own =
                        of_service.iter().find(leads_here).or(of_service.first().filter(|_| of_service.len() == 1));
                    if let Some(own) = own {
                        port["name"] = own["name"].as_str().unwrap_or_default().into();
                        port["protocol"] = protocol(own).into();
                    }
                }
            }
        }
    }
}

/// What is said of Services of which tables leave endpoints out that nothing else shows.
fn words_of_cut(services: &[String]) -> Option<String> {
    (!services.is_empty())
        .then(|| format!("a table omits endpoints of {}, and nothing else shows them", list(services, SHOWN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_are_too_many_are_left_out_with_their_endpoints() {
        let object = |kind: &str, name: &str| json!({"kind": kind, "metadata": {"name": name, "namespace": "a"}});
        let all = ["Service", "Endpoints"].into_iter().flat_map(|kind| ["x", "y", "z"].map(|name| object(kind, name)));
        let mut objects = Objects::of(all);
        assert_eq!(objects.truncate(3), None);
        assert_eq!(objects.truncate(1).as_deref(), Some("2 Services left out: no more than 1 are used"));
        assert_eq!((objects.services.len(), objects.endpoints.len()), (1, 1));
    }
}
