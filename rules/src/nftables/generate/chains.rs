//! The chains of a service port and of its endpoints.

use std::net::SocketAddr;

use super::super::name::{Name, NameBase};
use super::super::ranges::AddressRange;
use super::super::{Addresses, Condition, Side, Statement, Verdict};
use super::super::{Chain, Datatype, Dynamic, Rule, Set, SetKind};
use super::plan::Plan;
use super::rule::rule;
use super::{Generator, Unsupported};
use crate::selection::ServicePortView;

/// The number of clients that an endpoint remembers: the kernel's default size of a set.
const AFFINITY_CLIENTS: u32 = 65_535;

impl Generator<'_> {
    /// Adds all chains of a service port, and the affinity sets of its endpoints.
    pub(super) fn service_chains(&mut self, plan: &Plan<'_>) -> Result<(), Unsupported> {
        let endpoints = EndpointNames::of(plan.view);
        let reachable = plan.selected.reachable().into_iter().filter(|_| self.has_endpoint_chains(plan.view));
        for index in reachable.collect::<Vec<_>>() {
            let chain = self.endpoint_chain(plan.view, index, &endpoints);
            self.chains.push(chain);
            self.affinity_sets.extend(self.affinity_set(plan.view, endpoints.affinity_set(index)));
        }
        let policies = [
            (&plan.cluster_chain, &plan.selected.cluster, !plan.view.internal_local),
            (&plan.local_chain, &plan.selected.local, plan.view.internal_local),
        ];
        for (name, members, internal) in policies {
            if members.is_empty() {
                continue;
            }
            let mut chain = Chain::regular(name.clone());
            if internal && plan.internal && !self.profile.nftables_marks_inline() {
                chain.rules.extend(self.masquerade_cluster_ip(plan.view)?);
            }
            if self.has_endpoint_chains(plan.view) {
                chain.rules.extend(balance(plan.view, members, &endpoints));
            } else {
                chain.rules.push(self.translate(plan.view, members));
            }
            self.chains.push(chain);
        }
        if plan.uses_external_chain() {
            let chain = self.external_chain(plan)?;
            self.chains.push(chain);
        }
        if plan.uses_firewall() {
            let chain = self.firewall_chain(plan);
            self.chains.push(chain);
        }
        Ok(())
    }

    /// Returns whether endpoints have chains of their own.
    fn has_endpoint_chains(&self, view: &ServicePortView<'_>) -> bool {
        view.service.affinity_seconds.is_some() || !self.profile.nftables_maps_destinations()
    }

    /// Returns the rule that balances traffic evenly among destinations.
    fn translate(&self, view: &ServicePortView<'_>, members: &[usize]) -> Rule {
        let addresses: Vec<SocketAddr> = members.iter().map(|index| view.endpoints[*index].address).collect();
        let statement = match addresses.as_slice() {
            [single] if self.profile.nftables_single_destination() => Statement::Dnat(*single),
            _ => Statement::BalanceDnat(addresses.into()),
        };
        rule().of(view.port.protocol).then(statement)
    }

    /// Returns the rule that masquerades traffic to the cluster IP from sources other than pods, so that replies return through this node.
    fn masquerade_cluster_ip(&self, view: &ServicePortView<'_>) -> Result<Option<Rule>, Unsupported> {
        let mut to_service = rule().with_address(Side::Destination, view.cluster_ip);
        if self.profile.nftables_masquerade_names_port() {
            to_service = to_service.when(Condition::destination_port(view.port.protocol, view.port.port));
        }
        if self.config.masquerade_all {
            return Ok(Some(self.mark(to_service)));
        }
        let elsewhere = self.pod_condition(true)?;
        Ok(elsewhere.map(|elsewhere| self.mark(to_service.when(elsewhere))))
    }

    /// Builds the chain for traffic to external addresses.
    fn external_chain(&self, plan: &Plan<'_>) -> Result<Chain, Unsupported> {
        let mut chain = Chain::regular(plan.external_chain.clone());
        if plan.view.external_local {
            // Pods and the node itself take the short-circuit path to any endpoint.
            if let Some(from_pod) = self.pod_condition(false)? {
                let pods = rule().when(from_pod).goto(&plan.cluster_chain);
                chain.rules.push(pods.commented("short-circuit pod traffic"));
            }
            let from_node = || rule().when(Condition::Local(Side::Source));
            chain.rules.push(self.mark(from_node()).commented("masquerade local traffic"));
            chain.rules.push(from_node().goto(&plan.cluster_chain).commented("short-circuit local traffic"));
        } else {
            let masquerade = self.mark(rule());
            let is_commented = self.profile.nftables_comments_masquerade();
            chain.rules.push(if is_commented { masquerade.commented("masquerade") } else { masquerade });
        }
        if plan.external {
            chain.rules.push(rule().goto(plan.external_endpoints_chain()));
        }
        Ok(chain)
    }

    /// Builds the chain that drops sources outside the source ranges. If the ranges contain the node, the load balancer's addresses are
    /// allowed too, because a packet from the node may have them as its source.
    fn firewall_chain(&self, plan: &Plan<'_>) -> Chain {
        let view = plan.view;
        let allowed = &view.source_ranges;
        let mut ranges: Vec<AddressRange> = allowed.iter().map(|range| (*range).into()).collect();
        if allowed.iter().any(|range| range.contains(&self.node.proxy_ip(self.family))) {
            ranges.extend(view.load_balancer_ips.iter().map(|address| AddressRange::from(*address)));
        }
        let elsewhere = |value| Condition::Address { side: Side::Source, negated: true, value };
        let drop = |value| rule().when(elsewhere(value)).then(Statement::Verdict(Verdict::Drop));
        let rules = Addresses::in_braces(&ranges).map(drop).into_iter().collect();
        Chain { rules, ..Chain::regular(plan.firewall_chain.clone()) }
    }

    /// Builds the chain of an endpoint: its connections to itself are masqueraded, all are translated.
    fn endpoint_chain(&self, view: &ServicePortView<'_>, index: usize, endpoints: &EndpointNames) -> Chain {
        let address = view.endpoints[index].address;
        let mut chain = Chain::regular(endpoints.chain(index));
        if !self.profile.nftables_marks_inline() {
            chain.rules.push(self.mark(rule().with_address(Side::Source, address.ip())));
        }
        if view.service.affinity_seconds.is_some() {
            chain.rules.push(rule().then(Statement::Remember(Side::Source, endpoints.affinity_set(index))));
        }
        chain.rules.push(rule().of(view.port.protocol).then(Statement::Dnat(address)));
        chain
    }

    /// Returns the affinity set of an endpoint.
    fn affinity_set(&self, view: &ServicePortView<'_>, name: Name) -> Option<Set> {
        let timeout = view.service.affinity_seconds?;
        Some(Set {
            name,
            kind: SetKind::Set,
            key: vec![Datatype::Address(self.family)],
            comment: None,
            dynamic: Some(Dynamic { size: AFFINITY_CLIENTS, timeout: Some(timeout) }),
            elements: Vec::new(),
        })
    }
}

/// The names of a service port's endpoints, in the view's order.
struct EndpointNames(Vec<NameBase>);

impl EndpointNames {
    fn of(view: &ServicePortView<'_>) -> Self {
        Self(view.endpoints.iter().map(|endpoint| NameBase::for_endpoint(view, endpoint.address)).collect())
    }

    fn chain(&self, index: usize) -> Name {
        self.0[index].with("endpoint-")
    }

    fn affinity_set(&self, index: usize) -> Name {
        self.0[index].with("affinity-")
    }
}

/// Returns the rules that send a returning client to the endpoint it had before, and balance the others evenly.
fn balance(view: &ServicePortView<'_>, members: &[usize], endpoints: &EndpointNames) -> Vec<Rule> {
    let known = members.iter().filter(|_| view.service.affinity_seconds.is_some());
    let mut rules: Vec<Rule> = known
        .map(|index| {
            rule().with_address_in(Side::Source, &endpoints.affinity_set(*index)).goto(&endpoints.chain(*index))
        })
        .collect();
    let verdicts: Vec<Verdict> = members.iter().map(|index| Verdict::Goto(endpoints.chain(*index))).collect();
    rules.push(rule().then(Statement::Balance(verdicts.into())));
    rules
}
