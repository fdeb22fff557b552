//! What FORWARD drops, or leaves to others.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use svclab_rules::infer::InferredPort;
use svclab_rules::iptables::{Match, Negatable, Policy, Rule, States, TableName, Target};

use super::finding::{Finding, subject_of_chain};
use super::view::{Placed, Tables, View};

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let of_node = |(tables, ports): (Tables<'_>, &[InferredPort])| {
        if !tables.shows(TableName::Filter, "FORWARD") || tables.chain(TableName::Filter, "FORWARD").is_none() {
            return Vec::new();
        }
        dropped(tables, ports).into_iter().chain(invalid(tables)).collect()
    };
    view.tables_with_ports().flat_map(of_node).collect()
}

/// The policy DROP, or a rule that drops all packets, if no rule before accepts packets of pods. kube-proxy's own chain accepts only those that
/// it masquerades.
fn dropped(tables: Tables<'_>, ports: &[InferredPort]) -> Option<Finding> {
    let forward = tables.chain(TableName::Filter, "FORWARD")?;
    let drops_all =
        |rule: &Rule| rule.is_unconditional() && matches!(rule.target, Some(Target::Drop | Target::Reject(_)));
    let last = forward.rules.iter().position(drops_all);
    let to_own = |rule: &Rule| rule.next_chain().is_some_and(|next| **next == *"KUBE-FORWARD");
    // A rule in front of kube-proxy's is another finding (`preceding`).
    let is_preceding = last.is_some_and(|last| forward.rules[last..].iter().any(to_own));
    if is_preceding || last.is_none() && forward.policy != Some(Policy::Drop) {
        return None;
    }
    let before = &forward.rules[..last.unwrap_or(forward.rules.len())];
    let endpoints = ports.iter().flat_map(|port| port.endpoints.iter().chain(&port.local));
    let pods: BTreeSet<IpAddr> = endpoints.map(std::net::SocketAddr::ip).collect();
    let reachable = reachable_chains(tables, before, &pods);
    let accepts = |rule: &Rule| rule.target == Some(Target::Accept) && matches_pod_traffic(rule, &pods);
    let is_accepted_in = |placed: &Placed<'_>| {
        placed.table == TableName::Filter
            && reachable.contains(&*placed.chain.name)
            && !["FORWARD", "KUBE-FORWARD"].contains(&&*placed.chain.name)
            && accepts(placed.rule)
    };
    // What kube-proxy's own chains accept is known without their rules.
    let is_all = reachable.iter().all(|chain| OWN.contains(chain) || tables.shows(TableName::Filter, chain));
    if !is_all || before.iter().any(accepts) || tables.rules().any(|placed| is_accepted_in(&placed)) {
        return None;
    }
    let is_marked = |placed: &Placed<'_>| {
        &*placed.chain.name == "KUBE-FORWARD" && placed.rule.matches.iter().any(|one| matches!(one, Match::Mark(_)))
    };
    let is_known = |chain| reachable.contains(chain) && !tables.shows(TableName::Filter, chain);
    let more = if tables.rules().any(|placed| is_marked(&placed)) || is_known("KUBE-FORWARD") {
        "only connections that are masqueraded pass"
    } else {
        "nothing passes"
    };
    let message = match last {
        Some(_) => "a rule of FORWARD drops or rejects all packets, and no rule before it accepts those of pods",
        None => "the policy of FORWARD is DROP, and no rule accepts packets of pods",
    };
    let effect = format!("the node drops what it forwards to pods or from them, also to Services: {more}");
    let place = tables.place(tables.line(TableName::Filter, "FORWARD", last.unwrap_or(0)));
    let subject = subject_of_chain(TableName::Filter.as_str(), "FORWARD");
    Some(Finding::new("forward-drop", place, message, effect).about([subject]))
}

/// kube-proxy's chains that FORWARD jumps to. Only the first one accepts packets: those that are masqueraded.
const OWN: [&str; 4] = ["KUBE-FORWARD", "KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"];

/// The chains that packets of pods reach from these rules of FORWARD.
fn reachable_chains<'t>(tables: Tables<'t>, forward: &'t [Rule], pods: &BTreeSet<IpAddr>) -> HashSet<&'t str> {
    let (mut reachable, mut open) = (HashSet::from(["FORWARD"]), vec!["FORWARD"]);
    while let Some(name) = open.pop() {
        let rules = match name {
            "FORWARD" => forward,
            _ => tables.chain(TableName::Filter, name).map_or(&[][..], |chain| &chain.rules),
        };
        let next = rules
            .iter()
            .filter(|rule| matches_pod_traffic(rule, pods))
            .filter_map(|rule| rule.next_chain().map(|next| &**next));
        open.extend(next.filter(|next| reachable.insert(next)));
    }
    reachable
}

