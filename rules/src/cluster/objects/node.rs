//! Nodes.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1 as core;

use super::super::{Family, Node};
use super::checker::{Checker, FieldError};
use super::syntax::Syntax;

/// Reads a node from its object.
///
/// Addresses of the types `Hostname`, `InternalDNS` and `ExternalDNS` are ignored.
///
/// # Errors
///
/// Every field that the API server would reject.
pub fn node(object: &core::Node) -> Result<Node, Vec<FieldError>> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let mut checker = Checker::new("Node", &name);
    checker.name("metadata.name", &name, Syntax::Dns1123Subdomain);
    let node = Node {
        labels: object.metadata.labels.clone().unwrap_or_default(),
        internal_ips: addresses(&mut checker, object, "InternalIP"),
        external_ips: addresses(&mut checker, object, "ExternalIP"),
        pod_cidrs: pod_cidrs(&mut checker, object),
        hostname_override: None,
        release: None,
        name,
    };
    checker.finish(node)
}

fn addresses(checker: &mut Checker, object: &core::Node, kind: &str) -> Vec<IpAddr> {
    let listed = object.status.as_ref().and_then(|status| status.addresses.as_ref()).into_iter().flatten();
    let of_kind = listed.enumerate().filter(|(_, address)| address.type_ == kind);
    of_kind
        .filter_map(|(index, address)| checker.address(format!("status.addresses[{index}].address"), &address.address))
        .collect()
}

fn pod_cidrs(checker: &mut Checker, object: &core::Node) -> Vec<IpNet> {
    let Some(spec) = &object.spec else { return Vec::new() };
    let list = spec.pod_cidrs.as_deref().unwrap_or_default();
    let first = spec.pod_cidr.as_deref().filter(|text| !text.is_empty());
    let Some((head, _)) = list.split_first() else {
        return first.and_then(|text| checker.range("spec.podCIDR", text)).into_iter().collect();
    };
    if first.is_some_and(|first| first != head) {
        let message = format!("`{}` is not the first of spec.podCIDRs, `{head}`", first.unwrap_or_default());
        checker.reject("spec.podCIDR", message, "Give both the same first range, or omit podCIDR.");
    }
    let parsed: Vec<IpNet> = list
        .iter()
        .enumerate()
        .filter_map(|(index, text)| checker.range(format!("spec.podCIDRs[{index}]"), text))
        .collect();
    let families: Vec<_> = parsed.iter().map(|range| Family::of(range.addr())).collect();
    checker.one_of_each_family("spec.podCIDRs", &families);
    parsed
}
