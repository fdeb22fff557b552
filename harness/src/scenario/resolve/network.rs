//! The section `cluster:`: ranges, the network of pods, kube-proxy's configuration.

use std::ops::RangeInclusive;

use ipnet::IpNet;
use svclab_rules::cluster::objects::{
    ConntrackConfiguration, DetectLocalConfiguration, KubeProxyConfiguration, MasqueradeConfiguration, NODE_PORTS,
    proxy_config,
};
use svclab_rules::cluster::{ConntrackCleanup, Family, ProxyConfig, ProxyMode};
use svclab_rules::profile::Profile;
use svclab_rules::profile::gates::{GateProblem, gate_problem, names};

use super::addresses::{family, overlap};
use super::findings::Findings;
use super::located::{Located, report};
use crate::input::did_you_mean;
use crate::scenario::model::{Cni, CniKind, Overlay};
use crate::scenario::schema::{OneOrMany, RawCleanup, RawCluster, RawCni, RawCniName, RawOverlay, RawProxy};
use crate::yaml::At;

/// Default ranges of cluster IPs: the first range of a family that does not overlap with pods is used.
const SERVICES: [&str; 4] = ["10.96.0.0/12", "172.20.0.0/16", "fd00:10:96::/112", "fd00:172:20::/112"];
/// The default release.
const VERSION: &str = "1.30";

/// The resolved section.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// The ranges of pods, at most one of each family, the primary one first.
    pub(crate) pod_cidrs: Vec<IpNet>,
    /// Whether these ranges are given; otherwise they are the default.
    pub(crate) has_pod_cidr: bool,
    /// The ranges of cluster IPs, at most one of each family.
    pub(crate) service_cidrs: Vec<IpNet>,
    /// Whether the cluster has a ServiceCIDR object.
    pub(crate) has_service_cidr: bool,
    /// The range of node ports.
    pub(crate) node_ports: RangeInclusive<u16>,
    /// How pods are connected.
    pub(crate) cni: Cni,
    /// kube-proxy's configuration.
    pub(crate) proxy: ProxyConfig,
}

impl Network {
    /// Returns the ranges of the cluster's ServiceCIDR object, if it has one: those of the cluster's families.
    pub(crate) fn allocated(&self) -> impl Iterator<Item = IpNet> {
        let families = self.families();
        let known = if self.has_service_cidr { self.service_cidrs.as_slice() } else { &[] };
        known.iter().copied().filter(move |range| families.contains(&family(*range)))
    }

    /// Returns the default ranges that do not overlap with pods; if all ranges of a family overlap, the first.
    pub(crate) fn free(&self, defaults: &[&str]) -> Vec<IpNet> {
        let defaults = parsed(defaults);
        let free: Vec<IpNet> = defaults.iter().copied().filter(|range| is_free(*range, &self.pod_cidrs)).collect();
        let lacks = |range: &&IpNet| !free.iter().any(|one| family(*one) == family(**range));
        let taken: Vec<IpNet> = defaults.iter().filter(lacks).copied().collect();
        free.into_iter().chain(taken).collect()
    }

    /// Returns the families of pods, the primary one first.
    pub(crate) fn families(&self) -> Vec<Family> {
        self.pod_cidrs.iter().copied().map(family).collect()
    }
}

