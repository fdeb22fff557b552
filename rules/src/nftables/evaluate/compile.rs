//! Tables into programs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::action::{Action, Verdict};
use super::check::{CompileError, check};
use super::condition::Condition;
use super::lookup::Elements;
use super::program::{Code, Program, Rule};
use crate::cluster::{Family, Protocol};
use crate::nftables::numgen::Draws;
use crate::nftables::{self, AddressRange, Addresses, BaseChain, MarkChange, Ruleset, Set, Statement, Table};
use crate::walk::{self, Alongside, Destination, Hooked, Kind, Names, Source, SourceAddress, Span, Start};

impl Program {
    /// Makes the tables of a family ready for walking.
    ///
    /// # Errors
    ///
    /// All errors for which the kernel rejects the tables, and tables whose rules no packet reaches.
    pub fn compile(rules: &Ruleset, family: Family) -> Result<Self, Vec<CompileError>> {
        let mut program = Self::compile_from(rules, family, Start::default())?;
        program.arrange();
        Ok(program)
    }

    /// Makes tables ready for walking on a machine that has other rules too, at the same hooks and of the same family. The
    /// first tables, so many, were loaded before those rules, the rest after them.
    ///
    /// # Errors
    ///
    /// As [`Self::compile`].
    pub fn compile_alongside<A>(
        rules: &Ruleset,
        others: walk::Program<A>,
        older: usize,
    ) -> Result<walk::Program<Alongside<A, Code>>, Vec<CompileError>> {
        let program = Self::compile_from(rules, others.family(), others.end())?;
        let older = rules.tables.iter().take(older).filter(|table| table.family == program.family);
        let hooked = older.flat_map(|table| &table.chains).filter(|chain| chain.base.is_some()).count();
        Ok(others.beside(program, hooked))
    }

    /// Makes the chains of a table ready for being entered anywhere. All chains that it names are there, and all sets but maps.
    pub(crate) fn of_chains(table: &Table) -> Self {
        let mut program = Self::empty(table.family, Code::default());
        program.add_table(table);
        program
    }

    /// Compiles tables with numbers from `start` on, without an order of the hooks' chains.
    fn compile_from(rules: &Ruleset, family: Family, start: Start) -> Result<Self, Vec<CompileError>> {
        let tables = || rules.tables.iter().filter(|table| table.family == family);
        check(tables())?;
        let mut program = Self::empty(family, Code { start, ..Code::default() });
        for table in tables() {
            program.add_table(table);
        }
        Ok(program)
    }

    /// Adds the chains and sets of a table.
    fn add_table(&mut self, table: &Table) {
        let (first, code) = (self.code.start.chain + self.spans.len() as u32, &mut self.code);
        let names = Within {
            chains: (first..).zip(&table.chains).map(|(at, chain)| (&*chain.name, at)).collect(),
            sets: (code.sets.len() as u32..).zip(&table.sets).map(|(at, set)| (&*set.name, at)).collect(),
            table,
        };
        code.sets.extend(table.sets.iter().map(|set| names.elements(set)));
        for (position, chain) in (first..).zip(&table.chains) {
            let first = code.end();
            for rule in &chain.rules {
                let (first_condition, first_action) = (code.conditions.len() as u32, code.actions.len() as u32);
                code.rules.push(Rule { first_condition, first_action });
                code.conditions.extend(rule.conditions.iter().map(|condition| names.condition(condition)));
                code.actions.extend(rule.statements.iter().map(|statement| names.action(statement)));
            }
            self.hooked.extend(chain.base.map(|base| hooked(base, position)));
            let (end, drops) = (code.end(), chain.base.is_some_and(|base| base.drops));
            self.spans.push(Span { first, end, index: None, drops });
            self.names.push(Names { table: (&*table.name).into(), chain: (&*chain.name).into() });
        }
    }
}

fn hooked(base: BaseChain, chain: u32) -> Hooked {
    let BaseChain { nat, hook, priority, .. } = base;
    Hooked { hook, priority, chain, kind: if nat { Kind::Nat } else { Kind::Filter { reroutes: false } } }
}

/// Where the chains and sets of a table are. All that rules name was found to be there.
struct Within<'a> {
    table: &'a Table,
    chains: HashMap<&'a str, u32>,
    sets: HashMap<&'a str, u32>,
}

