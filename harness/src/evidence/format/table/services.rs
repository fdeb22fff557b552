//! Tables of `kubectl get services`, of all releases.

use std::net::IpAddr;

use serde_json::{Value, json};

/// The types of Services.
const TYPES: [&str; 4] = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];

/// The columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Columns {
    /// `TYPE`, which kubectl before 1.8 does not print.
    kind: Option<usize>,
    /// `CLUSTER-IP`; `IP(S)` before 1.1, `CLUSTER_IP` in 1.1.
    address: usize,
    /// `EXTERNAL-IP`.
    external: Option<usize>,
    /// `PORT(S)`.
    ports: usize,
}

/// The columns where no heading is shown.
impl Default for Columns {
    fn default() -> Self {
        Self { kind: Some(1), address: 2, external: Some(3), ports: 4 }
    }
}

impl Columns {
    /// The columns with these names, if they are those of Services.
    pub(super) fn of(heading: &[&str]) -> Option<Self> {
        let columns = heading.strip_prefix(&["NAMESPACE"]).unwrap_or(heading);
        let find = |names: &[&str]| columns.iter().position(|name| names.contains(name));
        let address = find(&["CLUSTER-IP", "CLUSTER_IP", "IP(S)"])?;
        // A heading that is cut has its ports after the other columns.
        let ports = find(&["PORT(S)"]).unwrap_or(address + 2);
        Some(Self { kind: find(&["TYPE"]), address, external: find(&["EXTERNAL-IP", "EXTERNAL_IP"]), ports })
    }
}

/// The Service of a row.
pub(super) fn service(words: &[String], columns: Columns, metadata: Value) -> Option<Value> {
    let word = |at: Option<usize>| words.get(at?).map(String::as_str);
    let cluster_ip = word(Some(columns.address))?;
    let is_cluster_ip = cluster_ip.parse::<IpAddr>().is_ok() || cluster_ip == "None";
    let external = word(columns.external);
    let addresses = external.unwrap_or_default().split(',').filter(|word| word.parse::<IpAddr>().is_ok());
    let addresses: Vec<&str> = addresses.collect();
    let ports: Vec<Value> =
        word(Some(columns.ports)).map(|ports| ports.split(',').filter_map(port).collect()).unwrap_or_default();
    let kind = match columns.kind {
        Some(_) => word(columns.kind).filter(|kind| TYPES.contains(kind))?,
        None if !is_cluster_ip => return None,
        None => type_of(external, &addresses, &ports),
    };
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {"type": kind, "ports": ports},
    });
    if is_cluster_ip {
        service["spec"]["clusterIP"] = json!(cluster_ip);
        service["spec"]["clusterIPs"] = json!([cluster_ip]);
    }
    if let Some(name) = external.filter(|word| kind == "ExternalName" && !word.starts_with('<')) {
        service["spec"]["externalName"] = json!(name);
    }
    // kubectl prints node ports with the ports.
    let has_node_ports =
        service["spec"]["ports"].as_array().into_iter().flatten().any(|port| port["nodePort"].is_u64());
    if kind == "LoadBalancer" && !has_node_ports {
        service["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
    }
    if kind == "LoadBalancer" && !addresses.is_empty() {
        let ingress: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
        service["status"] = json!({"loadBalancer": {"ingress": ingress}});
    } else if !addresses.is_empty() && kind != "ExternalName" {
        service["spec"]["externalIPs"] = json!(addresses);
    }
    Some(service)
}

/// The type of a Service in a table that does not print it: `<nodes>` stands for node ports, `<pending>` for a load balancer.
fn type_of(external: Option<&str>, addresses: &[&str], ports: &[Value]) -> &'static str {
    let has_node_ports = ports.iter().any(|port| port["nodePort"].is_u64());
    match external {
        Some("<pending>") => "LoadBalancer",
        Some("<nodes>") => "NodePort",
        _ if has_node_ports && !addresses.is_empty() => "LoadBalancer",
        _ if has_node_ports => "NodePort",
        _ => "ClusterIP",
    }
}

/// `80:31898/TCP`, `53/UDP`.
fn port(text: &str) -> Option<Value> {
    let (ports, protocol) = text.split_once('/')?;
    let (port, node_port) =
        ports.split_once(':').map_or((ports, None), |(port, node)| (port, node.parse::<u16>().ok()));
    let port: u16 = port.parse().ok()?;
    let mut value = json!({"name": format!("p{port}-{}", protocol.to_lowercase()), "port": port, "protocol": protocol});
    if let Some(node_port) = node_port {
        value["nodePort"] = json!(node_port);
    }
    Some(value)
}
