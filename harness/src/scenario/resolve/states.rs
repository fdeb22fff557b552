//! Objects of a cluster: at the start, and after each step.

use std::collections::{BTreeMap, HashMap, HashSet};

use svclab_rules::cluster::objects;
use svclab_rules::cluster::{Cluster, EndpointSlice, ObjectName, Service};
use svclab_rules::selection;

use super::addresses::Pool;
use super::changes;
use super::endpoints::{self, service_of};
use super::findings::Findings;
use super::located::{Located, report, sound};
use super::manifests::Manifests;
use super::network::Network;
use super::nodes;
use super::objects::{Objects, Source};
use super::pods;
use super::service_list::ServiceList;
use super::services;
use crate::kernel;
use crate::yaml::{At, Place};

impl<'a> Objects<'a> {
    /// Returns the initial objects. `pool` has the addresses taken outside the cluster.
    pub(crate) fn start(
        source: &Source<'a>,
        manifests: &'a Manifests,
        network: &Network,
        pool: Pool,
        written: At<'a>,
        findings: &mut Findings,
    ) -> Self {
        let mut objects = Self {
            nodes: Vec::new(),
            pods: Vec::new(),
            services: ServiceList::default(),
            slices: Vec::new(),
            entries: Vec::new(),
            pool,
            written,
            complete: true,
        };
        let mut drafts = objects.read_manifests(source, manifests, findings);
        for (index, raw) in source.nodes.iter().enumerate() {
            objects.nodes.extend(nodes::short(raw, source.at.field("nodes").item(index), findings));
        }
        unique(&mut objects.nodes, "node", |node| node.name.clone(), findings);
        for (index, raw) in source.pods.iter().enumerate() {
            let at = source.at.field("pods").item(index);
            drafts.extend(pods::short(raw, at, &objects.nodes, findings));
        }
        // No node gets an address of a Service or pod by default.
        let specs = objects.services.iter().filter_map(|service| service.value.spec.as_ref());
        objects.pool.take(specs.flat_map(services::given_cluster_ips));
        objects.pool.take(drafts.iter().flat_map(|draft| pods::given(&draft.value)));
        nodes::complete(&mut objects.nodes, network, &mut objects.pool, findings);
        let missing_node = |name: &str, at: At<'_>, findings: &mut Findings| objects.missing_node(name, at, findings);
        let mut pool = objects.pool.clone();
        objects.pods = pods::complete(drafts, &objects.nodes, &missing_node, &mut pool, findings);
        objects.pool = pool;
        unique(&mut objects.pods, "pod", |pod| pod.pod.name.to_string(), findings);
        objects.lay_over(source, network, findings);
        objects
    }

    /// Applies a step to the objects.
    pub(crate) fn apply(
        &self,
        source: &Source<'a>,
        manifests: &'a Manifests,
        network: &Network,
        findings: &mut Findings,
    ) -> Self {
        let mut objects = self.clone();
        for draft in objects.read_manifests(source, manifests, findings) {
            changes::pod_object(&mut objects, &draft, findings);
        }
        for (index, raw) in source.nodes.iter().enumerate() {
            changes::node(&mut objects, raw, source.at.field("nodes").item(index), findings);
        }
        for (index, raw) in source.pods.iter().enumerate() {
            changes::pod(&mut objects, raw, source.at.field("pods").item(index), findings);
        }
        let replaced: Vec<ObjectName> = source.endpoints.iter().map(service_of).collect();
        objects.entries.retain(|entry| !replaced.contains(&service_of(entry.value)));
        objects.slices.retain(|slice| !replaced.contains(&slice.value.service));
        objects.lay_over(source, network, findings);
        objects
    }

    /// Assembles the cluster.
    pub(crate) fn cluster(&self, network: &Network, findings: &mut Findings) -> Cluster {
        let mut facts: Vec<Located<'_, Service>> = Vec::new();
        for service in self.services.iter() {
            facts.extend(
                sound(service, objects::service_within(&service.value, network.node_ports.clone()), findings)
                    .map(|fact| service.with(fact)),
            );
        }
        let mut slices: Vec<EndpointSlice> = self.slices.iter().map(|slice| slice.value.clone()).collect();
        let described: HashSet<&ObjectName> = self.slices.iter().map(|slice| &slice.value.service).collect();
        let mut entries: HashMap<ObjectName, Vec<_>> = HashMap::new();
        for entry in &self.entries {
            entries.entry(service_of(entry.value)).or_default().push(entry);
        }
        for service in &facts {
            let own = entries.remove(&service.value.name).unwrap_or_default();
            if !own.is_empty() || !described.contains(&service.value.name) {
                slices.extend(endpoints::slices(self, service, &own, findings));
            }
        }
        let cluster = Cluster {
            nodes: self.nodes.iter().map(|node| node.value.clone()).collect(),
            pods: self.pods.iter().map(|pod| pod.value.pod.clone()).collect(),
            services: facts.into_iter().map(|service| service.value).collect(),
            slices,
            service_cidrs: network.allocated().collect(),
            proxy: network.proxy.clone(),
            stopped: BTreeMap::new(),
            links: BTreeMap::new(),
            kernel: kernel::running(),
        };
        self.check(&cluster, findings);
        cluster
    }

    /// Records conflicts between Services that the API server rejects, and notes on objects without effect.
    fn check(&self, cluster: &Cluster, findings: &mut Findings) {
        let service = |object: &str| {
            let (namespace, name) = object.strip_prefix("Service ")?.split_once('/')?;
            self.services.get(&ObjectName::new(namespace, name))
        };
        for error in objects::check(cluster) {
            if let Some(service) = service(&error.object) {
                report(service, vec![error], findings);
            }
        }
        self.note_ignored(cluster, findings);
    }

    /// Records notes on what kube-proxy ignores. A note on a generated slice, which the scenario does not contain, is
    /// reported at its Service.
    fn note_ignored(&self, cluster: &Cluster, findings: &mut Findings) {
        let Ok(release) = cluster.proxy.version.parse() else { return };
        let slice_name = |name: &ObjectName| format!("EndpointSlice {name}");
        let services =
            self.services.iter().map(|one| (format!("Service {}", services::object_name(&one.value)), one.at));
        let slices = self.slices.iter().map(|one| (slice_name(&one.value.name), one.at));
        let places: HashMap<String, At<'_>> = services.chain(slices).collect();
        let owners: HashMap<String, &ObjectName> =
            cluster.slices.iter().map(|slice| (slice_name(&slice.name), &slice.service)).collect();
        for mut note in selection::notes(cluster, release) {
            if let (None, Some(owner)) = (places.get(&note.object), owners.get(&note.object)) {
                note.object = format!("Service {owner}");
            }
            if let Some(at) = places.get(&note.object) {
                findings.note(*at, note.to_string());
            }
        }
    }
}

/// Removes the second of two objects with the same name.
fn unique<T>(list: &mut Vec<Located<'_, T>>, what: &str, name: impl Fn(&T) -> String, findings: &mut Findings) {
    let mut seen: HashMap<String, At<'_>> = Default::default();
    list.retain(|object| {
        let name = name(&object.value);
        let Some(first) = seen.insert(name.clone(), object.at) else { return true };
        let short = name.strip_prefix("default/").unwrap_or(&name);
        let error = object.field("metadata.name").error(format!("duplicate {what} `{short}`"));
        findings.add(error.help("Rename one of them.").also(first.field("name").label("first defined here")));
        seen.insert(name, first);
        false
    });
}
