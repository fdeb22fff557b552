//! Reading of single rules.

use std::net::{IpAddr, SocketAddr};

use super::NAMING;
use crate::chains::{Chance, Frontend, Key, Note, Recall, one_in};
use crate::cluster::{Family, Protocol, ProtocolNumber};
use crate::iptables::{
    Chain, Match, Nat, Network, Ports, Probability, Recent, RecentAction, Rule, RuleSet, Statistic, TableName, Target,
    print_rule,
};

/// The chain that marks packets for masquerading.
pub(crate) const MASQUERADE: &str = "KUBE-MARK-MASQ";

/// Returns whether a rule of a service's chain marks packets for masquerading. Releases up to 1.2 set the mark in the rule itself.
pub(crate) fn marks_for_masquerade(rule: &Rule) -> bool {
    match &rule.target {
        Some(Target::Jump(next) | Target::Goto(next)) => **next == *MASQUERADE,
        Some(Target::Mark(mark)) => mark.value != 0,
        _ => false,
    }
}

/// Returns whether rules masquerade marked packets themselves, as those of releases before 1.2 do: a rule of POSTROUTING has the mark that rules
/// of services set. They have neither KUBE-MARK-MASQ nor KUBE-POSTROUTING.
pub(crate) fn masquerade_without_chains(rules: &RuleSet) -> bool {
    let Some(nat) = rules.table(TableName::Nat) else { return false };
    let marked = |rule: &Rule| {
        let is_masquerade = matches!(rule.target, Some(Target::Masquerade { .. }));
        rule.matches.iter().find_map(|one| match one {
            Match::Mark(mark) if is_masquerade && !mark.negated => Some(mark.value.value),
            _ => None,
        })
    };
    let masqueraded = nat.chain("POSTROUTING").into_iter().flat_map(|chain| &chain.rules).find_map(marked);
    let sets = |rule: &Rule| matches!(&rule.target, Some(Target::Mark(mark)) if Some(mark.value) == masqueraded);
    let own = nat.chains.iter().filter(|chain| chain.name.starts_with("KUBE-"));
    masqueraded.is_some() && own.flat_map(|chain| &chain.rules).any(sets)
}

/// `namespace/name:port` in a rule's comment.
pub(crate) fn service_in(rule: &Rule) -> Option<&str> {
    rule.comment()?.split(' ').find(|word| word.contains('/'))
}

/// Returns the protocol that a rule matches, if it has ports.
pub(crate) fn transport(rule: &Rule) -> Option<Protocol> {
    let asked = rule.protocol.filter(|protocol| !protocol.negated).map(|protocol| protocol.value);
    asked.and_then(ProtocolNumber::transport)
}

/// Returns the probability with which a rule takes a packet that reaches it, if it is random.
pub(crate) fn probability(rule: &Rule) -> Option<Probability> {
    rule.matches.iter().find_map(|one| match one {
        Match::Statistic(Statistic::Random(probability)) => Some(probability.value),
        _ => None,
    })
}

/// Returns whether a rule sends new clients to an endpoint.
pub(crate) fn balances(rule: &Rule) -> bool {
    rule.next_chain().is_some_and(|next| NAMING.is_endpoint(next))
        && !rule.matches.iter().any(|one| matches!(one, Match::Recent(_)))
}

/// Returns the number of endpoints that rules balance among, some of which may be hidden; `None` if the probabilities are not kube-proxy's:
/// 1/n, 1/(n-1), ..., 1.
pub(crate) fn shared_by(shares: &[&Rule]) -> Option<usize> {
    let count = |rule: &&Rule| probability(rule).map_or(Some(1), one_in);
    let counts: Option<Vec<usize>> = shares.iter().map(count).collect();
    let counts = counts.filter(|counts| counts.windows(2).all(|pair| pair[0] > pair[1]))?;
    counts.first().copied()
}

/// Returns the address of a network with a single address.
pub(crate) fn host(network: &Network) -> Option<IpAddr> {
    network.single()
}

/// Returns the address and port that a rule matches. For node ports, some releases match a range of node or loopback addresses, which also
/// has no single address.
pub(crate) fn frontend(rule: &Rule) -> Option<Frontend> {
    let (protocol, port) = rule.matches.iter().find_map(|one| match one {
        Match::Ports(ports) => {
            let port = ports.destination.filter(|port| !port.negated && port.value.first == port.value.last)?;
            Some((ports.protocol, port.value.first))
        }
        _ => None,
    })?;
    let address = match &rule.destination {
        Some(destination) if destination.negated => return None,
        destination => destination.as_ref().and_then(|destination| host(&destination.value)),
    };
    Some(Frontend { address, port, protocol })
}

/// Returns the text of a rule without comments and counters.
pub(crate) fn text(family: Family, chain: &Chain, rule: &Rule) -> String {
    let mut rule = rule.without_counters();
    rule.matches.retain(|condition| !condition.always_holds());
    print_rule(family, &chain.name, &rule)
}

/// Returns the DNAT destination of a rule.
pub(crate) fn destination(rule: &Rule) -> Option<SocketAddr> {
    match &rule.target {
        Some(Target::Dnat(Nat { addresses: Some((address, _)), ports: Some(ports), .. })) => {
            Some(SocketAddr::new(*address, ports.first))
        }
        _ => None,
    }
}

