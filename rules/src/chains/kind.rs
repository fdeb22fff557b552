//! Kinds of kube-proxy's chains, by name.

use std::fmt;

/// The kind of a chain of a service port or an endpoint, in either mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `KUBE-SVC`, `KUBE-SVL` and `KUBE-XLB`, `service-` and `local-`: balances connections among endpoints.
    Group(Policy),
    /// `KUBE-EXT`, `external-`: external traffic.
    External,
    /// `KUBE-FW`, `firewall-`: the source ranges of a load balancer.
    Firewall,
    /// `KUBE-SEP`, `endpoint-`: translates to one endpoint.
    Endpoint,
}

/// The traffic policy of a group of endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// Cluster: the endpoints of all nodes.
    Cluster,
    /// Local: the endpoints of the rules' own node.
    Local,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "",
            Self::Local => " for policy Local",
        })
    }
}

/// The chain name prefixes of a mode.
pub(crate) struct Naming(pub(super) &'static [(&'static str, Kind)]);

impl Naming {
    /// Returns the kind of a chain, and its name after the prefix.
    pub(crate) fn of<'n>(&self, chain: &'n str) -> Option<(Kind, &'n str)> {
        self.0.iter().find_map(|(prefix, kind)| Some((*kind, chain.strip_prefix(prefix)?)))
    }

    /// Returns the service port in a group's name, which all groups of that port share.
    pub(crate) fn service_port_part<'n>(&self, chain: &'n str) -> Option<&'n str> {
        self.of(chain).filter(|(kind, _)| matches!(kind, Kind::Group(_))).map(|(_, base)| base)
    }

    /// Returns the endpoint in the name of its chain.
    pub(crate) fn endpoint_part<'n>(&self, chain: &'n str) -> Option<&'n str> {
        self.of(chain).filter(|(kind, _)| *kind == Kind::Endpoint).map(|(_, base)| base)
    }

    pub(crate) fn is_endpoint(&self, chain: &str) -> bool {
        self.endpoint_part(chain).is_some()
    }
}
