//! Documented differences between kube-proxy's modes and releases.

use svclab_rules::cluster::{Family, ProxyConfig, ProxyMode};

use super::fate::{Contrast, PacketOutcome, PacketOutcomes};
use super::group::Key;
use super::release::Boundary;
use super::target::Target;
use super::traits::Trait;
use crate::scenario::VantageKind;

/// A documented difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// A stable code for programs.
    pub code: &'static str,
    /// What differs, in a sentence.
    pub what: &'static str,
    /// The document that describes it: a URL, or a scenario in svclab's repository that shows it.
    pub document: &'static str,
}

/// Kubernetes' documentation of the changes in nftables mode.
const MIGRATING: &str =
    "https://kubernetes.io/docs/reference/networking/virtual-ips/#migrating-from-iptables-mode-to-nftables";

/// An enhancement of Kubernetes' networking.
macro_rules! kep {
    ($name:literal) => {
        concat!("https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/", $name)
    };
}

/// The enhancement that introduced nftables mode.
const KEP: &str = kep!("3866-nftables-proxy");

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
const REJECTED_LOCALLY: Known = Known {
    code: "nftables-rejects-on-the-node",
    what: "nftables mode rejects packets from a node's processes to external addresses of a service without endpoints; in iptables mode \
           such packets leave the node",
    document: KEP,
};
/// The known difference for packets in the state INVALID.
pub(super) const INVALID: Known = Known {
    code: "nftables-invalid-packets",
    what: "nftables mode does not drop invalid packets: it has no workaround for the conntrack bug of kernels before 6.1",
    document: MIGRATING,
};
/// The known difference for packets that a node's firewall would drop.
pub(super) const FIREWALL: Known = Known {
    code: "nftables-no-firewall-holes",
    what: "nftables mode does not bypass a node's firewall: packets that a firewall drops stay dropped",
    document: MIGRATING,
};

/// What introduces a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// This release, the first of its kind.
    Release(&'static str),
    /// nftables mode, in comparison with iptables mode.
    NftablesMode,
}

/// The packets that a difference applies to: those that meet all of these conditions.
#[derive(Debug, Clone, Copy)]
struct Fits {
    /// Their destination is one of these; any destination if none is listed.
    to: &'static [Target],
    /// The service has one of these traits; any service if none is listed.
    with: &'static [Trait],
    family: Option<Family>,
    when: When,
}

/// Further conditions on packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// The sides differ only in rules for packets in the state INVALID.
    Invalid,
    /// They leave their node with a loopback address.
    LeavesLoopback,
    /// A process sends them from a loopback address.
    FromLoopback,
    /// nftables mode delivers them to no endpoint.
    Unserved,
    /// nftables mode rejects them.
    Rejected,
    /// nftables mode drops them on the node.
    Dropped,
}

const ANY: Fits = Fits { to: &[], with: &[], family: None, when: When::Always };

const fn with(with: &'static [Trait]) -> Fits {
    Fits { with, ..ANY }
}

/// A documented difference, what introduces it, and the packets that it applies to.
struct Row {
    by: By,
    fits: Fits,
    known: Known,
}

const fn in_nftables_mode(fits: Fits, known: Known) -> Row {
    Row { by: By::NftablesMode, fits, known }
}

