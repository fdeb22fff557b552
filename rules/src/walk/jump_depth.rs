//! Nesting of chains.

use super::hook::Hook;

/// Maximum nesting of chains, including the base chain (`NFT_JUMP_STACK_SIZE` in `nf_tables.h`; the
/// kernel returns EMLINK). iptables-legacy has no limit.
pub(crate) const DEEPEST: usize = 16;

/// A rule, by position in its chain, and a chain that it jumps to.
pub(crate) type Lead = (usize, usize);

/// A fault in the jumps between chains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A jump loop through these chains; the first one is repeated at the end.
    Loop(Vec<usize>),
    /// Chains are nested deeper than [`DEEPEST`].
    TooDeep,
}

/// Finds jump loops and chains that are nested too deep, starting from base chains, as the kernel does. `leads` has the jumps of every
/// chain. Each fault comes with its chain and rule: for a loop, the jump that closes it; for a path that is too long, the jump that exceeds
/// the limit.
pub(crate) fn faults(leads: &[Vec<Lead>], hooks: impl IntoIterator<Item = usize>) -> Vec<(usize, usize, Fault)> {
    let mut search = Search { leads, depths: vec![None; leads.len()], path: Vec::new(), faults: Vec::new() };
    for chain in hooks {
        search.depth(chain);
    }
    search.faults
}

/// Returns the chains to start from: base chains, or all chains if there are none, as in an excerpt.
pub(crate) fn starts(hooks: impl Iterator<Item = usize>, chains: usize) -> Vec<usize> {
    let hooks: Vec<usize> = hooks.collect();
    if hooks.is_empty() { (0..chains).collect() } else { hooks }
}

struct Search<'a> {
    leads: &'a [Vec<Lead>],
    /// The nesting depth below every visited chain.
    depths: Vec<Option<usize>>,
    /// The chains from a base chain to the current one.
    path: Vec<usize>,
    faults: Vec<(usize, usize, Fault)>,
}

impl Search<'_> {
    /// Returns the nesting depth below a chain.
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

/// Returns for every chain the hooks that reach it.
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

/// A set of hooks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hooks(u8);

impl Hooks {
    /// Returns the hooks of this set that are not among these.
    pub(crate) fn without(self, hooks: &[Hook]) -> impl Iterator<Item = Hook> {
        Hook::ALL.into_iter().filter(move |hook| self.has(*hook) && !hooks.contains(hook))
    }

    fn has(self, hook: Hook) -> bool {
        self.0 & 1 << hook as u8 != 0
    }
}
