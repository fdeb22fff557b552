//! The rules of a namespace for one family, in either language.

use svclab_rules::cluster::ProxyMode;
use svclab_rules::iptables::{self, RuleSet, Target};
use svclab_rules::nftables::{self, Ruleset, Statement, Verdict};
use svclab_rules::walk::{Branch, ChainId, Environment, Hook, Packet, Path, RuleId, Tracking};

use super::{PredictError, RulePlace};
use crate::documents::Document;

/// Rules, and the program that they make.
pub(super) enum Rules {
    Iptables(RuleSet, iptables::evaluate::Program),
    Nftables(Ruleset, nftables::evaluate::Program),
}

/// What a rule does, as far as it tells whether it mattered for a packet that met it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Does {
    /// Nothing, or it leads back.
    Nothing,
    /// It leads to one of these chains, or else, where `ends`, decides on its own.
    Leads { to: Vec<String>, ends: bool },
    /// Something to the packet.
    Something,
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

    /// The table and name of a hook's chain.
    pub(super) fn chain(&self, chain: ChainId) -> (&str, &str) {
        match self {
            Self::Iptables(_, program) => program.chain(chain),
            Self::Nftables(_, program) => program.chain(chain),
        }
    }

    /// Where a rule stands, and what it does.
    pub(super) fn rule(&self, space: &str, rule: RuleId) -> Option<(RulePlace, Does)> {
        let (place, text, does) = match self {
            Self::Iptables(rules, program) => {
                let place = program.place(rule);
                let table = rules.tables.iter().find(|table| table.name.as_str() == place.table)?;
                let rule = table.chain(place.chain)?.rules.get(place.rule - 1)?;
                (place, iptables::print_rule(rules.family, place.chain, rule), does(rule))
            }
            Self::Nftables(rules, program) => {
                let place = program.place(rule);
                let mut tables = rules.tables.iter().filter(|table| table.family == program.family());
                let table = tables.find(|table| *table.name == *place.table)?;
                let rule = table.chain(place.chain)?.rules.get(place.rule - 1)?;
                let text = format!("{} {}", place.chain, nftables::print_rule(rule, table.family));
                (place, text, does_all(rule, table))
            }
        };
        let place = RulePlace {
            space: space.to_owned(),
            table: place.table.to_owned(),
            chain: place.chain.to_owned(),
            number: place.rule,
            text: text.trim_end().to_owned(),
        };
        Some((place, does))
    }
}

fn does(rule: &iptables::Rule) -> Does {
    match &rule.target {
        Some(Target::Jump(chain) | Target::Goto(chain)) => Does::Leads { to: vec![chain.to_string()], ends: false },
        Some(Target::Return) | None => Does::Nothing,
        Some(_) => Does::Something,
    }
}

/// What the statements of a rule do: the first that counts says it.
fn does_all(rule: &nftables::Rule, table: &nftables::Table) -> Does {
    let of = |statement: &Statement| match statement {
        Statement::Verdict(Verdict::Return) => Does::Nothing,
        Statement::Verdict(verdict) => leads([verdict]),
        Statement::Balance(chains) => Does::Leads { to: chains.iter().map(ToString::to_string).collect(), ends: false },
        Statement::Lookup(_, map) => {
            let elements = table.set(map).map(|map| map.elements.as_slice()).unwrap_or_default();
            leads(elements.iter().filter_map(|element| element.verdict.as_ref()))
        }
        _ => Does::Something,
    };
    rule.statements.iter().map(of).find(|does| *does != Does::Nothing).unwrap_or(Does::Nothing)
}

fn leads<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Does {
    let (mut to, mut ends) = (Vec::new(), false);
    for verdict in verdicts {
        match verdict {
            Verdict::Jump(chain) | Verdict::Goto(chain) => to.push(chain.to_string()),
            Verdict::Accept | Verdict::Drop => ends = true,
            Verdict::Return => {}
        }
    }
    if to.is_empty() && ends { Does::Something } else { Does::Leads { to, ends } }
}
