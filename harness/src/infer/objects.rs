//! Plain Kubernetes objects → a scenario, with assumptions for everything they do not specify.
//!
//! The assumptions are written as a scenario that lists the objects' file in `manifests:` and read as any other, so that there
//! is one place where defaults are filled in.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::{Value, json};
use svclab_rules::cluster::{
    Cluster, Endpoint, EndpointSlice, Family, ObjectName, ProxyConfig, ProxyMode, Service, ServiceType,
};
use svclab_rules::compare::Finding;

use super::Assumption;
use super::endpoint_pods::{EndpointPod, EndpointPods, address_name, words_of_addresses};
use super::service_ports::is_api_server;
use super::usual_ranges::{LEAST_LENGTH, around_both, usual_pod_ranges, usual_range, wide, wider};
use crate::input::{Diagnostics, folder_of};
use crate::scenario::{LEFT_OUT, NO_EFFECT, Note, Scenario, Tests, cluster, node_port_range, parse_with};
use crate::text::{counted, list, one_line, path_text};

/// The scenario that plain objects are verified in, and what was assumed, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumed {
    /// The scenario. It has no tests.
    pub scenario: Scenario,
    /// What was assumed, a fragment in lower case each.
    pub assumptions: Vec<Assumption>,
    /// The nodes whose own rules are known; all nodes where there are none.
    pub nodes: Vec<String>,
    /// How the rules differ from those that kube-proxy writes; those of excerpts apart from what they do not show.
    pub deviations: Vec<Deviation>,
}

/// A difference of a node's rules from those that kube-proxy writes for the cluster that they show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// The node.
    pub node: String,
    /// The file among several.
    pub file: Option<Arc<str>>,
    /// The line at which the rules start.
    pub line: usize,
    /// Whether the text shows the rules whole.
    pub is_whole: bool,
    /// The mode of its kube-proxy.
    pub mode: ProxyMode,
    /// The difference.
    pub finding: Finding,
}

/// Builds a scenario around the objects of a text; `path` is its file's name.
///
/// Nodes that pods or endpoints name, but that are not among the objects, are added, and one where there is none at all. Each
/// endpoint that no object has the address of becomes a pod, or, if its address cannot be a pod's, that of a node that it names,
/// or a host outside of the cluster. Every node gets a pod that sends, and an outside host is added.
/// Addresses and ranges that are missing are filled in as in any scenario.
///
/// # Errors
///
/// Invalid objects; everything that the API server would reject; objects that no lab can be built from, such as addresses of pods
/// that lie outside of their node's range.
pub fn from_objects(text: &str, path: &Path) -> Result<Assumed, Diagnostics> {
    from_objects_near(text, path, &[])
}

/// As [`from_objects`], with ranges that pods have where no object shows any.
pub(super) fn from_objects_near(text: &str, path: &Path, near: &[IpNet]) -> Result<Assumed, Diagnostics> {
    let (written, assumptions) = around(text, path, near)?;
    // Errors in the objects are reported with their place in the file; those in assumptions have none.
    let itself = own_name(path);
    let read = |named: &Path| if named == itself { Ok(text.to_owned()) } else { Err(io::ErrorKind::NotFound.into()) };
    let scenario = parse_with(&written, path, &read, Tests::Optional)?;
    let nodes = scenario.cluster.nodes.iter().map(|node| node.name.clone()).collect();
    let assumptions = assumptions.into_iter().map(Assumption::Assumed).collect();
    Ok(Assumed { scenario, assumptions, nodes, deviations: Vec::new() })
}

/// Whether objects have all that a cluster adds to those that people write: nodes, the cluster IPs and node ports of Services, and endpoints of
/// Services that select pods.
pub fn is_allocated(cluster: &Cluster) -> bool {
    let has_slice = |service: &Service| cluster.slices.iter().any(|slice| slice.service == service.name);
    let selects_some = |service: &Service| cluster.pods.iter().any(|pod| service.selects(pod));
    let is_whole = |service: &Service| {
        !lacks_cluster_ip(service) && !lacks_node_port(service) && (has_slice(service) || !selects_some(service))
    };
    !cluster.nodes.is_empty() && cluster.services.iter().all(is_whole)
}

