//! The rules of a namespace for one family, in either language or both.

use std::sync::{Arc, OnceLock};

use svclab_rules::cluster::Family;
use svclab_rules::ruleset::{self, ChainIndex, Program, Rule};
use svclab_rules::walk::{Arrival, Branch, ChainId, Fork, Narrowed, Narrowing, RuleId, Then};

use super::matched_rule::RuleExit;
use super::{PredictError, RulePlace};
use crate::documents::Document;

/// Rules, compiled for walking packets through them.
pub(super) struct Rules {
    family: Family,
    /// The rules, in the order in which they are installed.
    installed: Vec<Arc<ruleset::Rules>>,
    /// The chains of each rule set, indexed on the first lookup of a rule.
    indexes: OnceLock<Vec<ChainIndex>>,
    program: Program,
}

impl Rules {
    /// Compiles the documents of a namespace for one family, in the order in which they are installed: at most one of iptables, and any
    /// number of nftables. `None` if there are none.
    pub(super) fn of(documents: &[&Document], family: Family) -> Result<Option<Self>, PredictError> {
        let Some(Document { netns, .. }) = documents.first() else { return Ok(None) };
        let installed: Vec<_> = documents.iter().map(|document| Arc::clone(&document.rules)).collect();
        let program = ruleset::compile(&installed.iter().map(|rules| &**rules).collect::<Vec<_>>(), family);
        let program = program.map_err(|errors| PredictError::unsound(netns.clone(), &errors))?;
        Ok(Some(Self { family, installed, indexes: OnceLock::new(), program }))
    }

    /// Walks a packet through a hook; also returns where sources of its set were forked off.
    pub(super) fn walk(&self, arrival: Arrival<'_>, trace: Narrowed) -> (Vec<Branch<Narrowed>>, Vec<Fork<Narrowed>>) {
        // Usually there is only one.
        let mut branches = Vec::with_capacity(1);
        let forks = self.program.walk_into(arrival, trace, &mut branches);
        (branches, forks)
    }

    /// Continues the walk of a packet whose source was forked off at this place.
    pub(super) fn resume(
        &self,
        arrival: Arrival<'_>,
        fork: &Fork<Narrowed>,
        narrowing: Option<&Narrowing>,
    ) -> Vec<Branch<Narrowed>> {
        self.program.resume(arrival, fork, |before| before.with(narrowing))
    }

    /// Continues the walk of a branch with its new source through the chains after source NAT. Their rules never fork off sources.
    pub(super) fn continue_settled(&self, arrival: Arrival<'_>, mut branch: Branch<Narrowed>) -> Vec<Branch<Narrowed>> {
        branch.trace = branch.trace.not_forking();
        self.program.continue_settled(arrival, branch)
    }

    /// The table and name of a chain.
    pub(super) fn chain(&self, chain: ChainId) -> (&str, &str) {
        self.program.chain(chain)
    }

    /// A rule, with the name of its chain.
    pub(super) fn rule(&self, rule: RuleId) -> Option<(&str, Rule<'_>)> {
        let place = self.program.place(rule);
        Some((place.chain, self.numbered(place.table, place.chain, place.rule)?))
    }

    /// The place of a rule, with its text.
    pub(super) fn place(&self, netns: &str, rule: RuleId) -> Option<RulePlace> {
        let place = self.program.place(rule);
        let rule = self.numbered(place.table, place.chain, place.rule)?;
        Some(RulePlace {
            netns: netns.to_owned(),
            table: place.table.to_owned(),
            chain: place.chain.to_owned(),
            number: place.rule,
            text: rule.print(self.family, place.chain),
        })
    }

    /// A rule by its number in its chain, from 1.
    pub(super) fn numbered(&self, table: &str, chain: &str, number: usize) -> Option<Rule<'_>> {
        let at = number.checked_sub(1)?;
        let indexes = self.indexes.get_or_init(|| self.installed.iter().map(|rules| rules.index_chains()).collect());
        let mut installed = self.installed.iter().zip(indexes);
        installed.find_map(|(rules, index)| rules.rule(index, self.family, table, chain, at))
    }

    /// The chain that a packet continues in.
    pub(super) fn next_chain(&self, then: Then) -> Option<&str> {
        match then {
            Then::Jump(to) | Then::Goto(to) => Some(self.chain(to).1),
            Then::Rule | Then::Return | Then::Accept | Then::End => None,
        }
    }

    /// Where a packet continues after a rule.
    pub(super) fn next_hook(&self, then: Then) -> RuleExit<'_> {
        let named = |chain: ChainId| {
            let (table, name) = self.chain(chain);
            let len = self.numbered(table, name, 1).map_or(0, Rule::chain_len);
            (name, len)
        };
        match then {
            Then::Rule => RuleExit::Rule,
            Then::Jump(chain) => {
                let (chain, of) = named(chain);
                RuleExit::Jump { chain, of }
            }
            Then::Goto(chain) => {
                let (chain, of) = named(chain);
                RuleExit::Goto { chain, of }
            }
            Then::Return => RuleExit::Return,
            Then::Accept => RuleExit::Accept,
            Then::End => RuleExit::End,
        }
    }
}
