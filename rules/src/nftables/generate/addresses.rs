//! Map elements that lead from a service port's addresses to its chains, or reject traffic without endpoints.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::Key;
use super::super::LONGEST_COMMENT;
use super::super::Verdict;
use super::super::name::Name;
use super::plan::Plan;
use super::{Generator, Unsupported};

impl Generator<'_> {
    /// Adds the elements of a service port.
    pub(super) fn addresses(&mut self, plan: &Plan<'_>) -> Result<(), Unsupported> {
        let view = plan.view;
        let key =
            |address: IpAddr| vec![Key::Address(address), Key::Protocol(view.port.protocol), Key::Port(view.port.port)];
        let goto = |chain: &Name| Verdict::Goto(chain.clone());
        self.elements.cluster_ips.insert(view.cluster_ip);
        if plan.internal {
            self.elements.service_ips.add(key(view.cluster_ip), goto(plan.internal_chain()), None)?;
        } else {
            let comment = self.comment(plan)?;
            self.elements.no_endpoint_services.add(key(view.cluster_ip), rejection(plan), Some(comment))?;
        }
        for address in view.external_ips.iter().chain(&view.load_balancer_ips) {
            if plan.selected.any {
                self.elements.service_ips.add(key(*address), goto(&plan.external_chain), None)?;
            }
            if !plan.external {
                let comment = self.comment(plan)?;
                self.elements.no_endpoint_services.add(key(*address), rejection(plan), Some(comment))?;
            }
        }
        for address in view.load_balancer_ips.iter().filter(|_| plan.uses_firewall()) {
            let comment = self.firewall_comment(plan)?;
            self.elements.firewall_ips.add(key(*address), goto(&plan.firewall_chain), comment)?;
        }
        self.node_port(plan)
    }

    /// Adds hairpin elements: connections of this node's endpoints to themselves are masqueraded, so that replies return through the node.
    pub(super) fn hairpins(&mut self, plan: &Plan<'_>) {
        if !self.profile.nftables_marks_inline() {
            return;
        }
        let protocol = Key::Protocol(plan.view.port.protocol);
        let endpoints = plan.selected.reachable().into_iter().map(|index| &plan.view.endpoints[index]);
        for endpoint in endpoints.filter(|endpoint| endpoint.local) {
            let address = Key::Address(endpoint.address.ip());
            self.elements.hairpins.insert(vec![address, address, protocol, Key::Port(endpoint.address.port())]);
        }
    }

    fn node_port(&mut self, plan: &Plan<'_>) -> Result<(), Unsupported> {
        let Some(port) = plan.view.port.node_port else { return Ok(()) };
        let key = vec![Key::Protocol(plan.view.port.protocol), Key::Port(port)];
        if plan.selected.any {
            let verdict = Verdict::Goto(plan.external_chain.clone());
            self.elements.service_node_ports.add(key.clone(), verdict, None)?;
        }
        if !plan.external {
            let comment = self.comment(plan)?;
            self.elements.no_endpoint_node_ports.add(key, rejection(plan), Some(comment))?;
        }
        Ok(())
    }

    fn firewall_comment(&self, plan: &Plan<'_>) -> Result<Option<Arc<str>>, Unsupported> {
        self.profile.nftables_comments_firewall().then(|| self.comment(plan)).transpose()
    }

    /// Returns the comment of an element that rejects traffic: the service port's name.
    fn comment(&self, plan: &Plan<'_>) -> Result<Arc<str>, Unsupported> {
        let name = plan.name.as_str();
        if name.len() <= LONGEST_COMMENT {
            Ok(name.into())
        } else if self.profile.nftables_cuts_comments() {
            // Names are ASCII: every byte is a character.
            Ok(name.get(..LONGEST_COMMENT).unwrap_or(name).into())
        } else {
            Err(Unsupported::Comment { release: self.profile, comment: plan.name.clone() })
        }
    }
}

/// Returns the verdict for traffic without usable endpoints: reject if there are none at all, otherwise drop.
fn rejection(plan: &Plan<'_>) -> Verdict {
    if plan.selected.any { Verdict::Drop } else { Verdict::Goto(Name::from("reject-chain")) }
}
