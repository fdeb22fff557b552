//! Documented differences between kube-proxy's modes and releases.

use svclab_rules::cluster::{Family, ProxyConfig, ProxyMode};

use super::group::Key;
use super::release::Boundary;
use super::target::Target;
use super::traits::Trait;

/// A documented difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    /// A name for programs, which stays the same.
    pub code: &'static str,
    /// What differs, in a sentence.
    pub what: &'static str,
    /// Where it is documented: an address, or a scenario of svclab's repository that shows it.
    pub document: &'static str,
}

/// Kubernetes' documentation of what changes with nftables mode.
const MIGRATING: &str =
    "https://kubernetes.io/docs/reference/networking/virtual-ips/#migrating-from-iptables-mode-to-nftables";

/// An enhancement of Kubernetes' networking.
macro_rules! kep {
    ($name:literal) => {
        concat!("https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/", $name)
    };
}

/// The enhancement that brought nftables mode.
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
    what: "nftables mode rejects what processes of a node send to external addresses of a service without endpoints; in iptables mode \
           such packets leave the node",
    document: KEP,
};
/// Of packets in the state INVALID.
pub(super) const INVALID: Known = Known {
    code: "nftables-invalid-packets",
    what: "nftables mode does not drop invalid packets: it has no workaround for the conntrack bug of kernels before 6.1",
    document: MIGRATING,
};
/// Of packets that a firewall of the node would drop.
pub(super) const FIREWALL: Known = Known {
    code: "nftables-no-firewall-holes",
    what: "nftables mode makes no holes in a node's firewall: what a firewall drops stays dropped",
    document: MIGRATING,
};

/// A difference that a release brought, and which packets it is about.
struct OfRelease {
    since: &'static str,
    fits: fn(&Key) -> bool,
    known: Known,
}

const fn since(since: &'static str, fits: fn(&Key) -> bool, known: Known) -> OfRelease {
    OfRelease { since, fits, known }
}