impl Within<'_> {
    fn list(&self, set: &str) -> Arc<str> {
        format!("{} {set}", self.table.name).into()
    }

    fn elements(&self, set: &Set) -> Elements {
        Elements::of(set, self.list(&set.name), |verdict| self.verdict(verdict))
    }

    fn verdict(&self, verdict: &nftables::Verdict) -> Verdict {
        match verdict {
            nftables::Verdict::Accept => Verdict::Accept,
            nftables::Verdict::Drop => Verdict::Drop,
            nftables::Verdict::Return => Verdict::Return,
            nftables::Verdict::Jump(chain) => Verdict::Jump(self.chains[&**chain]),
            nftables::Verdict::Goto(chain) => Verdict::Goto(self.chains[&**chain]),
        }
    }

    fn condition(&self, condition: &nftables::Condition) -> Condition {
        match condition {
            nftables::Condition::State { negated, states } => {
                Condition::State { negated: *negated, states: states.as_slice().into() }
            }
            nftables::Condition::Translated => Condition::Translated,
            nftables::Condition::Address { side, negated, value } => {
                let ranges = match value {
                    Addresses::One(address) => vec![AddressRange::from(*address)],
                    Addresses::Prefix(prefix) => vec![AddressRange::from(*prefix)],
                    Addresses::Ranges(ranges) => ranges.clone(),
                    Addresses::Set(set) => {
                        let key = Box::new([nftables::LookupKey::Address(*side)]);
                        return Condition::InSet { negated: *negated, key, set: self.sets[&**set] };
                    }
                };
                Condition::between(*side, *negated, ranges)
            }
            nftables::Condition::Ports { protocol, side, negated, ports } => Condition::Ports {
                protocol: protocol.map(Protocol::number),
                side: *side,
                negated: *negated,
                ports: ports.clone(),
            },
            nftables::Condition::Protocols { negated, numbers } => {
                Condition::Protocols { negated: *negated, numbers: numbers.clone() }
            }
            nftables::Condition::Family(family) => Condition::Always(*family == self.table.family),
            nftables::Condition::Local(side) => Condition::Local(*side),
            nftables::Condition::Interfaces { output, by_name, negated, names } => {
                Condition::interfaces(*output, *negated, *by_name, names)
            }
            nftables::Condition::Mark { negated, mask, value } => {
                Condition::Mark { negated: *negated, mask: *mask, value: *value }
            }
            nftables::Condition::InSet(key, set) => {
                Condition::InSet { negated: false, key: key.as_slice().into(), set: self.sets[&**set] }
            }
            nftables::Condition::Other(json) => {
                Condition::Unknown(format!("condition `{json}` is not modelled").into())
            }
        }
    }

    fn action(&self, statement: &Statement) -> Action {
        match statement {
            Statement::Verdict(verdict) => Action::Verdict(self.verdict(verdict)),
            Statement::Reject(rejection) => Action::Reject(*rejection),
            Statement::Lookup(key, map) => match self.sets.get(&**map) {
                Some(position) => Action::Lookup { key: key.as_slice().into(), map: *position },
                None => Action::Unknown(format!("map {map} is not in these rules").into()),
            },
            Statement::Balance(chains) => {
                Action::Balance(Box::new(Draws::of(chains, |chain| Verdict::Goto(self.chains[&**chain]))))
            }
            Statement::BalanceDnat(addresses) => Action::Dnat(Box::new(Draws::of(addresses, destination))),
            Statement::Dnat(address) => only(destination(address)),
            Statement::DnatAddress(address) => {
                only(Destination { address: Some(*address), ports: None, random: false })
            }
            Statement::Snat(address, port) => Action::Snat(Source {
                address: SourceAddress::Fixed(*address),
                ports: port.map(|port| port..=port),
                random: false,
            }),
            Statement::Masquerade { random } => {
                Action::Snat(Source { address: SourceAddress::Masquerade, ports: None, random: *random })
            }
            Statement::Mark(MarkChange::Set(bits)) => Action::Mark { mask: *bits, value: *bits },
            Statement::Mark(MarkChange::Flip(bits)) => Action::Mark { mask: 0, value: *bits },
            Statement::Mark(MarkChange::Write { kept, set }) => Action::Mark { mask: !kept | set, value: *set },
            Statement::Remember(side, set) => Action::Remember(*side, self.list(set)),
            Statement::Other(json) => Action::Unknown(format!("statement `{json}` is not modelled").into()),
        }
    }
}

/// A translation to a single destination.
fn only(destination: Destination) -> Action {
    Action::Dnat(Box::new(Draws::only(destination)))
}

fn destination(to: &SocketAddr) -> Destination {
    Destination { address: Some(to.ip()), ports: Some(to.port()..=to.port()), random: false }
}
