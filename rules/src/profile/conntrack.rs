//! Differences between releases in the conntrack cleanup.

use super::backports;
use super::version::Profile;

/// Conntrack cleanup.
impl Profile {
    /// Entries are deleted after a change of objects, depending on the change, as modelled in [`crate::conntrack`] (1.22 to 1.31); the
    /// cleanup before 1.22 is not modelled.
    pub(crate) fn cleans_up_after_changes(self) -> bool {
        (22..=31).contains(&self.minor)
    }

    /// Entries are deleted after a comparison of the whole conntrack table with the endpoints (from 1.32).
    pub(crate) fn compares_connections(self) -> bool {
        self.minor >= 32
    }

    /// The comparison covers entries to a service's address on any port (1.32.0 to 1.32.2; kubernetes#130484).
    pub(crate) fn compares_connections_on_any_port(self) -> bool {
        self.minor == 32 && !self.has_backport(&backports::COMPARES_PORTS)
    }

    /// The comparison includes the endpoint's port (from 1.34; kubernetes#130542); before, only its address.
    pub(crate) fn compares_endpoint_ports(self) -> bool {
        self.minor >= 34
    }

    /// The comparison deletes the entries of a service that has no serving endpoint left (from 1.37; kubernetes#139629); before, it keeps
    /// them.
    pub(crate) fn compares_connections_without_endpoints(self) -> bool {
        self.minor >= 37
    }
}