/// The documented differences; for a release or mode, the first match applies.
const TABLE: &[Row] = &[
    in_nftables_mode(Fits { when: When::Invalid, ..ANY }, INVALID),
    in_nftables_mode(Fits { when: When::LeavesLoopback, ..ANY }, ROUTE_LOCALNET),
    in_nftables_mode(Fits { to: &[Target::SecondaryNodePort], when: When::Unserved, ..ANY }, PRIMARY),
    in_nftables_mode(Fits { to: &[Target::LoopbackNodePort], when: When::Unserved, ..ANY }, LOOPBACK),
    in_nftables_mode(Fits { to: &[Target::Node], when: When::FromLoopback, ..ANY }, ROUTE_LOCALNET),
    in_nftables_mode(Fits { to: &[Target::UnusedPort], when: When::Rejected, ..ANY }, UNUSED),
    in_nftables_mode(Fits { to: &[Target::Elsewhere], when: When::Dropped, ..ANY }, UNALLOCATED),
    in_nftables_mode(
        Fits {
            to: &[Target::LoadBalancer, Target::ExternalIp],
            with: &[Trait::WithoutReady],
            when: When::Rejected,
            ..ANY
        },
        REJECTED_LOCALLY,
    ),
    Row {
        by: By::Release("1.18.4"),
        fits: ANY,
        known: Known {
            code: "1.18.4-loopback-addresses-from-outside",
            what: "packets to 127.0.0.0/8 that arrive from another host are dropped (CVE-2020-8558)",
            document: "https://github.com/kubernetes/kubernetes/issues/92315",
        },
    },
    Row {
        by: By::Release("1.21"),
        fits: Fits { family: Some(Family::Ipv6), ..ANY },
        known: Known {
            code: "1.21-both-families",
            what: "kube-proxy serves both address families (dual-stack); before, only that of the node's first address",
            document: kep!("563-dual-stack"),
        },
    },
    Row {
        by: By::Release("1.21"),
        fits: Fits { to: &[Target::ExternalIp], ..ANY },
        known: Known {
            code: "1.21-external-ips-inside",
            what: "external IPs are also served to pods and to processes on nodes; before, such packets are routed normally",
            document: "https://github.com/kubernetes/kubernetes/pull/96296",
        },
    },
    Row {
        by: By::Release("1.21"),
        fits: with(&[Trait::SourceRanges]),
        known: Known {
            code: "1.21-node-addresses",
            what: "source ranges that contain the node's own address no longer allow it (until 1.29)",
            document: "https://github.com/kubernetes/kubernetes/issues/119524",
        },
    },
    Row {
        by: By::Release("1.21"),
        fits: Fits { to: &[Target::Node, Target::Elsewhere], ..ANY },
        known: Known {
            code: "1.21-health-checks-accepted",
            what: "rules for health checks come before those of the kubelet: packets to loopback addresses from another host may pass them",
            document: "https://github.com/kubernetes/kubernetes/pull/97824",
        },
    },
    Row {
        by: By::Release("1.22"),
        fits: with(&[Trait::InternalLocal]),
        known: Known {
            code: "1.22-internal-traffic-policy",
            what: "internalTrafficPolicy is honoured",
            document: kep!("2086-service-internal-traffic-policy"),
        },
    },
    Row {
        by: By::Release("1.24"),
        fits: with(&[Trait::InternalLocal]),
        known: Known {
            code: "1.24-independent-policies",
            what: "internalTrafficPolicy does not restrict external traffic, and without a local endpoint packets are dropped, not rejected",
            document: "scenarios/releases/1.23-internal-policy.yaml",
        },
    },
    Row {
        by: By::Release("1.24"),
        fits: with(&[Trait::Hints]),
        known: Known {
            code: "1.24-topology-hints",
            what: "zone hints are honoured if the annotation topology-aware-hints requests them",
            document: kep!("2433-topology-aware-hints"),
        },
    },
    Row {
        by: By::Release("1.24"),
        fits: Fits { to: &[Target::ExternalIp], ..ANY },
        known: Known {
            code: "1.24-external-ips-masqueraded",
            what: "packets from pods to external IPs are masqueraded",
            document: "https://github.com/kubernetes/kubernetes/pull/109060",
        },
    },
    Row {
        by: By::Release("1.24"),
        fits: with(&[Trait::SourceRanges]),
        known: Known {
            code: "1.24-source-ranges-are-marked",
            what: "packets that loadBalancerSourceRanges exclude are only marked, and are forwarded if their destination is not \
                   the node (until 1.25)",
            document: "scenarios/releases/1.24-source-ranges.yaml",
        },
    },
    Row {
        by: By::Release("1.25"),
        fits: with(&[Trait::SourceRanges]),
        known: Known {
            code: "1.25-source-ranges-are-dropped",
            what: "packets that loadBalancerSourceRanges exclude are dropped, whatever their destination",
            document: "scenarios/releases/1.25-source-ranges.yaml",
        },
    },
    Row {
        by: By::Release("1.25"),
        fits: with(&[Trait::InternalLocal, Trait::ExternalLocal]),
        known: Known {
            code: "1.25-no-local-endpoints",
            what: "packets without a local endpoint under policy Local are dropped, whatever their destination; before, they are only marked",
            document: "https://github.com/kubernetes/kubernetes/pull/110290",
        },
    },
    Row {
        by: By::Release("1.26"),
        fits: with(&[Trait::Terminating]),
        known: Known {
            code: "1.26-terminating-endpoints",
            what: "terminating endpoints serve if no endpoint is ready",
            document: kep!("1669-proxy-terminating-endpoints"),
        },
    },
    Row {
        by: By::Release("1.26"),
        fits: Fits { to: &[Target::LoopbackNodePort], ..ANY },
        known: Known {
            code: "1.26-node-ports-at-loopback",
            what: "node ports are not served on loopback addresses that cannot work: ::1, and 127.0.0.0/8 without localhostNodePorts",
            document: "https://github.com/kubernetes/kubernetes/pull/108250",
        },
    },
    Row {
        by: By::Release("1.27"),
        fits: with(&[Trait::Hints]),
        known: Known {
            code: "1.27-topology-mode",
            what: "the annotation topology-mode requests zone hints, with any value but Disabled",
            document: kep!("2433-topology-aware-hints"),
        },
    },
    Row {
        by: By::Release("1.27"),
        fits: ANY,
        known: Known {
            code: "1.27-own-firewall-chain",
            what: "kube-proxy writes KUBE-FIREWALL itself, and before its other rules: packets to loopback addresses from another host are dropped \
               earlier than by the kubelet's rules",
            document: kep!("3178-iptables-cleanup"),
        },
    },
    Row {
        by: By::Release("1.29"),
        fits: with(&[Trait::SourceRanges]),
        known: Known {
            code: "1.29-node-addresses",
            what: "source ranges that contain the node's own address allow it again",
            document: "https://github.com/kubernetes/kubernetes/pull/119525",
        },
    },
    Row {
        by: By::Release("1.29"),
        fits: Fits { to: &[Target::ExternalIp], with: &[Trait::ExternalLocal], ..ANY },
        known: Known {
            code: "1.29-external-policy-of-external-ips",
            what: "externalTrafficPolicy is honoured for services that have only external IPs",
            document: "https://github.com/kubernetes/kubernetes/pull/119150",
        },
    },
    Row {
        by: By::Release("1.30"),
        fits: with(&[Trait::IpModeProxy]),
        known: Known {
            code: "1.30-ip-mode",
            what: "kube-proxy does not handle load-balancer addresses with ipMode Proxy",
            document: kep!("1860-kube-proxy-IP-node-binding"),
        },
    },
    Row {
        by: By::Release("1.31"),
        fits: with(&[Trait::Hints]),
        known: Known {
            code: "1.31-hints-without-annotation",
            what: "hints are honoured without an annotation (trafficDistribution)",
            document: kep!("4444-service-traffic-distribution"),
        },
    },
    Row {
        by: By::Release("1.33"),
        fits: Fits { to: &[Target::Elsewhere], ..ANY },
        known: Known {
            code: "1.33-unallocated-cluster-ips",
            what: "nftables mode drops packets to addresses of the service CIDRs that no service has",
            document: "scenarios/releases/1.33-unallocated-address-nftables.yaml",
        },
    },
    Row {
        by: By::Release("1.33.6"),
        fits: ANY,
        known: Known {
            code: "1.33.6-checks-after-translation",
            what: "nftables mode checks for endpoints where destinations are translated: the node's own packets bypass policy Local",
            document: "scenarios/releases/1.33.5-policy-local-nftables.yaml",
        },
    },
    Row {
        by: By::Release("1.34"),
        fits: with(&[Trait::Hints]),
        known: Known {
            code: "1.34-hints-for-nodes",
            what: "hints can name nodes (PreferSameNode)",
            document: kep!("3015-prefer-same-node"),
        },
    },
    Row {
        by: By::Release("1.34"),
        fits: with(&[Trait::SourceRanges]),
        known: Known {
            code: "1.34-source-range-of-everyone",
            what: "a source range of length 0 means no restriction",
            document: "scenarios/releases/1.34-source-range-of-everyone.yaml",
        },
    },
    Row {
        by: By::Release("1.36"),
        fits: with(&[Trait::Repeated]),
        known: Known {
            code: "1.36-running-endpoint-first",
            what: "of several entries with one address, a non-terminating entry wins; before, the local one",
            document: "https://github.com/kubernetes/kubernetes/pull/135593",
        },
    },
];

