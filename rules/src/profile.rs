//! Which kube-proxy release's rules are written.
//!
//! Every difference between releases is a named predicate of [`Profile`]; nothing else asks for a version. How sure
//! each release is:
//!
//! | releases | iptables mode | nftables mode |
//! | --- | --- | --- |
//! | 1.10 to 1.13 | by description: the layout of rules that users showed (`KUBE-FW` straight to `KUBE-SVC`) | no such mode |
//! | 1.14 to 1.17 | by description | no such mode |
//! | 1.18 | by recording | no such mode |
//! | 1.19, 1.20 | by description | no such mode |
//! | 1.21 | by recording | no such mode |
//! | 1.22 to 1.24 | by description | no such mode |
//! | 1.25 | by recording | no such mode |
//! | 1.26 to 1.28 | by description | no such mode |
//! | 1.29 | by description | not modelled (alpha) |
//! | 1.30 | by recording | by recording |
//! | 1.31 | by description | by description |
//! | 1.32 to 1.36 | by recording of 1.32.5, 1.33.2, 1.34.1, 1.35.2 and 1.36.2 | by recording of the same |
//! | 1.37 | by description | by description |
//!
//! Which feature of a release is by recording, and by which clusters of `tests/golden`; a test holds this table against them.
//! The last two columns are for all five releases from 1.32 on, iptables mode and nftables mode:
//!
//! | feature | clusters | 1.18 | 1.21 | 1.25 | 1.30 | 1.30 nftables | 1.32 on | 1.32 on, nftables |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | cluster IPs, ports, protocols, slices | `clusterip-*` `duplicate-endpoints` `empty` `host-network-endpoint` `long-names` `many-slices` `nothing` `odd-slices` `small-cluster` `two-namespaces` | recording | recording | recording | recording | recording | recording | recording |
//! | Services without rules | `external-name` `headless` `service-proxy-name` | recording | recording | recording | recording | recording | recording | recording |
//! | node ports and their addresses | `nodeport-*` `config-nodeport-addresses*` `config-no-localhost-nodeports` | recording | recording | recording | recording | recording | recording | recording |
//! | external IPs | `external-ips*` | recording | recording | recording | recording | recording | recording | recording |
//! | load balancers: source ranges, ipMode, health checks | `loadbalancer-*` | recording | recording | recording | recording | recording | recording | recording |
//! | source ranges with blanks | `loadbalancer-source-ranges-sloppy` | description | recording | recording | recording | recording | recording | recording |
//! | traffic policies, affinity | `both-policies-local` `internal-local*` `affinity-*` | recording | recording | recording | recording | recording | recording | recording |
//! | endpoints that are not ready or terminating | `publish-not-ready` `terminating-*` | recording | recording | recording | recording | recording | recording | recording |
//! | topology hints | `topology-hints*` | recording | recording | recording | recording | recording | recording | recording |
//! | `trafficDistribution` | `traffic-distribution` | description | description | description | recording | recording | recording | recording |
//! | IPv6 | `ipv6-only` | recording | recording | recording | recording | recording | recording | recording |
//! | dual stack | `dual-stack*` `config-dual-stack-node` | description | recording | recording | recording | recording | recording | recording |
//! | masquerading, `clusterCIDR`, detectLocalMode NodeCIDR | `config-masquerade-*` `config-no-cluster-cidr` `config-local-nodecidr` | recording | recording | recording | recording | recording | recording | recording |
//! | detectLocalMode BridgeInterface, InterfaceNamePrefix | `config-local-bridge` `config-local-prefix` | description | description | recording | recording | recording | recording | recording |
//! | `conntrack` settings, a node that goes | `config-conntrack-timeouts` `config-tcp-be-liberal` `config-node-to-be-deleted` | recording | recording | recording | recording | recording | recording | recording |
//! | 1,000 endpoints and more | `endpoints-*` | description | description | description | recording | description | recording | description |
//! | conditions and `ipFamilies` left out | `conditions-unset` `ip-families-empty` | description | description | description | description | description | recording | recording |
//! | hints for nodes, all values of `trafficDistribution` | `node-hints*` `traffic-distribution-values` | description | description | description | description | description | recording | recording |
//! | the word `primary`, IPv6 loopback in `nodePortAddresses` | `config-nodeport-addresses-primary` `config-nodeport-addresses-ipv6-loopback` | description | description | description | description | description | recording | recording |
//! | external IPs that a gate turns off, or that are a node's | `external-ips-off` `external-is-node-address` `external-ips-loadbalancer-local-none-here` | description | description | description | description | description | recording | recording |
//! | source ranges of length 0, ipMode with policy Local | `loadbalancer-source-ranges-all` `loadbalancer-ipmode-proxy-local` | description | description | description | description | description | recording | recording |
//! | affinity with UDP, both policies and many endpoints | `affinity-many` `affinity-policies` `affinity-udp` | description | description | description | description | description | recording | recording |
//! | more policies, protocols and families | `config-masquerade-all-local` `dual-stack-healthcheck` `hairpin-shared-endpoint` `internal-local-terminating` `long-names-no-endpoints` `nodeport-udp-local-none-here` `sctp-everything` | description | description | description | description | description | recording | recording |
//!
//! All features of the other releases are by description. So is in which patch release between two recorded ones a change
//! came, and what ServiceCIDR objects do. Changes of objects are by recording of 1.30 in iptables mode, and the connections
//! that are forgotten with them by recording of 1.30 in iptables mode and of 1.32 to 1.36 in both (`tests/golden-updates`).
//!
//! A version without a patch number is the newest patch release of its minor one, with what was backported to it.

