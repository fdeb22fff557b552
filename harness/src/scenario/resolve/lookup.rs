//! What the names in tests are looked up in.

use std::iter;

use svclab_rules::cluster::{Cluster, Node, Pod, Service};

use super::endpoints::object_name;
use super::findings::Findings;
use super::located::Located;
use super::objects::Objects;
use super::pods;
use crate::scenario::model::short_name;
use crate::scenario::model::{Host, OtherRules};
use crate::yaml::At;

/// What names are looked up in: the objects as they are now, then as they were before a step deleted some, the last such step first. So a
/// probe can be sent to where a Service was, and from a pod that Kubernetes has deleted, whose machine is still in the network.
pub(crate) struct Scene<'s, 'a> {
    /// The objects now, and the facts made of them.
    pub(crate) now: (&'s Objects<'a>, &'s Cluster),
    /// The objects and facts before each change that deleted some, in their order.
    pub(crate) former: &'s [(Objects<'a>, Cluster)],
    /// Machines outside of the cluster.
    pub(crate) hosts: &'s [Located<'a, Host>],
    /// Rules that are not the generator's.
    pub(crate) rules: &'s [OtherRules],
}

impl<'s, 'a> Scene<'s, 'a> {
    /// The objects and facts that names are looked up in, in this order.
    pub(super) fn states(&self) -> impl Iterator<Item = (&'s Objects<'a>, &'s Cluster)> + use<'s, 'a> {
        iter::once(self.now).chain(self.former.iter().rev().map(|(objects, cluster)| (objects, cluster)))
    }

    pub(super) fn node(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Option<&Node> {
        let node = self.now.0.node(name);
        if node.is_none() {
            self.now.0.missing_node(name, at, findings);
        }
        node
    }

    pub(super) fn host(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Option<&Host> {
        let host = self.hosts.iter().map(|host| &host.value).find(|host| host.name == name);
        if host.is_none() {
            let known: Vec<&str> = self.hosts.iter().map(|host| host.value.name.as_str()).collect();
            findings.dangling(at, "host", name, &known);
        }
        host
    }

    pub(super) fn pods(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Vec<&Pod> {
        let name = object_name(name);
        for (objects, _) in self.states() {
            let found = pods::named(&objects.pods, &name);
            if !found.is_empty() {
                return found.into_iter().map(|pod| &pod.value.pod).collect();
            }
        }
        self.now.0.missing_pod(&name, at, findings);
        Vec::new()
    }

    pub(super) fn one_pod(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Option<&Pod> {
        let pods = self.pods(name, at, findings);
        if let [first, _, ..] = pods.as_slice() {
            let message = format!("`{name}` matches {} pods", pods.len());
            findings.wrong(at, message, format!("Name one of them, for example `pod/{}`.", short_name(&first.name)));
            return None;
        }
        pods.first().copied()
    }

    pub(super) fn service(&self, name: &str, at: At<'_>, findings: &mut Findings) -> Option<&Service> {
        let name = object_name(name);
        let found = self.states().find_map(|(_, cluster)| cluster.service(&name));
        if found.is_none() {
            self.now.0.missing_service(&name, at, findings);
        }
        found
    }
}
