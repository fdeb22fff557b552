//! The Services and endpoints of which kube-proxy writes in its log what it has seen of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde_json::{Value, json};
use svclab_rules::cluster::Family;

use super::logged::{PortChange, PortEvent};
use super::model::{Contents, Evidence};

/// The Services and EndpointSlices that logs of kube-proxy show.
pub(crate) fn logged_services(evidence: &Evidence) -> Vec<Value> {
    let events = evidence.pieces.iter().flat_map(|piece| match &piece.contents {
        Contents::Log { services, .. } => services.as_slice(),
        _ => &[],
    });
    services(events)
}

/// A port of a Service. kube-proxy has a proxier for each family, which write the same lines with their own addresses.
#[derive(Default)]
struct Port {
    /// The frontends with the number of the event that shows them.
    frontends: BTreeMap<Family, (usize, SocketAddr, String)>,
    /// The endpoints as the last line about them has them.
    endpoints: BTreeMap<Family, BTreeSet<SocketAddr>>,
}

impl Port {
    fn apply(&mut self, number: usize, change: &PortChange) {
        match change {
            PortChange::Set(at, protocol) => {
                self.frontends.insert(Family::of(at.ip()), (number, *at, protocol.clone()));
            }
            // The line does not say which proxier writes it: a Service that is replaced is removed once for each, and may be back in one by then.
            PortChange::Removed => {
                let oldest = self.frontends.iter().min_by_key(|(_, (number, ..))| *number).map(|(family, _)| *family);
                if let Some(family) = oldest {
                    self.frontends.remove(&family);
                    self.endpoints.remove(&family);
                }
            }
            PortChange::Endpoints(Some(family), all) => {
                self.endpoints.insert(*family, all.clone());
            }
            PortChange::Endpoints(None, _) => {
                let families = self.frontends.keys().chain(self.endpoints.keys()).copied().collect::<BTreeSet<_>>();
                let families = if families.is_empty() { [Family::Ipv4].into() } else { families };
                self.endpoints.extend(families.into_iter().map(|family| (family, BTreeSet::new())));
            }
        }
    }
}

/// The Services and EndpointSlices that events show, in their order.
fn services<'e>(events: impl IntoIterator<Item = &'e PortEvent>) -> Vec<Value> {
    let mut services: BTreeMap<&str, BTreeMap<&str, Port>> = BTreeMap::new();
    for (number, event) in events.into_iter().enumerate() {
        let port = services.entry(&event.service).or_default().entry(&event.port).or_default();
        port.apply(number, &event.change);
    }
    for ports in services.values_mut() {
        ports.retain(|_, port| !port.frontends.is_empty());
    }
    services
        .into_iter()
        .filter(|(_, ports)| !ports.is_empty())
        .flat_map(|(name, ports)| objects(name, &ports))
        .collect()
}