/// Resolves the section; `at` is its place.
pub(crate) fn network(raw: &RawCluster, at: At<'_>, findings: &mut Findings) -> Network {
    let pod_cidrs = ranges(&raw.pod_cidr, at.field("podCIDR"), "10.244.0.0/16", findings);
    let has_pod_cidr = !pod_cidrs.is_empty();
    let pod_cidrs = if pod_cidrs.is_empty() { parsed(&["10.244.0.0/16"]) } else { pod_cidrs };
    let has_service_cidr = !(at.has("serviceCIDR") && raw.service_cidr.0.is_empty());
    let mut service_cidrs = ranges(&raw.service_cidr, at.field("serviceCIDR"), "10.96.0.0/12", findings);
    for (pods, services) in pod_cidrs.iter().flat_map(|pods| service_cidrs.iter().map(move |other| (pods, other))) {
        if overlap(*pods, *services) {
            let message = format!("podCIDR {pods} and serviceCIDR {services} overlap");
            let place = at.field("podCIDR");
            findings.wrong(place.reading(pods).unwrap_or(place), message, "Change `podCIDR` or `serviceCIDR`.");
        }
    }
    for default in parsed(&SERVICES) {
        let is_given = service_cidrs.iter().any(|given| family(*given) == family(default));
        if !is_given && is_free(default, &pod_cidrs) {
            service_cidrs.push(default);
        }
    }
    let proxy = proxy(&raw.proxy, &pod_cidrs, at.field("proxy"), findings);
    let node_ports = node_ports(raw.service_node_port_range.as_deref(), at.field("serviceNodePortRange"), findings);
    let cni = cni(raw, at.field("cni"), findings);
    Network { cni, pod_cidrs, has_pod_cidr, service_cidrs, has_service_cidr, node_ports, proxy }
}

/// Parses the range of node ports: two numbers separated by a hyphen, the first at least 1 and not greater than the second.
fn node_ports(text: Option<&str>, at: At<'_>, findings: &mut Findings) -> RangeInclusive<u16> {
    let Some(text) = text else { return NODE_PORTS };
    let ends = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match ends {
        Some((first, last)) if 0 < first && first <= last => first..=last,
        _ => {
            let message = format!("`{text}` is not a range of ports");
            findings.wrong(at, message, "Write the first and the last port, for example 30000-32767.");
            NODE_PORTS
        }
    }
}

/// Returns whether a range does not overlap with those of pods.
fn is_free(range: IpNet, pod_cidrs: &[IpNet]) -> bool {
    !pod_cidrs.iter().any(|pods| overlap(*pods, range))
}

fn parsed(ranges: &[&str]) -> Vec<IpNet> {
    ranges.iter().filter_map(|range| range.parse().ok()).collect()
}

fn ranges(raw: &OneOrMany<String>, at: At<'_>, like: &str, findings: &mut Findings) -> Vec<IpNet> {
    let mut ranges: Vec<IpNet> = Vec::new();
    for (index, text) in raw.0.iter().enumerate() {
        let at = at.item(index);
        let Some(range) = findings.parsed::<IpNet>(at, text, "CIDR range", &format!("a range, for example {like}"))
        else {
            continue;
        };
        if range != range.trunc() {
            let message = format!("`{range}` has host bits set");
            findings.wrong(at, message, format!("Write {}.", range.trunc()));
        }
        if ranges.iter().any(|other| family(*other) == family(range)) {
            let message = format!("a second {} range", family(range));
            findings.wrong(at, message, "Use at most one range of each family.");
        } else {
            ranges.push(range.trunc());
        }
    }
    ranges
}

fn cni(raw: &RawCluster, at: At<'_>, findings: &mut Findings) -> Cni {
    let (name, hairpin, nf_call) = match &raw.cni {
        RawCni::Name(name) => (*name, None, None),
        RawCni::Map(map) => (map.kind, map.hairpin_mode, map.bridge_nf_call_iptables),
    };
    let kind = match name {
        RawCniName::Bridge => {
            CniKind::Bridge { hairpin: hairpin.unwrap_or(true), nf_call_iptables: nf_call.unwrap_or(true) }
        }
        RawCniName::Ptp => {
            for (given, field) in [(hairpin, "hairpinMode"), (nf_call, "bridgeNfCallIptables")] {
                if given.is_some() {
                    let message = format!("`{field}` needs a bridge network");
                    findings.wrong(at.field(field).key(), message, "Set `kind: bridge`, or omit it.");
                }
            }
            CniKind::Ptp
        }
    };
    let overlay = match raw.overlay {
        RawOverlay::None => Overlay::None,
        RawOverlay::Vxlan => Overlay::Vxlan,
    };
    Cni { kind, overlay }
}

