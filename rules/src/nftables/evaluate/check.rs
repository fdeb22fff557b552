//! Checks for tables that the kernel rejects, and for tables that no packet enters.

use std::collections::HashMap;
use std::fmt;

use crate::cluster::Family;
use crate::nftables::text::family as word;
use crate::nftables::{Condition, Datatype, LookupKey, Name, Rule, Set, Statement, Table, unmodelled};
use crate::walk::{Fault, Hook, Hooks, Lead, faults, reached, starts};

/// An error in tables, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table {} {table}{part}: {kind}", word(*.family))]
pub struct CompileError {
    /// The table's family.
    pub family: Family,
    /// The table.
    pub table: Name,
    /// The part of the table.
    pub part: Part,
    /// The kind of error.
    pub kind: CompileErrorKind,
}

/// A part of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The whole table.
    Table,
    /// A chain.
    Chain(Name),
    /// A rule of a chain, by its position from 1.
    Rule(Name, usize),
    /// A set or map.
    Set(Name),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table => Ok(()),
            Self::Chain(chain) => write!(f, ", chain {chain}"),
            Self::Rule(chain, number) => write!(f, ", chain {chain}, rule {number}"),
            Self::Set(set) => write!(f, ", set {set}"),
        }
    }
}

/// The kind of an error in tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileErrorKind {
    /// A rule or an element jumps to a chain that does not exist.
    #[error("jumps to chain `{0}`, which does not exist")]
    MissingChain(Name),
    /// A rule or an element jumps to a base chain.
    #[error("jumps to base chain `{0}`")]
    JumpToHook(Name),
    /// A rule refers to a set or map that does not exist.
    #[error("refers to set `{0}`, which does not exist")]
    MissingSet(Name),
    /// A rule looks up a set with a key of another type.
    #[error("looks up set `{set}` with a key of type {made}, but its keys are of type {wanted}")]
    KeyMismatch {
        /// The set.
        set: Name,
        /// The types of the lookup's key.
        made: String,
        /// The types of the set's keys.
        wanted: String,
    },
    /// Jumps form a loop.
    #[error("jump loop: {}", .0.iter().map(|name| &**name).collect::<Vec<_>>().join(" → "))]
    Loop(Vec<Name>),
    /// Jumps are nested too deep.
    #[error("jumps are nested more than 16 deep, which the kernel rejects")]
    TooDeep,
    /// A packet may pass this many rules at a base chain; this jump leads to most of them.
    #[error(
        "lets a packet traverse up to {0} rules, which would stall a CPU: repeated jumps to the same chains multiply"
    )]
    TooLong(u64),
    /// A statement that the kernel rejects at this hook.
    #[error("{statement} is not allowed {place}")]
    Misplaced {
        /// The statement.
        statement: &'static str,
        /// The hook or chain.
        place: String,
    },
    /// A table has rules but no base chain.
    #[error("has rules but no base chain")]
    NoHook,
    /// A name is used twice, for different chains or sets.
    #[error("is declared twice, in different ways")]
    Twice,
}

impl CompileErrorKind {
    /// Returns whether an excerpt of valid tables can have this error.
    fn is_of_part(&self) -> bool {
        matches!(self, Self::MissingChain(_) | Self::MissingSet(_) | Self::NoHook)
    }
}

/// Checks the tables of a family.
pub(super) fn check<'a>(tables: impl Iterator<Item = &'a Table>) -> Result<(), Vec<CompileError>> {
    let errors: Vec<CompileError> = tables.flat_map(errors).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Returns the errors that no table in a kernel can have, not even as an excerpt.
pub(crate) fn rejections(table: &Table) -> Vec<CompileError> {
    errors(table).into_iter().filter(|error| !error.kind.is_of_part()).collect()
}

fn errors(table: &Table) -> Vec<CompileError> {
    let mut errors = Vec::new();
    Check::new(table, &mut errors).check();
    errors
}

struct Check<'a> {
    table: &'a Table,
    chains: HashMap<&'a str, usize>,
    sets: HashMap<&'a str, &'a Set>,
    errors: &'a mut Vec<CompileError>,
}

