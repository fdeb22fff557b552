//! Rules for addresses that are made up: no text can show them, so nothing is wrong without them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use svclab_rules::compare::MadeUp;
use svclab_rules::iptables::{self, Chain, Negatable, Network, RuleSet};
use svclab_rules::nftables::{self, Addresses, Condition, Element, Key, Ruleset, Side};
use svclab_rules::ruleset::Rules;

/// The rules with what kube-proxy writes for addresses that are made up. The lines of rules are known only where nothing was added.
pub(super) fn lead_to(made_up: &MadeUp, rules: Rules, written: &Rules) -> Rules {
    let addresses = &made_up.addresses;
    if addresses.is_empty() && made_up.endpoints.is_empty() {
        return rules;
    }
    match (rules, written) {
        (Rules::Iptables(parsed), Rules::Iptables(written)) if !addresses.is_empty() => {
            let mut rules = parsed.rules.clone();
            in_iptables(addresses, &mut rules, &written.rules);
            if rules == parsed.rules { Rules::Iptables(parsed) } else { rules.into() }
        }
        (Rules::Nftables(mut parsed), Rules::Nftables(written)) => {
            let mut rules = parsed.rules.clone();
            in_nftables(made_up, &mut rules, &written.rules);
            if rules != parsed.rules {
                let others = std::mem::take(&mut parsed.others);
                parsed = nftables::Parsed { others, ..rules.into() };
            }
            Rules::Nftables(parsed)
        }
        (rules, _) => rules,
    }
}

fn in_iptables(made_up: &BTreeSet<IpAddr>, rules: &mut RuleSet, written: &RuleSet) {
    let is_to_one = |rule: &&iptables::Rule| match &rule.destination {
        Some(Negatable { negated: false, value: Network::Prefix(range) }) => {
            range.prefix_len() == range.max_prefix_len() && made_up.contains(&range.addr())
        }
        _ => false,
    };
    for table in &written.tables {
        for chain in &table.chains {
            let wanted: Vec<&iptables::Rule> = chain.rules.iter().filter(is_to_one).collect();
            if wanted.is_empty() {
                continue;
            }
            let own = rules.table_mut(table.name).chains.iter_mut().find(|own| own.name == chain.name);
            let lacks_some = |own: &&mut Chain| wanted.iter().any(|rule| !own.rules.contains(rule));
            if let Some(own) = own.filter(lacks_some) {
                own.rules.retain(|rule| !wanted.contains(&rule));
                own.rules.splice(0..0, wanted.into_iter().cloned());
            }
        }
    }
}

fn in_nftables(made_up: &MadeUp, rules: &mut Ruleset, written: &Ruleset) {
    // An endpoint of this node is in the set of those that may reach themselves.
    let is_made_up = |ip: &IpAddr| made_up.addresses.contains(ip) || made_up.endpoints.contains(ip);
    let is_of_one =
        |element: &&Element| element.key.iter().any(|key| matches!(key, Key::Address(ip) if is_made_up(ip)));
    let is_to_one = |rule: &&nftables::Rule| {
        let asks = |condition: &Condition| match condition {
            Condition::Address { side: Side::Destination, negated: false, value: Addresses::One(ip) } => {
                made_up.addresses.contains(ip)
            }
            _ => false,
        };
        rule.conditions.iter().any(asks)
    };
    for table in &written.tables {
        let Some(own) = rules.tables.iter_mut().find(|own| own.family == table.family) else { continue };
        for set in &table.sets {
            let Some(own) = own.sets.iter_mut().find(|own| own.name == set.name) else { continue };
            let new =
                set.elements.iter().filter(is_of_one).filter(|one| !own.elements.iter().any(|own| own.key == one.key));
            let new: Vec<Element> = new.cloned().collect();
            own.elements.extend(new);
        }
        for chain in &table.chains {
            let Some(own) = own.chains.iter_mut().find(|own| own.name == chain.name) else { continue };
            let new = chain.rules.iter().filter(is_to_one).filter(|rule| !own.rules.contains(rule));
            let new: Vec<nftables::Rule> = new.cloned().collect();
            own.rules.splice(0..0, new);
        }
    }
}
