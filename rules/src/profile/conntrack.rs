//! What differs between releases in the cleanup of connections.

use super::backports;
use super::version::Profile;

/// Cleanup of connections.
impl Profile {
    /// Connections are forgotten after a change of objects, by what changed, as [`crate::conntrack`] has it (1.22 to
    /// 1.31); before 1.22 in a way that is not known here.
    pub(crate) fn cleans_up_after_changes(self) -> bool {
        (22..=31).contains(&self.minor)
    }

    /// Connections are forgotten by a comparison of the whole connection table with the endpoints (from 1.32).
    pub(crate) fn compares_connections(self) -> bool {
        self.minor >= 32
    }

    /// That comparison looks at connections to a service's address on any port (1.32.0 to 1.32.2; kubernetes#130484).
    pub(crate) fn compares_connections_on_any_port(self) -> bool {
        self.minor == 32 && !self.has_backport(&backports::COMPARES_PORTS)
    }

    /// That comparison looks at the endpoint's port too (from 1.34; kubernetes#130542); before, at its address alone.
    pub(crate) fn compares_endpoint_ports(self) -> bool {
        self.minor >= 34
    }

    /// That comparison forgets the connections of a service that has no serving endpoint left (from 1.37;
    /// kubernetes#139629); before, it leaves them alone.
    pub(crate) fn compares_connections_without_endpoints(self) -> bool {
        self.minor >= 37
    }
}
