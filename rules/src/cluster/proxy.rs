//! kube-proxy's configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;

/// The fields of a KubeProxyConfiguration that affect rules; the defaults are kube-proxy's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyConfig {
    /// `mode`.
    pub mode: ProxyMode,
    /// The kube-proxy release whose rules are generated, such as `1.30`. Parsed by [`crate::profile`].
    pub version: String,
    /// `clusterCIDR`, split at commas.
    pub cluster_cidrs: Vec<IpNet>,
    /// `detectLocalMode` with its argument.
    pub detect_local: DetectLocal,
    /// `iptables.masqueradeAll` (or `nftables.masqueradeAll`).
    pub masquerade_all: bool,
    /// `iptables.masqueradeBit`, 0 to 31.
    pub masquerade_bit: u8,
    /// `iptables.localhostNodePorts`.
    pub localhost_node_ports: bool,
    /// `nodePortAddresses`; the word `primary` becomes an empty list with `primary_node_ports`.
    pub node_port_addresses: Vec<IpNet>,
    /// Whether `nodePortAddresses` is `[primary]`.
    pub primary_node_ports: bool,
    /// `conntrack.tcpBeLiberal`: then no rule drops INVALID packets (from 1.29 on).
    pub tcp_be_liberal: bool,
    /// Which conntrack entries are deleted when objects change. Not a field of the configuration.
    pub conntrack_cleanup: ConntrackCleanup,
    /// `featureGates`.
    pub feature_gates: BTreeMap<String, bool>,
    /// Whether the nodes' kernel supports nfacct objects, which count packets in iptables mode from 1.32 on. Not a field of the
    /// configuration: kube-proxy detects it.
    pub nfacct: bool,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            mode: ProxyMode::Iptables,
            version: "1.30".to_owned(),
            cluster_cidrs: Vec::new(),
            detect_local: DetectLocal::ClusterCidr,
            masquerade_all: false,
            masquerade_bit: 14,
            localhost_node_ports: true,
            node_port_addresses: Vec::new(),
            primary_node_ports: false,
            tcp_be_liberal: false,
            conntrack_cleanup: ConntrackCleanup::SameAsVersion,
            feature_gates: BTreeMap::new(),
            nfacct: false,
        }
    }
}

/// The conntrack cleanup that follows a change of objects: see [`crate::conntrack`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ConntrackCleanup {
    /// The cleanup of the release whose rules are generated.
    #[default]
    SameAsVersion,
    /// The cleanup of another release, such as `1.31`.
    Of(String),
    /// No cleanup: stale entries stay, as if kube-proxy did not find the `conntrack` program.
    Off,
}

/// The backend for which kube-proxy writes rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ProxyMode {
    /// iptables and ip6tables.
    #[default]
    Iptables,
    /// nftables.
    Nftables,
}

impl ProxyMode {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Iptables, Self::Nftables];

    /// Returns the mode in kube-proxy's spelling, which is also the name of its section in the configuration: `iptables`, `nftables`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Iptables => "iptables",
            Self::Nftables => "nftables",
        }
    }
}

impl fmt::Display for ProxyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A mode that is neither iptables nor nftables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid mode: write `iptables` or `nftables`")]
pub struct UnknownMode(pub String);

impl FromStr for ProxyMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// How kube-proxy distinguishes traffic of local pods from other traffic (`detectLocalMode`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DetectLocal {
    /// By source address in `clusterCIDR`.
    #[default]
    ClusterCidr,
    /// By source address in the node's `podCIDRs`.
    NodeCidr,
    /// By input interface: the bridge of this name.
    BridgeInterface(String),
    /// By input interface: those with this name prefix.
    InterfaceNamePrefix(String),
}
