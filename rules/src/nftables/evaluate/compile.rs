//! Compilation of tables to programs.

use super::check::{CompileError, check};
use super::program::{Code, Program, Rule};
use crate::cluster::Family;
use crate::nftables::elements::Elements;
use crate::nftables::positions::Positions;
use crate::nftables::{BaseChain, Ruleset, Set, Table};
use crate::walk::{self, Alongside, Hooked, Kind, Names, Span, Start};

impl Program {
    /// Compiles the tables of a family.
    ///
    /// # Errors
    ///
    /// All errors for which the kernel rejects the tables, and tables whose rules no packet reaches.
    pub fn compile(rules: &Ruleset, family: Family) -> Result<Self, Vec<CompileError>> {
        let mut program = Self::compile_from(rules, family, Start::default())?;
        program.arrange();
        Ok(program)
    }

    /// Compiles tables for a machine with other rules at the same hooks and of the same family. The given number of tables was loaded
    /// before those rules, the rest after them.
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
        Ok(others.alongside(program, hooked))
    }

    /// Compiles the chains of a table so that each can be entered. All chains and sets that it names must exist, except maps.
    pub(crate) fn compile_chains(table: &Table) -> Self {
        let mut program = Self::empty(table.family, Code::default());
        program.add_table(table);
        program
    }

    /// Compiles tables with numbers starting at `start`, without ordering base chains.
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
        let names = Positions {
            chains: (first..).zip(&table.chains).map(|(at, chain)| (&*chain.name, at)).collect(),
            sets: (code.sets.len() as u32..).zip(&table.sets).map(|(at, set)| (&*set.name, at)).collect(),
            table: &table.name,
            family: table.family,
        };
        code.sets.extend(table.sets.iter().map(|set| elements(set, &names)));
        for (position, chain) in (first..).zip(&table.chains) {
            let first = code.end();
            for rule in &chain.rules {
                let (first_condition, first_action) = (code.conditions.len() as u32, code.actions.len() as u32);
                code.rules.push(Rule { first_condition, first_action });
                code.conditions.extend(rule.conditions.iter().map(|condition| condition.compile(&names)));
                let own = |family| family == table.family;
                let statements = rule.statements.iter().filter(|one| one.translated_family().is_none_or(own));
                code.actions.extend(statements.map(|statement| statement.compile(&names)));
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

fn elements(set: &Set, at: &Positions<'_>) -> Elements {
    let mut elements = Elements::empty(at.list(&set.name), set.dynamic);
    for element in &set.elements {
        elements.insert(&element.key, element.verdict.as_ref().map(|verdict| at.verdict(verdict)));
    }
    elements
}
