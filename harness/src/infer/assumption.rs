//! An assumption.

use std::fmt;
use std::net::IpAddr;

/// What is assumed for an input, in words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assumption {
    /// Something that the input does not say.
    Assumed(String),
    /// A setting of kube-proxy, or a field of a Service that a table leaves out, explains why rules are not there.
    Setting {
        /// Its name in a KubeProxyConfiguration or in a Service.
        name: &'static str,
        /// What is set, and what it explains.
        words: String,
    },
    /// Pieces of the input contradict each other, and one of them counts.
    Contradiction(String),
    /// An address that is made up in place of one that the rules have lost.
    StandIn {
        /// The address.
        address: IpAddr,
        /// Whose it is, and why there must be one.
        words: String,
    },
    /// Connections that lead to no endpoint are not restored.
    StaleConnections(String),
    /// Tables of nftables are not installed.
    TablesNotInstalled(String),
}

impl Assumption {
    /// Returns whether a defect may hide behind it, or is shown with it, so that it is always reported.
    pub fn may_hide_a_defect(&self) -> bool {
        matches!(self, Self::Setting { .. } | Self::Contradiction(_) | Self::StandIn { .. } | Self::StaleConnections(_))
    }
}

impl From<&str> for Assumption {
    fn from(words: &str) -> Self {
        Self::Assumed(words.to_owned())
    }
}

impl From<String> for Assumption {
    fn from(words: String) -> Self {
        Self::Assumed(words)
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assumed(words)
            | Self::Setting { words, .. }
            | Self::StandIn { words, .. }
            | Self::StaleConnections(words)
            | Self::TablesNotInstalled(words) => f.write_str(words),
            Self::Contradiction(words) => write!(f, "contradiction: {words}"),
        }
    }
}
