//! Printing of endpoints.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use svclab_rules::cluster::{Cluster, Endpoint, EndpointSlice, ObjectName, Pod};

use super::{field, protocol, words};
use crate::scenario::model::short_name;
use crate::yaml::{Fields, Item};

/// The objects that endpoints refer to.
pub(super) struct Known<'a> {
    services: HashSet<&'a ObjectName>,
    /// The pods with their own addresses.
    owners: HashMap<IpAddr, &'a Pod>,
    /// The pods with their nodes.
    pods: HashMap<&'a ObjectName, &'a str>,
    zones: HashMap<&'a str, Option<&'a str>>,
}

impl<'a> Known<'a> {
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        let own = cluster.pods.iter().filter(|pod| !pod.host_network);
        Self {
            services: cluster.services.iter().map(|service| &service.name).collect(),
            owners: own.flat_map(|pod| pod.ips.iter().map(move |ip| (*ip, pod))).collect(),
            pods: cluster.pods.iter().map(|pod| (&pod.name, pod.node.as_str())).collect(),
            zones: cluster.nodes.iter().map(|node| (node.name.as_str(), node.zone())).collect(),
        }
    }

    /// Prints the endpoints of a slice; `None` if its Service is unknown: kube-proxy ignores those.
    pub(super) fn slice(&self, slice: &EndpointSlice) -> Option<Item> {
        self.services.get(&slice.service)?;
        let port = |port: &svclab_rules::cluster::EndpointPort| {
            let fields = [
                (!port.name.is_empty()).then(|| field("name", port.name.as_str())),
                protocol(port.protocol),
                Some(field("port", port.port?)),
            ];
            Some(Item::Map(fields.into_iter().flatten().collect()))
        };
        let ports: Vec<Item> = slice.ports.iter().filter_map(port).collect();
        let fields = vec![
            field("service", short_name(&slice.service)),
            field("addressType", slice.family.to_string()),
            field("ports", ports),
            field("endpoints", slice.endpoints.iter().map(|one| self.endpoint(one)).collect::<Vec<_>>()),
        ];
        Some(fields.into())
    }

    fn endpoint(&self, endpoint: &Endpoint) -> Item {
        let owner = endpoint.addresses.first().and_then(|ip| self.owners.get(ip));
        // A pod in its node's network namespace can only be found by name.
        let named = endpoint.pod.as_ref().filter(|name| owner.is_none() && self.pods.contains_key(name));
        let node = endpoint.node.as_deref().filter(|node| self.zones.contains_key(node));
        let implied = named.map_or(owner.map(|pod| pod.node.as_str()), |name| self.pods.get(name).copied());
        let zone = endpoint.zone.as_deref();
        let implied_zone = node.and_then(|name| *self.zones.get(name)?);
        let Endpoint { ready, serving, terminating, .. } = *endpoint;
        let conditions = [
            Some(field("ready", ready)),
            serving.map(|serving| field("serving", serving)),
            terminating.then(|| field("terminating", true)),
        ];
        let is_usual = ready && serving.is_none() && !terminating && named.is_none();
        let names = |list: &[String]| {
            Item::List(list.iter().map(|name| Item::Map(vec![field("name", name.as_str())])).collect())
        };
        let hints: Fields = [
            endpoint.zone_hints.as_deref().map(|zones| field("forZones", names(zones))),
            endpoint.node_hints.as_deref().map(|nodes| field("forNodes", names(nodes))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let fields = [
            Some(match named {
                Some(name) => field("pod", name.to_string()),
                None => field("addresses", words(&endpoint.addresses)),
            }),
            // An empty name is none, where reading would add one.
            (node != implied).then(|| field("nodeName", node.unwrap_or_default())),
            (zone != implied_zone).then(|| field("zone", zone.unwrap_or_default())),
            (!is_usual).then(|| field("conditions", conditions.into_iter().flatten().collect::<Fields>())),
            (!hints.is_empty()).then(|| field("hints", hints)),
        ];
        Item::Map(fields.into_iter().flatten().collect())
    }
}
