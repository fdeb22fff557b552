//! Lookup of names in tests.

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

/// The objects in which names are looked up: the current ones, then those before each step that deleted some, the last such step first. So
/// a probe can be sent to a deleted Service's address, and from a deleted pod, whose network namespace still exists.
pub(crate) struct Scene<'s, 'a> {
    /// The current objects, and the cluster assembled from them.
    pub(crate) now: (&'s Objects<'a>, &'s Cluster),
    /// The objects and clusters before each change that deleted some, in order.
    pub(crate) former: &'s [(Objects<'a>, Cluster)],
    /// Machines outside the cluster.
    pub(crate) hosts: &'s [Located<'a, Host>],
    /// Rules that are not the generator's.
    pub(crate) rules: &'s [OtherRules],
}

impl<'s, 'a> Scene<'s, 'a> {
    /// Returns the objects and clusters in lookup order.
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
