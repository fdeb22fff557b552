//! The rules of a namespace for one family, in either language.

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::iptables::{self, RuleSet};
use svclab_rules::nftables::{self, Ruleset};
use svclab_rules::walk::{Branch, ChainId, Environment, Hook, Packet, Path, RuleId, Then, Tracking};

use super::met::{AnyRule, Onward};
use super::{PredictError, RulePlace};
use crate::documents::Document;

/// Rules, and the program that they make.
pub(super) enum Rules {
    Iptables(RuleSet, iptables::evaluate::Program),
    Nftables(Ruleset, nftables::evaluate::Program),
}

impl Rules {
    /// Reads a document and makes it ready for walking.
    pub(super) fn of(document: &Document) -> Result<Self, PredictError> {
        let space = || document.space.clone();
        match document.mode {
            ProxyMode::Iptables => {
                let parsed = iptables::parse(&document.text, document.family);
                let rules = parsed.map_err(|errors| PredictError::unreadable(space(), &errors))?.rules;
                let program = iptables::evaluate::Program::compile(&rules);
                let program = program.map_err(|errors| PredictError::unsound(space(), &errors))?;
                Ok(Self::Iptables(rules, program))
            }
            ProxyMode::Nftables => {
                let parsed = nftables::parse(&document.text);
                let rules = parsed.map_err(|errors| PredictError::unreadable(space(), &errors))?.rules;
                let program = nftables::evaluate::Program::compile(&rules, document.family);
                let program = program.map_err(|errors| PredictError::unsound(space(), &errors))?;
                Ok(Self::Nftables(rules, program))
            }
        }
    }

    /// Takes a packet through a hook.
    pub(super) fn walk(
        &self,
        environment: &Environment,
        hook: Hook,
        packet: &Packet,
        tracking: Tracking,
    ) -> Vec<Branch<Path>> {
        match self {
            Self::Iptables(_, program) => program.walk_traced(environment, hook, packet, tracking),
            Self::Nftables(_, program) => program.walk_traced(environment, hook, packet, tracking),
        }
    }

    /// The table and name of a chain.
    pub(super) fn chain(&self, chain: ChainId) -> (&str, &str) {
        match self {
            Self::Iptables(_, program) => program.chain(chain),
            Self::Nftables(_, program) => program.chain(chain),
        }
    }

    /// Where a rule stands, and the rule.
    pub(super) fn rule(&self, space: &str, rule: RuleId) -> Option<(RulePlace, AnyRule<'_>)> {
        let place = match self {
            Self::Iptables(_, program) => program.place(rule),
            Self::Nftables(_, program) => program.place(rule),
        };
        let rule = self.numbered(place.table, place.chain, place.rule)?;
        let place = RulePlace {
            space: space.to_owned(),
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
        match self {
            Self::Iptables(rules, _) => {
                let table = rules.tables.iter().find(|one| one.name.as_str() == table)?;
                let chain = table.chain(chain)?.rules.as_slice();
                Some(AnyRule::Iptables { rule: chain.get(index)?, chain })
            }
            Self::Nftables(rules, _) => {
                let table = rules.tables.iter().find(|one| one.family == self.family() && &*one.name == table)?;
                let chain = table.chain(chain)?.rules.as_slice();
                Some(AnyRule::Nftables { rule: chain.get(index)?, chain, table })
            }
        }
    }

    /// A rule as its language writes it: one of nftables behind the name of its chain, as iptables has it by itself.
    pub(super) fn text(&self, chain: &str, rule: AnyRule<'_>) -> String {
        let text = match rule {
            AnyRule::Iptables { rule, .. } => iptables::print_rule(self.family(), chain, rule),
            AnyRule::Nftables { rule, .. } => format!("{chain} {}", nftables::print_rule(rule, self.family())),
        };
        text.trim_end().to_owned()
    }

    /// Where a packet goes from a rule.
    pub(super) fn onward(&self, then: Then) -> Onward<'_> {
        let named = |chain: ChainId| {
            let (table, name) = self.chain(chain);
            let len = self.numbered(table, name, 1).map_or(0, |rule| rule.of());
            (name, len)
        };
        match then {
            Then::Rule => Onward::Rule,
            Then::Jump(chain) => {
                let (chain, of) = named(chain);
                Onward::Jump { chain, of }
            }
            Then::Goto(chain) => {
                let (chain, of) = named(chain);
                Onward::Goto { chain, of }
            }
            Then::Return => Onward::Return,
            Then::Accept => Onward::Accept,
            Then::End => Onward::End,
        }
    }

    /// The language that they are in.
    pub(super) fn mode(&self) -> ProxyMode {
        match self {
            Self::Iptables(..) => ProxyMode::Iptables,
            Self::Nftables(..) => ProxyMode::Nftables,
        }
    }

    fn family(&self) -> Family {
        match self {
            Self::Iptables(_, program) => program.family(),
            Self::Nftables(_, program) => program.family(),
        }
    }
}
