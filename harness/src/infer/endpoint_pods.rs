//! Pods that only endpoints show.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};
use svclab_rules::cluster::ObjectName;

use crate::text::{counted, list};

/// A pod that only endpoints show.
pub(super) struct EndpointPod {
    pub(super) name: ObjectName,
    pub(super) node: String,
    pub(super) ips: Vec<IpAddr>,
}

impl EndpointPod {
    /// Its object.
    pub(super) fn object(&self) -> Value {
        let ips: Vec<Value> = self.ips.iter().map(|ip| json!({"ip": ip})).collect();
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name.name, "namespace": self.name.namespace},
            "spec": {"nodeName": self.node, "containers": []}, "status": {"podIP": self.ips.first(), "podIPs": ips},
        })
    }
}

/// The pods of endpoints, in the order of their first addresses.
#[derive(Default)]
pub(super) struct EndpointPods {
    pods: Vec<EndpointPod>,
    positions: BTreeMap<ObjectName, usize>,
}

impl EndpointPods {
    /// Adds the pod of an endpoint in a namespace, and returns its name. Endpoints of both families may name one pod, which then has both
    /// addresses. An endpoint that names none, or one that has an address of its family, is a pod that has its address as name.
    pub(super) fn add(
        &mut self,
        named: Option<ObjectName>,
        (namespace, node): (&str, &str),
        address: IpAddr,
    ) -> ObjectName {
        let has_family = |pod: &EndpointPod| pod.ips.iter().any(|ip| ip.is_ipv4() == address.is_ipv4());
        let named = named.filter(|name| !self.pod(name).is_some_and(has_family));
        let name = named.unwrap_or_else(|| ObjectName::new(namespace, address_name(address)));
        match self.positions.get(&name) {
            Some(position) => self.pods[*position].ips.push(address),
            None => {
                self.positions.insert(name.clone(), self.pods.len());
                self.pods.push(EndpointPod { name: name.clone(), node: node.to_owned(), ips: vec![address] });
            }
        }
        name
    }

    fn pod(&self, name: &ObjectName) -> Option<&EndpointPod> {
        self.positions.get(name).map(|position| &self.pods[*position])
    }

    pub(super) fn into_pods(self) -> Vec<EndpointPod> {
        self.pods
    }
}

/// The name of what is only known by its address.
pub(super) fn address_name(address: IpAddr) -> String {
    format!("at-{}", address.to_string().replace(['.', ':'], "-"))
}

/// The most of a kind that are named in an assumption.
const MAX_NAMED: usize = 5;

/// Which pods, nodes or hosts are assumed to have endpoints' addresses, in words.
pub(super) fn words_of_addresses(kind: &str, having: &[(String, IpAddr)]) -> Option<String> {
    match having {
        [] => None,
        [(one, ip)] => Some(format!("{kind} {one} has the endpoint's address {ip}")),
        all => {
            let named = all.iter().map(|(one, ip)| format!("{one} ({ip})"));
            Some(format!("{} have the endpoints' addresses: {}", counted(all.len(), kind), list(named, MAX_NAMED)))
        }
    }
}