mod backports;
pub mod gates;
pub mod releases;

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use self::backports::Backport;
use crate::cluster::ProxyConfig;

/// The minor releases of Kubernetes 1 that are known.
const KNOWN: RangeInclusive<u8> = 10..=37;

/// A kube-proxy release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Profile {
    minor: u8,
    patch: Option<u8>,
}

/// A version that is no kube-proxy release, or none that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kube-proxy version `{0}`: known are 1.{first} to 1.{last}", first = KNOWN.start(), last = KNOWN.end())]
pub struct UnknownVersion(pub String);

impl FromStr for Profile {
    type Err = UnknownVersion;

    /// Reads `1.30`, `v1.30` or `1.30.2`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownVersion(text.to_owned());
        let mut parts = text.trim_start_matches('v').split('.');
        let (major, minor, patch) = (parts.next(), parts.next(), parts.next());
        let minor = minor.and_then(|part| part.parse().ok()).filter(|minor| KNOWN.contains(minor));
        let patch = patch.map(|part| part.parse().map_err(|_| unknown())).transpose()?;
        match (major, minor, parts.next()) {
            (Some("1"), Some(minor), None) => Ok(Self { minor, patch }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

impl Profile {
    /// The newest patch release of every minor one that is known, the oldest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        KNOWN.map(|minor| Self { minor, patch: None })
    }
}

/// Names and comments.
impl Profile {
    /// An unnamed port is called `namespace/name:`, with a colon that nothing follows (up to 1.18).
    pub fn unnamed_port_has_colon(self) -> bool {
        self.minor <= 18
    }

    /// Balancing rules say which endpoint they lead to: `default/web:http -> 10.244.1.2:80` (from 1.24).
    pub fn comments_name_endpoint(self) -> bool {
        self.minor >= 24
    }

    /// Digits of a probability behind the point: 5 up to 1.16, then 10.
    pub fn probability_digits(self) -> usize {
        if self.minor <= 16 { 5 } else { 10 }
    }
}

/// Chains and rules that stand there whatever services there are.
impl Profile {
    /// kube-proxy writes rules of both families on any node (dual-stack on by default, from 1.21); before, only those
    /// of the node's own.
    pub fn both_families(self) -> bool {
        self.minor >= 21
    }

    /// A chain `KUBE-PROXY-CANARY` in three tables tells when somebody flushes them (from 1.17).
    pub fn canary(self) -> bool {
        self.minor >= 17
    }

    /// The kubelet makes `KUBE-MARK-DROP`, `KUBE-FIREWALL` and its own copy of the masquerade chains (up to 1.26).
    pub fn kubelet_chains(self) -> bool {
        self.minor <= 26
    }

    /// kube-proxy makes `KUBE-FIREWALL` itself (from 1.27).
    pub fn proxy_firewall_chain(self) -> bool {
        !self.kubelet_chains()
    }

    /// `KUBE-FIREWALL` drops what comes to 127.0.0.0/8 from elsewhere (from 1.18.4, 1.17.7, 1.16.11; CVE-2020-8558).
    pub fn drops_foreign_localnet(self) -> bool {
        self.minor >= 19 || self.has_backport(&backports::DROPS_FOREIGN_LOCALNET)
    }

    /// `KUBE-POSTROUTING` takes the mark away before it masquerades, so that a packet inside a tunnel is not
    /// masqueraded twice (from 1.19, 1.18.6, 1.17.9, 1.16.13; kubernetes#92035).
    pub fn clears_mark(self) -> bool {
        self.minor >= 19 || self.has_backport(&backports::CLEARS_MARK)
    }

    /// `MASQUERADE --random-fully` (from 1.16).
    pub fn masquerades_random_fully(self) -> bool {
        self.minor >= 16
    }

    /// `KUBE-FORWARD` drops INVALID packets (from 1.15; from 1.29 not with `conntrack.tcpBeLiberal`).
    pub fn drops_invalid(self, config: &ProxyConfig) -> bool {
        self.minor >= 15 && !(self.minor >= 29 && config.tcp_be_liberal)
    }

    /// Rules count INVALID packets and connections to node ports on 127.0.0.0/8, where the kernel has nfacct (from 1.32).
    pub fn counts_with_nfacct(self, config: &ProxyConfig) -> bool {
        self.minor >= 32 && config.nfacct
    }

    /// One rule lets replies through (from 1.23); before, one for those from pods and one for those to pods.
    pub fn one_forwarding_rule(self) -> bool {
        self.minor >= 23
    }

    /// The two rules for replies compare with `clusterCIDR`, and are missing without it (up to 1.17).
    pub fn forwarding_rules_know_cluster_cidr(self) -> bool {
        self.minor <= 17
    }

    /// FORWARD jumps to the `KUBE-SERVICES` of `filter` (from 1.14).
    pub fn forward_visits_services(self) -> bool {
        self.minor >= 14
    }

    /// INPUT jumps to the `KUBE-SERVICES` of `filter` (1.14 to 1.17).
    pub fn input_visits_services(self) -> bool {
        (14..=17).contains(&self.minor)
    }

    /// FORWARD jumps to `KUBE-EXTERNAL-SERVICES`, where the rejects of load-balancer addresses stand (from 1.18; the
    /// recordings of 1.18 have it, although it came with 1.20). Before, they stand in `KUBE-SERVICES`.
    pub fn forward_visits_external_services(self) -> bool {
        self.minor >= 18
    }

    /// `filter` has a chain `KUBE-NODEPORTS` that lets health checks in (from 1.21).
    pub fn accepts_health_checks(self) -> bool {
        self.minor >= 21
    }

    /// `filter` has `KUBE-PROXY-FIREWALL` for what source ranges forbid (from 1.25); before, `KUBE-FW` sets
    /// the kubelet's mark 0x8000.
    pub fn firewall_in_filter(self) -> bool {
        self.minor >= 25
    }

    /// The rule that leads to `KUBE-NODEPORTS` leaves out loopback addresses that cannot work: `::1`, and
    /// 127.0.0.0/8 without `iptables.localhostNodePorts` (from 1.26).
    pub fn knows_localhost_node_ports(self) -> bool {
        self.minor >= 26
    }
}

/// Rules of a service.
impl Profile {
    /// External traffic has a chain of its own, `KUBE-EXT`, and local endpoints have `KUBE-SVL` (from 1.24); before,
    /// `KUBE-XLB` is both.
    pub fn external_chains(self) -> bool {
        self.minor >= 24
    }

    /// Rules that mark for masquerading stand in the service's own chain (from 1.22); before, in `KUBE-SERVICES` and
    /// `KUBE-NODEPORTS`.
    pub fn marks_in_service_chain(self) -> bool {
        self.minor >= 22
    }

    /// External addresses serve only packets that do not come from a bridge or this node, or that are for it
    /// (up to 1.20).
    pub fn guards_external_ips(self) -> bool {
        self.minor <= 20
    }

    /// Local external traffic has rules for packets of the node itself (from 1.15).
    pub fn local_chains_serve_the_node(self) -> bool {
        self.minor >= 15
    }

    /// `KUBE-NODEPORTS` masquerades what comes from loopback for node ports with local policy (1.14 to 1.23).
    pub fn masquerades_loopback_node_ports(self) -> bool {
        (14..=23).contains(&self.minor)
    }

    /// `externalTrafficPolicy` counts for every service that is reached from outside, those with only `externalIPs`
    /// too (from 1.26).
    pub fn external_policy_covers_external_ips(self) -> bool {
        self.minor >= 26
    }

    /// `internalTrafficPolicy` counts (from 1.22).
    pub fn internal_policy(self) -> bool {
        self.minor >= 22
    }

    /// Without a local endpoint, traffic with local policy is dropped in `filter` (from 1.25); in 1.24 by the mark
    /// 0x8000.
    pub fn drops_local_in_filter(self) -> bool {
        self.minor >= 25
    }

    /// A last rule in `KUBE-FW` says what will become of other traffic (from 1.27).
    pub fn firewall_placeholder(self) -> bool {
        self.minor >= 27
    }

    /// The node's own address is known to the source ranges of a load balancer. From 1.21 to 1.28 a dual-stack
    /// kube-proxy takes it for 0.0.0.0 and `::`.
    pub fn source_ranges_know_node(self) -> bool {
        !(21..=28).contains(&self.minor)
    }

    /// A source range of length 0 allows everybody, so that there are no ranges in its family (from 1.34); before, it is
    /// a range as any other.
    pub fn zero_source_range_is_none(self) -> bool {
        self.minor >= 34
    }

    /// `externalIPs` are served. The gate that turns them off came with 1.36; policies and chains still count them then.
    pub fn serves_external_ips(self, config: &ProxyConfig) -> bool {
        self.minor < 36 || gates::ALLOW_SERVICE_EXTERNAL_IPS.is_on(self, config)
    }

    /// Load-balancer addresses with `ipMode: Proxy` are left alone (alpha in 1.29, on by default from 1.30).
    pub fn ip_mode(self, config: &ProxyConfig) -> bool {
        gates::LOAD_BALANCER_IP_MODE.is_on(self, config)
    }
}

/// Node ports.
impl Profile {
    /// A family of which neither `nodePortAddresses` nor the word `primary` names an address has node ports on all (from
    /// 1.31, where the server makes ranges of the word for all families together). Before, nftables mode falls back to the
    /// family's primary address, which is the loopback one where the node has no other.
    pub fn unnamed_family_serves_all(self) -> bool {
        self.minor >= 31
    }

    /// A range of length 0 stands for all addresses however it is written (from 1.34); before, as `0.0.0.0/0` and `::/0`
    /// only.
    pub fn zero_range_by_length(self) -> bool {
        self.minor >= 34
    }
}

/// What happens beside the rules.
impl Profile {
    /// Connections are forgotten after a change of objects, by what changed, as [`crate::conntrack`] has it (1.22 to
    /// 1.31); before 1.22 in a way that is not known here.
    pub fn cleans_up_after_changes(self) -> bool {
        (22..=31).contains(&self.minor)
    }

    /// Connections are forgotten by a comparison of the whole connection table with the endpoints (from 1.32).
    pub fn compares_connections(self) -> bool {
        self.minor >= 32
    }

    /// That comparison looks at connections to a service's address on any port (1.32.0 to 1.32.2; kubernetes#130484).
    pub fn compares_connections_on_any_port(self) -> bool {
        self.minor == 32 && !self.has_backport(&backports::COMPARES_PORTS)
    }

    /// That comparison looks at the endpoint's port too (from 1.34; kubernetes#130542); before, at its address alone.
    pub fn compares_endpoint_ports(self) -> bool {
        self.minor >= 34
    }

    /// That comparison forgets the connections of a service that has no serving endpoint left (from 1.37;
    /// kubernetes#139629); before, it leaves them alone.
    pub fn compares_connections_without_endpoints(self) -> bool {
        self.minor >= 37
    }
}

/// The nftables mode.
impl Profile {
    /// The mode is modelled (from 1.30). It is there as an alpha feature in 1.29, with another layout.
    pub fn nftables(self) -> bool {
        self.minor >= 30
    }

    /// Checks for endpoints and for unused ports of cluster IPs stand at the priority of filters, where destinations are
    /// translated already (from 1.34, 1.33.6); before, those for endpoints stand before the translation, so that the
    /// node's own packets never get to the short cut of policy Local.
    pub fn nftables_filters_translated(self) -> bool {
        self.minor >= 34 || self.has_backport(&backports::FILTERS_TRANSLATED)
    }

    /// Interfaces are compared by name, with `iifname` (from 1.35, 1.34.2, 1.33.6; kubernetes#134024); before, with `iif`,
    /// which wants an interface that is there, and no start of a name.
    pub fn nftables_interface_by_name(self) -> bool {
        self.minor >= 35 || self.has_backport(&backports::INTERFACE_BY_NAME)
    }

    /// Packets to the ranges of ServiceCIDR objects are dropped where no service has the address (gate
    /// `MultiCIDRServiceAllocator`, alpha in 1.27, on by default from 1.33, always on from 1.34).
    pub fn nftables_drops_unallocated(self, config: &ProxyConfig) -> bool {
        gates::MULTI_CIDR_SERVICE_ALLOCATOR.is_on(self, config)
    }

    /// Rules that mark what comes from outside have the comment `masquerade`, and the one for all cluster IPs has one with
    /// `masqueradeAll` too (from 1.36).
    pub fn nftables_comments_masquerade(self) -> bool {
        self.minor >= 36
    }

    /// Elements that lead to a firewall have a comment, as those that refuse traffic have (1.30 and 1.31).
    pub fn nftables_comments_firewall(self) -> bool {
        self.minor <= 31
    }

    /// The rule that masquerades what comes to a cluster IP from outside names the port too (up to 1.33).
    pub fn nftables_masquerade_names_port(self) -> bool {
        self.minor <= 33
    }

    /// Rules set the mark for masquerading themselves, with one rule for all cluster IPs, and connections of endpoints to
    /// themselves stand in a set (from 1.36); before, there is a chain `mark-for-masquerade` to jump to.
    pub fn nftables_marks_inline(self) -> bool {
        self.minor >= 36
    }

    /// Endpoints have chains of their own only where they remember clients (from 1.36); else, the service port's chain has
    /// a map of destinations.
    pub fn nftables_maps_destinations(self) -> bool {
        self.minor >= 36
    }

    /// A single endpoint needs no map (from 1.37).
    pub fn nftables_single_destination(self) -> bool {
        self.minor >= 37
    }

    /// Comments of elements are cut off at the kernel's 128 bytes (from 1.37; kubernetes#139515); before, a longer one
    /// makes the whole sync fail.
    pub fn nftables_cuts_comments(self) -> bool {
        self.minor >= 37
    }
}

/// Which endpoints serve.
impl Profile {
    /// Endpoints are listed by address, as their Endpoints object has them (up to 1.18); from EndpointSlices, they are
    /// sorted with their port, so that `10.0.0.10:80` stands behind `10.0.0.100:80`.
    pub fn sorts_endpoints_by_address(self) -> bool {
        self.minor <= 18
    }

    /// Of several entries with one address, one that is not terminating counts (from 1.36); before, a local one.
    pub fn prefers_running_endpoint(self) -> bool {
        self.minor >= 36
    }

    /// Terminating endpoints serve where no ready one is left (alpha in 1.22, on by default from 1.26).
    pub fn terminating_endpoints(self, config: &ProxyConfig) -> bool {
        gates::PROXY_TERMINATING_ENDPOINTS.is_on(self, config)
    }

    /// Zone hints count (alpha in 1.21, on by default from 1.24, always on from 1.33).
    pub fn zone_hints(self, config: &ProxyConfig) -> bool {
        gates::TOPOLOGY_AWARE_HINTS.is_on(self, config)
    }

    /// Hints count without the annotation that asks for them (alpha in 1.30, on by default from 1.31, always on from
    /// 1.33).
    pub fn hints_without_annotation(self, config: &ProxyConfig) -> bool {
        gates::SERVICE_TRAFFIC_DISTRIBUTION.is_on(self, config)
    }

    /// The annotation may be `service.kubernetes.io/topology-mode`, and any value but `Disabled` asks for hints (from
    /// 1.27); before, it is `topology-aware-hints` with the value `Auto`.
    pub fn topology_mode_annotation(self) -> bool {
        self.minor >= 27
    }

    /// Hints can name nodes (alpha in 1.33, on by default from 1.34).
    pub fn node_hints(self, config: &ProxyConfig) -> bool {
        gates::PREFER_SAME_TRAFFIC_DISTRIBUTION.is_on(self, config)
    }

    /// Whether this is a patch release, of one of these minor ones, that is not older.
    fn has_backport(self, since: &[Backport]) -> bool {
        let patch = self.patch.unwrap_or(u8::MAX);
        since.iter().any(|(minor, first)| self.minor == *minor && patch >= *first)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("1.30", "1.30")]
    #[case("v1.18", "1.18")]
    #[case("1.18.3", "1.18.3")]
    fn versions_are_read(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(text.parse::<Profile>().unwrap().to_string(), shown);
    }

    #[rstest]
    #[case("1.9")]
    #[case("1.99")]
    #[case("2.0")]
    #[case("1")]
    #[case("1.30.x")]
    #[case("1.30.1.1")]
    #[case("latest")]
    fn unknown_versions_name_the_known_ones(#[case] text: &str) {
        let error = text.parse::<Profile>().unwrap_err().to_string();
        assert_eq!(error, format!("unknown kube-proxy version `{text}`: known are 1.10 to 1.37"));
    }

    #[rstest]
    #[case("1.18.3", false)]
    #[case("1.18.4", true)]
    #[case("1.18", true)]
    #[case("1.17.6", false)]
    #[case("1.15.12", false)]
    #[case("1.19.0", true)]
    fn backports_count_from_their_patch_release(#[case] version: &str, #[case] drops: bool) {
        assert_eq!(version.parse::<Profile>().unwrap().drops_foreign_localnet(), drops);
    }
}
