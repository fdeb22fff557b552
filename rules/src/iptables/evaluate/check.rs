//! What the kernel would not load by iptables-nft, or would load and never use.

use std::collections::HashMap;

use crate::iptables::{self, ChainName, RuleSet, TableName, Target};
use crate::walk::Hook;

/// How many chains may be inside of each other, the hook's own included (`NFT_JUMP_STACK_SIZE` in `nf_tables.h`; the
/// kernel answers EMLINK). iptables-legacy knows no limit.
pub(super) const DEEPEST: usize = 16;

/// A mistake in a rule set, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table {table}{}{}: {mistake}", chain.as_ref().map(|name| format!(", chain {name}")).unwrap_or_default(),
    rule.map(|number| format!(", rule {number}")).unwrap_or_default())]
pub struct CompileError {
    /// The table.
    pub table: TableName,
    /// The chain.
    pub chain: Option<ChainName>,
    /// The rule, from 1.
    pub rule: Option<usize>,
    /// What is wrong.
    pub mistake: Mistake,
}

/// What is wrong with a rule set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// A rule jumps to a chain that is not there.
    #[error("jumps to chain `{0}`, which is not there")]
    MissingChain(ChainName),
    /// A rule jumps to a chain of the kernel.
    #[error("jumps to `{0}`, which only the kernel enters")]
    JumpToHook(ChainName),
    /// A rule leads back to its own chain.
    #[error("leads back to its own chain: {}", .0.join(" → "))]
    Loop(Vec<ChainName>),
    /// Too many chains are inside of each other for nf_tables, on which iptables-nft stands; iptables-legacy sets no limit.
    #[error("chains are more than 16 deep here, which nf_tables refuses (iptables-legacy takes them)")]
    TooDeep,
    /// A target that the kernel does not take in this table or at this hook.
    #[error("{target} cannot stand {place}")]
    Misplaced {
        /// The target's name.
        target: &'static str,
        /// Where.
        place: String,
    },
    /// A table has rules, but no packet ever enters it.
    #[error("has rules, but none of the chains that packets enter")]
    NoHook,
    /// A chain is declared twice.
    #[error("stands here twice")]
    Twice,
}

