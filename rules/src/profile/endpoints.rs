//! What differs between releases in the choice of endpoints.

use super::gates;
use super::version::Profile;
use crate::cluster::ProxyConfig;

/// Which endpoints serve.
impl Profile {
    /// Endpoints are listed by address, as their Endpoints object has them (up to 1.18); from EndpointSlices, they are
    /// sorted with their port, so that `10.0.0.10:80` comes after `10.0.0.100:80`.
    pub(crate) fn sorts_endpoints_by_address(self) -> bool {
        self.minor <= 18
    }

    /// Of several entries with one address, one that is not terminating counts (from 1.36); before, a local one.
    pub(crate) fn prefers_running_endpoint(self) -> bool {
        self.minor >= 36
    }

    /// Terminating endpoints serve where no ready one is left (alpha in 1.22, on by default from 1.26).
    pub(crate) fn terminating_endpoints(self, config: &ProxyConfig) -> bool {
        gates::PROXY_TERMINATING_ENDPOINTS.is_on(self, config)
    }

    /// Zone hints count (alpha in 1.21, on by default from 1.24, always on from 1.33).
    pub(crate) fn zone_hints(self, config: &ProxyConfig) -> bool {
        gates::TOPOLOGY_AWARE_HINTS.is_on(self, config)
    }

    /// Hints count without the annotation that asks for them (alpha in 1.30, on by default from 1.31, always on from
    /// 1.33).
    pub(crate) fn hints_without_annotation(self, config: &ProxyConfig) -> bool {
        gates::SERVICE_TRAFFIC_DISTRIBUTION.is_on(self, config)
    }

    /// The annotation may be `service.kubernetes.io/topology-mode`, and any value but `Disabled` asks for hints (from
    /// 1.27); before, it is `topology-aware-hints` with the value `Auto`.
    pub(crate) fn topology_mode_annotation(self) -> bool {
        self.minor >= 27
    }

    /// Hints can name nodes (alpha in 1.33, on by default from 1.34).
    pub(crate) fn node_hints(self, config: &ProxyConfig) -> bool {
        gates::PREFER_SAME_TRAFFIC_DISTRIBUTION.is_on(self, config)
    }
}
