//! What differs between releases in the rules of nftables mode.

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

    /// Checks for endpoints and for unused ports of cluster IPs are at the priority of filters, where destinations are
    /// translated already (from 1.34, 1.33.6); before, those for endpoints come before the translation, so that the
    /// node's own packets never get to the short-circuit path of policy Local.
    pub(crate) fn nftables_filters_translated(self) -> bool {
        self.minor >= 34 || self.has_backport(&backports::FILTERS_TRANSLATED)
    }

    /// Interfaces are compared by name, with `iifname` (from 1.35, 1.34.2, 1.33.6; kubernetes#134024); before, with `iif`,
    /// which wants an interface that is there, and no start of a name.
    pub(crate) fn nftables_interface_by_name(self) -> bool {
        self.minor >= 35 || self.has_backport(&backports::INTERFACE_BY_NAME)
    }

    /// Packets to the ranges of ServiceCIDR objects are dropped where no service has the address (gate
    /// `MultiCIDRServiceAllocator`, alpha in 1.27, on by default from 1.33, always on from 1.34).
    pub(crate) fn nftables_drops_unallocated(self, config: &ProxyConfig) -> bool {
        gates::MULTI_CIDR_SERVICE_ALLOCATOR.is_on(self, config)
    }

    /// Rules that mark what comes from outside have the comment `masquerade`, and the one for all cluster IPs has one with
    /// `masqueradeAll` too (from 1.36).
    pub(crate) fn nftables_comments_masquerade(self) -> bool {
        self.minor >= 36
    }

    /// Elements that lead to a firewall have a comment, as those that reject traffic have (1.30 and 1.31).
    pub(crate) fn nftables_comments_firewall(self) -> bool {
        self.minor <= 31
    }

    /// The rule that masquerades what comes to a cluster IP from outside names the port too (up to 1.33).
    pub(crate) fn nftables_masquerade_names_port(self) -> bool {
        self.minor <= 33
    }

    /// Rules set the mark for masquerading themselves, with one rule for all cluster IPs, and connections of endpoints to
    /// themselves are in a set (from 1.36); before, there is a chain `mark-for-masquerade` to jump to.
    pub(crate) fn nftables_marks_inline(self) -> bool {
        self.minor >= 36
    }

    /// Endpoints have chains of their own only if they remember clients (from 1.36); else, the service port's chain has
    /// a map of destinations.
    pub(crate) fn nftables_maps_destinations(self) -> bool {
        self.minor >= 36
    }

    /// A single endpoint needs no map (from 1.37).
    pub(crate) fn nftables_single_destination(self) -> bool {
        self.minor >= 37
    }

    /// Comments of elements are cut off at the kernel's 128 bytes (from 1.37; kubernetes#139515); before, a longer one
    /// makes the whole sync fail.
    pub(crate) fn nftables_cuts_comments(self) -> bool {
        self.minor >= 37
    }
}
