//! Objects with their source place.

use svclab_rules::cluster::objects::FieldError;

use super::findings::Findings;
use crate::yaml::At;

/// An object and its source place.
#[derive(Debug, Clone)]
pub(crate) struct Located<'a, T> {
    /// The object.
    pub(crate) value: T,
    /// Its place.
    pub(crate) at: At<'a>,
    /// The form in which it is written.
    pub(crate) form: Form,
}

/// The form in which an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As an item of the scenario's lists.
    Short,
    /// As a Kubernetes object.
    Manifest,
}

impl<'a, T> Located<'a, T> {
    /// Locates an item of the scenario's lists.
    pub(crate) fn short(value: T, at: At<'a>) -> Self {
        Self { value, at, form: Form::Short }
    }

    /// Locates a Kubernetes object.
    pub(crate) fn manifest(value: T, at: At<'a>) -> Self {
        Self { value, at, form: Form::Manifest }
    }

    /// Returns another value with the same place.
    pub(crate) fn with<U>(&self, value: U) -> Located<'a, U> {
        Located { value, at: self.at, form: self.form }
    }

    /// Returns the place of a field, given its path in the Kubernetes object.
    pub(crate) fn field(&self, path: &str) -> At<'a> {
        match self.form {
            Form::Manifest => self.at.walk(&one_cluster_ip(self.at.field("spec"), path)),
            Form::Short => short_field(self.at, path),
        }
    }

    /// Returns a field's name in the form in which the object is written.
    fn written(&self, path: &str) -> String {
        if self.form == Form::Manifest {
            return one_cluster_ip(self.at.field("spec"), path);
        }
        let renamed = [
            ("status.addresses[", &["ips", "ip"]),
            ("status.podIP", &["ips", "ip"]),
            ("spec.podCIDR", &["podCIDRs", "podCIDR"]),
            ("status.loadBalancer.ingress", &["loadBalancerIPs", "status"]),
        ];
        let short = renamed.iter().find(|(long, _)| path.starts_with(long));
        if let Some((_, names)) = short {
            return names.iter().find(|name| self.at.has(name)).unwrap_or(&names[1]).to_string();
        }
        let path = one_cluster_ip(self.at, path);
        path.trim_start_matches("spec.").trim_start_matches("metadata.").to_owned()
    }
}

/// Records the errors of an object at its fields; returns the value if there are none.
pub(crate) fn sound<U, T>(
    source: &Located<'_, T>,
    result: Result<U, Vec<FieldError>>,
    findings: &mut Findings,
) -> Option<U> {
    match result {
        Ok(value) => Some(value),
        Err(errors) => {
            report(source, errors, findings);
            None
        }
    }
}

/// Records errors of an object at its fields.
pub(crate) fn report<T>(source: &Located<'_, T>, errors: Vec<FieldError>, findings: &mut Findings) {
    for error in errors {
        let place = source.field(&error.path);
        if place.is_pruned() && error.message.ends_with("missing") {
            continue;
        }
        let path = source.written(&error.path);
        let verb = ["is ", "are ", "has "].iter().any(|verb| error.message.starts_with(verb));
        let colon = if verb { "" } else { ":" };
        findings.wrong(place, format!("`{path}`{colon} {}", error.message), error.help);
    }
}

/// Returns `clusterIP` for the first of `clusterIPs`, if only that is written.
fn one_cluster_ip(at: At<'_>, path: &str) -> String {
    if at.has("clusterIPs") { path.to_owned() } else { path.replace("clusterIPs[0]", "clusterIP") }
}

/// Returns the place of a Kubernetes field in the short form, which has the same names without the levels `metadata`, `spec`, `status` and
/// `containers`.
fn short_field<'a>(at: At<'a>, path: &str) -> At<'a> {
    if let Some(rest) = path.strip_prefix("status.loadBalancer.ingress") {
        let index = rest.split(']').next().unwrap_or_default();
        let short = at.has("loadBalancerIPs");
        return if short { at.field("loadBalancerIPs").walk(&format!("{index}]")) } else { at.walk(path) };
    }
    if let Some(index) = path.strip_prefix("status.addresses[").and_then(|rest| rest.split(']').next()) {
        let (index, internal) = (index.parse().unwrap_or(0), at.first_of(&["ips", "ip"]));
        let count = internal.node().items().len().max(1);
        let external = || at.first_of(&["externalIPs", "externalIP"]);
        return if index < count { internal.item(index) } else { external().item(index - count) };
    }
    if let Some(rest) = path.strip_prefix("status.podIPs") {
        return at.first_of(&["ips", "ip"]).walk(rest);
    }
    if path.starts_with("status.podIP") {
        return at.first_of(&["ip", "ips"]);
    }
    if path.starts_with("spec.podCIDR") {
        let index = path.find('[').map_or("", |at| &path[at..]);
        return at.first_of(&["podCIDRs", "podCIDR"]).walk(index);
    }
    if let Some(rest) = path.strip_prefix("spec.containers[0].") {
        return at.walk(rest);
    }
    if path == "spec.nodeName" {
        return at.first_of(&["node", "nodes"]);
    }
    let path = one_cluster_ip(at, path);
    at.walk(["metadata.", "spec."].iter().find_map(|level| path.strip_prefix(level)).unwrap_or(&path))
}