/// A Service and its EndpointSlices.
fn objects(name: &str, ports: &BTreeMap<&str, Port>) -> Vec<Value> {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let written = |(port, own): (&&str, &Port)| {
        let (_, at, protocol) = own.frontends.values().next()?;
        Some(json!({"name": port, "port": at.port(), "protocol": protocol}))
    };
    let frontends = ports.values().flat_map(|own| &own.frontends);
    let addresses: BTreeMap<Family, String> =
        frontends.map(|(family, (_, at, _))| (*family, at.ip().to_string())).collect();
    let addresses: Vec<&String> = addresses.values().collect();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterIP": addresses.first(), "clusterIPs": addresses,
            "ports": ports.iter().filter_map(written).collect::<Vec<_>>(),
        },
    });
    let mut all = vec![service];
    for (port, own) in ports {
        let Some((_, _, protocol)) = own.frontends.values().next() else { continue };
        for (family, endpoints) in &own.endpoints {
            let mut groups: BTreeMap<u16, Vec<Value>> = BTreeMap::new();
            for endpoint in endpoints {
                groups.entry(endpoint.port()).or_default().push(json!({"addresses": [endpoint.ip()]}));
            }
            // Without endpoints, the log says that there are none.
            if groups.is_empty() {
                groups.insert(0, Vec::new());
            }
            for (number, endpoints) in groups {
                let served = (number > 0).then(|| json!({"name": port, "port": number, "protocol": protocol}));
                all.push(json!({
                    "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family.to_string(),
                    "metadata": {
                        "name": format!("{name}-log-{}", all.len()), "namespace": namespace,
                        "labels": {"kubernetes.io/service-name": name},
                    },
                    "ports": served.into_iter().collect::<Vec<_>>(), "endpoints": endpoints,
                }));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const V4: &str = "\"Adding new service port\" portName=\"a/b:c\" servicePort=\"10.96.0.9:80/TCP\"\n";
    const V6: &str = "\"Adding new service port\" portName=\"a/b:c\" servicePort=\"fd00:10:96::9:80/TCP\"\n";
    const NEW_V4: &str = "\"Adding new service port\" portName=\"a/b:c\" servicePort=\"10.96.0.10:80/TCP\"\n";
    const REMOVED: &str = "\"Removing service port\" portName=\"a/b:c\"\n";
    const TO_V4: &str =
        "\"Setting endpoints for service port name\" portName=\"a/b:c\" endpoints=[\"10.244.0.2:8080\"]\n";
    const TO_V6: &str =
        "\"Setting endpoints for service port name\" portName=\"a/b:c\" endpoints=[\"[fd00::2]:8080\"]\n";
    const TO_NONE: &str = "endpoints.go:234] Removing endpoints for \"a/b:c\"\n";
    const OTHER: &str =
        "\"Setting endpoints for service port name\" portName=\"a/other\" endpoints=[\"10.244.0.3:80\"]\n";

    #[rstest]
    #[case::one_family(&[V4, OTHER, TO_V4], &["10.96.0.9"], &["10.244.0.2:8080"])]
    #[case::endpoints_first(&[TO_V4, V4], &["10.96.0.9"], &["10.244.0.2:8080"])]
    #[case::both(&[V4, V6, TO_V4, TO_V6], &["10.96.0.9", "fd00:10:96::9"], &["10.244.0.2:8080", "fd00::2:8080"])]
    #[case::by_turns(&[TO_V6, V6, TO_V4, V4], &["10.96.0.9", "fd00:10:96::9"], &["10.244.0.2:8080", "fd00::2:8080"])]
    #[case::unknown_endpoints(&[V4, V6], &["10.96.0.9", "fd00:10:96::9"], &[])]
    #[case::no_endpoints(&[V4, V6, TO_V4, TO_V6, TO_NONE], &["10.96.0.9", "fd00:10:96::9"], &["IPv4 none", "IPv6 none"])]
    #[case::removed(&[V4, TO_V4, REMOVED], &[], &[])]
    #[case::removed_from_both(&[V4, V6, TO_V4, TO_V6, REMOVED, REMOVED], &[], &[])]
    #[case::removed_from_one(&[V4, V6, TO_V4, TO_V6, REMOVED], &["fd00:10:96::9"], &["fd00::2:8080"])]
    #[case::replaced(&[V4, V6, REMOVED, NEW_V4, REMOVED, V6], &["10.96.0.10", "fd00:10:96::9"], &[])]
    fn events_show_services(#[case] lines: &[&str], #[case] ips: &[&str], #[case] endpoints: &[&str]) {
        let all = logged_services(&crate::evidence::read(&lines.concat()));
        let strings = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found = all.first().and_then(|service| service["spec"]["clusterIPs"].as_array());
        assert_eq!(found.into_iter().flatten().map(strings).collect::<Vec<_>>(), ips, "{all:#?}");
        let slice = |slice: &Value| match strings(&slice["endpoints"][0]["addresses"][0]) {
            ip if ip.is_empty() => format!("{} none", strings(&slice["addressType"])),
            ip => format!("{ip}:{}", slice["ports"][0]["port"]),
        };
        assert_eq!(all.iter().skip(1).map(slice).collect::<Vec<_>>(), endpoints, "{all:#?}");
    }
}
