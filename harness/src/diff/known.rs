//! Documented differences between kube-proxy's modes.

use svclab_rules::cluster::{ProxyConfig, ProxyMode};

use super::target::Target;

/// A documented difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// A name for programs, which stays the same.
    pub code: &'static str,
    /// What differs, in a sentence.
    pub what: &'static str,
    /// Where it is documented.
    pub document: &'static str,
}

/// Kubernetes' documentation of what changes with nftables mode.
const MIGRATING: &str =
    "https://kubernetes.io/docs/reference/networking/virtual-ips/#migrating-from-iptables-mode-to-nftables";
/// The enhancement that brought nftables mode.
const KEP: &str = "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/3866-nftables-proxy";

const PRIMARY: Known = Known {
    code: "nftables-node-ports-at-primary-address",
    what: "nftables mode serves node ports at the node's primary addresses only, unless nodePortAddresses says otherwise",
    document: MIGRATING,
};
const LOOPBACK: Known = Known {
    code: "nftables-no-node-ports-at-loopback",
    what: "nftables mode serves no node ports at 127.0.0.1",
    document: MIGRATING,
};
const ROUTE_LOCALNET: Known = Known {
    code: "nftables-no-route-localnet",
    what: "iptables mode sets the sysctl route_localnet for node ports at 127.0.0.1, and nftables mode does not: packets with a \
           loopback address do not leave their node",
    document: KEP,
};
const UNUSED: Known = Known {
    code: "nftables-unused-ports",
    what: "nftables mode rejects connections to ports of cluster IPs that the service does not have",
    document: KEP,
};
const UNALLOCATED: Known = Known {
    code: "nftables-unallocated-cluster-ips",
    what: "nftables mode drops packets to cluster IPs that no service has",
    document: KEP,
};
const INVALID: Known = Known {
    code: "nftables-invalid-packets",
    what: "nftables mode does not drop invalid packets: it has no workaround for the conntrack bug of kernels before 6.1",
    document: MIGRATING,
};
const FIREWALL: Known = Known {
    code: "nftables-no-firewall-holes",
    what: "nftables mode makes no holes in a node's firewall: what a firewall drops stays dropped",
    document: MIGRATING,
};

/// The documented difference that a change of packets is, if it is one.
pub(super) fn known(target: Target, [was, is]: [&str; 2], [before, after]: [&ProxyConfig; 2]) -> Option<Known> {
    if before.mode == after.mode {
        return None;
    }
    let (of_iptables, of_nftables) = if before.mode == ProxyMode::Iptables { (was, is) } else { (is, was) };
    let is_lost = of_iptables.starts_with("delivered") && !of_nftables.starts_with("delivered");
    match target {
        Target::SecondaryNodePort if is_lost => Some(PRIMARY),
        Target::LoopbackNodePort if is_lost => Some(LOOPBACK),
        Target::FromLoopback => Some(ROUTE_LOCALNET),
        Target::UnusedPort if of_nftables.starts_with("rejected") => Some(UNUSED),
        Target::Elsewhere if of_nftables.starts_with("dropped") => Some(UNALLOCATED),
        Target::Invalid => Some(INVALID),
        Target::Firewall => Some(FIREWALL),
        _ => None,
    }
}