/// The differences of releases; of one release, the first that fits.
const OF_RELEASES: [OfRelease; 25] = [
    since(
        "1.18.4",
        |_| true,
        Known {
            code: "1.18.4-loopback-addresses-from-outside",
            what: "packets to 127.0.0.0/8 that come from elsewhere are dropped (CVE-2020-8558)",
            document: "https://github.com/kubernetes/kubernetes/issues/92315",
        },
    ),
    since(
        "1.21",
        |key| key.family == Family::Ipv6,
        Known {
            code: "1.21-both-families",
            what: "kube-proxy serves both families (dual-stack); before, only that of the node's first address",
            document: kep!("563-dual-stack"),
        },
    ),
    since(
        "1.21",
        |key| key.target == Target::ExternalIp,
        Known {
            code: "1.21-external-ips-inside",
            what: "external IPs are served to pods and processes of nodes as well; before, the network decides where such a packet goes",
            document: "https://github.com/kubernetes/kubernetes/pull/96296",
        },
    ),
    since(
        "1.21",
        |key| key.has(Trait::SourceRanges),
        Known {
            code: "1.21-node-addresses",
            what: "source ranges that contain the node's own address do not allow it any more (until 1.29)",
            document: "https://github.com/kubernetes/kubernetes/issues/119524",
        },
    ),
    since(
        "1.21",
        |key| matches!(key.target, Target::Node | Target::Elsewhere),
        Known {
            code: "1.21-health-checks-accepted",
            what: "rules for health checks stand before those of the kubelet: packets to loopback addresses from elsewhere may pass them",
            document: "https://github.com/kubernetes/kubernetes/pull/97824",
        },
    ),
    since(
        "1.22",
        |key| key.has(Trait::InternalLocal),
        Known {
            code: "1.22-internal-traffic-policy",
            what: "internalTrafficPolicy counts",
            document: kep!("2086-service-internal-traffic-policy"),
        },
    ),
    since(
        "1.24",
        |key| key.has(Trait::InternalLocal),
        Known {
            code: "1.24-independent-policies",
            what: "internalTrafficPolicy does not restrict external traffic, and without a local endpoint packets are dropped, not rejected",
            document: "scenarios/releases/1.23-internal-policy.yaml",
        },
    ),
    since(
        "1.24",
        |key| key.has(Trait::Hints),
        Known {
            code: "1.24-topology-hints",
            what: "zone hints count where the annotation topology-aware-hints asks for them",
            document: kep!("2433-topology-aware-hints"),
        },
    ),
    since(
        "1.24",
        |key| key.target == Target::ExternalIp,
        Known {
            code: "1.24-external-ips-masqueraded",
            what: "what pods send to external IPs is masqueraded",
            document: "https://github.com/kubernetes/kubernetes/pull/109060",
        },
    ),
    since(
        "1.24",
        |key| key.has(Trait::SourceRanges),
        Known {
            code: "1.24-source-ranges-are-marked",
            what: "what loadBalancerSourceRanges exclude is only marked, and is forwarded where it does not end on the node (until 1.25)",
            document: "scenarios/releases/1.24-source-ranges.yaml",
        },
    ),
    since(
        "1.25",
        |key| key.has(Trait::SourceRanges),
        Known {
            code: "1.25-source-ranges-are-dropped",
            what: "what loadBalancerSourceRanges exclude is dropped wherever it goes",
            document: "scenarios/releases/1.25-source-ranges.yaml",
        },
    ),
    since(
        "1.25",
        |key| key.has(Trait::InternalLocal) || key.has(Trait::ExternalLocal),
        Known {
            code: "1.25-no-local-endpoints",
            what: "what finds no local endpoint under a policy Local is dropped wherever it goes; before, it is only marked",
            document: "https://github.com/kubernetes/kubernetes/pull/110290",
        },
    ),
    since(
        "1.26",
        |key| key.has(Trait::Terminating),
        Known {
            code: "1.26-terminating-endpoints",
            what: "endpoints that terminate serve where no ready one is left",
            document: kep!("1669-proxy-terminating-endpoints"),
        },
    ),
    since(
        "1.26",
        |key| key.target == Target::ExternalIp && key.has(Trait::ExternalLocal),
        Known {
            code: "1.26-external-policy-of-external-ips",
            what: "externalTrafficPolicy counts for services that have only external IPs",
            document: "scenarios/releases/1.25-external-ip-policy.yaml",
        },
    ),
    since(
        "1.26",
        |key| key.target == Target::LoopbackNodePort,
        Known {
            code: "1.26-node-ports-at-loopback",
            what: "loopback addresses that cannot work have no node ports: ::1, and 127.0.0.0/8 without localhostNodePorts",
            document: "https://github.com/kubernetes/kubernetes/pull/108250",
        },
    ),
    since(
        "1.27",
        |key| key.has(Trait::Hints),
        Known {
            code: "1.27-topology-mode",
            what: "the annotation topology-mode asks for zone hints, with any value but Disabled",
            document: kep!("2433-topology-aware-hints"),
        },
    ),
    since(
        "1.27",
        |_| true,
        Known {
            code: "1.27-own-firewall-chain",
            what: "kube-proxy writes KUBE-FIREWALL itself, and before its other rules: packets to loopback addresses from elsewhere are dropped \
               earlier than by the kubelet's rules",
            document: kep!("3178-iptables-cleanup"),
        },
    ),
    since(
        "1.29",
        |key| key.has(Trait::SourceRanges),
        Known {
            code: "1.29-node-addresses",
            what: "source ranges that contain the node's own address allow it again",
            document: "https://github.com/kubernetes/kubernetes/pull/119525",
        },
    ),
    since(
        "1.30",
        |key| key.has(Trait::IpModeProxy),
        Known {
            code: "1.30-ip-mode",
            what: "load-balancer addresses with ipMode Proxy are left to the load balancer",
            document: kep!("1860-kube-proxy-IP-node-binding"),
        },
    ),
    since(
        "1.31",
        |key| key.has(Trait::Hints),
        Known {
            code: "1.31-hints-without-annotation",
            what: "hints count without an annotation (trafficDistribution)",
            document: kep!("4444-service-traffic-distribution"),
        },
    ),
    since(
        "1.33",
        |key| key.target == Target::Elsewhere,
        Known {
            code: "1.33-unallocated-cluster-ips",
            what: "nftables mode drops packets to addresses of the service CIDRs that no service has",
            document: "scenarios/releases/1.33-unallocated-address-nftables.yaml",
        },
    ),
    since(
        "1.33.6",
        |_| true,
        Known {
            code: "1.33.6-checks-behind-translation",
            what: "nftables mode checks for endpoints where destinations are translated: the node's own packets take the short cut of policy \
               Local",
            document: "scenarios/releases/1.33.5-policy-local-nftables.yaml",
        },
    ),
    since(
        "1.34",
        |key| key.has(Trait::Hints),
        Known {
            code: "1.34-hints-for-nodes",
            what: "hints can name nodes (PreferSameNode)",
            document: kep!("3015-prefer-same-node"),
        },
    ),
    since(
        "1.34",
        |key| key.has(Trait::SourceRanges),
        Known {
            code: "1.34-source-range-of-everyone",
            what: "a source range of length 0 stands for no source ranges",
            document: "scenarios/releases/1.34-source-range-of-everyone.yaml",
        },
    ),
    since(
        "1.36",
        |key| key.has(Trait::Repeated),
        Known {
            code: "1.36-running-endpoint-first",
            what: "of several entries with one address, one that does not terminate counts; before, a local one",
            document: "rules/src/profile/endpoints.rs",
        },
    ),
];

impl Key {
    fn has(&self, one: Trait) -> bool {
        self.traits.contains(&one)
    }
}

/// The documented difference that a change of packets is, if it is one.
pub(super) fn known(key: &Key, boundary: Option<&Boundary>, proxies: [&ProxyConfig; 2]) -> Option<Known> {
    let [before, after] = proxies;
    match boundary {
        Some(Boundary::Release(release)) => {
            let found = OF_RELEASES.iter().find(|one| one.since == release && (one.fits)(key));
            found.map(|one| one.known)
        }
        Some(Boundary::Settings) => None,
        None if before.mode == after.mode => None,
        Some(Boundary::Mode) | None => of_mode(key, before.mode == ProxyMode::Iptables),
    }
}

fn of_mode(key: &Key, to_nftables: bool) -> Option<Known> {
    let of_nftables = if to_nftables { &key.is } else { &key.was };
    let is_served = of_nftables.starts_with("delivered to an endpoint");
    if key.is_invalid {
        return Some(INVALID);
    }
    if key.leaves_loopback {
        return Some(ROUTE_LOCALNET);
    }
    match key.target {
        Target::SecondaryNodePort if !is_served => Some(PRIMARY),
        Target::LoopbackNodePort if !is_served => Some(LOOPBACK),
        Target::Node if key.from == "localhost" => Some(ROUTE_LOCALNET),
        Target::UnusedPort if of_nftables.starts_with("rejected") => Some(UNUSED),
        Target::Elsewhere if of_nftables.starts_with("dropped") => Some(UNALLOCATED),
        Target::LoadBalancer | Target::ExternalIp
            if key.has(Trait::WithoutReady) && of_nftables.starts_with("rejected") =>
        {
            Some(REJECTED_LOCALLY)
        }
        _ => None,
    }
}
