//! How chains are nested.

use super::hook::Hook;

/// How deep chains may be nested, the hook's own included (`NFT_JUMP_STACK_SIZE` in `nf_tables.h`; the
/// kernel returns EMLINK). iptables-legacy has no limit.
pub(crate) const DEEPEST: usize = 16;

/// A rule, by its position in its chain, and a chain that it leads to.
pub(crate) type Lead = (usize, usize);

/// What is wrong with how chains lead to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A chain leads back to itself: by these chains, the first one at the end again.
    Loop(Vec<usize>),
    /// Chains are nested deeper than [`DEEPEST`].
    TooDeep,
}

/// Looks for chains that lead back to themselves, and for chains that are nested too deep, from the chains of hooks on, as the
/// kernel does. `leads` has for every chain where its rules lead to. Each fault comes with its chain and rule: a loop where
/// it closes, a path that is too long at the jump that is too much.
pub(crate) fn faults(leads: &[Vec<Lead>], hooks: impl IntoIterator<Item = usize>) -> Vec<(usize, usize, Fault)> {
    let mut search = Search { leads, depths: vec![None; leads.len()], path: Vec::new(), faults: Vec::new() };
    for chain in hooks {
        search.depth(chain);
    }
    search.faults
}

/// The chains to look from: those of hooks, or all where there are none, as in a part of rules.
pub(crate) fn starts(hooks: impl Iterator<Item = usize>, chains: usize) -> Vec<usize> {
    let hooks: Vec<usize> = hooks.collect();
    if hooks.is_empty() { (0..chains).collect() } else { hooks }
}

struct Search<'a> {
    leads: &'a [Vec<Lead>],
    /// For every chain that was looked at: the depth of nesting from it on.
    depths: Vec<Option<usize>>,
    /// The chains between a hook and the one looked at.
    path: Vec<usize>,
    faults: Vec<(usize, usize, Fault)>,
}

impl Search<'_> {
    /// The depth of nesting from this one on.
    fn depth(&mut self, chain: usize) -> usize {
        if let Some(depth) = self.depths[chain] {
            return depth;
        }
        self.path.push(chain);
        let mut deepest = 0;
        for &(rule, next) in &self.leads[chain] {
            if let Some(start) = self.path.iter().position(|on_path| *on_path == next) {
                let cycle = self.path[start..].iter().chain([&next]).copied().collect();
                self.faults.push((chain, rule, Fault::Loop(cycle)));
            } else if self.path.len() == DEEPEST {
                self.faults.push((chain, rule, Fault::TooDeep));
            } else {
                let below = self.depth(next);
                if self.path.len() + below > DEEPEST {
                    self.faults.push((chain, rule, Fault::TooDeep));
                }
                deepest = deepest.max(below);
            }
        }
        self.path.pop();
        self.depths[chain] = Some(deepest + 1);
        deepest + 1
    }
}

/// For every chain the hooks that reach it.
pub(crate) fn reached(leads: &[Vec<Lead>], hooks: &[(Hook, usize)]) -> Vec<Hooks> {
    let mut reached = vec![Hooks::default(); leads.len()];
    for &(hook, chain) in hooks {
        let mut todo = vec![chain];
        while let Some(chain) = todo.pop() {
            if !reached[chain].has(hook) {
                reached[chain].0 |= 1 << hook as u8;
                todo.extend(leads[chain].iter().map(|(_, next)| *next));
            }
        }
    }
    reached
}

/// Several hooks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hooks(u8);

impl Hooks {
    /// Chains that are not among these.
    pub(crate) fn without(self, hooks: &[Hook]) -> impl Iterator<Item = Hook> {
        Hook::ALL.into_iter().filter(move |hook| self.has(*hook) && !hooks.contains(hook))
    }

    fn has(self, hook: Hook) -> bool {
        self.0 & 1 << hook as u8 != 0
    }
}
