//! kube-proxy's feature gates.
//!
//! The `featureGates` of a KubeProxyConfiguration may be any of Kubernetes'. Listed here are those that kube-proxy's own
//! code asks for (`pkg/features/kube_features.go`, `pkg/proxy`, `cmd/kube-proxy`), and a few of all components that
//! stand in its configuration as well.

use std::fmt;

use super::Profile;

/// A feature gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// The minor release in which it came, as alpha or beta.
    since: u8,
    /// The minor release from which on it is on for good: kube-proxy does not start where it is set to false.
    locked_since: Option<u8>,
    /// Whether what svclab writes depends on it.
    decides: bool,
}

/// What is odd about a gate that a configuration sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oddity {
    /// No gate of this name is listed.
    Unknown,
    /// It came in a later minor release: this kube-proxy does not start.
    NotYet(u8),
    /// It is set to false, and has been on for good since a minor release: this kube-proxy does not start.
    Locked(u8),
    /// svclab's results do not depend on it.
    NoEffect,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("is not one of kube-proxy's gates, and has no effect here"),
            Self::NotYet(since) => write!(f, "was added in 1.{since}: a kube-proxy before that does not start with it"),
            Self::Locked(since) => {
                write!(f, "is always on from 1.{since} on: such a kube-proxy does not start without it")
            }
            Self::NoEffect => f.write_str("has no effect on the rules that svclab writes"),
        }
    }
}

/// The names of all gates that are listed.
pub fn names() -> Vec<&'static str> {
    GATES.iter().map(|gate| gate.name).collect()
}

/// What is odd about a gate that the configuration of a release's kube-proxy sets.
pub fn oddity(name: &str, on: bool, profile: Profile) -> Option<Oddity> {
    let Some(gate) = GATES.iter().find(|gate| gate.name == name) else { return Some(Oddity::Unknown) };
    if profile.minor < gate.since {
        return Some(Oddity::NotYet(gate.since));
    }
    match gate.locked_since {
        Some(since) if !on && profile.minor >= since => Some(Oddity::Locked(since)),
        _ => (!gate.decides).then_some(Oddity::NoEffect),
    }
}

/// A gate on which what svclab writes depends.
const fn decides(name: &'static str, since: u8, locked_since: Option<u8>) -> Gate {
    Gate { name, since, locked_since, decides: true }
}

/// A gate on which nothing depends here.
const fn other(name: &'static str, since: u8) -> Gate {
    Gate { name, since, locked_since: None, decides: false }
}

const GATES: [Gate; 47] = [
    decides("AllowServiceExternalIPs", 36, None),
    decides("LoadBalancerIPMode", 29, Some(32)),
    decides("MultiCIDRServiceAllocator", 27, Some(34)),
    decides("PreferSameTrafficDistribution", 33, Some(35)),
    decides("ProxyTerminatingEndpoints", 22, Some(28)),
    decides("ServiceTrafficDistribution", 30, Some(33)),
    decides("TopologyAwareHints", 21, Some(33)),
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
    #[case::misspelt("MultiCIDRServiceAllocater", true, "1.32", Some(Oddity::Unknown))]
    #[case::later("AllowServiceExternalIPs", false, "1.35", Some(Oddity::NotYet(36)))]
    #[case::locked("ProxyTerminatingEndpoints", false, "1.28", Some(Oddity::Locked(28)))]
    #[case::locked_and_on("ProxyTerminatingEndpoints", true, "1.28", None)]
    #[case::elsewhere("NFTablesProxyMode", true, "1.30", Some(Oddity::NoEffect))]
    fn odd_gates(#[case] name: &str, #[case] on: bool, #[case] version: &str, #[case] expected: Option<Oddity>) {
        assert_eq!(oddity(name, on, version.parse().unwrap()), expected);
    }

    #[test]
    fn every_gate_is_listed_once() {
        let mut names = names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), GATES.len());
    }
}
