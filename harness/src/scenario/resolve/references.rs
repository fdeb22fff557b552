//! Lookup of objects by name, and dangling references.

use svclab_rules::cluster::{Node, ObjectName};

use super::findings::Findings;
use super::objects::Objects;
use super::services;
use crate::scenario::model::short_name;
use crate::yaml::{At, Node as Tree};

impl Objects<'_> {
    /// Returns the node of a name.
    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().map(|node| &node.value).find(|node| node.name == name)
    }

    /// Records a reference to a node that does not exist.
    pub(crate) fn missing_node(&self, name: &str, at: At<'_>, findings: &mut Findings) {
        let known: Vec<&str> = self.nodes.iter().map(|node| node.value.name.as_str()).collect();
        self.missing("node", "nodes", name, at, &known, findings);
    }

    /// Records a reference to a pod that does not exist.
    pub(crate) fn missing_pod(&self, name: &ObjectName, at: At<'_>, findings: &mut Findings) {
        let known: Vec<String> = self.pods.iter().map(|pod| short_name(&pod.value.pod.name)).collect();
        self.missing("pod", "pods", &short_name(name), at, &known, findings);
    }

    /// Records a reference to a Service that does not exist.
    pub(crate) fn missing_service(&self, name: &ObjectName, at: At<'_>, findings: &mut Findings) {
        let known: Vec<String> =
            self.services.iter().map(|service| short_name(&services::object_name(&service.value))).collect();
        self.missing("service", "services", &short_name(name), at, &known, findings);
    }

    /// Records a dangling reference, unless the object is in the scenario but could not be read, which has been recorded already. `name` is
    /// the short one.
    fn missing<S: AsRef<str>>(
        &self,
        what: &str,
        list: &str,
        name: &str,
        at: At<'_>,
        known: &[S],
        findings: &mut Findings,
    ) {
        let items = self.written.node().get(list).map(|entry| entry.value.items()).unwrap_or_default();
        let written = items.iter().any(|item| written_name(item).is_some_and(|written| written == name));
        let may_be_rejected = written || !self.complete;
        if findings.errors.is_empty() || !may_be_rejected {
            findings.dangling(at, what, name, known);
        }
    }
}

/// Returns the short name of an item as written.
fn written_name(item: &Tree) -> Option<String> {
    let text_of = |field: &str| item.get(field).and_then(|entry| entry.value.text());
    let name = text_of("name").or_else(|| item.text())?;
    Some(short_name(&ObjectName::new(text_of("namespace").unwrap_or("default"), name)))
}
