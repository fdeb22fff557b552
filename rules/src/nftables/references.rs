//! References in the rules and maps of a table.

use std::collections::HashSet;

use super::ast::{Chain, Table};
use super::conditions::Condition;
use super::statements::Statement;
use super::unmodelled;
use super::verdict::Verdict;

/// The chains, sets and maps that a table's rules and elements name.
#[derive(Default)]
struct References {
    chains: HashSet<String>,
    sets: HashSet<String>,
}

impl References {
    fn of(table: &Table) -> Self {
        let mut found = Self::default();
        let rules = || table.chains.iter().flat_map(|chain| &chain.rules);
        for condition in rules().flat_map(|rule| &rule.conditions) {
            found.sets.extend(condition.set().map(|(set, _)| set.to_string()));
            if let Condition::Other(text) = condition {
                found.learn(text);
            }
        }
        for statement in rules().flat_map(|rule| &rule.statements) {
            found.chains.extend(statement.chains().map(ToString::to_string));
            found.sets.extend(statement.set().map(|(set, _)| set.to_string()));
            if let Statement::Other(text) = statement {
                found.learn(text);
            }
        }
        let verdicts = table.sets.iter().flat_map(|set| &set.elements).filter_map(|element| element.verdict.as_ref());
        found.chains.extend(verdicts.filter_map(Verdict::chain).map(ToString::to_string));
        found
    }

    /// Adds the names in text that is not modelled.
    fn learn(&mut self, text: &str) {
        self.chains.extend(unmodelled::jumps(text).into_iter().map(str::to_owned));
        self.sets.extend(unmodelled::sets(text).into_iter().map(str::to_owned));
    }
}

impl Table {
    /// Removes unreferenced chains, and unused sets and maps, until every remaining one is used or `is_kept`.
    pub fn remove_unused(&mut self, is_kept: impl Fn(&Chain) -> bool) {
        loop {
            let References { chains, sets } = References::of(self);
            let before = (self.chains.len(), self.sets.len());
            self.chains.retain(|chain| chains.contains(&*chain.name) || is_kept(chain));
            self.sets.retain(|set| sets.contains(&*set.name));
            if (self.chains.len(), self.sets.len()) == before {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::nftables::parse;

    /// Returns what is left of a table with these rules in its only base chain.
    fn left(rules: &str) -> Vec<String> {
        let text = format!(
            "table ip kube-proxy {{
                set dynamic {{ type ipv4_addr; flags dynamic,timeout; timeout 10s; }}
                set ips {{ type ipv4_addr; elements = {{ 10.0.0.1 }} }}
                map services {{ type ipv4_addr : verdict; elements = {{ 10.0.0.1 : goto service }} }}
                chain base {{ type filter hook forward priority 0; {rules} }}
                chain idle {{ type filter hook input priority 0; }}
                chain service {{ jump endpoint; }}
                chain endpoint {{ drop; }}
            }}"
        );
        let mut table = parse(&text).unwrap_or_else(|errors| panic!("{}", errors[0])).rules.tables.remove(0);
        table.remove_unused(|chain| chain.base.is_some() && !chain.rules.is_empty());
        let chains = table.chains.iter().map(|chain| chain.name.to_string());
        chains.chain(table.sets.iter().map(|set| format!("@{}", set.name))).collect()
    }

    #[rstest]
    #[case::jump("jump service", &["base", "service", "endpoint"])]
    #[case::map("ip daddr vmap @services", &["base", "service", "endpoint", "@services"])]
    #[case::condition("ip daddr @ips drop", &["base", "@ips"])]
    #[case::update("update @dynamic { ip saddr }", &["base", "@dynamic"])]
    #[case::balance("numgen random mod 1 vmap { 0 : goto endpoint }", &["base", "endpoint"])]
    #[case::not_modelled("ip ttl vmap { 1 : jump service, 2 : drop }", &["base", "service", "endpoint"])]
    #[case::set_not_modelled("ip ttl 3 add @dynamic { ip daddr }", &["base", "@dynamic"])]
    // A name in a comment, or within another name, is no reference.
    #[case::comment("ip daddr 10.0.0.1 drop comment \"jump service @ips\"", &["base"])]
    fn what_is_named_stays(#[case] rules: &str, #[case] expected: &[&str]) {
        assert_eq!(left(rules), expected);
    }

    #[test]
    fn without_rules_nothing_stays() {
        assert!(left("").is_empty());
    }
}
