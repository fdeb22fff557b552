//! Resolution of expected destinations to addresses.

use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::{Family, Pod, Protocol};

use super::findings::Findings;
use super::lookup::Scene;
use super::ports::{container_port, port_number};
use crate::scenario::listeners::served_at;
use crate::scenario::model::short_name;
use crate::scenario::model::{Place as Namespace, Target};
use crate::yaml::At;

impl Scene<'_, '_> {
    /// Resolves the destinations with a name, in one family. A name of several pods gives several.
    pub(crate) fn targets(&self, text: &str, family: Family, at: At<'_>, findings: &mut Findings) -> Vec<Target> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return target(text, &[address.ip()], Some(address.port()), family);
        }
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return target(text, &[address], None, family);
        }
        let (rest, port) = match text.rsplit_once(':') {
            Some((rest, port)) => (rest, Some(port)),
            None => (text, None),
        };
        let number = |findings: &mut Findings| match port {
            None => Some(None),
            Some(port) => port_number(port, at, findings).map(Some),
        };
        match rest.split_once('/') {
            Some(("pod", name)) => {
                let pods = self.pods(name, at, findings);
                let several = pods.len() > 1;
                let of_pod = |pod: &&Pod| {
                    let port = match port {
                        None => None,
                        Some(text) => Some(container_port(pod, text, at, findings)?),
                    };
                    let label = match port {
                        _ if !several => text.to_owned(),
                        Some(port) => format!("pod/{}:{port}", short_name(&pod.name)),
                        None => format!("pod/{}", short_name(&pod.name)),
                    };
                    Some(target(&label, &pod.ips, port, family))
                };
                pods.iter().filter_map(of_pod).flatten().collect()
            }
            Some(("node", name)) => {
                let (Some(node), Some(port)) = (self.node(name, at, findings), number(findings)) else {
                    return Vec::new();
                };
                target(text, &node.internal_ips, port, family)
            }
            Some(("host", name)) => {
                let (Some(host), Some(port)) = (self.host(name, at, findings), number(findings)) else {
                    return Vec::new();
                };
                target(text, &host.ips, port, family)
            }
            _ => {
                let help =
                    "Use `pod/NAME:PORT`, `node/NAME:PORT`, `host/NAME:PORT` or `ADDRESS:PORT`; the port is optional.";
                findings.wrong(at, format!("`{text}` is not a valid destination"), help);
                Vec::new()
            }
        }
    }

    /// Returns whether a destination can receive packets of a protocol; reports an error if it has no listener.
    pub(crate) fn takes(&self, target: &Target, protocol: Protocol, at: At<'_>, findings: &mut Findings) {
        let Target { address, port, .. } = target;
        let node = self.now.1.nodes.iter().find(|node| node.addresses().any(|ip| ip == *address));
        if let Some(node) = node {
            let served = served_at(self.now.1, *address);
            let mut ports = served.keys().filter(|(served, _)| *served == protocol).map(|(_, number)| *number);
            if !ports.any(|number| port.is_none_or(|port| port == number)) {
                let what = port.map(|port| format!(" port {port}")).unwrap_or_default();
                let message = format!("nothing on node {} listens on {protocol}{what}", node.name);
                let port = port.map_or("PORT".to_owned(), |port| port.to_string());
                let protocol = protocol.to_string().to_uppercase();
                let help = format!(
                    "Add a pod with `hostNetwork: true` and `ports: [{{containerPort: {port}, protocol: {protocol}}}]` on that node, or expect `rejected: true`."
                );
                findings.wrong(at, message, help);
            }
            return;
        }
        let mut pods = self.states().flat_map(|(objects, _)| &objects.pods).map(|pod| &pod.value.pod);
        if let Some(pod) = pods.find(|pod| pod.ips.contains(address)) {
            if self.rules.iter().any(|rules| rules.place == Namespace::Pod(pod.name.clone())) {
                let message = format!("pod `{}` has its own rules and only forwards packets", short_name(&pod.name));
                findings.wrong(at, message, "Name the destination that it forwards to.");
            }
            return;
        }
        if !self.hosts.iter().any(|host| host.value.ips.contains(address)) {
            let message = format!("no pod, node or host has the address `{address}`, so nothing is delivered there");
            findings.wrong(at, message, "Name the destination after DNAT, for example `pod/NAME:PORT`.");
        }
    }
}

fn target(label: &str, addresses: &[IpAddr], port: Option<u16>, family: Family) -> Vec<Target> {
    let address = addresses.iter().copied().find(|ip| Family::of(*ip) == family);
    address.map(|address| Target { label: label.to_owned(), address, port }).into_iter().collect()
}
