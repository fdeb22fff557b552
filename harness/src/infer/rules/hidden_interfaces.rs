//! Rules of other programs in a listing without `-v`, which does not show their interfaces.

use svclab_rules::coverage::Coverage;
use svclab_rules::iptables::{Chain, Rule, RuleSet, Target};

use crate::text::counted;

/// The starts of chains whose rules have no interfaces: those of kube-proxy, kubelet and kube-router, of the CNI plugin `portmap`, and of
/// flannel.
const WITHOUT_INTERFACES: [&str; 3] = ["KUBE-", "CNI-", "FLANNEL-"];

/// The start of Docker's chains, whose rules are for its own bridges; users write those of `DOCKER-USER`.
const OF_DOCKER: &str = "DOCKER";
const OF_USERS: &str = "DOCKER-USER";

/// Marks the rules that may have interfaces, so that flows which depend on them are not judged, and leaves out those that Docker writes
/// for its own bridges.
pub(super) fn mark(rules: &mut RuleSet, coverage: &Coverage, node: &str, changes: &mut Vec<String>) {
    let (mut marked, mut of_docker) = (0, 0);
    for table in &mut rules.tables {
        let name = table.name.as_str();
        for chain in table.chains.iter_mut().filter(|chain| coverage.hides_interfaces(name, &chain.name)) {
            if chain.name.starts_with(OF_DOCKER) && &*chain.name != OF_USERS {
                let before = chain.rules.len();
                chain.rules.retain(|rule| !ends_chain(rule));
                of_docker += before - chain.rules.len();
            } else {
                marked += mark_chain(chain);
            }
        }
    }
    if marked > 0 {
        changes.push(format!(
            "the interfaces of {} of node {node} are unknown, since `iptables -L` shows them only with `-v`: flows that depend on them \
             are not verified",
            counted(marked, "rule")
        ));
    }
    if of_docker > 0 {
        let count = counted(of_docker, "rule");
        changes.push(format!(
            "{count} of Docker's chains of node {node} left out: Docker writes them for its own bridges, which the listing does not show"
        ));
    }
}

/// Marks rules of a chain; returns how many.
fn mark_chain(chain: &mut Chain) -> usize {
    if WITHOUT_INTERFACES.iter().any(|start| chain.name.starts_with(start)) {
        return 0;
    }
    let is_builtin = chain.policy.is_some();
    let last = chain.rules.len();
    let mut marked = 0;
    for (number, rule) in (1..).zip(&mut chain.rules) {
        let is_end = number == last && !is_builtin && rule.target == Some(Target::Return);
        // Both ends of a packet determine its interfaces.
        let has_ends = rule.source.is_some() && rule.destination.is_some();
        if may_have_interfaces(rule) && !is_end && !has_ends && !rule.is_unread() && !rule.hides_interfaces() {
            rule.hide_interfaces();
            marked += 1;
        }
    }
    marked
}

/// Whether it matters if a rule has interfaces: a jump has no effect of its own.
fn may_have_interfaces(rule: &Rule) -> bool {
    !matches!(rule.target, None | Some(Target::Jump(_)))
        && !rule.next_chain().is_some_and(|next| WITHOUT_INTERFACES.iter().any(|start| next.starts_with(start)))
}

/// Whether a rule ends the path of a packet through a chain without translating it.
fn ends_chain(rule: &Rule) -> bool {
    matches!(rule.target, Some(Target::Accept | Target::Drop | Target::Reject(_) | Target::Return | Target::Goto(_)))
}
