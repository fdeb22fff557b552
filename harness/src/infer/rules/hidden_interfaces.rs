//! Rules in a listing without `-v`, which does not show their interfaces.
//!
//! kube-proxy writes rules with an interface where it recognises pods by it (`detectLocalMode`): they get an assumed one. Those of other
//! programs are marked.

use svclab_rules::coverage::Coverage;
use svclab_rules::iptables::{Chain, ChainKind, Negatable, Rule, RuleSet, TableName, Target};
use svclab_rules::ruleset::Rules;

use crate::evidence::NodeRules;
use crate::text::counted;

/// The interface by which kube-proxy recognises pods, where no text shows which: the usual bridge.
const OF_PODS: &str = "cni0";

/// The starts of chains whose rules have no interfaces, but for those by which kube-proxy recognises pods: those of kube-proxy, kubelet and
/// kube-router, of the CNI plugin `portmap`, and of flannel.
const WITHOUT_INTERFACES: [&str; 3] = ["KUBE-", "CNI-", "FLANNEL-"];

/// The start of Docker's chains, whose rules are for its own bridges; users write those of `DOCKER-USER`.
const OF_DOCKER: &str = "DOCKER";
const OF_USERS: &str = "DOCKER-USER";

/// Adds the interface of pods to rules of kube-proxy that have one and are listed without it. In the chain for external traffic with policy
/// Local, pods go to all endpoints: a rule for all packets would leave those after it without effect, so kube-proxy never writes it.
pub(super) fn with_those_of_pods(mut part: NodeRules) -> NodeRules {
    let (rules, coverage) = (&mut part.rules, &part.coverage);
    let Rules::Iptables(parsed) = rules else { return part };
    let Some(nat) = parsed.rules.tables.iter_mut().find(|table| table.name == TableName::Nat) else { return part };
    let hides = |chain: &Chain| coverage.hides_interfaces(TableName::Nat.as_str(), &chain.name);
    let mut is_known = false;
    for chain in nat.chains.iter_mut().filter(|chain| is_of_external(&chain.name) && hides(chain)) {
        let before_others = chain.rules.len().saturating_sub(1);
        for rule in
            chain.rules[..before_others].iter_mut().filter(|rule| rule.is_unconditional() && leads_to_group(rule))
        {
            rule.in_interface = Some(Negatable { negated: false, value: OF_PODS.into() });
            is_known = true;
        }
    }
    if is_known {
        let groups = nat.chains.iter_mut().filter(|chain| is_group(&chain.name) && hides(chain));
        for rule in groups.flat_map(|chain| &mut chain.rules).filter(|rule| marks_frontend(rule)) {
            rule.in_interface = Some(Negatable { negated: true, value: OF_PODS.into() });
        }
    }
    part
}

/// What was assumed of the interface of pods, in words.
pub(super) fn words<'n>(parts: impl IntoIterator<Item = &'n NodeRules>) -> Option<String> {
    let hides = |part: &NodeRules| {
        let tables = part.rules.iptables().and_then(|rules| rules.table(TableName::Nat));
        let mut chains = tables.into_iter().flat_map(|table| &table.chains);
        chains.any(|chain| {
            let is_added = |rule: &Rule| rule.in_interface.as_ref().is_some_and(|name| &*name.value == OF_PODS);
            part.coverage.hides_interfaces(TableName::Nat.as_str(), &chain.name) && chain.rules.iter().any(is_added)
        })
    };
    parts.into_iter().any(hides).then(|| {
        format!("kube-proxy recognises pods by the interface {OF_PODS}: `iptables -L` shows interfaces only with `-v`")
    })
}

fn is_of_external(chain: &str) -> bool {
    [ChainKind::External, ChainKind::ExternalLocal].into_iter().any(|kind| kind.is_of(chain))
}

fn is_group(chain: &str) -> bool {
    [ChainKind::Service, ChainKind::Local].into_iter().any(|kind| kind.is_of(chain))
}

fn leads_to_group(rule: &Rule) -> bool {
    rule.next_chain().is_some_and(|next| is_group(next))
}

/// Whether a rule marks connections to an address of a Service, whatever their source, for masquerading.
fn marks_frontend(rule: &Rule) -> bool {
    rule.source.is_none()
        && rule.in_interface.is_none()
        && rule.destination.is_some()
        && rule.next_chain().is_some_and(|next| &**next == "KUBE-MARK-MASQ")
}

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