fn lacks_cluster_ip(service: &Service) -> bool {
    service.cluster_ips.is_empty() && !service.headless && service.kind != ServiceType::ExternalName
}

fn lacks_node_port(service: &Service) -> bool {
    service.kind == ServiceType::NodePort && service.ports.iter().any(|port| port.node_port.is_none())
}

/// What Services get as from the API server, in words.
fn allocations(cluster: &Cluster) -> Vec<String> {
    let lacking = |lacks: fn(&Service) -> bool, what: &str| {
        let lacking = cluster.services.iter().filter(|service| lacks(service));
        let names: Vec<String> = lacking.map(|service| service.name.to_string()).collect();
        let more = if names.len() > 3 { ", ..." } else { "" };
        let first = names.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let count = counted(names.len(), "Service");
        (!names.is_empty()).then(|| format!("{what} of {count}, as the API server allocates them: {first}{more}"))
    };
    [lacking(lacks_cluster_ip, "cluster IPs"), lacking(lacks_node_port, "node ports")].into_iter().flatten().collect()
}

/// The clusterCIDR that is assumed around objects.
pub fn cluster_cidrs(cluster: &Cluster) -> Vec<IpNet> {
    let mut around = Around::new(cluster);
    let strays = around.strays();
    around.nodes(&strays);
    let ranges: Vec<IpNet> = around.pod_ranges().iter().filter_map(|range| range.parse().ok()).collect();
    ranges.into_iter().filter(|range| range.prefix_len() > 0).collect()
}

/// The name of a file within the scenario that is made of it. One that is not UTF-8 cannot be written there.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(|name| path_text(Path::new(name))).unwrap_or_default()
}

/// The path that the file has for the scenario that is made of it.
pub(super) fn own_name(path: &Path) -> PathBuf {
    folder_of(path).join(file_name(path))
}

/// The text of a scenario around the objects of a text, which names their file, and what it assumes.
pub(super) fn around(text: &str, path: &Path, near: &[IpNet]) -> Result<(String, Vec<String>), Diagnostics> {
    let plain = cluster(text, path, ProxyConfig::default())?;
    let mut around = Around::new(&plain.cluster).near(near.iter().copied());
    around.assumptions.extend(allocations(&plain.cluster));
    let written = around.scenario(&file_name(path));
    around.assumptions.extend(without_endpoints(&plain.cluster));
    let (others, surprising): (Vec<&str>, Vec<&str>) =
        left_out(&plain.notes).partition(|note| note.ends_with(NO_EFFECT) || !plain.cluster.pods.is_empty());
    around.assumptions.splice(0..0, in_one_line(&surprising));
    around.assumptions.extend(others.into_iter().map(str::to_owned));
    Ok((written.to_string(), around.assumptions))
}

/// Services without endpoints, in words. kube-proxy does not select pods itself.
fn without_endpoints(cluster: &Cluster) -> Option<String> {
    let slices = cluster.slices.iter().filter(|slice| !slice.endpoints.is_empty());
    let with: HashSet<&ObjectName> = slices.map(|slice| &slice.service).collect();
    let services = cluster.services.iter().filter(|service| service.kind != ServiceType::ExternalName);
    let without: Vec<&ObjectName> = services.map(|service| &service.name).filter(|name| !with.contains(name)).collect();
    match &*without {
        [] => None,
        [one] => Some(format!("{one} has no endpoints: the text shows none")),
        all => {
            let (count, names) = (counted(all.len(), "Service"), list(all, MAX_NAMED));
            Some(format!("{count} have no endpoints: the text shows none for {names}"))
        }
    }
}

/// The most Services that are named in an assumption.
const MAX_NAMED: usize = 5;

/// What is left out of the objects, each in words.
fn left_out(notes: &[Note]) -> impl Iterator<Item = &str> {
    notes.iter().map(|note| note.message.as_str()).filter(|message| message.contains(LEFT_OUT))
}

/// The objects that a user of Kubernetes expects to do something, as the first assumption: without `-v` it alone is reported.
fn in_one_line(left_out: &[&str]) -> Option<String> {
    let (first, others) = left_out.split_first()?;
    let names: Vec<&str> = others.iter().filter_map(|note| Some(note.split_once(LEFT_OUT)?.0)).collect();
    let others = if names.is_empty() { String::new() } else { format!(" (also ignored: {})", names.join(", ")) };
    Some(format!("{first}{others}"))
}

