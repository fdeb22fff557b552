//! The rules of a service port from 1.24 on: chains by traffic policy.
//!
//! `KUBE-SVC` holds the endpoints for policy Cluster, `KUBE-SVL` those for policy Local; `KUBE-EXT` receives external traffic, after
//! `KUBE-FW` if a load balancer has source ranges.

use super::super::ast::{Chain, Rule};
use super::super::chain_name::ChainKind;
use super::super::targets::{RejectWith, Target};
use super::super::values::{ChainName, Network};
use super::rule::{commented, rule};
use super::{Generator, PortContext};
use crate::cluster::Protocol;

/// The nfacct object for connections to node ports on loopback addresses.
const ACCEPTED_ON_LOOPBACK: &str = "localhost_nps_accepted_pkts";

/// Targets of the traffic of a service port.
struct Plan {
    cluster_chain: ChainName,
    local_chain: ChainName,
    external_chain: ChainName,
    firewall_chain: ChainName,
    /// Whether the cluster IP has usable endpoints.
    internal: bool,
    /// Whether external addresses have usable endpoints for traffic from outside.
    external: bool,
    /// Whether there is a `KUBE-EXT` chain.
    uses_external: bool,
    /// Whether there is a `KUBE-FW` chain.
    uses_firewall: bool,
}