/// Describes a DNAT destination that is not one address with one port.
pub(super) fn no_endpoint(rule: &Rule) -> Option<String> {
    let Some(Target::Dnat(nat)) = &rule.target else { return None };
    match (nat.addresses, nat.ports) {
        (Some((first, last)), _) if first != last => Some(format!("addresses {first} to {last}")),
        (_, Some(ports)) if ports.first != ports.last => Some(format!("ports {} to {}", ports.first, ports.last)),
        (Some((address, _)), None) => Some(format!("{address} without a port")),
        (None, Some(ports)) => Some(format!("port {} without an address", ports.first)),
        _ => None,
    }
}

/// Returns whether the kernel rejects a rule because it sets a port on packets that may have none ("Need TCP, UDP, SCTP or DCCP with port
/// specification", `libxt_NAT.c`).
pub(super) fn lacks_protocol(rule: &Rule) -> bool {
    /// The protocols for which iptables accepts a port; for ICMP, it is the identifier.
    const WITH_PORTS: [u8; 5] = [1, 6, 17, 33, 132];
    let has_ports = rule.protocol.is_some_and(|asked| !asked.negated && WITH_PORTS.contains(&asked.value.0));
    matches!(rule.target, Some(Target::Dnat(Nat { ports: Some(_), .. }))) && !has_ports
}

/// Returns the probability of a rule; matches that all rules of a service share (a protocol, one of its frontends) do not count.
pub(super) fn chance(rule: &Rule, frontends: &[Frontend]) -> Chance {
    let mut chance = Chance::Always;
    let is_frontend = frontend(rule).is_some_and(|frontend| frontends.contains(&frontend));
    let is_target = |ports: &Ports| is_frontend && ports.source.is_none() && ports.flags.is_none();
    for one in &rule.matches {
        chance = match (one, chance) {
            (Match::Comment(_) | Match::Nfacct(_), chance) => chance,
            (Match::Ports(ports), chance) if *ports == Ports::any(ports.protocol) || is_target(ports) => chance,
            (Match::Recent(recent), chance) if recent.action.value == RecentAction::Set => chance,
            (Match::Statistic(statistic), Chance::Always) => drawn(*statistic),
            _ => Chance::Condition,
        };
    }
    let asks = rule.source.is_some() || (rule.destination.is_some() && !is_frontend) || asks_interface(rule);
    if asks { Chance::Condition } else { chance }
}

fn asks_interface(rule: &Rule) -> bool {
    rule.in_interface.is_some() || rule.out_interface.is_some()
}

fn drawn(statistic: Statistic) -> Chance {
    match statistic {
        Statistic::Random(random) if !random.negated => Chance::Below(random.value),
        Statistic::Random(random) => Probability::from_threshold(Probability::ONE - random.value.threshold())
            .map_or(Chance::Condition, Chance::Below),
        Statistic::Nth { every, .. } => match (every.value, every.negated) {
            (0 | 1, false) => Chance::Always,
            (0 | 1, true) => Chance::Condition,
            (every, negated) => Chance::Nth { part: if negated { every - 1 } else { 1 }, every },
        },
    }
}

/// Returns the affinity lookup of a rule.
pub(crate) fn recall(rule: &Rule, family: Family) -> Option<Recall<'_>> {
    let recent = recents(rule).find(|recent| recent.action.value != RecentAction::Set)?;
    let others = rule.matches.iter().filter(|one| !matches!(one, Match::Comment(_) | Match::Recent(_))).count();
    let is_plain = others == 0
        && !recent.action.negated
        && !recent.same_ttl
        && recent.hit_count.unwrap_or(1) <= 1
        && rule.source.is_none()
        && rule.destination.is_none()
        && !asks_interface(rule);
    Some(Recall { list: &recent.name, key: key(recent, family), seconds: recent.seconds, size: None, is_plain })
}

/// Returns the lists to which a rule adds clients.
pub(super) fn notes(rule: &Rule, family: Family) -> Vec<Note<'_>> {
    let conditions = rule.matches.iter().filter(|one| match one {
        Match::Comment(_) | Match::Recent(_) => false,
        Match::Ports(ports) => *ports != Ports::any(ports.protocol),
        _ => true,
    });
    let is_plain = rule.source.is_none() && rule.destination.is_none() && conditions.count() == 0;
    let noting = recents(rule).filter(|recent| recent.action.value == RecentAction::Set);
    noting.map(|recent| Note { list: &recent.name, key: key(recent, family), is_plain }).collect()
}

fn recents(rule: &Rule) -> impl Iterator<Item = &Recent> {
    rule.matches.iter().filter_map(|one| match one {
        Match::Recent(recent) => Some(&**recent),
        _ => None,
    })
}

/// Returns the key of a list's clients; a mask of all bits counts as no mask.
fn key(recent: &Recent, family: Family) -> Key {
    let whole = match recent.mask {
        IpAddr::V4(mask) => mask.to_bits() == u32::MAX,
        IpAddr::V6(mask) => mask.to_bits() == u128::MAX,
    };
    let fits = Family::of(recent.mask) == family;
    Key { destination: recent.destination, mask: Some(recent.mask).filter(|_| fits && !whole) }
}
