//! The sets, maps and chains that exist independently of services.

use std::mem::take;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::super::TABLE;
use super::super::{Addresses, Condition, LookupKey, MarkChange, Side, Statement, Verdict};
use super::super::{BaseChain, Chain, Datatype, Element, Key, Rule, Set, SetKind, Table};
use super::rule::{ADDRESS_AND_PORT, PORT, rule};
use super::{Generator, Unsupported};
use crate::cluster::Family;
use crate::selection::NodePortAddresses;
use crate::walk::{Hook, RejectResponse};

/// The priority of chains that see destinations before DNAT.
const BEFORE_DNAT: i32 = -110;
const DNAT: i32 = -100;
const AFTER_DNAT: i32 = -90;
const FILTER: i32 = 0;
const SNAT: i32 = 100;

impl Generator<'_> {
    /// Builds the whole table around what services added.
    pub(super) fn table(mut self) -> Result<Table, Unsupported> {
        let mut chains = self.base_chains();
        chains.extend(self.common_chains()?);
        let mut sets = self.common_sets();
        chains.append(&mut self.chains);
        sets.append(&mut self.affinity_sets);
        Ok(Table {
            family: self.family,
            name: TABLE.into(),
            comment: Some("rules for kube-proxy".into()),
            sets,
            chains,
        })
    }

    fn common_sets(&mut self) -> Vec<Set> {
        let elements = take(&mut self.elements);
        let address = || vec![Datatype::Address(self.family)];
        let address_and_port = || vec![Datatype::Address(self.family), Datatype::Protocol, Datatype::Port];
        let port = || vec![Datatype::Protocol, Datatype::Port];
        let set = |name: &str, comment: &str, kind, key, elements| Set {
            name: name.into(),
            kind,
            key,
            comment: Some(comment.into()),
            dynamic: None,
            elements,
        };
        let addresses =
            |all: Vec<IpAddr>| all.into_iter().map(|address| plain_element(vec![Key::Address(address)])).collect();
        let node_ports = (!self.all_node_ports()).then(|| {
            let served = addresses(self.node_port_addresses());
            set("nodeport-ips", "IPs that accept NodePort traffic", SetKind::Set, address(), served)
        });
        let cluster_ips = addresses(elements.cluster_ips.into_iter().collect());
        let map = |name, comment, key, elements: super::elements::VerdictMap| {
            set(name, comment, SetKind::VerdictMap, key, elements.into_elements())
        };
        let hairpins = self.profile.nftables_marks_inline().then(|| {
            let key = [vec![Datatype::Address(self.family)], address_and_port()].concat();
            let hairpins = elements.hairpins.into_iter().map(plain_element).collect();
            set("hairpin-connections", "service hairpin connections", SetKind::Set, key, hairpins)
        });
        let mut sets = Vec::from_iter(hairpins);
        sets.push(set("cluster-ips", "Active ClusterIPs", SetKind::Set, address(), cluster_ips));
        sets.extend(node_ports);
        sets.extend([
            map(
                "no-endpoint-services",
                "vmap to drop or reject packets to services with no endpoints",
                address_and_port(),
                elements.no_endpoint_services,
            ),
            map(
                "no-endpoint-nodeports",
                "vmap to drop or reject packets to service nodeports with no endpoints",
                port(),
                elements.no_endpoint_node_ports,
            ),
            map(
                "firewall-ips",
                "destinations that are subject to LoadBalancerSourceRanges",
                address_and_port(),
                elements.firewall_ips,
            ),
            map(
                "service-ips",
                "ClusterIP, ExternalIP and LoadBalancer IP traffic",
                address_and_port(),
                elements.service_ips,
            ),
            map("service-nodeports", "NodePort traffic", port(), elements.service_node_ports),
        ]);
        sets
    }

    /// Returns the base chains.
    fn base_chains(&self) -> Vec<Chain> {
        let base = |name: &str, nat, hook, priority, rules| Chain {
            base: Some(BaseChain { nat, hook, priority, drops: false }),
            rules,
            ..Chain::regular(name.into())
        };
        let new = |chain: &str| rule().when(Condition::new_connection()).jump(chain);
        let (endpoints, node_ports) = ("service-endpoints-check", "nodeport-endpoints-check");
        let (firewall, cluster_ips) = ("firewall-check", "cluster-ips-check");
        let input = vec![new(node_ports), new(endpoints)];
        let forward = vec![new(endpoints), new(cluster_ips)];
        let mut chains = if self.profile.nftables_filters_translated() {
            vec![
                base("filter-prerouting-pre-dnat", false, Hook::Prerouting, BEFORE_DNAT, vec![new(firewall)]),
                base("filter-output-pre-dnat", false, Hook::Output, BEFORE_DNAT, vec![new(firewall)]),
                base("filter-input", false, Hook::Input, FILTER, input),
                base("filter-forward", false, Hook::Forward, FILTER, forward),
                base("filter-output", false, Hook::Output, FILTER, vec![new(endpoints), new(cluster_ips)]),
            ]
        } else {
            vec![
                base("filter-prerouting", false, Hook::Prerouting, BEFORE_DNAT, vec![new(firewall)]),
                base("filter-input", false, Hook::Input, BEFORE_DNAT, input),
                base("filter-forward", false, Hook::Forward, BEFORE_DNAT, forward),
                base("filter-output", false, Hook::Output, BEFORE_DNAT, vec![new(endpoints), new(firewall)]),
                base("filter-output-post-dnat", false, Hook::Output, AFTER_DNAT, vec![new(cluster_ips)]),
            ]
        };
        chains.extend([
            base("nat-prerouting", true, Hook::Prerouting, DNAT, vec![rule().jump("services")]),
            base("nat-output", true, Hook::Output, DNAT, vec![rule().jump("services")]),
            base("nat-postrouting", true, Hook::Postrouting, SNAT, vec![rule().jump("masquerading")]),
        ]);
        chains
    }

    /// Returns the chains that base chains jump to.
    fn common_chains(&self) -> Result<Vec<Chain>, Unsupported> {
        let chain = |name: &str, rules| Chain { rules, ..Chain::regular(name.into()) };
        let unused_ports = rule()
            .with_address_in(Side::Destination, &"cluster-ips".into())
            .then(Statement::Reject(RejectResponse::PortUnreachable))
            .commented("Reject traffic to invalid ports of ClusterIPs");
        let mut cluster_ips = vec![unused_ports];
        cluster_ips.extend(self.drop_unallocated());
        let mut reject = chain("reject-chain", vec![rule().then(Statement::Reject(RejectResponse::PortUnreachable))]);
        reject.comment = Some("helper for @no-endpoint-services / @no-endpoint-nodeports".into());
        let mut services = Vec::from_iter(self.masquerade_cluster_ips()?);
        services.push(rule().look_up(&ADDRESS_AND_PORT, "service-ips"));
        services.push(self.to_node_port(true, "service-nodeports"));
        let mut chains = vec![
            chain("nodeport-endpoints-check", vec![self.to_node_port(false, "no-endpoint-nodeports")]),
            chain("service-endpoints-check", vec![rule().look_up(&ADDRESS_AND_PORT, "no-endpoint-services")]),
            chain("firewall-check", vec![rule().look_up(&ADDRESS_AND_PORT, "firewall-ips")]),
            chain("services", services),
            chain("masquerading", self.masquerading()),
            chain("cluster-ips-check", cluster_ips),
        ];
        if !self.profile.nftables_marks_inline() {
            let set = Statement::Mark(MarkChange::Set(self.masquerade_mark()));
            chains.push(chain("mark-for-masquerade", vec![rule().then(set)]));
        }
        chains.push(reject);
        Ok(chains)
    }

    /// Returns the rule that drops traffic to unallocated addresses in the cluster IP ranges.
    fn drop_unallocated(&self) -> Option<Rule> {
        if !self.profile.nftables_drops_unallocated(self.config) {
            return None;
        }
        let ranges = self.cluster.service_cidrs.iter().filter(|range| Family::of(range.addr()) == self.family);
        let value = Addresses::in_braces(&ranges.map(|range| (*range).into()).collect::<Vec<_>>())?;
        let to_unallocated = Condition::Address { side: Side::Destination, negated: false, value };
        let drop = rule().when(to_unallocated).then(Statement::Verdict(Verdict::Drop));
        Some(drop.commented("Drop traffic to unallocated ClusterIPs"))
    }

    /// Returns the masquerade rules: for marked packets, whose mark is cleared, and for endpoints' connections to themselves.
    fn masquerading(&self) -> Vec<Rule> {
        let bit = self.masquerade_mark();
        let unmark = Statement::Mark(MarkChange::Flip(bit));
        if !self.profile.nftables_marks_inline() {
            return vec![
                rule().when(Condition::mark_bit(false, bit)).then(Statement::Verdict(Verdict::Return)),
                rule().then(unmark),
                rule().then(Statement::Masquerade { random: true }),
            ];
        }
        let key = [[LookupKey::Address(Side::Source)].as_slice(), &ADDRESS_AND_PORT].concat();
        let hairpin = rule().when(Condition::Translated).when(Condition::InSet(key, "hairpin-connections".into()));
        vec![
            rule().when(Condition::mark_bit(true, bit)).then(unmark).then(Statement::Masquerade { random: true }),
            hairpin.then(Statement::Masquerade { random: true }),
        ]
    }

    /// Returns the rule that marks traffic to any cluster IP from sources other than pods, in releases with one rule for all.
    fn masquerade_cluster_ips(&self) -> Result<Option<Rule>, Unsupported> {
        if !self.profile.nftables_marks_inline() {
            return Ok(None);
        }
        let to_services = rule().with_address_in(Side::Destination, &"cluster-ips".into());
        if self.config.masquerade_all {
            return Ok(Some(self.mark(to_services).commented("masquerade all clusterIP traffic")));
        }
        let elsewhere = self.pod_condition(true)?;
        let marked = elsewhere.map(|elsewhere| self.mark(to_services.when(elsewhere)));
        Ok(marked.map(|rule| rule.commented("masquerade clusterIP traffic from outside cluster")))
    }

    /// Returns the rule that looks up a node port for packets to the node. In the input chain, packets are known to be local, so that match
    /// is omitted.
    fn to_node_port(&self, may_pass: bool, map: &str) -> Rule {
        if !self.all_node_ports() {
            return rule().with_address_in(Side::Destination, &"nodeport-ips".into()).look_up(&PORT, map);
        }
        let value = match self.family {
            Family::Ipv4 => Addresses::Prefix(IpNet::new_assert(Ipv4Addr::LOCALHOST.into(), 8)),
            Family::Ipv6 => Addresses::One(Ipv6Addr::LOCALHOST.into()),
        };
        let not_loopback = Condition::Address { side: Side::Destination, negated: true, value };
        let to_here = if may_pass { rule().when(Condition::Local(Side::Destination)) } else { rule() };
        to_here.when(not_loopback).look_up(&PORT, map)
    }

    /// Returns whether node ports are served on all addresses.
    fn all_node_ports(&self) -> bool {
        self.node_ports == NodePortAddresses::All
    }

    /// Returns the node's addresses that serve node ports; never loopback.
    fn node_port_addresses(&self) -> Vec<IpAddr> {
        let mut served = self.node_ports.addresses(self.node, self.family);
        served.retain(|address| !address.is_loopback());
        served.sort_unstable();
        served
    }
}

fn plain_element(key: Vec<Key>) -> Element {
    Element { key, comment: None, verdict: None }
}
