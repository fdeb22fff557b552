//! Targets of the traffic of a service port.

use super::super::name::{Name, NameBase};
use crate::profile::Profile;
use crate::selection::{Selected, ServicePortView};

/// A service port with data shared by its elements and chains.
pub(super) struct Plan<'a> {
    pub(super) view: &'a ServicePortView<'a>,
    pub(super) selected: Selected,
    /// `namespace/name:port`.
    pub(super) name: String,
    pub(super) cluster_chain: Name,
    pub(super) local_chain: Name,
    pub(super) external_chain: Name,
    pub(super) firewall_chain: Name,
    /// Whether the cluster IP has usable endpoints.
    pub(super) internal: bool,
    /// Whether external addresses have usable endpoints for traffic from outside.
    pub(super) external: bool,
}

impl<'a> Plan<'a> {
    pub(super) fn new(view: &'a ServicePortView<'a>, selected: Selected, profile: Profile) -> Self {
        let base = NameBase::for_service_port(view);
        let serves = |local: bool| selected.any && !(local && selected.local.is_empty());
        Self {
            name: view.name(profile),
            cluster_chain: base.with("service-"),
            local_chain: base.with("local-"),
            external_chain: base.with("external-"),
            firewall_chain: base.with("firewall-"),
            internal: serves(view.internal_local),
            external: serves(view.external_local),
            view,
            selected,
        }
    }

    /// Returns the chain with the endpoints for the cluster IP.
    pub(super) fn internal_chain(&self) -> &Name {
        if self.view.internal_local { &self.local_chain } else { &self.cluster_chain }
    }

    /// Returns the chain with the endpoints for traffic from outside.
    pub(super) fn external_endpoints_chain(&self) -> &Name {
        if self.view.external_local { &self.local_chain } else { &self.cluster_chain }
    }

    /// Returns whether there is a chain for traffic to external addresses.
    pub(super) fn uses_external_chain(&self) -> bool {
        self.selected.any && self.view.externally_accessible()
    }

    /// Returns whether there is a chain that drops sources outside the source ranges. It exists without endpoints too.
    pub(super) fn uses_firewall(&self) -> bool {
        !self.view.load_balancer_ips.is_empty() && !self.view.source_ranges.is_empty()
    }
}
