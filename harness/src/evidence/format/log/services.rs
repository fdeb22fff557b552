//! The Services and endpoints of which kube-proxy writes in its log what it has seen of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde_json::{Value, json};
use svclab_rules::cluster::Family;

/// A port of a Service: its frontend, and its endpoints as the last line about them has them.
#[derive(Default)]
struct Port {
    frontend: Option<(SocketAddr, String)>,
    endpoints: Option<BTreeSet<SocketAddr>>,
}

/// Whether a line shows a Service or endpoints.
pub(super) fn knows(line: &str) -> bool {
    event(line).is_some()
}

/// The Services and EndpointSlices that the lines of logs show, the last line about each counting.
pub(in crate::evidence) fn services<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<Value> {
    let mut ports: BTreeMap<(String, String), Port> = BTreeMap::new();
    for line in lines {
        let Some(event) = event(line) else { continue };
        let (Event::Added(name, ..) | Event::Removed(name) | Event::Endpoints(name, _)) = event;
        let Some(key) = split(name) else { continue };
        match event {
            Event::Added(_, at, protocol) => {
                ports.entry(key).or_default().frontend = Some((at, protocol.to_owned()));
            }
            Event::Removed(_) => drop(ports.remove(&key)),
            Event::Endpoints(_, all) => ports.entry(key).or_default().endpoints = Some(all),
        }
    }
    let mut services: BTreeMap<&str, Vec<(&str, &Port)>> = BTreeMap::new();
    for ((service, port), own) in ports.iter().filter(|(_, own)| own.frontend.is_some()) {
        services.entry(service).or_default().push((port, own));
    }
    services.into_iter().flat_map(|(name, ports)| objects(name, &ports)).collect()
}

/// What a line says of a service port, by its name `NAMESPACE/NAME:PORT`.
enum Event<'t> {
    Added(&'t str, SocketAddr, &'t str),
    Removed(&'t str),
    Endpoints(&'t str, BTreeSet<SocketAddr>),
}

fn event(line: &str) -> Option<Event<'_>> {
    let after = |start: &str| line.split_once(start).map(|(_, rest)| rest);
    // `"Adding new service port" portName="a/b:c" servicePort="10.96.0.9:80/TCP"`; up to 1.19 `Adding new service port "a/b:c" at 10.96.0.9:80/TCP`.
    let added = ["Adding new service", "Updating existing service port"].iter().find_map(|start| after(start));
    if let Some(rest) = added {
        let at = value(rest, "servicePort=").or_else(|| Some(rest.split_once("\" at ")?.1))?;
        let (at, protocol) = at.trim().split_once('/')?;
        let protocol = protocol.split(|letter: char| !letter.is_ascii_alphanumeric()).next()?;
        return Some(Event::Added(named(rest)?, at.parse().ok()?, protocol));
    }
    if let Some(rest) = after("Removing service port") {
        return Some(Event::Removed(named(rest)?));
    }
    // `"Setting endpoints for service port name" portName="a/b:c" endpoints=["10.244.0.2:80"]`; up to 1.19 `Setting endpoints for "a/b:c" to [...]`.
    if let Some(rest) = after("Setting endpoints for ") {
        let (_, all) = rest.split_once('[')?;
        let all = all.split(']').next().filter(|_| all.contains(']'))?;
        let all = all.split([' ', ',']).map(|one| one.trim_matches('"')).filter_map(|one| one.parse().ok());
        return Some(Event::Endpoints(named(rest)?, all.collect()));
    }
    after("Removing endpoints for ").and_then(|rest| Some(Event::Endpoints(named(rest)?, BTreeSet::new())))
}

/// The name of the service port in the rest of a line.
fn named(rest: &str) -> Option<&str> {
    value(rest, "portName=").or_else(|| rest.split('"').nth(1)).filter(|name| name.contains('/'))
}

/// The value of a key, which is in quotes.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.split_once(key)?.1.strip_prefix('"')?.split('"').next()
}

/// `a/b:c` → the Service and the name of its port.
fn split(name: &str) -> Option<(String, String)> {
    let (namespace, own) = name.split_once('/')?;
    let (service, port) = own.split_once(':').unwrap_or((own, ""));
    (!namespace.is_empty() && !service.is_empty()).then(|| (format!("{namespace}/{service}"), port.to_owned()))
}

/// A Service and its EndpointSlices.
fn objects(name: &str, ports: &[(&str, &Port)]) -> Vec<Value> {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let written = |(port, own): &(&str, &Port)| {
        let (at, protocol) = own.frontend.as_ref()?;
        Some(json!({"name": port, "port": at.port(), "protocol": protocol}))
    };
    let addresses: BTreeSet<_> = ports.iter().filter_map(|(_, own)| Some(own.frontend.as_ref()?.0.ip())).collect();
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterIP": addresses.first(), "clusterIPs": addresses,
            "ports": ports.iter().filter_map(written).collect::<Vec<_>>(),
        },
    });
    let mut all = vec![service];
    for (port, own) in ports {
        let (Some((_, protocol)), Some(endpoints)) = (&own.frontend, &own.endpoints) else { continue };
        let mut groups: BTreeMap<(Family, u16), Vec<Value>> = BTreeMap::new();
        for endpoint in endpoints {
            let group = groups.entry((Family::of(endpoint.ip()), endpoint.port())).or_default();
            group.push(json!({"addresses": [endpoint.ip()]}));
        }
        // Without endpoints, the log says that there are none.
        if groups.is_empty() {
            groups.insert((Family::Ipv4, 0), Vec::new());
        }
        for ((family, number), endpoints) in groups {
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
    all
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::structured(
        "\"Adding new service port\" portName=\"a/b:c\" servicePort=\"10.96.0.9:80/TCP\"",
        "\"Setting endpoints for service port name\" portName=\"a/b:c\" endpoints=[\"10.244.0.2:8080\"]"
    )]
    #[case::older(
        "Adding new service port \"a/b:c\" at 10.96.0.9:80/TCP",
        "Setting endpoints for \"a/b:c\" to [10.244.0.2:8080]"
    )]
    #[case::oldest(
        "Adding new service \"a/b:c\" at 10.96.0.9:80/TCP",
        "Setting endpoints for \"a/b:c\" to [10.244.0.2:8080]"
    )]
    fn lines_show_services_and_endpoints(#[case] added: &str, #[case] set: &str) {
        let all = services([added, "Setting endpoints for \"a/other:\" to [10.244.0.3:80]", set].into_iter());
        let [service, slice] = &*all else { panic!("{all:?}") };
        assert_eq!(
            (&service["spec"]["clusterIP"], &service["spec"]["ports"][0]["port"]),
            (&json!("10.96.0.9"), &json!(80))
        );
        assert_eq!(
            (&slice["ports"][0]["port"], &slice["endpoints"][0]["addresses"][0]),
            (&json!(8080), &json!("10.244.0.2"))
        );
        let removed = "\"Removing service port\" portName=\"a/b:c\"";
        assert_eq!(services([added, set, removed].into_iter()), Vec::<Value>::new());
    }
}
