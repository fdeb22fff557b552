//! Services: short forms merged into existing objects, with cluster IPs and node ports filled in.

use std::collections::HashSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use k8s_openapi::api::core::v1 as core;
use svclab_rules::cluster::{Family, ObjectName};

use super::addresses::{Pool, family};
use super::allocations;
use super::findings::Findings;
use super::located::Located;
use super::network::Network;
use crate::scenario::schema::{RawIngress, RawService, RawServicePort};

/// Returns namespace and name of a short form.
pub(crate) fn name_of(raw: &RawService) -> ObjectName {
    ObjectName::new(raw.namespace.as_deref().unwrap_or("default"), &raw.name)
}

/// Returns namespace and name of an object.
pub(crate) fn object_name(object: &core::Service) -> ObjectName {
    let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
    ObjectName::new(namespace, object.metadata.name.as_deref().unwrap_or_default())
}

/// Sets the given fields; others keep their values.
fn set<T: Clone>(field: &mut Option<T>, given: &Option<T>) {
    if given.is_some() {
        field.clone_from(given);
    }
}

/// Merges a short form into an object: given fields replace those of the object.
pub(crate) fn overlay(raw: &RawService, object: &mut core::Service) {
    object.metadata.name = Some(raw.name.clone());
    set(&mut object.metadata.namespace, &raw.namespace);
    set(&mut object.metadata.labels, &raw.labels);
    set(&mut object.metadata.annotations, &raw.annotations);
    let spec = object.spec.get_or_insert_default();
    set(&mut spec.type_, &raw.kind);
    if raw.cluster_ip.is_some() || raw.cluster_ips.is_some() {
        spec.cluster_ip.clone_from(&raw.cluster_ip);
        spec.cluster_ips.clone_from(&raw.cluster_ips);
    }
    set(&mut spec.ip_families, &raw.ip_families);
    set(&mut spec.ip_family_policy, &raw.ip_family_policy);
    set(&mut spec.ports, &raw.ports.as_ref().map(|ports| ports.iter().map(port).collect()));
    set(&mut spec.selector, &raw.selector);
    set(&mut spec.external_ips, &raw.external_ips);
    set(&mut spec.external_name, &raw.external_name);
    set(&mut spec.external_traffic_policy, &raw.external_traffic_policy);
    set(&mut spec.internal_traffic_policy, &raw.internal_traffic_policy);
    set(&mut spec.session_affinity, &raw.session_affinity);
    let affinity = raw.session_affinity_config.as_ref().map(|config| core::SessionAffinityConfig {
        client_ip: config
            .client_ip
            .as_ref()
            .map(|client| core::ClientIPConfig { timeout_seconds: client.timeout_seconds }),
    });
    set(&mut spec.session_affinity_config, &affinity);
    set(&mut spec.load_balancer_source_ranges, &raw.load_balancer_source_ranges);
    set(&mut spec.load_balancer_ip, &raw.load_balancer_ip);
    set(&mut spec.load_balancer_class, &raw.load_balancer_class);
    set(&mut spec.allocate_load_balancer_node_ports, &raw.allocate_load_balancer_node_ports);
    set(&mut spec.health_check_node_port, &raw.health_check_node_port);
    if raw.health_check_node_port.is_none() && !allocations::has_health_port(spec) {
        // As the API server does with a port that it allocated itself.
        spec.health_check_node_port = None;
    }
    set(&mut spec.publish_not_ready_addresses, &raw.publish_not_ready_addresses);
    set(&mut spec.traffic_distribution, &raw.traffic_distribution);
    if let Some(ingress) = ingress(raw) {
        let balancer = core::LoadBalancerStatus { ingress: Some(ingress) };
        object.status = Some(core::ServiceStatus { load_balancer: Some(balancer), ..Default::default() });
    }
}

fn port(raw: &RawServicePort) -> core::ServicePort {
    core::ServicePort {
        name: raw.name.clone(),
        protocol: raw.protocol.clone(),
        app_protocol: raw.app_protocol.clone(),
        port: raw.port,
        target_port: raw.target_port.clone(),
        node_port: raw.node_port,
    }
}

/// Returns the load balancer's addresses, from the short list or from the status.
fn ingress(raw: &RawService) -> Option<Vec<core::LoadBalancerIngress>> {
    let address = |ip: &String| core::LoadBalancerIngress { ip: Some(ip.clone()), ..Default::default() };
    let reported = |ingress: &RawIngress| core::LoadBalancerIngress {
        ip: ingress.ip.clone(),
        hostname: ingress.hostname.clone(),
        ip_mode: ingress.ip_mode.clone(),
        ..Default::default()
    };
    let short = raw.load_balancer_ips.as_ref().map(|ips| ips.iter().map(address).collect());
    short.or_else(|| {
        let balancer = raw.status.as_ref()?.load_balancer.as_ref()?;
        balancer.ingress.as_ref().map(|list| list.iter().map(reported).collect())
    })
}