impl<'a> Check<'a> {
    fn new(table: &'a Table, errors: &'a mut Vec<CompileError>) -> Self {
        let chains = table.chains.iter().enumerate().map(|(position, chain)| (&*chain.name, position)).collect();
        // Of sets with the same name the first counts; the others are separate errors.
        let sets = table.sets.iter().rev().map(|set| (&*set.name, set)).collect();
        Self { table, chains, sets, errors }
    }

    fn error(&mut self, part: Part, kind: CompileErrorKind) {
        let table = self.table;
        self.errors.push(CompileError { family: table.family, table: table.name.clone(), part, kind });
    }

    fn rule(&self, chain: usize, rule: usize) -> Part {
        Part::Rule(self.table.chains[chain].name.clone(), rule + 1)
    }

    fn check(&mut self) {
        let before = self.errors.len();
        self.check_names();
        self.check_targets();
        let table = self.table;
        let hooks = table.chains.iter().enumerate();
        let hooks: Vec<(Hook, usize)> = hooks.filter_map(|(at, chain)| Some((chain.base?.hook, at))).collect();
        let leads = self.leads();
        let lengths: Vec<usize> = table.chains.iter().map(|chain| chain.rules.len()).collect();
        for (chain, rule, fault) in faults(&leads, &lengths, starts(hooks.iter().map(|(_, chain)| *chain), leads.len()))
        {
            let name = |chain: usize| table.chains[chain].name.clone();
            let kind = match fault {
                Fault::Loop(chains) => CompileErrorKind::Loop(chains.into_iter().map(name).collect()),
                Fault::TooDeep => CompileErrorKind::TooDeep,
                Fault::TooLong(rules) => CompileErrorKind::TooLong(rules),
            };
            self.error(self.rule(chain, rule), kind);
        }
        if self.errors.len() == before {
            let of_filter = |(_, chain): &&(Hook, usize)| table.chains[*chain].base.is_some_and(|base| !base.nat);
            let filters: Vec<(Hook, usize)> = hooks.iter().filter(of_filter).copied().collect();
            self.check_places(&reached(&leads, &hooks), &reached(&leads, &filters));
        }
    }

    fn check_names(&mut self) {
        let table = self.table;
        if table.chains.iter().all(|chain| chain.base.is_none())
            && table.chains.iter().any(|chain| !chain.rules.is_empty())
        {
            self.error(Part::Table, CompileErrorKind::NoHook);
        }
        for (position, chain) in table.chains.iter().enumerate() {
            if self.chains[&*chain.name] != position {
                self.error(Part::Chain(chain.name.clone()), CompileErrorKind::Twice);
            }
        }
        for set in &table.sets {
            if !std::ptr::eq(self.sets[&*set.name], set) {
                self.error(Part::Set(set.name.clone()), CompileErrorKind::Twice);
            }
        }
    }

    /// Checks that the chains, sets and maps that rules and elements name exist.
    fn check_targets(&mut self) {
        let table = self.table;
        for (position, chain) in table.chains.iter().enumerate() {
            for (number, rule) in chain.rules.iter().enumerate() {
                let here = self.rule(position, number);
                for name in rule.statements.iter().flat_map(Statement::chains) {
                    self.check_chain(here.clone(), name);
                }
                let asked = rule.conditions.iter().filter_map(Condition::set);
                for (set, key) in asked.chain(rule.statements.iter().filter_map(Statement::set)) {
                    self.check_set(here.clone(), set, &key);
                }
            }
        }
        for set in &table.sets {
            for name in set.elements.iter().filter_map(|element| element.verdict.as_ref()?.chain()) {
                self.check_chain(Part::Set(set.name.clone()), name);
            }
        }
    }