impl Fits {
    fn holds(self, key: &Key, in_nftables_mode: &PacketOutcomes) -> bool {
        (self.to.is_empty() || self.to.contains(&key.target))
            && (self.with.is_empty() || self.with.iter().any(|one| key.traits.contains(one)))
            && self.family.is_none_or(|family| family == key.family)
            && self.when.holds(key, in_nftables_mode)
    }
}

impl When {
    fn holds(self, key: &Key, in_nftables_mode: &PacketOutcomes) -> bool {
        match self {
            Self::Always => true,
            Self::Invalid => key.is_invalid,
            Self::LeavesLoopback => key.leaves_loopback,
            Self::FromLoopback => key.from == VantageKind::Localhost,
            Self::Unserved => {
                !in_nftables_mode.any(|fate| matches!(fate, PacketOutcome::Delivered { is_translated: true, .. }))
            }
            Self::Rejected => in_nftables_mode.any(|fate| matches!(fate, PacketOutcome::Rejected { .. })),
            Self::Dropped => in_nftables_mode.any(|fate| fate == PacketOutcome::DroppedOnNode),
        }
    }
}

/// Returns the documented difference that explains a change of packets, if any.
pub(super) fn known(key: &Key, boundary: Option<&Boundary>, proxies: [&ProxyConfig; 2]) -> Option<Known> {
    let [before, after] = proxies;
    let is_by = |by: By| match (boundary, by) {
        (Some(Boundary::Release(release)), By::Release(since)) => since == release,
        (Some(Boundary::Mode(_)) | None, By::NftablesMode) => before.mode != after.mode,
        _ => false,
    };
    let Contrast { was, is, .. } = &key.contrast;
    let in_nftables_mode = if before.mode == ProxyMode::Nftables { was } else { is };
    TABLE.iter().find(|row| is_by(row.by) && row.fits.holds(key, in_nftables_mode)).map(|row| row.known)
}
