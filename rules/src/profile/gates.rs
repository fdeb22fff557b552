//! kube-proxy's feature gates.
//!
//! The `featureGates` of a KubeProxyConfiguration may be any of Kubernetes'. Listed here are those that kube-proxy's own code uses
//! (`pkg/features/kube_features.go`, `pkg/proxy`, `cmd/kube-proxy`), and a few of all components that also appear in its configuration.

use std::fmt;

use super::version::Profile;
use crate::cluster::ProxyConfig;

/// A feature gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// The minor release that introduced it, as alpha or beta.
    since: u8,
    /// The first minor release in which it is on by default, if svclab's results depend on it.
    default_on: u8,
    /// The first minor release in which it is locked on: kube-proxy does not start if it is set to false.
    locked_since: Option<u8>,
    /// Whether svclab's rules depend on it.
    decides: bool,
}

/// A problem with a gate in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateProblem {
    /// No gate with this name is listed.
    Unknown,
    /// It was introduced in a later minor release: this kube-proxy does not start.
    NotYet(u8),
    /// It is set to false, but locked on since a minor release: this kube-proxy does not start.
    Locked(u8),
    /// svclab's results do not depend on it.
    NoEffect,
}

impl fmt::Display for GateProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("is unknown to kube-proxy; ignored"),
            Self::NotYet(since) => write!(f, "was added in 1.{since}: a kube-proxy before that does not start with it"),
            Self::Locked(since) => {
                write!(f, "is always on from 1.{since} on: such a kube-proxy does not start without it")
            }
            Self::NoEffect => f.write_str("has no effect on the rules that svclab writes"),
        }
    }
}

/// Returns the names of all listed gates.
pub fn names() -> Vec<&'static str> {
    GATES.iter().map(|gate| gate.name).collect()
}

/// Returns the problem with a gate in the configuration of a release's kube-proxy, if any.
pub fn gate_problem(name: &str, on: bool, profile: Profile) -> Option<GateProblem> {
    let Some(gate) = GATES.iter().find(|gate| gate.name == name) else { return Some(GateProblem::Unknown) };
    if profile.minor < gate.since {
        return Some(GateProblem::NotYet(gate.since));
    }
    match gate.locked_since {
        Some(since) if !on && profile.minor >= since => Some(GateProblem::Locked(since)),
        _ => (!gate.decides).then_some(GateProblem::NoEffect),
    }
}

impl Gate {
    /// Returns whether it is on in a release: never before it was introduced, always once it is locked, otherwise as configured or by
    /// default.
    pub(super) fn is_on(self, profile: Profile, config: &ProxyConfig) -> bool {
        let is_locked = self.locked_since.is_some_and(|since| profile.minor >= since);
        let by_default = || profile.minor >= self.default_on;
        let configured = || config.feature_gates.get(self.name).copied();
        profile.minor >= self.since && (is_locked || configured().unwrap_or_else(by_default))
    }
}

/// Creates a gate that affects svclab's rules.
const fn decides(name: &'static str, since: u8, default_on: u8, locked_since: Option<u8>) -> Gate {
    Gate { name, since, default_on, locked_since, decides: true }
}

/// Creates a gate without effect in svclab.
const fn other(name: &'static str, since: u8) -> Gate {
    Gate { name, since, default_on: since, locked_since: None, decides: false }
}

pub(super) const ALLOW_SERVICE_EXTERNAL_IPS: Gate = decides("AllowServiceExternalIPs", 36, 36, None);
pub(super) const LOAD_BALANCER_IP_MODE: Gate = decides("LoadBalancerIPMode", 29, 30, Some(32));
pub(super) const MULTI_CIDR_SERVICE_ALLOCATOR: Gate = decides("MultiCIDRServiceAllocator", 27, 33, Some(34));
pub(super) const PREFER_SAME_TRAFFIC_DISTRIBUTION: Gate = decides("PreferSameTrafficDistribution", 33, 34, Some(35));
pub(super) const PROXY_TERMINATING_ENDPOINTS: Gate = decides("ProxyTerminatingEndpoints", 22, 26, Some(28));
pub(super) const SERVICE_TRAFFIC_DISTRIBUTION: Gate = decides("ServiceTrafficDistribution", 30, 31, Some(33));
pub(super) const TOPOLOGY_AWARE_HINTS: Gate = decides("TopologyAwareHints", 21, 24, Some(33));

