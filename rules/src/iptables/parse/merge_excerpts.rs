//! Joining of excerpts of one rule set, with repeated parts.

use std::collections::HashMap;

use super::super::ast::{Rule, RuleSet, Table};
use super::super::normal_form::canonical_key;
use super::super::table_name::TableName;
use super::{Parsed, SourceLines};

/// Adds rules to others of the same family; rules that a page repeats are added once.
///
/// It keeps an index of one rule set, so adding many parts takes linear time.
#[derive(Debug, Clone, Default)]
pub struct ExcerptMerger {
    known: HashMap<(TableName, String), KnownRules>,
}

/// The indexed rules of a chain.
#[derive(Debug, Clone, Default)]
struct KnownRules {
    count: usize,
    /// Where each rule is first.
    positions: HashMap<String, usize>,
}

impl KnownRules {
    /// Indexes the rules added to a chain, or all if some were removed.
    fn update(&mut self, rules: &[Rule]) {
        if rules.len() < self.count {
            *self = Self::default();
        }
        for (at, rule) in rules.iter().enumerate().skip(self.count) {
            self.positions.entry(canonical_key(rule)).or_insert(at);
        }
        self.count = rules.len();
    }
}

impl ExcerptMerger {
    /// Adds rules. A chain in both keeps its rules in order; added rules that it already has, apart from counters, are skipped. The others
    /// are inserted after the rule that they follow, or before the one that they precede; if the chain has neither, at its end.
    pub fn join(&mut self, known: &mut Parsed, other: Parsed) {
        let RuleSet { tables, .. } = other.rules;
        for (at, table) in tables.into_iter().enumerate() {
            let place = known.rules.tables.iter().position(|own| own.name == table.name).unwrap_or_else(|| {
                known.rules.table_mut(table.name);
                known.rules.tables.len() - 1
            });
            let SourceLines(lines) = &mut known.lines;
            lines.resize_with(lines.len().max(place + 1), Vec::new);
            let lines_of_table = other.lines.0.get(at).map(Vec::as_slice).unwrap_or_default();
            self.join_table(&mut known.rules.tables[place], &mut lines[place], table, lines_of_table);
        }
    }

    fn join_table(&mut self, own: &mut Table, own_lines: &mut Vec<Vec<usize>>, table: Table, lines: &[Vec<usize>]) {
        own_lines.resize_with(own.chains.len(), Vec::new);
        let positions: HashMap<_, usize> =
            own.chains.iter().zip(0..).map(|(chain, at)| (chain.name.clone(), at)).collect();
        for (index, chain) in table.chains.into_iter().enumerate() {
            let of_chain = lines.get(index).cloned().unwrap_or_default();
            let Some(&position) = positions.get(&chain.name) else {
                own.chains.push(chain);
                own_lines.push(of_chain);
                continue;
            };
            let known = self.known.entry((table.name, chain.name.to_string())).or_default();
            known.update(&own.chains[position].rules);
            let count = known.count;
            let first = chain.rules.iter().find_map(|rule| known.positions.get(&canonical_key(rule)).copied());
            let mut place = first.unwrap_or(count);
            let mut added: Vec<(usize, Rule, usize)> = Vec::new();
            for (number, rule) in chain.rules.into_iter().enumerate() {
                match known.positions.get(&canonical_key(&rule)) {
                    Some(at) => place = at + 1,
                    None => added.push((place, rule, of_chain.get(number).copied().unwrap_or_default())),
                }
            }
            if added.iter().any(|(place, ..)| *place < count) {
                // Later rules are no longer where they were.
                *known = KnownRules::default();
            }
            insert(&mut own.chains[position].rules, &mut own_lines[position], added);
        }
    }
}

/// Inserts rules with their lines, each before the rule that was at a position.
fn insert(rules: &mut Vec<Rule>, lines: &mut Vec<usize>, mut added: Vec<(usize, Rule, usize)>) {
    lines.resize(rules.len(), 0);
    added.sort_by_key(|(place, ..)| *place);
    while let Some(&(place, ..)) = added.last() {
        let from = added.partition_point(|(other, ..)| *other < place);
        let (new, new_lines): (Vec<Rule>, Vec<usize>) = added.drain(from..).map(|(_, rule, line)| (rule, line)).unzip();
        rules.splice(place..place, new);
        lines.splice(place..place, new_lines);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{End, parse_excerpt};
    use super::*;
    use crate::cluster::Family;

    fn excerpt(text: &str) -> Parsed {
        parse_excerpt((1..).zip(text.lines()), Family::Ipv4, None, End::Unknown).parsed
    }

    #[test]
    fn what_is_shown_again_is_joined_once() {
        let mut known = excerpt("-A K -s 10.0.0.1/32 -j RETURN\n-A K -j ACCEPT");
        ExcerptMerger::default().join(
            &mut known,
            excerpt("\n-A K -s 10.0.0.1/32 -m comment --comment x -j RETURN\n-A L -j DROP\n-A K -j DROP"),
        );
        let text = crate::iptables::print(&known.rules);
        assert_eq!(text.matches("-A K").count(), 3, "{text}");
        assert_eq!((known.lines.line(0, 0, 1), known.lines.line(0, 0, 2)), (Some(4), Some(2)));
    }

    /// Two commands show parts of one chain, in its order.
    #[test]
    fn what_is_new_keeps_its_place_among_what_is_known() {
        let mut known = excerpt("-A K -s 10.0.0.2/32 -j A\n-A K -s 10.0.0.4/32 -j A");
        let mut merger = ExcerptMerger::default();
        let of = |last: &[u8]| last.iter().map(|last| format!("-A K -s 10.0.0.{last}/32 -j A\n")).collect::<String>();
        merger.join(&mut known, excerpt(&of(&[1, 2, 3, 4, 5])));
        merger.join(&mut known, excerpt(&of(&[4, 6])));
        let text = crate::iptables::print(&known.rules);
        let rules: Vec<&str> = text.lines().filter(|line| line.starts_with("-A K")).collect();
        assert_eq!(rules, of(&[1, 2, 3, 4, 6, 5]).lines().collect::<Vec<_>>(), "{text}");
        assert_eq!(known.lines.line(0, 0, 2), Some(3));
    }
}
