//! The rules of a service port up to 1.23: `KUBE-XLB` for external traffic with local policy, `KUBE-FW` for every load-balancer address.

use std::net::IpAddr;

use super::super::ast::{Chain, Rule};
use super::super::chain_name::{ChainHash, ChainKind};
use super::super::matches::{AddressType, Match, Physdev, RouteType};
use super::super::targets::{RejectWith, Target};
use super::super::values::{ChainName, Negatable};
use super::rule::commented;
use super::{Generator, PortContext};

/// State shared by the rules of a service port.
struct Plan {
    service_chain: ChainName,
    local_chain: ChainName,
    /// Rules of the service's own chain that come before the balancing.
    marks: Vec<Rule>,
}

impl Plan {
    /// Returns the chain of external traffic.
    fn external(&self, port: &PortContext<'_>) -> ChainName {
        if port.view.external_local { self.local_chain.clone() } else { self.service_chain.clone() }
    }
}

impl Generator<'_> {
    /// Adds all rules of a service port.
    pub(super) fn xlb_layout(&mut self, port: &PortContext<'_>) {
        // Internal policy Local, from 1.22 on, restricts all traffic to local endpoints, but not if the external policy is Local too.
        let only_local = port.view.internal_local && !port.view.external_local;
        let members = if only_local { &port.selected.local } else { &port.selected.cluster };
        if self.profile.accepts_health_checks() {
            self.health_check(port);
        }
        if members.is_empty() {
            self.reject(port);
            if port.view.external_local {
                self.nat.chains.push(Chain::user(port.chain(ChainKind::ExternalLocal)));
            }
            return;
        }
        let mut plan = Plan {
            service_chain: port.chain(ChainKind::Service),
            local_chain: port.chain(ChainKind::ExternalLocal),
            marks: Vec::new(),
        };
        self.xlb_cluster_ip(port, &mut plan);
        self.xlb_external_ips(port, &mut plan);
        self.xlb_load_balancer(port, &plan);
        self.xlb_node_port(port, &mut plan);
        self.xlb_chains(port, plan, members);
    }

    /// Adds a REJECT rule for every address of a service port without endpoints.
    fn reject(&mut self, port: &PortContext<'_>) {
        let view = port.view;
        let start = || commented(format!("{} has no endpoints", port.name));
        let reject = |rule: Rule| rule.then(Target::Reject(RejectWith::PortUnreachable));
        let to_address = |address: IpAddr| reject(start().sent_to(address).on_port(view.port.protocol, view.port.port));
        self.filter.services.push(to_address(view.cluster_ip));
        self.filter.external_services.extend(view.external_ips.iter().copied().map(to_address));
        let balanced = view.load_balancer_ips.iter().copied().map(to_address);
        if self.profile.forward_visits_external_services() {
            self.filter.external_services.extend(balanced);
        } else {
            self.filter.services.extend(balanced);
        }
        if let Some(number) = view.port.node_port {
            self.filter.external_services.push(reject(start().sent_to_node().on_port(view.port.protocol, number)));
        }
    }

    fn xlb_cluster_ip(&mut self, port: &PortContext<'_>, plan: &mut Plan) {
        let view = port.view;
        self.mark(plan, self.masquerade_cluster_ip(port));
        let rule = commented(format!("{} cluster IP", port.name))
            .sent_to(view.cluster_ip)
            .on_port(view.port.protocol, view.port.port);
        self.nat.services.push(rule.jump(&plan.service_chain));
    }

    /// Adds a masquerading rule where the release has it.
    fn mark(&mut self, plan: &mut Plan, rule: Option<Rule>) {
        if self.profile.marks_in_service_chain() {
            plan.marks.extend(rule);
        } else {
            self.nat.services.extend(rule);
        }
    }

    fn xlb_external_ips(&mut self, port: &PortContext<'_>, plan: &mut Plan) {
        let view = port.view;
        let chain = plan.external(port);
        for address in &view.external_ips {
            let rule = || {
                commented(format!("{} external IP", port.name))
                    .sent_to(*address)
                    .on_port(view.port.protocol, view.port.port)
            };
            let guarded = self.profile.guards_external_ips();
            if !view.external_local {
                let mark = rule().jump(&self.names.mark_masq);
                let known = !guarded && self.local.is_implemented();
                self.mark(plan, Some(if known { self.local.if_not_local(mark) } else { mark }));
            }
            if guarded {
                self.nat.services.push(from_outside(rule()).jump(&chain));
                self.nat.services.push(rule().sent_to_node().jump(&chain));
            } else {
                self.nat.services.push(rule().jump(&chain));
            }
        }
    }

    /// Adds the rules for load-balancer addresses; `KUBE-FW` contains them once for every address.
    fn xlb_load_balancer(&mut self, port: &PortContext<'_>, plan: &Plan) {
        let view = port.view;
        if view.load_balancer_ips.is_empty() {
            return;
        }
        let firewall = port.chain(ChainKind::Firewall);
        let chain = plan.external(port);
        let start = || commented(format!("{} loadbalancer IP", port.name));
        let mut rules = Vec::new();
        for address in &view.load_balancer_ips {
            let to_address = start().sent_to(*address).on_port(view.port.protocol, view.port.port);
            self.nat.services.push(to_address.jump(&firewall));
            if !view.external_local {
                rules.push(start().jump(&self.names.mark_masq));
            }
            if view.source_ranges.is_empty() {
                rules.push(start().jump(&chain));
            } else {
                rules.extend(self.source_range_rules(port, &chain, &[*address], start));
            }
            rules.push(start().jump(&self.names.mark_drop));
        }
        self.nat.chains.push(Chain { rules, ..Chain::user(firewall) });
    }

    fn xlb_node_port(&mut self, port: &PortContext<'_>, plan: &mut Plan) {
        let Some(number) = port.view.port.node_port else { return };
        let rule = || commented(port.name.clone()).on_port(port.view.port.protocol, number);
        let mark = rule().jump(&self.names.mark_masq);
        if !port.view.external_local {
            if self.profile.marks_in_service_chain() {
                plan.marks.push(mark);
            } else {
                self.nat.node_ports.push(mark);
            }
        } else if self.profile.masquerades_loopback_node_ports() {
            self.nat.node_ports.push(mark.sent_from_network(self.loopback()));
        }
        self.nat.node_ports.push(rule().jump(&plan.external(port)));
    }

    /// Adds `KUBE-SVC`, `KUBE-XLB` and the chains of endpoints.
    fn xlb_chains(&mut self, port: &PortContext<'_>, plan: Plan, members: &[usize]) {
        let hashes = self.endpoint_hashes(port);
        if port.view.external_local {
            let chain = self.local_chain(port, &plan, &hashes, members);
            self.nat.chains.push(chain);
        }
        let mut rules = plan.marks;
        rules.extend(self.affinity(port, &hashes, members));
        rules.extend(self.balance(port, &hashes, members));
        self.nat.chains.push(Chain { rules, ..Chain::user(plan.service_chain) });
        for index in members {
            self.use_endpoint(port, *index, hashes[*index]);
        }
    }

    fn local_chain(&self, port: &PortContext<'_>, plan: &Plan, hashes: &[ChainHash], members: &[usize]) -> Chain {
        let name = &port.name;
        let mut rules = Vec::new();
        if self.local.is_implemented() {
            let pods = commented("Redirect pods trying to reach external loadbalancer VIP to clusterIP");
            rules.push(self.local.if_local(pods).jump(&plan.service_chain));
        }
        if self.profile.local_chains_serve_the_node() {
            let masquerade = commented(format!("masquerade LOCAL traffic for {name} LB IP"));
            rules.push(masquerade.sent_by_node().jump(&self.names.mark_masq));
            let route = commented(format!("route LOCAL traffic for {name} LB IP to service chain"));
            rules.push(route.sent_by_node().jump(&plan.service_chain));
        }
        let local: Vec<usize> = members.iter().copied().filter(|index| port.view.endpoints[*index].local).collect();
        if local.is_empty() {
            rules.push(commented(format!("{name} has no local endpoints")).jump(&self.names.mark_drop));
        }
        rules.extend(self.affinity(port, hashes, &local));
        rules.extend(local.iter().enumerate().map(|(position, index)| {
            let start = commented(format!("Balancing rule {position} for {name}"));
            self.one_of(start, local.len() - position).jump(&hashes[*index].chain(ChainKind::Endpoint))
        }));
        Chain { rules, ..Chain::user(plan.local_chain.clone()) }
    }
}

/// Restricts the rule to packets that come neither from a bridge nor from the node itself.
fn from_outside(rule: Rule) -> Rule {
    let physdev = Physdev { is_input: Some(Negatable::not(())), ..Physdev::default() };
    let types = AddressType { source: Some(Negatable::not(RouteType::Local)), destination: None };
    rule.with(Match::Physdev(Box::new(physdev))).with(Match::AddressType(types))
}