/// Looks for mistakes; finds the chains' positions on the way.
pub(super) fn check(rules: &RuleSet) -> Result<(), Vec<CompileError>> {
    let mut errors = Vec::new();
    for table in &rules.tables {
        Table::new(table, &mut errors).check();
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

struct Table<'a> {
    table: &'a iptables::Table,
    positions: HashMap<&'a str, usize>,
    errors: &'a mut Vec<CompileError>,
    /// For every chain that was looked at: how many chains are inside of each other from it on.
    depths: Vec<Option<usize>>,
    /// The chains between a hook and the one looked at.
    path: Vec<usize>,
    /// The hooks that reach a chain, as bits.
    hooks: Vec<u8>,
}

impl<'a> Table<'a> {
    fn new(table: &'a iptables::Table, errors: &'a mut Vec<CompileError>) -> Self {
        let positions = table.chains.iter().enumerate().map(|(position, chain)| (&*chain.name, position)).collect();
        let count = table.chains.len();
        Self { table, positions, errors, depths: vec![None; count], path: Vec::new(), hooks: vec![0; count] }
    }

    fn check(&mut self) {
        let before = self.errors.len();
        self.check_names();
        if self.errors.len() > before {
            return;
        }
        let hooks = Hook::ALL.into_iter().filter_map(|hook| Some((hook, *self.positions.get(hook.as_str())?)));
        let hooks: Vec<(Hook, usize)> = hooks.collect();
        for (_, chain) in &hooks {
            self.depth(*chain);
        }
        if self.errors.len() > before {
            return;
        }
        for (hook, chain) in hooks {
            self.reach(chain, 1 << hook as u8);
        }
        self.check_targets();
    }

    fn error(&mut self, chain: Option<usize>, rule: Option<usize>, mistake: Mistake) {
        let chain = chain.map(|chain| self.table.chains[chain].name.clone());
        let rule = rule.map(|rule| rule + 1);
        self.errors.push(CompileError { table: self.table.name, chain, rule, mistake });
    }

    fn check_names(&mut self) {
        let table = self.table;
        let hooks = table.name.builtin_chains();
        let entered = table.chains.iter().any(|chain| hooks.contains(&&*chain.name));
        if !entered && table.chains.iter().any(|chain| !chain.rules.is_empty()) {
            self.error(None, None, Mistake::NoHook);
        }
        for (position, chain) in table.chains.iter().enumerate() {
            if self.positions[&*chain.name] != position {
                self.error(Some(position), None, Mistake::Twice);
            }
            for (number, rule) in chain.rules.iter().enumerate() {
                let Some(next) = rule.next_chain() else { continue };
                if hooks.contains(&&**next) {
                    self.error(Some(position), Some(number), Mistake::JumpToHook(next.clone()));
                } else if !self.positions.contains_key(&**next) {
                    self.error(Some(position), Some(number), Mistake::MissingChain(next.clone()));
                }
            }
        }
    }

    /// How many chains are inside of each other from this one on. A loop is reported where it closes, a path that is too
    /// long at the jump that is too much.
    fn depth(&mut self, chain: usize) -> usize {
        if let Some(depth) = self.depths[chain] {
            return depth;
        }
        self.path.push(chain);
        let table = self.table;
        let mut deepest = 0;
        for (number, rule) in table.chains[chain].rules.iter().enumerate() {
            let Some(next) = rule.next_chain().map(|next| self.positions[&**next]) else { continue };
            if let Some(start) = self.path.iter().position(|on_path| *on_path == next) {
                let names = self.path[start..].iter().chain([&next]).map(|chain| table.chains[*chain].name.clone());
                let names = names.collect();
                self.error(Some(chain), Some(number), Mistake::Loop(names));
            } else if self.path.len() == DEEPEST {
                self.error(Some(chain), Some(number), Mistake::TooDeep);
            } else {
                let below = self.depth(next);
                if self.path.len() + below > DEEPEST {
                    self.error(Some(chain), Some(number), Mistake::TooDeep);
                }
                deepest = deepest.max(below);
            }
        }
        self.path.pop();
        self.depths[chain] = Some(deepest + 1);
        deepest + 1
    }

    /// Notes that a hook reaches a chain and all that it jumps to.
    fn reach(&mut self, chain: usize, hook: u8) {
        if self.hooks[chain] & hook != 0 {
            return;
        }
        self.hooks[chain] |= hook;
        let table = self.table;
        for rule in &table.chains[chain].rules {
            if let Some(next) = rule.next_chain() {
                self.reach(self.positions[&**next], hook);
            }
        }
    }

    fn check_targets(&mut self) {
        let table = self.table;
        for (position, chain) in table.chains.iter().enumerate() {
            for (number, rule) in chain.rules.iter().enumerate() {
                let Some((name, only, hooks)) = rule.target.as_ref().and_then(restriction) else { continue };
                let misplaced = |place: String| Mistake::Misplaced { target: name, place };
                if table.name != only {
                    self.error(
                        Some(position),
                        Some(number),
                        misplaced(format!("in table {}, only in {only}", table.name)),
                    );
                }
                let reached = Hook::ALL.into_iter().filter(|hook| self.hooks[position] & (1 << *hook as u8) != 0);
                let wrong: Vec<Hook> = reached.filter(|hook| !hooks.contains(hook)).collect();
                if table.name == only && !wrong.is_empty() {
                    let place = wrong.iter().map(|hook| format!("at {hook}")).collect::<Vec<_>>().join(" or ");
                    self.error(Some(position), Some(number), misplaced(place));
                }
            }
        }
    }
}

/// The only table and hooks that a target is registered for (`.table` and `.hooks` of its `struct xt_target`).
fn restriction(target: &Target) -> Option<(&'static str, TableName, &'static [Hook])> {
    const TO_DESTINATION: &[Hook] = &[Hook::Prerouting, Hook::Output];
    const TO_SOURCE: &[Hook] = &[Hook::Input, Hook::Postrouting];
    Some(match target {
        Target::Reject(_) => ("REJECT", TableName::Filter, &[Hook::Input, Hook::Forward, Hook::Output]),
        Target::Dnat(_) => ("DNAT", TableName::Nat, TO_DESTINATION),
        Target::Redirect { .. } => ("REDIRECT", TableName::Nat, TO_DESTINATION),
        Target::Snat(_) => ("SNAT", TableName::Nat, TO_SOURCE),
        Target::Masquerade { .. } => ("MASQUERADE", TableName::Nat, &[Hook::Postrouting]),
        Target::NoTrack { .. } => ("NOTRACK", TableName::Raw, TO_DESTINATION),
        Target::Trace => ("TRACE", TableName::Raw, TO_DESTINATION),
        _ => return None,
    })
}
