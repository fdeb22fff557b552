//! Discovery of groups, versions and resources.

use serde_json::{Value, json};
use svclab_rules::profile::Profile;

use super::resource::Endpoint;
use super::route::Discovery;

/// Returns the requested document; `None` if the group or version is not served.
pub(super) fn document(requested: Discovery<'_>) -> Option<Value> {
    match requested {
        Discovery::Version => Some(version()),
        Discovery::CoreVersions => Some(core_versions()),
        Discovery::Groups => Some(groups()),
        Discovery::Group(name) => group(name),
        Discovery::Resources { group, version } => resources(group, version),
    }
}

/// `/api`.
fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `/apis`.
fn groups() -> Value {
    let mut names: Vec<&str> =
        Endpoint::all().map(|endpoint| endpoint.served.group).filter(|group| !group.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let groups: Vec<Value> = names.into_iter().filter_map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`: `None` for a group that is not served.
fn group(name: &str) -> Option<Value> {
    let mut versions: Vec<Value> = Vec::new();
    for endpoint in Endpoint::all().filter(|endpoint| endpoint.served.group == name && !name.is_empty()) {
        let version = json!({"groupVersion": endpoint.served.api_version(), "version": endpoint.served.version});
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    let preferred = versions.first()?.clone();
    Some(json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": versions, "preferredVersion": preferred,
    }))
}

/// `/api/v1` and `/apis/GROUP/VERSION`: `None` for a version that is not served.
fn resources(group: &str, version: &str) -> Option<Value> {
    let served =
        Endpoint::all().filter(|endpoint| endpoint.served.group == group && endpoint.served.version == version);
    let resources: Vec<Value> = served.map(resource).collect();
    let group_version =
        Endpoint::all().find(|endpoint| endpoint.served.group == group && endpoint.served.version == version)?;
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version.served.api_version(),
        "resources": resources,
    }))
}

fn resource(endpoint: Endpoint) -> Value {
    let resource = endpoint.resource();
    let mut verbs = vec!["get", "list", "watch"];
    if resource.writable {
        verbs.extend(["create", "patch", "update"]);
    }
    json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
        "shortNames": resource.short,
    })
}

/// `/version`: the newest release whose API is served.
fn version() -> Value {
    let newest = Profile::all().next_back().map(|profile| profile.to_string()).unwrap_or_default();
    let (major, minor) = newest.split_once('.').unwrap_or_default();
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("v{newest}.0+svclab"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}
