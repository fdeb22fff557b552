//! The rules of a namespace for one family, in either language or both.

use std::sync::Arc;

use svclab_rules::cluster::Family;
use svclab_rules::iptables::{self, RuleSet};
use svclab_rules::nftables::{self, Ruleset};
use svclab_rules::ruleset;
use svclab_rules::walk::{self, Alongside, Branch, ChainId, Environment, Hook, Packet, Path, RuleId, Then, Tracking};

use super::matched_rule::{AnyRule, NextHook};
use super::{PredictError, RulePlace};
use crate::documents::Document;

/// Rules, and the program that they make.
pub(super) struct Rules {
    family: Family,
    /// Those of iptables.
    iptables: Option<Arc<ruleset::Rules>>,
    nftables: Option<Ruleset>,
    program: Program,
}

enum Program {
    Iptables(iptables::evaluate::Program),
    Nftables(nftables::evaluate::Program),
    /// Rules of iptables beside tables of nftables.
    Both(walk::Program<Alongside<iptables::evaluate::Code, nftables::evaluate::Code>>),
}

impl Rules {
    /// Reads the documents of a namespace for one family, in the order in which they are installed: one of iptables at
    /// most, and any number of nftables. `None` where there is none.
    pub(super) fn of(documents: &[&Document], family: Family) -> Result<Option<Self>, PredictError> {
        let Some(Document { netns, .. }) = documents.first() else { return Ok(None) };
        let (mut iptables, mut nftables): (_, Option<Ruleset>) = (None, None);
        // How many tables were there before the rules of iptables.
        let mut older = 0;
        for document in documents {
            match document.rules.nftables() {
                None => {
                    iptables = Some(Arc::clone(&document.rules));
                    older = nftables.as_ref().map_or(0, |rules| rules.tables.len());
                }
                Some(parsed) => nftables.get_or_insert_default().tables.extend(parsed.rules.tables.iter().cloned()),
            }
        }
        let of_iptables = |rules: &RuleSet| {
            let program = iptables::evaluate::Program::compile(rules);
            program.map_err(|errors| PredictError::unsound(netns.clone(), &errors))
        };
        let program = match (iptables.as_deref().and_then(ruleset::Rules::iptables), &nftables) {
            (None, None) => return Ok(None),
            (Some(rules), None) => Ok(Program::Iptables(of_iptables(rules)?)),
            (None, Some(rules)) => nftables::evaluate::Program::compile(rules, family).map(Program::Nftables),
            (Some(foreign), Some(rules)) => {
                let foreign = of_iptables(foreign)?;
                nftables::evaluate::Program::compile_alongside(rules, foreign, older).map(Program::Both)
            }
        };
        let program = program.map_err(|errors| PredictError::unsound(netns.clone(), &errors))?;
        Ok(Some(Self { family, iptables, nftables, program }))
    }

    /// Takes a packet through a hook.
    pub(super) fn walk(
        &self,
        environment: &Environment,
        hook: Hook,
        packet: &Packet,
        tracking: Tracking,
    ) -> Vec<Branch<Path>> {
        match &self.program {
            Program::Iptables(program) => program.walk_traced(environment, hook, packet, tracking),
            Program::Nftables(program) => program.walk_traced(environment, hook, packet, tracking),
            Program::Both(program) => program.walk_traced(environment, hook, packet, tracking),
        }
    }

    /// The table and name of a chain.
    pub(super) fn chain(&self, chain: ChainId) -> (&str, &str) {
        match &self.program {
            Program::Iptables(program) => program.chain(chain),
            Program::Nftables(program) => program.chain(chain),
            Program::Both(program) => program.chain(chain),
        }
    }

    /// Where a rule stands, and the rule.
    pub(super) fn rule(&self, netns: &str, rule: RuleId) -> Option<(RulePlace, AnyRule<'_>)> {
        let place = match &self.program {
            Program::Iptables(program) => program.place(rule),
            Program::Nftables(program) => program.place(rule),
            Program::Both(program) => program.place(rule),
        };
        let rule = self.numbered(place.table, place.chain, place.rule)?;
        let place = RulePlace {
            netns: netns.to_owned(),
            table: place.table.to_owned(),
            chain: place.chain.to_owned(),
            number: place.rule,
            text: self.text(place.chain, rule),
        };
        Some((place, rule))
    }

    /// A rule by its number in its chain, from 1.
    pub(super) fn numbered(&self, table: &str, chain: &str, number: usize) -> Option<AnyRule<'_>> {
        let index = number.checked_sub(1)?;
        let of_iptables = || {
            let table = self.iptables.as_ref()?.iptables()?.tables.iter().find(|one| one.name.as_str() == table)?;
            let chain = table.chain(chain)?.rules.as_slice();
            Some(AnyRule::Iptables { rule: chain.get(index)?, chain })
        };
        let of_nftables = || {
            let tables = &self.nftables.as_ref()?.tables;
            let table = tables.iter().find(|one| one.family == self.family && &*one.name == table)?;
            let chain = table.chain(chain)?.rules.as_slice();
            Some(AnyRule::Nftables { rule: chain.get(index)?, chain, table })
        };
        of_iptables().or_else(of_nftables)
    }

    /// A rule as its language writes it: one of nftables behind the name of its chain, as iptables has it by itself.
    pub(super) fn text(&self, chain: &str, rule: AnyRule<'_>) -> String {
        let text = match rule {
            AnyRule::Iptables { rule, .. } => iptables::print_rule(self.family, chain, rule),
            AnyRule::Nftables { rule, .. } => format!("{chain} {}", nftables::print_rule(rule, self.family)),
        };
        text.trim_end().to_owned()
    }

    /// Where a packet goes from a rule.
    pub(super) fn next_hook(&self, then: Then) -> NextHook<'_> {
        let named = |chain: ChainId| {
            let (table, name) = self.chain(chain);
            let len = self.numbered(table, name, 1).map_or(0, |rule| rule.of());
            (name, len)
        };
        match then {
            Then::Rule => NextHook::Rule,
            Then::Jump(chain) => {
                let (chain, of) = named(chain);
                NextHook::Jump { chain, of }
            }
            Then::Goto(chain) => {
                let (chain, of) = named(chain);
                NextHook::Goto { chain, of }
            }
            Then::Return => NextHook::Return,
            Then::Accept => NextHook::Accept,
            Then::End => NextHook::End,
        }
    }
}