const GATES: [Gate; 47] = [
    ALLOW_SERVICE_EXTERNAL_IPS,
    LOAD_BALANCER_IP_MODE,
    MULTI_CIDR_SERVICE_ALLOCATOR,
    PREFER_SAME_TRAFFIC_DISTRIBUTION,
    PROXY_TERMINATING_ENDPOINTS,
    SERVICE_TRAFFIC_DISTRIBUTION,
    TOPOLOGY_AWARE_HINTS,
    other("AllAlpha", 0),
    other("AllBeta", 0),
    other("APIResponseCompression", 7),
    other("ClientsAllowCBOR", 32),
    other("ClientsPreferCBOR", 32),
    other("CloudDualStackNodeIPs", 27),
    other("ComponentFlagz", 32),
    other("ComponentSLIs", 26),
    other("ComponentStatusz", 32),
    other("ContextualLogging", 24),
    other("DisableAllocatorDualWrite", 31),
    other("DisableNodeKubeProxyVersion", 29),
    other("EndpointSlice", 16),
    other("EndpointSliceNodeName", 20),
    other("EndpointSliceProxying", 18),
    other("EndpointSliceTerminatingCondition", 20),
    other("ExternalPolicyForExternalIP", 18),
    other("InformerResourceVersion", 30),
    other("InOrderInformers", 33),
    other("IPv6DualStack", 15),
    other("KubeProxyDrainingTerminatingNodes", 28),
    other("LoggingAlphaOptions", 24),
    other("LoggingBetaOptions", 24),
    other("MinimizeIPTablesRestore", 26),
    other("MixedProtocolLBService", 20),
    other("NFTablesProxyMode", 29),
    other("RelaxedServiceNameValidation", 34),
    other("SCTPSupport", 12),
    other("ServiceAppProtocol", 18),
    other("ServiceInternalTrafficPolicy", 21),
    other("ServiceIPStaticSubrange", 24),
    other("ServiceLBNodePortControl", 20),
    other("ServiceLoadBalancerClass", 21),
    other("ServiceNodePortStaticSubrange", 27),
    other("ServiceTopology", 17),
    other("StrictIPCIDRValidation", 33),
    other("SupportIPVSProxyMode", 8),
    other("WatchListClient", 30),
    other("WinOverlay", 14),
    other("WinDSR", 14),
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::decides("MultiCIDRServiceAllocator", true, "1.32", None)]
    #[case::misspelt("MultiCIDRServiceAllocater", true, "1.32", Some(GateProblem::Unknown))]
    #[case::later("AllowServiceExternalIPs", false, "1.35", Some(GateProblem::NotYet(36)))]
    #[case::locked("ProxyTerminatingEndpoints", false, "1.28", Some(GateProblem::Locked(28)))]
    #[case::locked_and_on("ProxyTerminatingEndpoints", true, "1.28", None)]
    #[case::elsewhere("NFTablesProxyMode", true, "1.30", Some(GateProblem::NoEffect))]
    fn gate_problems(
        #[case] name: &str,
        #[case] on: bool,
        #[case] version: &str,
        #[case] expected: Option<GateProblem>,
    ) {
        assert_eq!(gate_problem(name, on, version.parse().unwrap()), expected);
    }

    #[rstest]
    #[case::before_it_came(LOAD_BALANCER_IP_MODE, "1.28", Some(true), false)]
    #[case::off_by_default(LOAD_BALANCER_IP_MODE, "1.29", None, false)]
    #[case::turned_on(LOAD_BALANCER_IP_MODE, "1.29", Some(true), true)]
    #[case::on_by_default(LOAD_BALANCER_IP_MODE, "1.30", None, true)]
    #[case::turned_off(LOAD_BALANCER_IP_MODE, "1.31", Some(false), false)]
    #[case::locked(LOAD_BALANCER_IP_MODE, "1.32", Some(false), true)]
    #[case::never_locked(ALLOW_SERVICE_EXTERNAL_IPS, "1.37", Some(false), false)]
    fn gates_are_on(#[case] gate: Gate, #[case] version: &str, #[case] configured: Option<bool>, #[case] on: bool) {
        let mut config = ProxyConfig::default();
        config.feature_gates.extend(configured.map(|on| (gate.name.to_owned(), on)));
        assert_eq!(gate.is_on(version.parse().unwrap(), &config), on);
    }

    #[test]
    fn every_gate_is_listed_once() {
        let mut names = names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), GATES.len());
    }
}