/// Whether a rule takes first packets to or from pods, from or to other machines, as far as its interfaces, addresses and protocol say.
fn matches_pod_traffic(rule: &Rule, pods: &BTreeSet<IpAddr>) -> bool {
    let protocol = rule.protocol.filter(|protocol| !protocol.negated).map(|protocol| protocol.value.0);
    let to = rule.destination.as_ref().filter(|to| !to.negated).and_then(|to| to.value.single());
    !excludes_first(rule)
        && !protocol.is_some_and(|protocol| ICMP.contains(&protocol))
        && !is_from_a_bridge_to_elsewhere(rule)
        // What another program forwards to one address: a published port of a container.
        && to.is_none_or(|to| pods.is_empty() || pods.contains(&to))
}

/// Whether a rule is for the packets of known connections alone.
pub(super) fn excludes_first(rule: &Rule) -> bool {
    let excludes = |one: &Match| matches!(one, Match::State { states, .. } if states.value.includes(States::NEW) == states.negated);
    rule.matches.iter().any(excludes)
}

/// ICMP and ICMPv6.
const ICMP: [u8; 2] = [1, 58];

/// Whether a rule is one that Docker or another program writes for its own bridge: within it, or from it. Nothing from other machines comes
/// in by it, even where pods are on that bridge.
fn is_from_a_bridge_to_elsewhere(rule: &Rule) -> bool {
    let Some(Negatable { negated: false, value: from }) = &rule.in_interface else { return false };
    is_of_docker(from) || is_bridge(from) && rule.out_interface.as_ref().is_some_and(|out| out.value == *from)
}

/// Whether an interface is a bridge, by its usual names.
fn is_bridge(interface: &str) -> bool {
    const STARTS: [&str; 9] = ["br", "cni", "cbr", "kube-bridge", "lxcbr", "lxdbr", "podman", "virbr", "weave"];
    STARTS.iter().any(|start| interface.starts_with(start))
}

/// Whether an interface is the bridge of a network of Docker.
fn is_of_docker(interface: &str) -> bool {
    let is_id = |id: &str| id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    interface.starts_with("docker") || interface.strip_prefix("br-").is_some_and(is_id)
}