    fn check_chain(&mut self, here: Part, name: &Name) {
        match self.chains.get(&**name).map(|position| &self.table.chains[*position]) {
            None => self.error(here, CompileErrorKind::MissingChain(name.clone())),
            Some(chain) if chain.base.is_some() => self.error(here, CompileErrorKind::JumpToHook(name.clone())),
            Some(_) => {}
        }
    }

    fn check_set(&mut self, here: Part, name: &Name, key: &[LookupKey]) {
        let made: Vec<Datatype> = key.iter().map(|part| part.datatype(self.table.family)).collect();
        match self.sets.get(&**name) {
            None => self.error(here, CompileErrorKind::MissingSet(name.clone())),
            Some(set) if set.key != made => {
                let kind =
                    CompileErrorKind::KeyMismatch { set: name.clone(), made: words(&made), wanted: words(&set.key) };
                self.error(here, kind);
            }
            Some(_) => {}
        }
    }

    /// Returns the regular chain of a name, if it exists.
    fn regular(&self, name: &str) -> Option<usize> {
        self.chains.get(name).copied().filter(|position| self.table.chains[*position].base.is_none())
    }

    /// Returns the jumps of every chain, including those in text that is not modelled.
    fn leads(&self) -> Vec<Vec<Lead>> {
        let of_chain = |rules: &'a [Rule]| {
            let leads = rules.iter().enumerate();
            leads.flat_map(|(number, rule)| self.targets(rule).into_iter().map(move |chain| (number, chain))).collect()
        };
        self.table.chains.iter().map(|chain| of_chain(&chain.rules)).collect()
    }

    /// Returns the regular chains that a rule may jump or go to.
    fn targets(&self, rule: &'a Rule) -> Vec<usize> {
        let of_map = |map: &str| {
            let elements = self.sets.get(map).map(|set| set.elements.as_slice()).unwrap_or_default();
            elements.iter().filter_map(|element| element.verdict.as_ref()?.chain()).map(|chain| &**chain)
        };
        let mut named: Vec<&str> = Vec::new();
        for statement in &rule.statements {
            named.extend(statement.chains().map(|chain| &**chain));
            if let Statement::Lookup(_, map) = statement {
                named.extend(of_map(map));
            }
        }
        let conditions = rule.conditions.iter().filter_map(|condition| match condition {
            Condition::Other(text) => Some(&**text),
            _ => None,
        });
        let statements = rule.statements.iter().filter_map(|statement| match statement {
            Statement::Other(text) => Some(&**text),
            _ => None,
        });
        for text in conditions.chain(statements) {
            named.extend(unmodelled::jumps(text));
            named.extend(unmodelled::sets(text).into_iter().flat_map(of_map));
        }
        named.into_iter().filter_map(|name| self.regular(name)).collect()
    }

    /// Checks for statements that are not allowed at their hooks, given the hooks that reach each chain, and those that reach it through
    /// chains of type `filter`.
    fn check_places(&mut self, reached: &[Hooks], filtering: &[Hooks]) {
        let table = self.table;
        for (position, chain) in table.chains.iter().enumerate() {
            for (number, rule) in chain.rules.iter().enumerate() {
                for (statement, allowed, needs_nat) in rule.statements.iter().filter_map(Statement::restriction) {
                    let wrong: Vec<String> =
                        reached[position].without(allowed).map(|hook| format!("at {}", hook.lowercase())).collect();
                    let place = if wrong.is_empty() && needs_nat && filtering[position].without(&[]).next().is_some() {
                        "in a chain that a filter chain jumps to".to_owned()
                    } else {
                        wrong.join(" or ")
                    };
                    if !place.is_empty() {
                        self.error(self.rule(position, number), CompileErrorKind::Misplaced { statement, place });
                    }
                }
            }
        }
    }
}

fn words(types: &[Datatype]) -> String {
    types.iter().map(|datatype| datatype.as_str()).collect::<Vec<_>>().join(" . ")
}