/// Returns the cluster IPs that a Service already has.
pub(crate) fn given_cluster_ips(spec: &core::ServiceSpec) -> impl Iterator<Item = IpAddr> + '_ {
    let given = spec.cluster_ip.iter().chain(spec.cluster_ips.iter().flatten());
    given.filter_map(|ip| ip.parse().ok())
}

/// Fills in cluster IPs and node ports as the API server would.
pub(crate) fn complete(
    services: &mut [Located<'_, core::Service>],
    network: &Network,
    pool: &mut Pool,
    findings: &mut Findings,
) {
    let specs = || services.iter().filter_map(|service| service.value.spec.as_ref());
    pool.take(specs().flat_map(given_cluster_ips));
    let mut node_ports: HashSet<i32> = specs()
        .flat_map(|spec| {
            spec.ports.iter().flatten().filter_map(|port| port.node_port).chain(spec.health_check_node_port)
        })
        .collect();
    for service in services {
        let place = service.with(());
        let spec = service.value.spec.get_or_insert_default();
        if spec.type_.as_deref() == Some("ExternalName") {
            continue;
        }
        if spec.cluster_ip.is_none() && spec.cluster_ips.is_none() {
            cluster_ips(spec, &place, network, pool, findings);
        }
        fill_families(spec);
        allocate_node_ports(spec, &network.node_ports, &mut node_ports);
        allocate_health_port(spec, &network.node_ports, &mut node_ports);
    }
}

fn cluster_ips(
    spec: &mut core::ServiceSpec,
    place: &Located<'_, ()>,
    network: &Network,
    pool: &mut Pool,
    findings: &mut Findings,
) {
    let cluster = network.families();
    let known = |word: &String| match word.as_str() {
        "IPv4" => Some(Family::Ipv4),
        "IPv6" => Some(Family::Ipv6),
        _ => None,
    };
    let mut families: Vec<Family> = spec.ip_families.iter().flatten().filter_map(known).collect();
    let policy = spec.ip_family_policy.as_deref();
    if families.is_empty() {
        families.extend(cluster.first());
    }
    if matches!(policy, Some("PreferDualStack" | "RequireDualStack")) {
        families.extend(cluster.iter().filter(|family| !families.contains(family)).copied().collect::<Vec<_>>());
    }
    for wanted in families.iter().filter(|family| !cluster.contains(family)) {
        let message = format!("the service requests {wanted}, but the cluster has no {wanted} range");
        let list = place.field("spec.ipFamilies");
        findings.wrong(list.reading(&wanted.to_string()).unwrap_or(list), message, "Add one to `cluster.podCIDR`.");
    }
    if policy == Some("RequireDualStack") && cluster.len() < 2 {
        let message = "the service requires dual-stack, but the cluster has one family";
        findings.wrong(
            place.field("spec.ipFamilyPolicy"),
            message,
            "Set `cluster.podCIDR` to a list of an IPv4 and an IPv6 range.",
        );
    }
    let range = |wanted: Family| network.service_cidrs.iter().copied().find(|range| family(*range) == wanted);
    let drawn: Vec<String> = families
        .iter()
        .filter_map(|family| pool.address(range(*family)?, 10))
        .map(|address| address.to_string())
        .collect();
    if drawn.len() < families.len() {
        findings.wrong(place.at, "no free cluster IP for this service", "Set a larger `cluster.serviceCIDR`.");
    }
    spec.cluster_ip = drawn.first().cloned();
    spec.cluster_ips = Some(drawn);
}

/// Fills in the families of a Service's cluster IPs if they are not given.
fn fill_families(spec: &mut core::ServiceSpec) {
    let single = spec.cluster_ip.iter();
    let listed = spec.cluster_ips.iter().flatten();
    let addresses: Vec<IpAddr> = match spec.cluster_ips.as_ref().is_none_or(Vec::is_empty) {
        true => single.filter_map(|text| text.parse().ok()).collect(),
        false => listed.filter_map(|text| text.parse().ok()).collect(),
    };
    if !addresses.is_empty() && spec.ip_families.as_ref().is_none_or(Vec::is_empty) {
        spec.ip_families = Some(addresses.into_iter().map(|address| Family::of(address).to_string()).collect());
    }
}

/// Allocates a health check port to a load balancer with policy Local: the last free one of the range, so that other node ports do not
/// depend on it.
fn allocate_health_port(spec: &mut core::ServiceSpec, range: &RangeInclusive<u16>, taken: &mut HashSet<i32>) {
    if allocations::has_health_port(spec) && spec.health_check_node_port.unwrap_or_default() == 0 {
        let free = range.clone().rev().map(i32::from).find(|number| !taken.contains(number));
        taken.extend(free);
        spec.health_check_node_port = free;
    }
}

/// Allocates node ports to ports that need one: the next free ones of the range.
fn allocate_node_ports(spec: &mut core::ServiceSpec, range: &RangeInclusive<u16>, taken: &mut HashSet<i32>) {
    if !allocations::has_node_ports(spec) {
        return;
    }
    for port in spec.ports.iter_mut().flatten().filter(|port| port.node_port.is_none()) {
        let free = range.clone().map(i32::from).find(|number| !taken.contains(number));
        taken.extend(free);
        port.node_port = free;
    }
}
