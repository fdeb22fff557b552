//! The addresses of a service.

use super::*;

/// `spec.ipFamilies`.
pub(super) fn families(checker: &mut Checker, spec: &core::ServiceSpec) -> Vec<Family> {
    let listed = spec.ip_families.as_deref().unwrap_or_default();
    let words = [("IPv4", Family::Ipv4), ("IPv6", Family::Ipv6)];
    let families: Vec<Family> = listed
        .iter()
        .enumerate()
        .map(|(index, word)| checker.choice(format!("spec.ipFamilies[{index}]"), Some(word.as_str()), &words))
        .collect();
    checker.one_of_each_family("spec.ipFamilies", &families);
    if spec.ip_family_policy.as_deref() == Some("SingleStack") && families.len() > 1 {
        let help = "Use PreferDualStack or RequireDualStack, or one family.";
        checker.reject("spec.ipFamilyPolicy", "is SingleStack, but there are two ipFamilies", help);
    }
    families
}

/// `spec.clusterIPs`, or the single `clusterIP`.
pub(super) fn cluster_ips(
    checker: &mut Checker,
    spec: &core::ServiceSpec,
    kind: ServiceType,
    families: &[Family],
) -> Vec<IpAddr> {
    let list = spec.cluster_ips.as_deref().unwrap_or_default();
    let single = spec.cluster_ip.as_deref().filter(|text| !text.is_empty());
    if let (Some(single), Some(first)) = (single, list.first())
        && single != first
    {
        let message = format!("`{single}` is not the first of spec.clusterIPs, `{first}`");
        checker.reject("spec.clusterIP", message, "Give both the same address, or omit clusterIPs.");
    }
    let single: Vec<String> = if list.is_empty() { single.map(str::to_owned).into_iter().collect() } else { vec![] };
    let path = |index: usize| match single.is_empty() {
        true => format!("spec.clusterIPs[{index}]"),
        false => "spec.clusterIP".to_owned(),
    };
    let given = if single.is_empty() { list } else { &single };
    if given.iter().any(|text| text == "None") {
        if matches!(kind, ServiceType::NodePort | ServiceType::LoadBalancer) {
            let help = "Omit clusterIP, or make the service a ClusterIP one.";
            checker.reject(path(0), "`None` is only for services of type ClusterIP", help);
        }
        return Vec::new();
    }
    if kind == ServiceType::ExternalName && !given.is_empty() {
        checker.reject(path(0), "is given for an ExternalName service", "Omit the address.");
    }
    let mut addresses = Vec::new();
    for (index, text) in given.iter().enumerate() {
        let Some(address) = checker.unicast_address(path(index), text) else { continue };
        if let Some(family) = families.get(index).filter(|family| **family != Family::of(address)) {
            let message = format!("`{address}` is not an {family} address, but spec.ipFamilies[{index}] is {family}");
            checker.reject(path(index), message, "Give addresses in the order of ipFamilies.");
        }
        addresses.push(address);
    }
    let found: Vec<_> = addresses.iter().copied().map(Family::of).collect();
    checker.one_of_each_family("spec.clusterIPs", &found);
    addresses
}

/// `spec.externalIPs`.
pub(super) fn external_ips(checker: &mut Checker, spec: &core::ServiceSpec) -> Vec<IpAddr> {
    let listed = spec.external_ips.as_deref().unwrap_or_default().iter().enumerate();
    listed.filter_map(|(index, text)| checker.reachable_address(format!("spec.externalIPs[{index}]"), text)).collect()
}

/// `spec.loadBalancerSourceRanges`; the API trims whitespace.
pub(super) fn source_ranges(checker: &mut Checker, spec: &core::ServiceSpec, kind: ServiceType) -> Vec<IpNet> {
    let listed = spec.load_balancer_source_ranges.as_deref().unwrap_or_default();
    if !listed.is_empty() && kind != ServiceType::LoadBalancer {
        let help = "Omit them, or set type to LoadBalancer.";
        checker.reject("spec.loadBalancerSourceRanges", "are only for services of type LoadBalancer", help);
    }
    let path = |index| format!("spec.loadBalancerSourceRanges[{index}]");
    listed.iter().enumerate().filter_map(|(index, text)| checker.range(path(index), text.trim())).collect()
}

/// `status.loadBalancer.ingress`; entries with only a host name are ignored, as in kube-proxy.
pub(super) fn ingress(checker: &mut Checker, object: &core::Service) -> Vec<LoadBalancerIngress> {
    let balancer = object.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let listed = balancer.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default();
    let modes = [("VIP", IpMode::Vip), ("Proxy", IpMode::Proxy)];
    let mut entries = Vec::new();
    for (index, given) in listed.iter().enumerate() {
        let path = format!("status.loadBalancer.ingress[{index}]");
        let text = given.ip.as_deref().unwrap_or_default();
        if text.is_empty() {
            if given.ip_mode.is_some() {
                let help = "Give an ip, or omit ipMode.";
                checker.reject(format!("{path}.ipMode"), "is given without an ip", help);
            }
            continue;
        }
        let mode = checker.choice(format!("{path}.ipMode"), given.ip_mode.as_deref(), &modes);
        let Some(ip) = checker.unicast_address(format!("{path}.ip"), text) else { continue };
        entries.push(LoadBalancerIngress { ip, mode });
    }
    entries
}
