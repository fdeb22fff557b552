//! `show`: the nodes, pods, outside hosts and services of the lab.

use std::net::IpAddr;

use svclab_rules::cluster::{
    Cluster, EndpointSlice, ExternalTrafficPolicy, InternalTrafficPolicy, LinkOwner, Pod, Service, ServiceType,
};

use crate::page::{FAINT, Page, STRONG};
use crate::scenario::{link_words, pod_label, short_name};
use crate::shell::engine::Engine;
use crate::shell::reply::{Printed, View};

/// List nodes, pods, outside hosts and services.
#[derive(Debug, clap::Args)]
pub(in crate::shell) struct Show;

impl Show {
    pub(super) fn execute(self, engine: &Engine<'_>, view: &View) -> Result<Printed, Printed> {
        let (scenario, cluster) = (engine.scenario(), engine.cluster());
        let mut page = Page::new(view.settings);
        let proxy = &cluster.proxy;
        let words = format!("kube-proxy {}, {} mode", proxy.version, proxy.mode);
        page.line(0, format!("{}  {}", page.paint(STRONG, &scenario.name), page.paint(FAINT, words)));
        let width = engine.places().iter().map(String::len).max().unwrap_or(0) + 2;
        for node in &cluster.nodes {
            let stopped = if cluster.stopped.contains_key(&node.name) { "  kube-proxy is stopped" } else { "" };
            let name = format!("node/{}", node.name);
            let link = link_of(cluster, &LinkOwner::Node(node.name.clone()));
            page.row(2, format!("{name:width$}  {}{link}{stopped}", listed(node.addresses())));
            for pod in cluster.pods.iter().filter(|pod| pod.node == node.name) {
                let of_node = if pod.host_network { "  of its node" } else { "" };
                let (ips, link) =
                    (listed(pod.ips.iter().copied()), link_of(cluster, &LinkOwner::Pod(pod.name.clone())));
                page.row(4, format!("{:width$}  {ips}{of_node}{link}", pod_label(&pod.name), width = width - 2));
            }
        }
        for host in &scenario.hosts {
            let link = link_of(cluster, &LinkOwner::Host(host.name.clone()));
            page.row(
                2,
                format!("{:width$}  {}{link}", format!("host/{}", host.name), listed(host.ips.iter().copied())),
            );
        }
        for service in &cluster.services {
            self::service(&mut page, cluster, service);
        }
        Ok(Printed::text(page.finish()))
    }
}

/// The settings of a machine's link that are not the default.
fn link_of(cluster: &Cluster, owner: &LinkOwner) -> String {
    cluster.links.get(owner).map(|link| format!("  link: {}", link_words(*link))).unwrap_or_default()
}

fn service(page: &mut Page, cluster: &Cluster, service: &Service) {
    page.gap();
    let addresses = match service.headless {
        true => "headless".to_owned(),
        false => listed(service.cluster_ips.iter().copied()),
    };
    let name = page.paint(STRONG, format!("service/{}", short_name(&service.name)));
    let more = service.external_ips.iter().copied().chain(service.load_balancer.iter().map(|ingress| ingress.ip));
    let more = Some(listed(more)).filter(|more| !more.is_empty()).map(|more| format!(", {more}")).unwrap_or_default();
    page.row(2, format!("{name}  {} {addresses}{more}", kind(service)));
    for port in &service.ports {
        let node_port = port.node_port.map(|port| format!(", node port {port}")).unwrap_or_default();
        page.row(4, format!("port {}/{}{node_port}", port.port, port.protocol));
    }
    let policies = [
        ("external", service.external_traffic_policy == ExternalTrafficPolicy::Local),
        ("internal", service.internal_traffic_policy == InternalTrafficPolicy::Local),
    ];
    for (name, _) in policies.into_iter().filter(|(_, is_local)| *is_local) {
        page.row(4, format!("{name}TrafficPolicy Local"));
    }
    if let Some(seconds) = service.affinity_seconds {
        page.row(4, format!("sessionAffinity ClientIP, {seconds} s"));
    }
    for slice in cluster.slices_of(&service.name) {
        endpoints(page, cluster, slice);
    }
}

/// The Kubernetes name of the type.
fn kind(service: &Service) -> &'static str {
    match service.kind {
        ServiceType::ClusterIp => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
        ServiceType::ExternalName => "ExternalName",
    }
}

fn endpoints(page: &mut Page, cluster: &Cluster, slice: &EndpointSlice) {
    let ports: Vec<String> = slice.ports.iter().filter_map(|port| Some(port.port?.to_string())).collect();
    let ports = if ports.is_empty() { "no port".to_owned() } else { format!("port {}", ports.join(", ")) };
    for endpoint in &slice.endpoints {
        let has_address = |pod: &&Pod| pod.ips.iter().any(|ip| endpoint.addresses.contains(ip));
        let pod = endpoint.pod.as_ref().or_else(|| cluster.pods.iter().find(has_address).map(|pod| &pod.name));
        let pod = pod.map(|pod| format!("  {}", pod_label(pod))).unwrap_or_default();
        let state = match (endpoint.ready, endpoint.terminating) {
            (true, _) => "",
            (false, true) => "  terminating",
            (false, false) => "  not ready",
        };
        for address in &endpoint.addresses {
            page.row(4, format!("> {address} {ports}{pod}{state}"));
        }
    }
}

fn listed(addresses: impl Iterator<Item = IpAddr>) -> String {
    addresses.map(|address| address.to_string()).collect::<Vec<_>>().join(", ")
}
