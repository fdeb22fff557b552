//! Differences between releases in the rules of iptables mode, and in node ports of both modes.

use super::version::Profile;
use super::{backports, gates};
use crate::cluster::ProxyConfig;

/// Names and comments.
impl Profile {
    /// An unnamed port is written `namespace/name:`, with a trailing colon (up to 1.18).
    pub(crate) fn unnamed_port_has_colon(self) -> bool {
        self.minor <= 18
    }

    /// Comments of balancing rules contain the endpoint: `default/web:http -> 10.244.1.2:80` (from 1.24).
    pub(crate) fn comments_name_endpoint(self) -> bool {
        self.minor >= 24
    }

    /// Number of decimals of a probability: 5 up to 1.16, then 10.
    pub fn probability_digits(self) -> usize {
        if self.minor <= 16 { 5 } else { 10 }
    }
}

/// Chains and rules that do not depend on services.
impl Profile {
    /// kube-proxy writes rules of both families on any node (dual-stack on by default, from 1.21); before, only of the node's own family.
    pub(crate) fn both_families(self) -> bool {
        self.minor >= 21
    }

    /// A chain `KUBE-PROXY-CANARY` in three tables reveals when another program flushes them (from 1.17).
    pub(crate) fn canary(self) -> bool {
        self.minor >= 17
    }

    /// The kubelet creates `KUBE-MARK-DROP`, `KUBE-FIREWALL` and its own copy of the masquerade chains (up to 1.26).
    pub(crate) fn kubelet_chains(self) -> bool {
        self.minor <= 26
    }

    /// kube-proxy creates `KUBE-FIREWALL` itself (from 1.27).
    pub(crate) fn proxy_firewall_chain(self) -> bool {
        !self.kubelet_chains()
    }

    /// `KUBE-FIREWALL` drops packets to 127.0.0.0/8 from other machines (from 1.18.4, 1.17.7, 1.16.11; CVE-2020-8558).
    pub(crate) fn drops_external_localnet(self) -> bool {
        self.minor >= 19 || self.has_backport(&backports::DROPS_EXTERNAL_LOCALNET)
    }

    /// `KUBE-POSTROUTING` clears the mark before it masquerades, so that a packet inside a tunnel is not
    /// masqueraded twice (from 1.19, 1.18.6, 1.17.9, 1.16.13; kubernetes#92035).
    pub(crate) fn clears_mark(self) -> bool {
        self.minor >= 19 || self.has_backport(&backports::CLEARS_MARK)
    }

    /// `MASQUERADE --random-fully` (from 1.16).
    pub(crate) fn masquerades_random_fully(self) -> bool {
        self.minor >= 16
    }

    /// `KUBE-FORWARD` drops INVALID packets (from 1.15; from 1.29 not with `conntrack.tcpBeLiberal`).
    pub(crate) fn drops_invalid(self, config: &ProxyConfig) -> bool {
        self.minor >= 15 && !(self.minor >= 29 && config.tcp_be_liberal)
    }

    /// Rules count INVALID packets and connections to node ports on 127.0.0.0/8, if the kernel supports nfacct (from 1.32).
    pub fn counts_with_nfacct(self, config: &ProxyConfig) -> bool {
        self.minor >= 32 && config.nfacct
    }

    /// One rule accepts replies (from 1.23); before, one for those from pods and one for those to pods.
    pub(crate) fn one_forwarding_rule(self) -> bool {
        self.minor >= 23
    }

    /// The two rules for replies match `clusterCIDR`, and are omitted without it (up to 1.17).
    pub(crate) fn forwarding_rules_know_cluster_cidr(self) -> bool {
        self.minor <= 17
    }

    /// FORWARD jumps to the `KUBE-SERVICES` of `filter` (from 1.14).
    pub(crate) fn forward_visits_services(self) -> bool {
        self.minor >= 14
    }

    /// INPUT jumps to the `KUBE-SERVICES` of `filter` (1.14 to 1.17).
    pub(crate) fn input_visits_services(self) -> bool {
        (14..=17).contains(&self.minor)
    }

    /// FORWARD jumps to `KUBE-EXTERNAL-SERVICES`, which holds the rejects of load-balancer addresses (from 1.18; the recordings of 1.18
    /// have it, although it was introduced in 1.20). Before, they are in `KUBE-SERVICES`.
    pub(crate) fn forward_visits_external_services(self) -> bool {
        self.minor >= 18
    }

    /// `filter` has a chain `KUBE-NODEPORTS` that accepts health checks (from 1.21).
    pub(crate) fn accepts_health_checks(self) -> bool {
        self.minor >= 21
    }

