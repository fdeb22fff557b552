//! Differences between releases in the choice of endpoints.

use super::gates;
use super::version::Profile;
use crate::cluster::ProxyConfig;

/// Choice of endpoints.
impl Profile {
    /// Endpoints are sorted by address, as in their Endpoints object (up to 1.18); with EndpointSlices, they are sorted as text with their
    /// port, so that `10.0.0.10:80` comes after `10.0.0.100:80`.
    pub(crate) fn sorts_endpoints_by_address(self) -> bool {
        self.minor <= 18
    }

    /// Of several entries with the same address, one that is not terminating wins (from 1.36); before, a local one.
    pub(crate) fn prefers_running_endpoint(self) -> bool {
        self.minor >= 36
    }

    /// Terminating endpoints are used if no ready one is left (alpha in 1.22, on by default from 1.26).
    pub(crate) fn terminating_endpoints(self, config: &ProxyConfig) -> bool {
        gates::PROXY_TERMINATING_ENDPOINTS.is_on(self, config)
    }

    /// Zone hints are used (alpha in 1.21, on by default from 1.24, always on from 1.33).
    pub(crate) fn zone_hints(self, config: &ProxyConfig) -> bool {
        gates::TOPOLOGY_AWARE_HINTS.is_on(self, config)
    }

    /// Hints are used without the annotation that enables them (alpha in 1.30, on by default from 1.31, always on from
    /// 1.33).
    pub(crate) fn hints_without_annotation(self, config: &ProxyConfig) -> bool {
        gates::SERVICE_TRAFFIC_DISTRIBUTION.is_on(self, config)
    }

    /// The annotation may be `service.kubernetes.io/topology-mode`, and any value except `Disabled` enables hints (from 1.27); before, it
    /// is `topology-aware-hints` with the value `Auto`.
    pub(crate) fn topology_mode_annotation(self) -> bool {
        self.minor >= 27
    }

    /// Hints can name nodes (alpha in 1.33, on by default from 1.34).
    pub(crate) fn node_hints(self, config: &ProxyConfig) -> bool {
        gates::PREFER_SAME_TRAFFIC_DISTRIBUTION.is_on(self, config)
    }
}
