//! Differences between releases in the rules of nftables mode.

use super::version::Profile;
use super::{backports, gates};
use crate::cluster::ProxyConfig;

/// The nftables mode.
impl Profile {
    /// The mode is modelled (from 1.30). In 1.29 it is an alpha feature with another layout.
    pub fn nftables(self) -> bool {
        self.minor >= 30
    }

    /// The mode is off unless the gate `NFTablesProxyMode` is on (up to 1.30).
    pub fn needs_nftables_gate(self) -> bool {
        self.minor <= 30
    }

    /// Checks for endpoints and for unused ports of cluster IPs are at the filter priority, after DNAT (from 1.34, 1.33.6); before, checks
    /// for endpoints come before DNAT, so that the node's own packets never take the short-circuit path of policy Local.
    pub fn nftables_filters_translated(self) -> bool {
        self.minor >= 34 || self.has_backport(&backports::FILTERS_TRANSLATED)
    }

    /// Interfaces are compared by name, with `iifname` (from 1.35, 1.34.2, 1.33.6; kubernetes#134024); before, with `iif`, which requires
    /// an existing interface and does not accept a name prefix.
    pub(crate) fn nftables_interface_by_name(self) -> bool {
        self.minor >= 35 || self.has_backport(&backports::INTERFACE_BY_NAME)
    }

    /// Packets to unallocated addresses in the ranges of ServiceCIDR objects are dropped (gate
    /// `MultiCIDRServiceAllocator`, alpha in 1.27, on by default from 1.33, always on from 1.34).
    pub(crate) fn nftables_drops_unallocated(self, config: &ProxyConfig) -> bool {
        gates::MULTI_CIDR_SERVICE_ALLOCATOR.is_on(self, config)
    }

    /// Rules that mark external traffic have the comment `masquerade`, and the one for all cluster IPs has a comment with `masqueradeAll`
    /// too (from 1.36).
    pub(crate) fn nftables_comments_masquerade(self) -> bool {
        self.minor >= 36
    }

    /// Elements that jump to a firewall chain have a comment, like those that reject traffic (1.30 and 1.31).
    pub(crate) fn nftables_comments_firewall(self) -> bool {
        self.minor <= 31
    }

    /// The rule that masquerades external traffic to a cluster IP also matches the port (up to 1.33).
    pub(crate) fn nftables_masquerade_names_port(self) -> bool {
        self.minor <= 33
    }

    /// Rules set the masquerade mark themselves, with one rule for all cluster IPs, and a set contains the connections of endpoints to
    /// themselves (from 1.36); before, rules jump to a chain `mark-for-masquerade`.
    pub(crate) fn nftables_marks_inline(self) -> bool {
        self.minor >= 36
    }

    /// Endpoints have their own chains only with session affinity (from 1.36); otherwise, the service port's chain has a map of
    /// destinations.
    pub(crate) fn nftables_maps_destinations(self) -> bool {
        self.minor >= 36
    }

    /// A single endpoint needs no map (from 1.37).
    pub(crate) fn nftables_single_destination(self) -> bool {
        self.minor >= 37
    }

    /// Comments of elements are truncated to the kernel's 128 bytes (from 1.37; kubernetes#139515); before, a longer one
    /// makes the whole sync fail.
    pub(crate) fn nftables_cuts_comments(self) -> bool {
        self.minor >= 37
    }
}
