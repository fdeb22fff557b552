//! Services.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use k8s_openapi::api::core::v1 as core;

use super::super::{
    ExternalTrafficPolicy, Family, InternalTrafficPolicy, IpMode, LoadBalancerIngress, Service, ServicePort,
    ServiceType,
};
use super::checker::{Checker, FieldError, name_of};
use super::syntax::{NODE_PORTS, Syntax};

mod addresses;
mod ports;

/// Reads a service from its object.
///
/// Fields that the API server would allocate stay empty if omitted: `clusterIP` and `nodePort`.
///
/// # Errors
///
/// Every field that the API server would reject (`ValidateService` in its `pkg/apis/core/validation`).
pub fn service(object: &core::Service) -> Result<Service, Vec<FieldError>> {
    service_within(object, NODE_PORTS)
}

/// The same for an API server with another range of node ports (`--service-node-port-range`).
///
/// # Errors
///
/// As [`service`].
pub fn service_within(object: &core::Service, node_ports: RangeInclusive<u16>) -> Result<Service, Vec<FieldError>> {
    let name = name_of(&object.metadata);
    let mut checker = Checker::new("Service", &name).with_node_ports(node_ports);
    checker.object_name(&name, Syntax::Dns1035Label);
    let empty = core::ServiceSpec::default();
    let spec = object.spec.as_ref().unwrap_or(&empty);
    let kind = kind(&mut checker, spec);
    let headless = spec.cluster_ip.as_deref() == Some("None");
    let families = addresses::families(&mut checker, spec);
    let service = Service {
        labels: object.metadata.labels.clone().unwrap_or_default(),
        annotations: object.metadata.annotations.clone().unwrap_or_default(),
        kind,
        cluster_ips: addresses::cluster_ips(&mut checker, spec, kind, &families),
        headless,
        ports: ports::ports(&mut checker, spec, kind, headless),
        selector: spec.selector.clone().unwrap_or_default(),
        external_ips: addresses::external_ips(&mut checker, spec),
        load_balancer: addresses::ingress(&mut checker, object),
        source_ranges: addresses::source_ranges(&mut checker, spec, kind),
        external_traffic_policy: external_traffic_policy(&mut checker, spec, kind),
        internal_traffic_policy: internal_traffic_policy(&mut checker, spec),
        affinity_seconds: affinity_seconds(&mut checker, spec),
        health_check_node_port: health_check_node_port(&mut checker, spec, kind),
        publish_not_ready_addresses: spec.publish_not_ready_addresses.unwrap_or_default(),
        traffic_distribution: traffic_distribution(&mut checker, spec),
        families,
        name,
    };
    checker.finish(service)
}

fn kind(checker: &mut Checker, spec: &core::ServiceSpec) -> ServiceType {
    let kinds = [
        ("ClusterIP", ServiceType::ClusterIp),
        ("NodePort", ServiceType::NodePort),
        ("LoadBalancer", ServiceType::LoadBalancer),
        ("ExternalName", ServiceType::ExternalName),
    ];
    let kind = checker.choice("spec.type", spec.type_.as_deref(), &kinds);
    if kind == ServiceType::ExternalName && spec.external_name.as_deref().unwrap_or_default().is_empty() {
        checker.reject(
            "spec.externalName",
            "is missing",
            "An ExternalName service needs the name of an external host.",
        );
    }
    kind
}

fn external_traffic_policy(
    checker: &mut Checker,
    spec: &core::ServiceSpec,
    kind: ServiceType,
) -> ExternalTrafficPolicy {
    let policies = [("Cluster", ExternalTrafficPolicy::Cluster), ("Local", ExternalTrafficPolicy::Local)];
    let path = "spec.externalTrafficPolicy";
    let given = spec.external_traffic_policy.as_deref().filter(|text| !text.is_empty());
    let published = matches!(kind, ServiceType::NodePort | ServiceType::LoadBalancer);
    let external = published || spec.external_ips.as_ref().is_some_and(|list| !list.is_empty());
    if given.is_some() && !external {
        let help = "Omit it, or make the service a NodePort or LoadBalancer one, or give it externalIPs.";
        checker.reject(path, "has no effect on a service that cannot be reached from outside", help);
    }
    checker.choice(path, given, &policies)
}

fn internal_traffic_policy(checker: &mut Checker, spec: &core::ServiceSpec) -> InternalTrafficPolicy {
    let policies = [("Cluster", InternalTrafficPolicy::Cluster), ("Local", InternalTrafficPolicy::Local)];
    checker.choice("spec.internalTrafficPolicy", spec.internal_traffic_policy.as_deref(), &policies)
}

/// Reads the affinity timeout: three hours by default, at most a day.
fn affinity_seconds(checker: &mut Checker, spec: &core::ServiceSpec) -> Option<u32> {
    let by_client = checker.choice("spec.sessionAffinity", spec.session_affinity.as_deref(), AFFINITY);
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let given = config.and_then(|client| client.timeout_seconds);
    if !by_client {
        if given.is_some() {
            let help = "Set `sessionAffinity` to ClientIP, or omit `sessionAffinityConfig`.";
            checker.reject("spec.sessionAffinityConfig", "is given, but sessionAffinity is None", help);
        }
        return None;
    }
    let seconds = given.unwrap_or(10_800);
    if !(1..=86_400).contains(&seconds) {
        let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        checker.reject(path, format!("{seconds} s is out of range"), "Give 1 to 86400 seconds (a day).");
    }
    u32::try_from(seconds).ok()
}

const AFFINITY: &[(&str, bool)] = &[("None", false), ("ClientIP", true)];

fn health_check_node_port(checker: &mut Checker, spec: &core::ServiceSpec, kind: ServiceType) -> Option<u16> {
    let number = spec.health_check_node_port.filter(|number| *number != 0)?;
    let path = "spec.healthCheckNodePort";
    let local = spec.external_traffic_policy.as_deref() == Some("Local");
    if !(local && kind == ServiceType::LoadBalancer) {
        let help = "Omit it, or set type to LoadBalancer and externalTrafficPolicy to Local.";
        checker.reject(path, "is only for load balancers with externalTrafficPolicy Local", help);
    }
    checker.node_port(path, number)
}

fn traffic_distribution(checker: &mut Checker, spec: &core::ServiceSpec) -> Option<String> {
    let given = spec.traffic_distribution.as_deref()?;
    let words = ["PreferClose", "PreferSameZone", "PreferSameNode"].map(|word| (word, word));
    Some(checker.choice("spec.trafficDistribution", Some(given), &words).to_owned())
}