/// What is put around the objects.
pub(super) struct Around<'a> {
    cluster: &'a Cluster,
    /// The ranges of nodes, those that are given and those that are assumed.
    ranges: BTreeMap<String, Vec<IpNet>>,
    /// The addresses of added nodes that are endpoints themselves.
    machines: BTreeMap<String, Vec<IpAddr>>,
    /// The addresses of everything but pods: no pod range contains one of them.
    others: Vec<IpAddr>,
    /// Ranges that pods have where no object shows any.
    near: Vec<IpNet>,
    assumptions: Vec<String>,
}

/// An endpoint that no object has the address of.
struct Stray<'a> {
    address: IpAddr,
    /// The namespace of its Service.
    namespace: &'a str,
    endpoint: &'a Endpoint,
}

/// The owner of a stray endpoint's address.
enum Owner {
    /// A pod on this node.
    Pod(String),
    /// This node itself, which is not among the objects.
    Node(String),
    /// A machine outside of the cluster, as the API server of a managed cluster.
    Outside,
}

impl<'a> Around<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        let ranges: BTreeMap<String, Vec<IpNet>> =
            cluster.nodes.iter().map(|node| (node.name.clone(), node.pod_cidrs.clone())).collect();
        let of_pods: Vec<IpNet> = ranges.values().flatten().copied().collect();
        let services = cluster.services.iter().flat_map(service_addresses);
        let others = cluster.nodes.iter().flat_map(|node| node.addresses()).chain(services);
        let others = others.chain(api_servers(cluster, &of_pods)).collect();
        Self { cluster, ranges, machines: BTreeMap::new(), others, near: Vec::new(), assumptions: Vec::new() }
    }

    /// With ranges that pods have where no object shows any.
    pub(super) fn near(self, ranges: impl IntoIterator<Item = IpNet>) -> Self {
        Self { near: ranges.into_iter().collect(), ..self }
    }

    /// The scenario, as it is written, for objects in a file.
    pub(super) fn scenario(&mut self, file: &str) -> Value {
        let strays = self.strays();
        let (nodes, owners) = self.nodes(&strays);
        let mut pods = EndpointPods::default();
        let mut hosts = vec![json!({"name": "outside", "ips": self.outside()})];
        let mut having = [Vec::new(), Vec::new(), Vec::new()];
        for (stray, owner) in strays.iter().zip(&owners) {
            let ip = stray.address;
            match owner {
                Owner::Pod(node) => {
                    let name = self.add_pod(stray, node, &mut pods);
                    having[0].push((format!("{name} on node {node}"), ip));
                }
                Owner::Node(node) => having[1].push((node.clone(), ip)),
                Owner::Outside => {
                    let name = address_name(ip);
                    hosts.push(json!({"name": name, "ips": [ip]}));
                    having[2].push((format!("{name} outside the cluster"), ip));
                }
            }
        }
        let kinds = ["pod", "node", "host"].into_iter().zip(&having);
        self.assumptions.extend(kinds.filter_map(|(kind, having)| words_of_addresses(kind, having)));
        let clients = self.ranges.keys().map(|node| json!({"name": format!("client-of-{node}"), "node": node}));
        let written = |pod: EndpointPod| json!({"name": pod.name.name, "namespace": pod.name.namespace, "node": pod.node, "ips": pod.ips});
        let pods: Vec<Value> = pods.into_pods().into_iter().map(written).chain(clients).collect();
        self.assumptions.push("a client pod `client-of-NODE` on every node and an outside host `outside`".to_owned());
        let ranges = self.pod_ranges();
        let mut scenario = json!({
            "name": format!("the objects of {}", one_line(file)),
            "cluster": {"podCIDR": ranges},
            "nodes": nodes,
            "pods": pods,
            "hosts": hosts,
            "manifests": [file],
        });
        if let Some(range) = node_port_range(self.cluster) {
            self.assumptions.push(format!("node ports are from {range}: one is outside of the usual range"));
            scenario["cluster"]["serviceNodePortRange"] = json!(range);
        }
        let usual: Vec<IpNet> = USUAL_SERVICE_RANGES.iter().filter_map(|range| range.parse().ok()).collect();
        let is_usual = |ip: &IpAddr| usual.iter().any(|range| range.contains(ip));
        let mut cluster_ips = self.cluster.services.iter().flat_map(|service| &service.cluster_ips);
        if self.cluster.service_cidrs.is_empty() && !cluster_ips.all(is_usual) {
            self.assumptions.push("no ServiceCIDR: the range of cluster IPs is not known".to_owned());
            scenario["cluster"]["serviceCIDR"] = json!([]);
        }
        // Nodes' ranges may have no common prefix, and `! -s 0.0.0.0/0` is not a valid match.
        if ranges.iter().any(|range| range.ends_with("/0")) {
            let some: Vec<&str> = ranges.iter().map(String::as_str).filter(|range| !range.ends_with("/0")).collect();
            scenario["cluster"]["proxy"] = json!({"clusterCIDR": some.join(",")});
            let assumption = "no clusterCIDR for a family whose pod ranges have only the whole address space in common";
            self.assumptions.push(assumption.to_owned());
        }
        scenario
    }

    /// Each address once; first those that are said to be pods', which show where pods' addresses are.
    fn strays(&self) -> Vec<Stray<'a>> {
        let known = self.cluster.nodes.iter().flat_map(|node| node.addresses());
        let mut known: BTreeSet<IpAddr> =
            known.chain(self.cluster.pods.iter().flat_map(|pod| pod.ips.clone())).collect();
        let addresses = self.cluster.slices.iter().flat_map(|slice| {
            let namespace = slice.service.namespace.as_str();
            let stray = move |endpoint: &'a Endpoint| {
                Some(Stray { address: *endpoint.addresses.first()?, namespace, endpoint })
            };
            slice.endpoints.iter().filter_map(stray)
        });
        let mut strays: Vec<Stray<'a>> = addresses.filter(|stray| known.insert(stray.address)).collect();
        strays.sort_by_key(|stray| stray.endpoint.pod.is_none());
        strays
    }

    /// The nodes that are not among the objects, and the node of every stray endpoint.
    fn nodes(&mut self, strays: &[Stray<'a>]) -> (Vec<Value>, Vec<Owner>) {
        let given: BTreeSet<String> = self.ranges.keys().cloned().collect();
        for pod in self.cluster.pods.iter().filter(|pod| !pod.host_network) {
            self.add_node(&pod.node, &pod.ips);
        }
        let owners: Vec<Owner> = strays.iter().map(|stray| self.owner(stray)).collect();
        if self.ranges.is_empty() {
            self.ranges.insert("node-1".to_owned(), Vec::new());
        }
        let added: Vec<&String> = self.ranges.keys().filter(|name| !given.contains(*name)).collect();
        if !added.is_empty() {
            let names: Vec<&str> = added.iter().map(|name| name.as_str()).collect();
            self.assumptions.push(format!("nodes without a Node object: {}", names.join(", ")));
        }
        let node = |name: &String| {
            let ranges: Vec<String> = self.ranges[name].iter().map(ToString::to_string).collect();
            let mut node = json!({"name": name});
            if !ranges.is_empty() {
                node["podCIDRs"] = json!(ranges);
            }
            if let Some(own) = self.machines.get(name) {
                node["ips"] = json!(own);
            }
            node
        };
        (added.into_iter().map(node).collect(), owners)
    }

    /// The owner of an endpoint's address. A pod is on the node that the endpoint names, else on one whose range contains its address, else on
    /// one of its own.
    fn owner(&mut self, stray: &Stray<'_>) -> Owner {
        let address = stray.address;
        let by_range = self.ranges.iter().find(|(_, ranges)| ranges.iter().any(|range| range.contains(&address)));
        let by_range = by_range.map(|(name, _)| name.clone());
        let named = stray.endpoint.node.clone();
        let is_added = |name: &String| !self.cluster.nodes.iter().any(|given| given.name == *name);
        if by_range.is_none() && named.as_ref().is_none_or(is_added) && !self.can_be_of_a_pod(address) {
            self.others.push(address);
            let Some(name) = named else { return Owner::Outside };
            let own = self.machines.entry(name.clone()).or_default();
            if own.iter().any(|other| Family::of(*other) == Family::of(address)) {
                return Owner::Outside;
            }
            own.push(address);
            self.ranges.entry(name.clone()).or_default();
            return Owner::Node(name);
        }
        let name = named.or(by_range).unwrap_or_else(|| format!("node-{}", self.ranges.len() + 1));
        self.add_node(&name, &[address]);
        Owner::Pod(name)
    }

    /// Whether a pod range that contains an address and all known pods is free of addresses of nodes and services.
    fn can_be_of_a_pod(&self, address: IpAddr) -> bool {
        let family = Family::of(address);
        let own = usual_range(address);
        let known = self.ranges.values().flatten().filter(|range| Family::of(range.addr()) == family);
        let joined = known.map(|range| self.wide(*range)).reduce(around_both);
        let joined = joined.map_or(own, |range| around_both(range, own));
        joined.prefix_len() >= LEAST_LENGTH && !self.others.iter().any(|other| joined.contains(other))
    }

    /// A range with room for more nodes, without addresses of nodes and services: those may be the start of the same range (kubespray's
    /// 10.233.0.0/18 and 10.233.64.0/18).
    fn wide(&self, range: IpNet) -> IpNet {
        let mut wide = wide(range, Family::of(range.addr()));
        while wide != range && self.others.iter().any(|other| wide.contains(other)) {
            wide = IpNet::new_assert(range.addr(), wide.prefix_len() + 1).trunc();
        }
        wide
    }

    /// Makes a node known, with ranges around addresses of its pods where it has none of their family.
    fn add_node(&mut self, node: &str, addresses: &[IpAddr]) {
        let taken: Vec<IpNet> = self.ranges.values().flatten().copied().collect();
        let is_given = self.cluster.nodes.iter().any(|given| given.name == node);
        let ranges = self.ranges.entry(node.to_owned()).or_default();
        for address in addresses.iter().filter(|_| !is_given) {
            let around = usual_range(*address);
            let has_family = ranges.iter().any(|range| Family::of(range.addr()) == Family::of(*address));
            if !has_family && !taken.contains(&around) {
                ranges.push(around);
            }
        }
    }

    fn add_pod(&self, stray: &Stray<'_>, node: &str, pods: &mut EndpointPods) -> ObjectName {
        let named = stray.endpoint.pod.as_ref().filter(|name| self.cluster.pod(name).is_none()).cloned();
        // A pod serves Services of its own namespace.
        pods.add(named, (stray.namespace, node), stray.address)
    }

    /// One range for each family that holds those of all nodes; the usual one where none is known.
    fn pod_ranges(&self) -> Vec<String> {
        let of = |family: Family| {
            let is_of_family = move |range: &&IpNet| Family::of(range.addr()) == family;
            let mut known = self.ranges.values().flatten().filter(is_of_family);
            let range = known.clone().copied().map(|range| self.wide(range)).reduce(around_both)?;
            let lacks_one = self.ranges.values().any(|ranges| !ranges.iter().any(|range| is_of_family(&range)));
            // A node's range that fills the cluster's leaves no room for those of others.
            Some(if lacks_one && known.any(|known| *known == range) { wider(range) } else { range })
        };
        let services = self.cluster.services.iter().flat_map(|service| service.cluster_ips.clone());
        let asked: BTreeSet<Family> = services.map(Family::of).collect();
        let is_free = |range: &IpNet| !self.others.iter().any(|other| range.contains(other));
        let usual = |family: Family| {
            let first = usual_pod_ranges(family).next()?;
            Some(usual_pod_ranges(family).find(is_free).unwrap_or(first).to_string())
        };
        let near = |family: Family| {
            let range = self.near.iter().find(|range| Family::of(range.addr()) == family)?;
            Some(wide(*range, family))
        };
        let wanted = Family::ALL.into_iter().filter_map(|family| {
            let range = of(family).or_else(|| near(family)).map(|range| range.to_string());
            range.or_else(|| usual(family).filter(|_| asked.contains(&family)))
        });
        let wanted: Vec<String> = wanted.collect();
        if wanted.is_empty() { usual(Family::Ipv4).into_iter().collect() } else { wanted }
    }

    /// Addresses of documentation that nothing in the cluster has, one of each family of pods.
    fn outside(&self) -> Vec<String> {
        const RANGES: [&str; 4] = ["203.0.113.0/24", "198.51.100.0/24", "2001:db8:203::/120", "2001:db8:100::/120"];
        let pods: Vec<IpNet> = self.pod_ranges().iter().filter_map(|range| range.parse().ok()).collect();
        let used = self.used();
        let is_free = |address: &IpAddr| !used.contains(address) && !pods.iter().any(|range| range.contains(address));
        let first_free = |family: Family| {
            let ranges = RANGES.iter().filter_map(|range| range.parse::<IpNet>().ok());
            let mut hosts =
                ranges.filter(|range| Family::of(range.addr()) == family).flat_map(|range| range.hosts().skip(9));
            hosts.find(is_free).map(|address| address.to_string())
        };
        pods.iter().map(|range| Family::of(range.addr())).filter_map(first_free).collect()
    }

    /// A range for pods of each family, and the node that has it, if objects name one.
    pub(super) fn room(&mut self) -> Vec<(Option<String>, IpNet)> {
        let strays = self.strays();
        self.nodes(&strays);
        let named = |name: &String| self.cluster.nodes.iter().any(|node| node.name == *name).then(|| name.clone());
        let first = self.cluster.nodes.first().map(|node| node.name.clone());
        let of = |range: IpNet| {
            let family = Family::of(range.addr());
            let is_of_family = |own: &&IpNet| Family::of(own.addr()) == family;
            let known = |(name, own): (&String, &Vec<IpNet>)| Some((named(name), *own.iter().find(is_of_family)?));
            self.ranges.iter().find_map(known).unwrap_or_else(|| (first.clone(), usual_range(range.addr())))
        };
        self.pod_ranges().iter().filter_map(|range| range.parse().ok()).map(of).collect()
    }

    /// The addresses of all machines, Services and endpoints.
    pub(super) fn used(&self) -> BTreeSet<IpAddr> {
        let services = self.cluster.services.iter().flat_map(service_addresses);
        let machines = self.cluster.nodes.iter().flat_map(|node| node.addresses());
        let pods = self.cluster.pods.iter().flat_map(|pod| pod.ips.iter().copied());
        let endpoints = self.cluster.slices.iter().flat_map(|slice| &slice.endpoints);
        let endpoints = endpoints.flat_map(|endpoint| endpoint.addresses.iter().copied());
        services.chain(machines).chain(pods).chain(endpoints).collect()
    }
}

