//! The chains that exist independently of services, and the jumps to them from built-in chains.

use std::mem::take;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::super::ast::{Chain, Rule, RuleSet};
use super::super::matches::{Match, States};
use super::super::table_name::TableName;
use super::super::targets::Target;
use super::super::values::{Masked, Negatable, Network};
use super::Generator;
use super::rule::{commented, rule};
use crate::cluster::Family;
use crate::selection::NodePortAddresses;

/// The kubelet's mark for packets to be dropped.
const DROP_MARK: u32 = 0x8000;

/// The kubelet's own mark for packets to be masqueraded, if kube-proxy is not running.
const KUBELET_MASQUERADE_MARK: u32 = 0x4000;

const PORTALS: &str = "kubernetes service portals";
const EXTERNAL_PORTALS: &str = "kubernetes externally-visible service portals";
const LOAD_BALANCER_FIREWALL: &str = "kubernetes load balancer firewall";
const NODE_PORTS: &str = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";
/// The nfacct object for INVALID packets.
const DROPPED_INVALID: &str = "ct_state_invalid_dropped_pkts";
const REPLIES: States = States::RELATED.and(States::ESTABLISHED);

impl Generator<'_> {
    /// Builds the whole document around the rules of services.
    pub(super) fn frame(&mut self) -> RuleSet {
        let mut rules = RuleSet::new(self.family);
        if self.profile.canary() {
            put(&mut rules, TableName::Mangle, vec![chain("KUBE-PROXY-CANARY", vec![])]);
        }
        let filter = self.filter_table();
        put(&mut rules, TableName::Filter, filter);
        let nat = self.nat_table();
        put(&mut rules, TableName::Nat, nat);
        rules
    }

    /// Builds the kubelet's rules for a family that kube-proxy does not handle.
    pub(super) fn kubelet_only(&self) -> RuleSet {
        let mut rules = RuleSet::new(self.family);
        let jump = || rule().jump_to("KUBE-FIREWALL");
        let filter =
            vec![chain("INPUT", vec![jump()]), chain("OUTPUT", vec![jump()]), chain("KUBE-FIREWALL", self.firewall())];
        put(&mut rules, TableName::Filter, filter);
        let nat = vec![
            chain("POSTROUTING", vec![commented("kubernetes postrouting rules").jump_to("KUBE-POSTROUTING")]),
            chain("KUBE-MARK-DROP", vec![set_mark(DROP_MARK)]),
            chain("KUBE-MARK-MASQ", vec![set_mark(KUBELET_MASQUERADE_MARK)]),
            chain("KUBE-POSTROUTING", self.postrouting(KUBELET_MASQUERADE_MARK)),
        ];
        put(&mut rules, TableName::Nat, nat);
        rules
    }

    fn filter_table(&mut self) -> Vec<Chain> {
        let mut chains = vec![
            chain("INPUT", self.input()),
            chain("FORWARD", self.forward()),
            chain("OUTPUT", self.output()),
            chain("KUBE-FIREWALL", self.firewall()),
            chain("KUBE-FORWARD", self.forwarding()),
            chain("KUBE-SERVICES", take(&mut self.filter.services)),
            chain("KUBE-EXTERNAL-SERVICES", take(&mut self.filter.external_services)),
        ];
        if self.profile.accepts_health_checks() {
            chains.push(chain("KUBE-NODEPORTS", take(&mut self.filter.node_ports)));
        }
        if self.profile.firewall_in_filter() {
            chains.push(chain("KUBE-PROXY-FIREWALL", take(&mut self.filter.proxy_firewall)));
        }
        if self.profile.canary() {
            chains.push(chain("KUBE-PROXY-CANARY", vec![]));
        }
        chains
    }

    fn input(&self) -> Vec<Rule> {
        let new = |comment: &str, chain: &str| {
            rule().in_state(States::NEW).with(Match::Comment(comment.into())).jump_to(chain)
        };
        let profile = self.profile;
        [
            profile.proxy_firewall_chain().then(|| rule().jump_to("KUBE-FIREWALL")),
            profile.firewall_in_filter().then(|| new(LOAD_BALANCER_FIREWALL, "KUBE-PROXY-FIREWALL")),
            profile
                .accepts_health_checks()
                .then(|| commented("kubernetes health check service ports").jump_to("KUBE-NODEPORTS")),
            profile.input_visits_services().then(|| new(PORTALS, "KUBE-SERVICES")),
            Some(new(EXTERNAL_PORTALS, "KUBE-EXTERNAL-SERVICES")),
            profile.kubelet_chains().then(|| rule().jump_to("KUBE-FIREWALL")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn forward(&self) -> Vec<Rule> {
        let new = |comment: &str, chain: &str| {
            rule().in_state(States::NEW).with(Match::Comment(comment.into())).jump_to(chain)
        };
        let profile = self.profile;
        [
            profile.firewall_in_filter().then(|| new(LOAD_BALANCER_FIREWALL, "KUBE-PROXY-FIREWALL")),
            Some(commented("kubernetes forwarding rules").jump_to("KUBE-FORWARD")),
            profile.forward_visits_services().then(|| new(PORTALS, "KUBE-SERVICES")),
            profile.forward_visits_external_services().then(|| new(EXTERNAL_PORTALS, "KUBE-EXTERNAL-SERVICES")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn output(&self) -> Vec<Rule> {
        let new = |comment: &str, chain: &str| {
            rule().in_state(States::NEW).with(Match::Comment(comment.into())).jump_to(chain)
        };
        let profile = self.profile;
        [
            profile.proxy_firewall_chain().then(|| rule().jump_to("KUBE-FIREWALL")),
            profile.firewall_in_filter().then(|| new(LOAD_BALANCER_FIREWALL, "KUBE-PROXY-FIREWALL")),
            Some(new(PORTALS, "KUBE-SERVICES")),
            profile.kubelet_chains().then(|| rule().jump_to("KUBE-FIREWALL")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the rules of `KUBE-FIREWALL`: the kubelet's drop of marked packets, and the protection of services on loopback. From 1.27 on
    /// the latter is kube-proxy's, and exists only if it enabled `route_localnet`.
    fn firewall(&self) -> Vec<Rule> {
        let profile = self.profile;
        let marked =
            || commented("kubernetes firewall for dropping marked packets").marked(DROP_MARK).then(Target::Drop);
        let opened = profile.kubelet_chains() || self.opens_loopback();
        let guard = self.family == Family::Ipv4 && profile.drops_external_localnet() && opened;
        [profile.kubelet_chains().then(marked), guard.then(|| self.localnet_guard())].into_iter().flatten().collect()
    }

    fn localnet_guard(&self) -> Rule {
        let loopback = || self.loopback();
        let known = REPLIES.and(States::DNAT);
        let mut rule = commented("block incoming localnet connections")
            .with(Match::State { old_name: false, states: Negatable::not(known) })
            .then(Target::Drop);
        rule.source = Some(Negatable::not(loopback()));
        rule.destination = Some(Negatable::is(loopback()));
        rule
    }

    /// Returns the addresses of the loopback interface: 127.0.0.0/8 or `::1`.
    pub(super) fn loopback(&self) -> Network {
        Network::range(match self.family {
            Family::Ipv4 => IpNet::new_assert(IpAddr::V4(Ipv4Addr::LOCALHOST), 8),
            Family::Ipv6 => IpNet::from(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        })
    }

    fn forwarding(&self) -> Vec<Rule> {
        let replies = |comment: &str| commented(comment).in_state(REPLIES).then(Target::Accept);
        let mut rules = Vec::new();
        if self.profile.drops_invalid(self.config) {
            let invalid = rule().in_state(States::INVALID);
            let counts = self.profile.counts_with_nfacct(self.config);
            let invalid = if counts { invalid.counted_by(DROPPED_INVALID) } else { invalid };
            rules.push(invalid.then(Target::Drop));
        }
        rules.push(commented("kubernetes forwarding rules").marked(self.masquerade_mark()).then(Target::Accept));
        if self.profile.one_forwarding_rule() {
            rules.push(replies("kubernetes forwarding conntrack rule"));
            return rules;
        }
        let mut from_pods = replies("kubernetes forwarding conntrack pod source rule");
        let mut to_pods = replies("kubernetes forwarding conntrack pod destination rule");
        if self.profile.forwarding_rules_know_cluster_cidr() {
            let Some(range) = self.local.source() else { return rules };
            from_pods.source = Some(Negatable::is(range.clone()));
            to_pods.destination = Some(Negatable::is(range.clone()));
        }
        rules.extend([from_pods, to_pods]);
        rules
    }

    fn nat_table(&mut self) -> Vec<Chain> {
        let portals = || vec![commented(PORTALS).jump_to("KUBE-SERVICES")];
        let mut services = take(&mut self.nat.services);
        services.extend(self.node_port_jumps());
        let mut chains = take(&mut self.nat.chains);
        let mut endpoints = take(&mut self.nat.endpoints);
        endpoints.sort_unstable_by_key(|endpoint| endpoint.hash);
        chains.reserve(endpoints.len() + 16);
        chains.extend(endpoints.into_iter().map(|endpoint| self.endpoint_chain(endpoint)));
        chains.extend([
            chain("PREROUTING", portals()),
            chain("OUTPUT", portals()),
            chain("POSTROUTING", vec![commented("kubernetes postrouting rules").jump_to("KUBE-POSTROUTING")]),
            chain("KUBE-SERVICES", services),
            chain("KUBE-NODEPORTS", take(&mut self.nat.node_ports)),
            chain("KUBE-POSTROUTING", self.postrouting(self.masquerade_mark())),
            chain("KUBE-MARK-MASQ", vec![set_mark(self.masquerade_mark())]),
        ]);
        if self.profile.kubelet_chains() {
            chains.push(chain("KUBE-MARK-DROP", vec![set_mark(DROP_MARK)]));
        }
        if self.profile.canary() {
            chains.push(chain("KUBE-PROXY-CANARY", vec![]));
        }
        chains
    }

    fn masquerade_mark(&self) -> u32 {
        1_u32.checked_shl(u32::from(self.config.masquerade_bit)).unwrap_or_default()
    }

    fn postrouting(&self, mark: u32) -> Vec<Rule> {
        const COMMENT: &str = "kubernetes service traffic requiring SNAT";
        let random_fully = self.profile.masquerades_random_fully();
        let masquerade = Target::Masquerade { ports: None, random: false, random_fully };
        if !self.profile.clears_mark() {
            return vec![commented(COMMENT).marked(mark).then(masquerade)];
        }
        vec![
            rule().with(Match::Mark(Negatable::not(Masked::bits(mark)))).then(Target::Return),
            rule().then(Target::Mark(Masked { value: mark, mask: 0 })),
            commented(COMMENT).then(masquerade),
        ]
    }

    /// Returns the last rules of `KUBE-SERVICES`: one for all addresses of the node, or one for each that `nodePortAddresses` selects.
    fn node_port_jumps(&self) -> Vec<Rule> {
        let jump = || commented(NODE_PORTS);
        if self.node_ports == NodePortAddresses::All {
            let mut rule = jump().sent_to_node().jump_to("KUBE-NODEPORTS");
            if self.loopback_is_barred() {
                rule.destination = Some(Negatable::not(self.loopback()));
            }
            return vec![rule];
        }
        let mut served = self.node_ports.addresses(self.node, self.family);
        served.retain(|address| !(address.is_loopback() && self.loopback_is_barred()));
        served.into_iter().map(|address| jump().sent_to(address).jump_to("KUBE-NODEPORTS")).collect()
    }

    /// Returns whether rules exclude node ports on loopback addresses: they work neither on `::1` nor without `localhostNodePorts`.
    fn loopback_is_barred(&self) -> bool {
        self.profile.knows_localhost_node_ports() && !self.opens_loopback()
    }

    /// Returns whether kube-proxy sets `route_localnet`, so that node ports work on 127.0.0.0/8.
    pub(super) fn opens_loopback(&self) -> bool {
        self.family == Family::Ipv4 && self.config.localhost_node_ports && self.node_ports.cover_loopback()
    }
}

fn set_mark(bit: u32) -> Rule {
    rule().then(Target::Mark(Masked::bits(bit)))
}

fn chain(name: &str, rules: Vec<Rule>) -> Chain {
    Chain { rules, ..Chain::user(name) }
}

/// Adds a table: built-in chains by hook, with empty ones added, then the others by name.
fn put(rules: &mut RuleSet, table: TableName, mut chains: Vec<Chain>) {
    let names = table.builtin_chains();
    let mut given: Vec<Chain> = chains.extract_if(.., |chain| names.contains(&&*chain.name)).collect();
    chains.sort_by(|a, b| a.name.cmp(&b.name));
    let builtin = names.iter().map(|name| {
        let given = given.iter().position(|chain| &*chain.name == *name).map(|index| given.swap_remove(index));
        Chain { rules: given.map(|chain| chain.rules).unwrap_or_default(), ..Chain::builtin(*name) }
    });
    chains.splice(0..0, builtin);
    rules.table_mut(table).chains = chains;
}
