//! Nesting of chains, and the number of rules that a packet may traverse because of it.

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
    /// A packet may pass this many rules, more than [`MAX_PASSED`].
    TooLong(u64),
}

/// Maximum number of rules that a packet may pass at a base chain. Repeated jumps to the same chains multiply: with a hundred rules in
/// 13 chains, each packet traverses 69 billion rules and stalls a CPU for an hour. The limit still admits 300 copies of a jump to 50,000
/// rules, which old kube-proxies left behind; the kernel needs some tenths of a second for a packet that traverses all of them.
const MAX_PASSED: u64 = 1 << 24;

/// The same in relation to the number of rules, for larger rule sets: each Service's chain is jumped to from its cluster IP, external IPs,
/// load balancer IPs and node port.
const MAX_REPEATED: u64 = 16;

/// Finds jump loops and chains that are nested too deep, starting from base chains, as the kernel does, and base chains at which a packet
/// may pass too many rules. `leads` has the jumps of every chain in order, `lengths` its number of rules. Each fault comes with its chain
/// and rule: for a loop, the jump that closes it; for chains nested too deep, the jump that exceeds the limit; for too many rules, the jump
/// to most of them.
pub(crate) fn faults(
    leads: &[Vec<Lead>],
    lengths: &[usize],
    hooks: impl IntoIterator<Item = usize>,
) -> Vec<(usize, usize, Fault)> {
    let mut search = Search { leads, lengths, visited: vec![None; leads.len()], path: Vec::new(), faults: Vec::new() };
    let most = MAX_PASSED.max(MAX_REPEATED * lengths.iter().sum::<usize>() as u64);
    for chain in hooks {
        let Below { passed, .. } = search.below(chain);
        if passed > most {
            let longest = search.passed_by_jump(chain).max_by_key(|(_, passed)| *passed);
            let rule = longest.map_or(0, |(rule, _)| rule);
            search.faults.push((chain, rule, Fault::TooLong(passed)));
        }
    }
    search.faults
}

/// Returns the chains to start from: base chains, or all chains if there are none, as in an excerpt.
pub(crate) fn starts(hooks: impl Iterator<Item = usize>, chains: usize) -> Vec<usize> {
    let hooks: Vec<usize> = hooks.collect();
    if hooks.is_empty() { (0..chains).collect() } else { hooks }
}

/// What a packet may pass from the start of a chain until it returns.
#[derive(Debug, Clone, Copy)]
struct Below {
    /// The nesting depth.
    depth: usize,
    /// The number of rules.
    passed: u64,
}

struct Search<'a> {
    leads: &'a [Vec<Lead>],
    lengths: &'a [usize],
    /// The result for every visited chain.
    visited: Vec<Option<Below>>,
    /// The chains from a base chain to the current one.
    path: Vec<usize>,
    faults: Vec<(usize, usize, Fault)>,
}

impl Search<'_> {
    /// Visits a chain.
    fn below(&mut self, chain: usize) -> Below {
        if let Some(below) = self.visited[chain] {
            return below;
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
                let Below { depth, .. } = self.below(next);
                if self.path.len() + depth > DEEPEST {
                    self.faults.push((chain, rule, Fault::TooDeep));
                }
                deepest = deepest.max(depth);
            }
        }
        self.path.pop();
        let jumps = self.passed_by_jump(chain).map(|(_, passed)| passed);
        let passed = jumps.fold(self.lengths[chain] as u64, u64::saturating_add);
        let below = Below { depth: deepest + 1, passed };
        self.visited[chain] = Some(below);
        below
    }

    /// Returns for each jumping rule of a chain the number of rules that a packet may pass after it. Of a rule with several targets, it
    /// takes one.
    fn passed_by_jump(&self, chain: usize) -> impl Iterator<Item = (usize, u64)> {
        let of = |(rule, next): &Lead| (*rule, self.visited[*next].map_or(0, |below| below.passed));
        let by_rule = self.leads[chain].chunk_by(|(one, _), (other, _)| one == other);
        by_rule.filter_map(move |targets| targets.iter().map(of).max_by_key(|(_, passed)| *passed))
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Chains that each have some rules, all of which jump to the next chain; the last chain has rules without jumps.
    fn multiplying(chains: usize, rules: usize) -> (Vec<Vec<Lead>>, Vec<usize>) {
        let jumps = |chain: usize| (0..rules).map(|rule| (rule, chain + 1)).collect();
        let leads = (0..chains - 1).map(jumps).chain([Vec::new()]).collect();
        (leads, vec![rules; chains])
    }

    #[rstest]
    #[case::as_kube_proxy_left_it(2, 300, None)]
    #[case::just_enough(7, 10, None)]
    #[case::too_many(13, 8, Some(628_292_358_728))]
    #[case::countless(16, 1000, Some(u64::MAX))]
    fn jumps_multiply(#[case] chains: usize, #[case] rules: usize, #[case] expected: Option<u64>) {
        let (leads, lengths) = multiplying(chains, rules);
        let expected: Vec<_> = expected.into_iter().map(|passed| (0, rules - 1, Fault::TooLong(passed))).collect();
        assert_eq!(faults(&leads, &lengths, [0]), expected);
    }

    #[test]
    fn a_packet_takes_one_target_of_a_map() {
        let long = [100, 1_000_000];
        let of_map = vec![vec![(0, 1); 100], vec![]];
        assert_eq!(faults(&of_map, &long, [0]), []);
        let in_turn = vec![(0..100).map(|rule| (rule, 1)).collect(), vec![]];
        assert_eq!(faults(&in_turn, &long, [0]), [(0, 99, Fault::TooLong(100_000_100))]);
    }
}
