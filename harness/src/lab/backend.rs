//! The implementations of iptables.

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::{Family, ProxyMode};

/// The implementation of iptables that installs rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Backend {
    /// Whichever implementation the system's `iptables-restore` is.
    #[default]
    System,
    /// iptables-nft.
    Nft,
    /// iptables-legacy.
    Legacy,
}

impl Backend {
    /// The names of iptables programs, each with the file name of this implementation's program; empty for the system's.
    pub(crate) fn implementations(self) -> Vec<(String, String)> {
        let kind = match self {
            Self::System => return Vec::new(),
            Self::Nft => "nft",
            Self::Legacy => "legacy",
        };
        let parts =
            ["iptables", "ip6tables"].into_iter().flat_map(|name| ["", "-save", "-restore"].map(|end| (name, end)));
        parts.map(|(name, end)| (format!("{name}{end}"), format!("{name}-{kind}{end}"))).collect()
    }

    /// The program that installs a document.
    pub fn program(self, mode: ProxyMode, family: Family) -> &'static str {
        match (mode, family, self) {
            (ProxyMode::Nftables, ..) => "nft",
            (_, Family::Ipv4, Self::System) => "iptables-restore",
            (_, Family::Ipv6, Self::System) => "ip6tables-restore",
            (_, Family::Ipv4, Self::Nft) => "iptables-nft-restore",
            (_, Family::Ipv6, Self::Nft) => "ip6tables-nft-restore",
            (_, Family::Ipv4, Self::Legacy) => "iptables-legacy-restore",
            (_, Family::Ipv6, Self::Legacy) => "ip6tables-legacy-restore",
        }
    }
}
