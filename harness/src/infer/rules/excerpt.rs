//! An excerpt → rules that a lab can install: what it shows as it is, and around it what kube-proxy writes.

use std::collections::HashSet;

use svclab_rules::iptables::{Chain, ChainKind, RuleSet, Table, print_rule};
use svclab_rules::nftables::Ruleset;
use svclab_rules::ruleset::Rules;

/// Completes rules of an excerpt with those that kube-proxy writes for the same objects.
///
/// A service's or endpoint's chain counts as the excerpt has it if it shows where it leads; of all other chains, the rules that are not
/// shown are added.
pub(super) fn completed(shown: &Rules, written: Rules) -> Rules {
    match (shown, written) {
        (Rules::Iptables(shown), Rules::Iptables(written)) => iptables(&shown.rules, written.rules).into(),
        (Rules::Nftables(shown), Rules::Nftables(written)) => nftables(&shown.rules, written.rules).into(),
        (shown, _) => shown.clone(),
    }
}

fn iptables(shown: &RuleSet, mut written: RuleSet) -> RuleSet {
    let family = shown.family;
    for table in &shown.tables {
        let own = written.table_mut(table.name);
        for chain in &table.chains {
            let is_builtin = table.name.builtin_chains().contains(&&*chain.name);
            let Some(known) = own.chains.iter_mut().find(|known| known.name == chain.name) else {
                own.chains.push(if is_builtin { chain.clone() } else { Chain { policy: None, ..chain.clone() } });
                continue;
            };
            known.policy = if is_builtin { chain.policy.or(known.policy) } else { None };
            let leads_somewhere = chain.rules.iter().any(|rule| rule.target.is_some() && !marks(rule));
            if ChainKind::of(&chain.name).is_some() && leads_somewhere {
                known.rules.clone_from(&chain.rules);
                continue;
            }
            let text = |rule| print_rule(family, &chain.name, rule);
            let known_texts: HashSet<String> = known.rules.iter().map(text).collect();
            let new: Vec<_> = chain.rules.iter().filter(|rule| !known_texts.contains(&text(rule))).cloned().collect();
            // What differs from kube-proxy's comes from other programs, or replaces one of its own: in the order in which it is shown.
            let before = chain.rules.first().is_some_and(|first| !known_texts.contains(&text(first)));
            if before {
                known.rules.splice(0..0, new);
            } else {
                known.rules.extend(new);
            }
        }
    }
    complete_hooks(&mut written);
    drop_unused(&mut written, shown);
    written
}

/// Leaves out chains of services and endpoints that kube-proxy would write, that are not shown and that nothing leads to.
fn drop_unused(rules: &mut RuleSet, shown: &RuleSet) {
    for table in &mut rules.tables {
        let shown = shown.table(table.name);
        let is_shown = |chain: &Chain| shown.is_some_and(|own| own.chain(&chain.name).is_some());
        table.remove_unused(|chain| ChainKind::of(&chain.name).is_none() || is_shown(chain));
    }
}

/// Whether a rule only marks packets, as the first one of an endpoint's chain does.
fn marks(rule: &svclab_rules::iptables::Rule) -> bool {
    rule.next_chain().is_some_and(|next| next.starts_with("KUBE-MARK-"))
}

/// Tables of kube-proxy have all chains that a kernel enters.
fn complete_hooks(rules: &mut RuleSet) {
    for Table { name, chains } in &mut rules.tables {
        for hook in name.builtin_chains() {
            if !chains.iter().any(|chain| *chain.name == **hook) {
                chains.insert(0, Chain::builtin(*hook));
            }
        }
    }
}

fn nftables(shown: &Ruleset, mut written: Ruleset) -> Ruleset {
    for table in &shown.tables {
        let Some(own) = written.tables.iter_mut().find(|own| own.family == table.family) else {
            continue;
        };
        for chain in &table.chains {
            match own.chains.iter_mut().find(|known| known.name == chain.name) {
                Some(known) if !chain.rules.is_empty() => known.rules.clone_from(&chain.rules),
                Some(_) => {}
                None => own.chains.push(chain.clone()),
            }
        }
    }
    written
}