    /// `filter` has `KUBE-PROXY-FIREWALL` for sources outside the source ranges (from 1.25); before, `KUBE-FW` sets
    /// the kubelet's mark 0x8000.
    pub(crate) fn firewall_in_filter(self) -> bool {
        self.minor >= 25
    }

    /// The configuration has `iptables.localhostNodePorts`, and the jump to `KUBE-NODEPORTS` excludes loopback addresses that cannot work
    /// (from 1.26).
    pub(crate) fn knows_localhost_node_ports(self) -> bool {
        self.minor >= 26
    }

    /// Returns whether `iptables.localhostNodePorts` switches node ports on loopback addresses off.
    pub fn switches_localhost_node_ports_off(self, config: &ProxyConfig) -> bool {
        self.knows_localhost_node_ports() && !config.localhost_node_ports
    }
}

/// Rules of a service.
impl Profile {
    /// External traffic has its own chain, `KUBE-EXT`, and local endpoints have `KUBE-SVL` (from 1.24); before,
    /// `KUBE-XLB` is both.
    pub(crate) fn external_chains(self) -> bool {
        self.minor >= 24
    }

    /// Rules that mark for masquerading are in the service's own chain (from 1.22); before, in `KUBE-SERVICES` and
    /// `KUBE-NODEPORTS`.
    pub(crate) fn marks_in_service_chain(self) -> bool {
        self.minor >= 22
    }

    /// External addresses serve only packets that neither come from a bridge nor from this node, or that are addressed to it (up to 1.20).
    pub(crate) fn guards_external_ips(self) -> bool {
        self.minor <= 20
    }

    /// External traffic with policy Local has rules for packets from the node itself (from 1.15).
    pub(crate) fn local_chains_serve_the_node(self) -> bool {
        self.minor >= 15
    }

    /// `KUBE-NODEPORTS` masquerades packets from loopback to node ports with policy Local (1.14 to 1.23).
    pub(crate) fn masquerades_loopback_node_ports(self) -> bool {
        (14..=23).contains(&self.minor)
    }

    /// `externalTrafficPolicy` applies to every service that is reachable from outside, even with only `externalIPs` (from 1.29;
    /// kubernetes#119150).
    pub(crate) fn external_policy_covers_external_ips(self) -> bool {
        self.minor >= 29
    }

    /// `internalTrafficPolicy` is implemented (from 1.22).
    pub(crate) fn internal_policy(self) -> bool {
        self.minor >= 22
    }

    /// Without a local endpoint, traffic with policy Local is dropped in `filter` (from 1.25); in 1.24 by the mark
    /// 0x8000.
    pub(crate) fn drops_local_in_filter(self) -> bool {
        self.minor >= 25
    }

    /// `KUBE-FW` ends with a rule whose comment describes what happens to other traffic (from 1.27).
    pub(crate) fn firewall_placeholder(self) -> bool {
        self.minor >= 27
    }

    /// The check of a load balancer's source ranges knows the node's own address. From 1.21 to 1.28 a dual-stack kube-proxy uses 0.0.0.0
    /// and `::` instead.
    pub(crate) fn source_ranges_know_node(self) -> bool {
        !(21..=28).contains(&self.minor)
    }

    /// A source range of length 0 means no source ranges in its family (from 1.34); before, it is a range like any other.
    pub(crate) fn zero_source_range_is_none(self) -> bool {
        self.minor >= 34
    }

    /// `externalIPs` are served. The gate that disables them was introduced in 1.36; policies and chains still count them then.
    pub(crate) fn serves_external_ips(self, config: &ProxyConfig) -> bool {
        self.minor < 36 || gates::ALLOW_SERVICE_EXTERNAL_IPS.is_on(self, config)
    }

    /// Load-balancer addresses with `ipMode: Proxy` are ignored (alpha in 1.29, on by default from 1.30).
    pub(crate) fn ip_mode(self, config: &ProxyConfig) -> bool {
        gates::LOAD_BALANCER_IP_MODE.is_on(self, config)
    }
}

/// Node ports.
impl Profile {
    /// kube-proxy listens on node ports itself, so that no other process can bind them (up to 1.23).
    pub fn holds_node_ports(self) -> bool {
        self.minor <= 23
    }

    /// A family without an address in `nodePortAddresses` or through the word `primary` has node ports on all addresses (from 1.31, where
    /// the word is expanded to ranges of all families together). Before, nftables mode falls back to the family's primary address, which is
    /// the loopback address if the node has no other.
    pub(crate) fn unnamed_family_serves_all(self) -> bool {
        self.minor >= 31
    }

    /// A range of length 0 means all addresses, however it is written (from 1.34); before, only `0.0.0.0/0` and `::/0` do.
    pub(crate) fn zero_range_by_length(self) -> bool {
        self.minor >= 34
    }
}