/// Packets of no connection, which only later releases drop.
fn invalid(tables: Tables<'_>) -> Option<Finding> {
    let forward = tables.chain(TableName::Filter, "FORWARD")?;
    let leads = forward.rules.iter().any(|rule| rule.next_chain().is_some_and(|next| **next == *"KUBE-FORWARD"));
    let drops = tables.rules().any(|placed| {
        let is_invalid =
            |one: &Match| matches!(one, Match::State { states, .. } if !states.negated && states.value == States::INVALID);
        &*placed.chain.name == "KUBE-FORWARD"
            && placed.rule.target == Some(Target::Drop)
            && placed.rule.matches.iter().any(is_invalid)
    });
    (leads && tables.shows(TableName::Filter, "KUBE-FORWARD") && !drops).then(|| {
        let message = "KUBE-FORWARD does not drop packets in state INVALID";
        let effect = "a reply outside of the window is not translated back, and the client resets a connection it does not know; right where nf_conntrack_tcp_be_liberal is 1";
        let place = tables.place(tables.line(TableName::Filter, "FORWARD", 0));
        let subject = subject_of_chain(TableName::Filter.as_str(), "KUBE-FORWARD");
        Finding::new("invalid-not-dropped", place, message, effect).about([subject])
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::lint::tests::{BASE, ids};

    /// What Docker writes, up to 27 and from 28 on, with a published port.
    const DOCKER: &str = "\
-A FORWARD -j DOCKER-USER
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A FORWARD -i br-1a2b3c4d5e6f ! -o br-1a2b3c4d5e6f -j ACCEPT
-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 5000 -j ACCEPT
-A DOCKER-USER -j RETURN
-A FORWARD -j DOCKER-FORWARD
-A DOCKER-FORWARD -i docker0 -j ACCEPT
";

    const CHAINS: &str =
        ":DOCKER - [0:0]\n:DOCKER-USER - [0:0]\n:DOCKER-FORWARD - [0:0]\n:CNI - [0:0]\n:cali-INPUT - [0:0]\n";

    /// A complete chain is enough, if it jumps to no other program's.
    #[rstest]
    #[case::own("", true)]
    #[case::unshown("-A FORWARD -j DOCKER-USER\n", false)]
    fn a_policy_drop_is_found_in_the_chain_alone(#[case] more: &str, #[case] expected: bool) {
        let nat = BASE.split_once("*nat").map_or("", |(_, nat)| nat);
        let text = format!(
            "# iptables -S FORWARD\n-P FORWARD DROP\n-A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n{more}\n# iptables-save -t nat\n*nat{nat}"
        );
        assert_eq!(ids(&text).contains(&"forward-drop"), expected, "{:?}", ids(&text));
    }

    /// Lines of a filter have no heading of a table; without its command, others may have been left out.
    #[rstest]
    #[case::command("$ iptables-save | grep FORWARD\n", "", true)]
    #[case::no_command("", "", false)]
    #[case::another_program("$ iptables-save | grep FORWARD\n", "-A FORWARD -j DOCKER-USER\n", false)]
    #[case::accepted("", "-A FORWARD -s 10.244.0.0/16 -j ACCEPT\n", false)]
    #[case::other_filter("$ iptables-save | grep kubernetes\n", "", false)]
    fn a_policy_drop_is_found_in_lines_of_a_filter(#[case] before: &str, #[case] more: &str, #[case] expected: bool) {
        let text = format!(
            "{before}:FORWARD DROP [12:720]\n\
             -A FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n{more}\
             :KUBE-FORWARD - [0:0]\n-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n\
             -A KUBE-FORWARD -m comment --comment \"kubernetes forwarding rules\" -m mark --mark 0x4000/0x4000 -j ACCEPT\n"
        );
        assert_eq!(ids(&text).contains(&"forward-drop"), expected, "{:?}", ids(&text));
    }

    /// kubernetes#89632: what other programs accept for their own bridges lets no packet of a pod pass.
    #[rstest]
    #[case::docker("", true)]
    #[case::icmp("-A FORWARD -p icmp -j ACCEPT\n", true)]
    #[case::to_the_node("-A cali-INPUT -j ACCEPT\n", true)]
    #[case::known_connections("-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n", true)]
    #[case::for_new_ones("-A FORWARD -m conntrack --ctstate NEW -j ACCEPT\n", false)]
    #[case::pods("-A FORWARD -j CNI\n-A CNI -s 10.244.0.0/16 -j ACCEPT\n", false)]
    #[case::bridge_of_pods("-A FORWARD -i cni0 -j ACCEPT\n", false)]
    #[case::within_it("-A FORWARD -i cni0 -o cni0 -j ACCEPT\n", true)]
    #[case::one_pod("-A FORWARD -d 10.244.2.2/32 -j ACCEPT\n", false)]
    #[case::for_docker_users("-A DOCKER-USER -j ACCEPT\n", false)]
    #[case::to_pods_of_docker("-A FORWARD -o docker0 -j ACCEPT\n", false)]
    fn a_policy_drop_is_found_alongside_rules_of_other_programs(#[case] more: &str, #[case] expected: bool) {
        let text = BASE.replacen(":FORWARD ACCEPT", ":FORWARD DROP", 1);
        let text = text.replacen("-A KUBE-FORWARD", &format!("{DOCKER}{more}-A KUBE-FORWARD"), 1);
        let text = text.replacen(":KUBE-FIREWALL", &format!("{CHAINS}:KUBE-FIREWALL"), 1);
        let found = ids(&text);
        assert_eq!(found.contains(&"forward-drop"), expected, "{found:?}");
    }

    /// firewalld's last rule, behind which a CNI plugin has appended its own.
    #[rstest]
    #[case::rejected(
        "-A FORWARD -j REJECT --reject-with icmp-host-prohibited\n-A FORWARD -s 10.244.0.0/16 -j ACCEPT\n",
        true
    )]
    #[case::accepted_before("-A FORWARD -s 10.244.0.0/16 -j ACCEPT\n-A FORWARD -j DROP\n", false)]
    #[case::some("-A FORWARD -s 203.0.113.0/24 -j DROP\n", false)]
    fn a_rule_that_drops_all_packets_is_found(#[case] more: &str, #[case] expected: bool) {
        let found = ids(&BASE.replacen("-A KUBE-FORWARD", &format!("{more}-A KUBE-FORWARD"), 1));
        assert_eq!(found.contains(&"forward-drop"), expected, "{found:?}");
    }
}