impl Generator<'_> {
    /// Adds all rules of a service port.
    pub(super) fn external_layout(&mut self, port: &PortContext<'_>) {
        let plan = self.plan(port);
        self.cluster_ip(port, &plan);
        self.external_addresses(port, &plan);
        self.node_port(port, &plan);
        self.health_check(port);
        if plan.uses_external {
            let chain = self.external_chain(port, &plan);
            self.nat.chains.push(chain);
        }
        if plan.uses_firewall {
            let chain = self.firewall_chain(port, &plan);
            self.nat.chains.push(chain);
        }
        self.policy_chains(port, &plan);
    }

    fn plan(&self, port: &PortContext<'_>) -> Plan {
        let view = port.view;
        let any = port.selected.any;
        // In 1.24 the chain of local endpoints exists even without endpoints, and drops.
        let local = !port.selected.local.is_empty() || (any && !self.profile.drops_local_in_filter());
        let cluster = !port.selected.cluster.is_empty();
        Plan {
            cluster_chain: port.chain(ChainKind::Service),
            local_chain: port.chain(ChainKind::Local),
            external_chain: port.chain(ChainKind::External),
            firewall_chain: port.chain(ChainKind::Firewall),
            internal: if view.internal_local { local } else { cluster },
            external: if view.external_local { local } else { cluster },
            uses_external: any && view.externally_accessible(),
            uses_firewall: any && !view.load_balancer_ips.is_empty() && !view.source_ranges.is_empty(),
        }
    }

    fn cluster_ip(&mut self, port: &PortContext<'_>, plan: &Plan) {
        let view = port.view;
        let to_service =
            |comment: String| commented(comment).sent_to(view.cluster_ip).on_port(view.port.protocol, view.port.port);
        if plan.internal {
            let chain = if view.internal_local { &plan.local_chain } else { &plan.cluster_chain };
            self.nat.services.push(to_service(format!("{} cluster IP", port.name)).jump(chain));
        } else {
            self.filter.services.push(self.without_endpoints(port, to_service));
        }
    }

    /// Adds the rules for `externalIPs` and load-balancer addresses.
    fn external_addresses(&mut self, port: &PortContext<'_>, plan: &Plan) {
        let view = port.view;
        let balanced = if plan.uses_firewall { &plan.firewall_chain } else { &plan.external_chain };
        let kinds = [
            ("external IP", &view.external_ips, &plan.external_chain, false),
            ("loadbalancer IP", &view.load_balancer_ips, balanced, plan.uses_firewall),
        ];
        for (kind, addresses, chain, guarded) in kinds {
            for address in addresses {
                let to_address =
                    |comment: String| commented(comment).sent_to(*address).on_port(view.port.protocol, view.port.port);
                if port.selected.any {
                    self.nat.services.push(to_address(format!("{} {kind}", port.name)).jump(chain));
                }
                if guarded && self.profile.firewall_in_filter() {
                    let comment = format!("{} traffic not accepted by {chain}", port.name);
                    self.filter.proxy_firewall.push(to_address(comment).then(Target::Drop));
                }
                if !plan.external {
                    let rule = self.without_endpoints(port, to_address);
                    self.filter.external_services.push(rule);
                }
            }
        }
    }

    fn node_port(&mut self, port: &PortContext<'_>, plan: &Plan) {
        let Some(number) = port.view.port.node_port else { return };
        let protocol = port.view.port.protocol;
        if port.selected.any {
            let to_port = || commented(port.name.clone()).on_port(protocol, number);
            if self.opens_loopback() && self.profile.counts_with_nfacct(self.config) {
                let counted = to_port().sent_to_network(self.loopback()).counted_by(ACCEPTED_ON_LOOPBACK);
                self.nat.node_ports.push(counted.jump(&plan.external_chain));
            }
            self.nat.node_ports.push(to_port().jump(&plan.external_chain));
        }
        if !plan.external {
            let rule =
                self.without_endpoints(port, |comment| commented(comment).sent_to_node().on_port(protocol, number));
            self.filter.external_services.push(rule);
        }
    }

    /// Returns the rule for traffic without usable endpoints: REJECT if there are none at all, otherwise DROP.
    fn without_endpoints(&self, port: &PortContext<'_>, to_address: impl Fn(String) -> Rule) -> Rule {
        if port.selected.any {
            to_address(format!("{} has no local endpoints", port.name)).then(Target::Drop)
        } else {
            let reject = Target::Reject(RejectWith::PortUnreachable);
            to_address(format!("{} has no endpoints", port.name)).then(reject)
        }
    }

    /// Adds the rule for the health check node port, which the node itself answers.
    pub(super) fn health_check(&mut self, port: &PortContext<'_>) {
        let Some(number) = port.view.service.health_check_node_port.filter(|_| port.view.external_local) else {
            return;
        };
        let comment = format!("{} health check node port", port.name);
        self.filter.node_ports.push(commented(comment).on_port(Protocol::Tcp, number).then(Target::Accept));
    }

    fn external_chain(&self, port: &PortContext<'_>, plan: &Plan) -> Chain {
        let name = &port.name;
        let mut rules = Vec::new();
        if port.view.external_local {
            // Pods and the node itself take the short-circuit path to any endpoint.
            if self.local.is_implemented() {
                let pods = commented(format!("pod traffic for {name} external destinations"));
                rules.push(self.local.if_local(pods).jump(&plan.cluster_chain));
            }
            let masquerade = commented(format!("masquerade LOCAL traffic for {name} external destinations"));
            rules.push(masquerade.sent_by_node().jump(&self.names.mark_masq));
            let route = commented(format!("route LOCAL traffic for {name} external destinations"));
            rules.push(route.sent_by_node().jump(&plan.cluster_chain));
        } else {
            let masquerade = commented(format!("masquerade traffic for {name} external destinations"));
            rules.push(masquerade.jump(&self.names.mark_masq));
        }
        if plan.external {
            let chain = if port.view.external_local { &plan.local_chain } else { &plan.cluster_chain };
            rules.push(rule().jump(chain));
        }
        Chain { rules, ..Chain::user(plan.external_chain.clone()) }
    }

    fn firewall_chain(&self, port: &PortContext<'_>, plan: &Plan) -> Chain {
        let comment = || commented(format!("{} loadbalancer IP", port.name));
        let mut rules = self.source_range_rules(port, &plan.external_chain, &port.view.load_balancer_ips, comment);
        if !self.profile.firewall_in_filter() {
            rules.push(comment().jump(&self.names.mark_drop));
        } else if self.profile.firewall_placeholder() {
            let text = format!("other traffic to {} will be dropped by KUBE-PROXY-FIREWALL", port.name);
            rules.push(commented(text));
        }
        Chain { rules, ..Chain::user(plan.firewall_chain.clone()) }
    }

    /// Returns the jumps for the source ranges of a load balancer. If the ranges contain the node, its load-balancer addresses are allowed
    /// too, because a packet from the node may have them as its source.
    pub(super) fn source_range_rules(
        &self,
        port: &PortContext<'_>,
        chain: &ChainName,
        addresses: &[std::net::IpAddr],
        start: impl Fn() -> Rule,
    ) -> Vec<Rule> {
        let ranges = &port.view.source_ranges;
        let mut rules: Vec<Rule> =
            ranges.iter().map(|range| start().sent_from_network(Network::range(*range)).jump(chain)).collect();
        let node = self.node.proxy_ip(self.family);
        if self.profile.source_ranges_know_node() && ranges.iter().any(|range| range.contains(&node)) {
            rules.extend(addresses.iter().map(|address| start().sent_from(*address).jump(chain)));
        }
        rules
    }

    /// Adds `KUBE-SVC`, `KUBE-SVL` and the chains of endpoints.
    fn policy_chains(&mut self, port: &PortContext<'_>, plan: &Plan) {
        let hashes = self.endpoint_hashes(port);
        let view = port.view;
        let policies = [
            (&plan.cluster_chain, &port.selected.cluster, view.uses_cluster_endpoints(), !view.internal_local),
            (&plan.local_chain, &port.selected.local, view.uses_local_endpoints(), view.internal_local),
        ];
        for (name, members, used, internal) in policies {
            let dropped = self.drops_without_local(port, name == &plan.local_chain && used && members.is_empty());
            if (members.is_empty() && dropped.is_none()) || !used {
                continue;
            }
            let mut rules = Vec::with_capacity(members.len() + 1);
            if internal {
                rules.extend(self.masquerade_cluster_ip(port));
            }
            rules.extend(self.affinity(port, &hashes, members));
            rules.extend(self.balance(port, &hashes, members));
            rules.extend(dropped);
            self.nat.chains.push(Chain { rules, ..Chain::user(name.clone()) });
        }
        for index in port.selected.reachable() {
            self.use_endpoint(port, index, hashes[index]);
        }
    }

    /// Returns the rule of an empty `KUBE-SVL` in 1.24.
    fn drops_without_local(&self, port: &PortContext<'_>, empty: bool) -> Option<Rule> {
        let drops = empty && port.selected.any && !self.profile.drops_local_in_filter();
        let comment = || commented(format!("{} has no local endpoints", port.name));
        drops.then(|| comment().jump(&self.names.mark_drop))
    }

    /// Returns the rule that masquerades traffic to the cluster IP from sources other than pods, so that replies return through this node.
    pub(super) fn masquerade_cluster_ip(&self, port: &PortContext<'_>) -> Option<Rule> {
        let view = port.view;
        let rule = commented(format!("{} cluster IP", port.name))
            .sent_to(view.cluster_ip)
            .on_port(view.port.protocol, view.port.port)
            .jump(&self.names.mark_masq);
        if self.config.masquerade_all {
            Some(rule)
        } else {
            self.local.is_implemented().then(|| self.local.if_not_local(rule))
        }
    }
}