/// The addresses of API servers, which are machines: those of `default/kubernetes`. Where other endpoints are near one, or a range of pods has it,
/// it may be made up, or pods may be in the network of their node.
fn api_servers<'c>(cluster: &'c Cluster, of_pods: &'c [IpNet]) -> impl Iterator<Item = IpAddr> + 'c {
    let is_own = |slice: &&EndpointSlice| is_api_server(&slice.service.to_string());
    let addresses = |endpoint: &'c Endpoint| endpoint.addresses.iter().copied();
    let others = cluster.slices.iter().filter(move |slice| !is_own(slice)).flat_map(|slice| &slice.endpoints);
    let pods = cluster.pods.iter().flat_map(|pod| pod.ips.iter().copied());
    let near: BTreeSet<IpNet> = others.flat_map(addresses).chain(pods).map(usual_range).collect();
    let own = cluster.slices.iter().filter(is_own).flat_map(|slice| &slice.endpoints);
    own.filter(|endpoint| endpoint.node.is_none())
        .flat_map(addresses)
        .filter(move |ip| !near.contains(&usual_range(*ip)) && !of_pods.iter().any(|range| range.contains(ip)))
}

/// The usual ranges of cluster IPs: the defaults of a scenario.
const USUAL_SERVICE_RANGES: [&str; 2] = ["10.96.0.0/12", "fd00:10:96::/112"];

/// The addresses of a Service.
pub(super) fn service_addresses(service: &Service) -> impl Iterator<Item = IpAddr> {
    let balanced = service.load_balancer.iter().map(|ingress| ingress.ip);
    service.cluster_ips.iter().chain(&service.external_ips).copied().chain(balanced)
}