/// Resolves kube-proxy's configuration; `clusterCIDR` defaults to the range of pods.
pub(crate) fn proxy(raw: &RawProxy, pod_cidrs: &[IpNet], at: At<'_>, findings: &mut Findings) -> ProxyConfig {
    let nft = raw.mode.as_deref() == Some(ProxyMode::Nftables.as_str());
    let bit = |long: Option<u8>| long.or(raw.masquerade_bit).map(i32::from);
    let joined = pod_cidrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let masquerade = |all: Option<bool>, long: Option<u8>, localhost: Option<bool>| MasqueradeConfiguration {
        masquerade_all: all.or(raw.masquerade_all),
        masquerade_bit: bit(long),
        localhost_node_ports: localhost.or(raw.localhost_node_ports),
    };
    let ipt = &raw.iptables;
    let given = KubeProxyConfiguration {
        mode: raw.mode.clone(),
        cluster_cidr: Some(raw.cluster_cidr.clone().unwrap_or(joined)),
        detect_local_mode: raw.detect_local_mode.clone(),
        detect_local: DetectLocalConfiguration {
            bridge_interface: raw.detect_local.bridge_interface.clone(),
            interface_name_prefix: raw.detect_local.interface_name_prefix.clone(),
        },
        iptables: masquerade(ipt.masquerade_all, ipt.masquerade_bit, ipt.localhost_node_ports),
        nftables: masquerade(raw.nftables.masquerade_all, raw.nftables.masquerade_bit, None),
        node_port_addresses: raw.node_port_addresses.clone(),
        conntrack: ConntrackConfiguration { tcp_be_liberal: raw.conntrack.tcp_be_liberal },
        feature_gates: Some(raw.feature_gates.clone()),
    };
    let version = raw.version.as_ref().map_or(VERSION, |version| version.release().0);
    if let Err(error) = version.parse::<Profile>() {
        findings.wrong(at.field("version"), error.to_string(), "Use one of these in quotes, for example \"1.30\".");
    }
    gates(&raw.feature_gates, version, at.field("featureGates"), findings);
    let conntrack_cleanup = cleanup(raw.conntrack.cleanup.as_ref(), at.field("conntrack").field("cleanup"), findings);
    let place = Located::manifest((), at);
    match proxy_config(&given, version) {
        Ok(config) => ProxyConfig { conntrack_cleanup, ..config },
        Err(errors) => {
            // The short forms of fields in the section `iptables` are one level higher.
            let section = if nft { "nftables." } else { "iptables." };
            let short = errors.into_iter().map(|mut error| {
                if !at.has(section.trim_end_matches('.')) {
                    error.path = error.path.trim_start_matches(section).to_owned();
                }
                error
            });
            report(&place, short.collect(), findings);
            ProxyConfig::default()
        }
    }
}

fn cleanup(raw: Option<&RawCleanup>, at: At<'_>, findings: &mut Findings) -> ConntrackCleanup {
    match raw {
        None | Some(RawCleanup::Any(true)) => ConntrackCleanup::SameAsVersion,
        Some(RawCleanup::Any(false)) => ConntrackCleanup::Off,
        Some(RawCleanup::Of(release)) => {
            if let Err(error) = release.0.parse::<Profile>() {
                findings.wrong(at, error.to_string(), "Use one of these in quotes, for example \"1.31\", or false.");
            }
            ConntrackCleanup::Of(release.0.clone())
        }
    }
}

/// Checks the feature gates of a configuration. A gate that resembles a known one is reported as misspelt; any other without effect gets a
/// note.
pub(crate) fn gates<'g>(
    gates: impl IntoIterator<Item = (&'g String, &'g bool)>,
    version: &str,
    at: At<'_>,
    findings: &mut Findings,
) {
    let Ok(profile) = version.parse::<Profile>() else { return };
    let odd = gates.into_iter().filter_map(|(name, on)| Some((name, gate_problem(name, *on, profile)?)));
    for (name, gate_problem) in odd {
        let (place, message) = (at.field(name).key(), format!("feature gate `{name}` {gate_problem}"));
        match gate_problem {
            GateProblem::Unknown => match did_you_mean(name, &names()) {
                Some(question) => findings.wrong(place, format!("unknown feature gate `{name}`"), question),
                None => findings.doubt(at.field(name), message),
            },
            GateProblem::NotYet(_) | GateProblem::Locked(_) | GateProblem::NoEffect => {
                findings.doubt(at.field(name), message)
            }
        }
    }
}
