//! Listings of which rows were selected one by one, as by `grep`: which chain a row is of.

use std::collections::HashMap;

use super::super::super::ast::{Chain, Rule};
use super::super::super::chain_name::{ChainHash, ChainKind};
use super::super::super::table_name::TableName;
use super::super::super::targets::Target;
use super::super::tables::usual;
use super::{ListingReader, Shown, parent_chain};
use crate::cluster::Protocol;

impl ListingReader {
    /// Returns whether rows were selected one by one: then the heading before a row need not be that of its chain.
    pub(super) fn is_picked(&self) -> bool {
        let has_rows = |shown: &Shown| !shown.chain.rules.is_empty();
        self.chains.iter().any(|shown| !shown.has_heading && has_rows(shown))
            || self.chains.len() > 1 && !self.chains.iter().any(|shown| shown.has_columns)
    }

    /// Moves every row without the heading of its chain to the chain that its content implies. Returns the lines of the other rows.
    pub(super) fn place(&mut self) -> Vec<usize> {
        self.is_broken = true;
        let mut unplaced = Vec::new();
        let mut rows = Vec::new();
        let has_all_headings = self.has_all_headings();
        for shown in &mut self.chains {
            shown.is_whole &= shown.has_columns && !self.is_filtered;
            if shown.has_columns || shown.has_heading && has_all_headings {
                continue;
            }
            let (rules, lines) = (std::mem::take(&mut shown.chain.rules), std::mem::take(&mut shown.lines));
            rows.extend(rules.into_iter().zip(lines).map(|(rule, line)| (rule, line, shown.hides_interfaces)));
        }
        self.chains.retain(|shown| shown.has_heading);
        let names: Vec<Option<String>> = (0..rows.len())
            .map(|at| {
                let of_mark = || parent_chain::of_mark(&rows[at].0, &rows.get(at + 1)?.0);
                parent_chain::of(&rows[at].0).or_else(of_mark)
            })
            .collect();
        let mut positions: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, shown) in self.chains.iter().enumerate() {
            positions.entry(shown.chain.name.to_string()).or_default().push(at);
        }
        for ((rule, line, hides_interfaces), name) in rows.into_iter().zip(names) {
            let Some(name) = name else {
                unplaced.push(line);
                continue;
            };
            // The kernel rejects packets in one table only, and kube-proxy drops them there.
            let rejects = matches!(rule.target, Some(Target::Reject(_) | Target::Drop));
            let is_there = |at: &&usize| !rejects || self.chains[**at].table == Some(TableName::Filter);
            let known = positions.entry(name.clone()).or_default();
            let at = known.iter().find(is_there).copied().unwrap_or_else(|| {
                let usual_table = || if rejects { TableName::Filter } else { usual(&name) };
                let table = self.table.unwrap_or_else(usual_table);
                known.push(self.chains.len());
                self.chains.push(Shown::new(Chain::user(&*name), Some(table), false));
                self.chains.len() - 1
            });
            self.chains[at].chain.rules.push(rule);
            self.chains[at].lines.push(line);
            self.chains[at].hides_interfaces |= hides_interfaces;
        }
        self.rules -= unplaced.len();
        unplaced
    }

    /// Returns whether the heading above a row is that of its chain, though the headings of columns are left out: what `grep KUBE` selects.
    /// Rows that say which chain they are of show it, if there are some and none is of another chain than the heading above it.
    fn has_all_headings(&self) -> bool {
        let rows = self.chains.iter().filter(|shown| shown.has_heading);
        let mut signs =
            rows.flat_map(|shown| shown.chain.rules.iter().filter_map(|rule| is_of(rule, &shown.chain.name)));
        let mut has_some = false;
        signs.all(|is_own| {
            has_some = true;
            is_own
        }) && has_some
    }
}

/// Returns whether a rule is of a chain; nothing if it does not say.
fn is_of(rule: &Rule, chain: &str) -> Option<bool> {
    if let Some(name) = parent_chain::of(rule) {
        return Some(name == chain);
    }
    let next = rule.next_chain().and_then(|next| ChainKind::of(next)).map(|(kind, _)| kind);
    match ChainKind::of(chain) {
        Some((ChainKind::Endpoint, _)) if next.is_some() => Some(false),
        Some((ChainKind::Endpoint, _)) => None,
        Some((_, hash)) => {
            let name = rule.comment()?.split(' ').find(|word| word.contains('/'))?;
            let is_own = |protocol| ChainHash::for_service_port(name, protocol).as_str() == hash;
            Some(Protocol::ALL.into_iter().any(is_own))
        }
        // Only chains of Services lead to endpoints.
        None if next == Some(ChainKind::Endpoint) => Some(false),
        None => None,
    }
}
