//! The types that a scenario's YAML is decoded into, and that the JSON Schema is made from.
//!
//! Editors show the doc comments, so they address the author of a scenario. Names of fields are those of
//! Kubernetes. Nothing is looked up or filled in here.

mod cluster;
mod connections;
mod endpoints;
mod links;
mod machines;
mod services;
mod steps;
mod values;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;

pub(crate) use cluster::{RawCleanup, RawCluster, RawCni, RawCniName, RawOverlay, RawProxy};
pub(crate) use connections::RawConnection;
pub(crate) use endpoints::{RawConditions, RawEndpoint, RawEndpointPort, RawEndpoints, RawHints, RawNamed};
pub(crate) use links::{RawLink, RawLinkState};
pub(crate) use machines::{RawHost, RawNode, RawPod, RawPodPort, Scalar};
pub(crate) use services::{RawIngress, RawService, RawServicePort};
pub(crate) use steps::{
    RawApply, RawBalance, RawBounds, RawDropped, RawDuring, RawExpect, RawFlows, RawProbe, RawRate, RawRejectKind,
    RawRejected, RawStep, RawTcpFlag, RawTest, RawTooBig, RawTooBigMessage,
};
pub(crate) use values::{OneOrMany, RawTime, Version};

/// Returns the JSON Schema (draft 2020-12), generated from the same types that scenarios are decoded into.
pub fn schema() -> serde_json::Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<RawScenario>();
    schema.insert("title".to_owned(), "svclab scenario".into());
    schema.to_value()
}

/// A scenario: a cluster, and the expected outcome of packets in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawScenario {
    /// A sentence that says what the scenario shows.
    pub(crate) name: String,
    /// Tags of all its tests: `svclab run --tag` selects tests by them.
    #[serde(default)]
    pub(crate) tags: OneOrMany<String>,
    /// The network of pods and kube-proxy's configuration.
    #[serde(default)]
    pub(crate) cluster: RawCluster,
    /// The machines that run kube-proxy.
    #[serde(default)]
    pub(crate) nodes: Vec<RawNode>,
    /// The pods.
    #[serde(default)]
    pub(crate) pods: Vec<RawPod>,
    /// The Services.
    #[serde(default)]
    pub(crate) services: Vec<RawService>,
    /// The endpoints of Services. A Service with a selector and no entry here has the pods that match.
    #[serde(default)]
    pub(crate) endpoints: Vec<RawEndpoints>,
    /// Machines that do not belong to the cluster.
    #[serde(default)]
    pub(crate) hosts: Vec<RawHost>,
    /// Links of machines that have other than default settings from the start.
    #[serde(default)]
    pub(crate) links: Vec<RawLink>,
    /// Initial conntrack entries of nodes.
    #[serde(default)]
    pub(crate) connections: Vec<RawConnection>,
    /// Files with plain Kubernetes objects, relative to this file.
    #[serde(default)]
    pub(crate) manifests: Vec<String>,
    /// Rules that svclab does not generate, by node name or `pod/NAME`.
    #[serde(default)]
    pub(crate) rules: BTreeMap<String, OneOrMany<RawRules>>,
    /// The tests, in order.
    #[serde(default)]
    pub(crate) tests: Vec<RawTest>,
}

/// Rules in the format of `iptables-save` or `nft list ruleset`; either `file` or `text`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawRules {
    /// A file, relative to the scenario.
    pub(crate) file: Option<String>,
    /// The rules themselves.
    pub(crate) text: Option<String>,
    /// Their order: instead of kube-proxy's rules, or before or after those in the same chains.
    pub(crate) install: RawInstall,
    /// Their address family.
    #[serde(default)]
    pub(crate) family: RawFamily,
}

/// The order of other rules relative to kube-proxy's.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawInstall {
    /// kube-proxy's rules are not installed.
    Instead,
    /// These rules come first in chains that exist in both.
    Before,
    /// These rules come last in chains that exist in both.
    After,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawFamily {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}
