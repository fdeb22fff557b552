//! The walk of a packet through the chains of a hook, in any language of rules.

use arrayvec::ArrayVec;

use super::branch::{Branch, By, Effect, HookVerdict, Unknown};
use super::chain_position::{Cursor, Draws, Fork, Next, Pass, Todo, Work, stop};
use super::code::Code;
use super::connection::Tracking;
use super::environment::Environment;
use super::hook::Hook;
use super::hook_order::Stop;
use super::packet::Packet;
use super::program::Program;
use super::share::Share;
use super::trace::{ChainId, NoTrace, RuleId, Trace};
use super::walker::Walker;

/// A packet at a hook.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The state of the machine.
    pub environment: &'a Environment,
    /// The hook.
    pub hook: Hook,
    /// The packet, with the interfaces known at that hook.
    pub packet: &'a Packet,
    /// Its conntrack state: at PREROUTING and OUTPUT, [`Tracking::first`] for the first packet of a connection; at later hooks, that of the
    /// previous branch.
    pub tracking: Tracking,
    /// The effects of this machine's rules on it at earlier hooks, in order; of a reply, also those on the request.
    pub effects: &'a [Effect],
}

impl<'a> Arrival<'a> {
    /// Returns the arrival of the first packet of a connection, with no effects of earlier hooks.
    pub fn first(environment: &'a Environment, hook: Hook, packet: &'a Packet) -> Self {
        Self { environment, hook, packet, tracking: Tracking::first(packet), effects: &[] }
    }
}

#[expect(private_bounds, reason = "languages are this crate's own")]
impl<C: Code> Program<C> {
    /// Walks a packet through a hook: see [`Arrival`].
    ///
    /// The branches are in the order of the random choices, or the most likely first if there are too many to follow all; none has a share
    /// of zero, and the shares add up to one.
    pub fn walk(&self, environment: &Environment, hook: Hook, packet: &Packet, tracking: Tracking) -> Vec<Branch> {
        self.walk_with(Arrival { environment, hook, packet, tracking, effects: &[] }, NoTrace)
    }

    /// Walks with a trace: [`Path`] for the matched rules, [`Narrowed`] for the packets that take the same branches.
    ///
    /// [`Path`]: super::trace::Path
    /// [`Narrowed`]: super::narrowing::Narrowed
    pub fn walk_with<T: Trace>(&self, arrival: Arrival<'_>, trace: T) -> Vec<Branch<T>> {
        let mut branches = Vec::new();
        self.walk_into(arrival, trace, &mut branches);
        branches
    }

    /// The same, appending to `branches`. Returns the places where sources were forked off.
    pub fn walk_into<T: Trace>(&self, arrival: Arrival<'_>, trace: T, branches: &mut Vec<Branch<T>>) -> Vec<Fork<T>> {
        let Arrival { hook, packet, tracking, effects, .. } = arrival;
        let mut forks = Vec::new();
        let mut walker = Walker::new(packet, tracking, trace);
        walker.effects.extend(effects.iter().cloned());
        if packet.family() != self.family {
            // The kernel separates the families: these rules never see the packet.
            walker.look_up();
            branches.push(walker.end(HookVerdict::Accept));
            return forks;
        }
        if hook.is_entry() {
            walker.reset_lookup();
        }
        finish_all(self, &arrival, Work { walker, stop: 0, place: None }, branches, &mut forks);
        forks
    }
}

/// Walks all branches of a packet to the end of the hook.
pub(super) fn finish_all<C: Code, T: Trace>(
    program: &Program<C>,
    arrival: &Arrival<'_>,
    work: Work<T>,
    branches: &mut Vec<Branch<T>>,
    forks: &mut Vec<Fork<T>>,
) {
    let mut todo = Todo::new();
    let most = branches.len() + MAX_BRANCHES;
    let mut likeliest = MAX_LIKELIEST;
    let mut next = Some(work);
    while let Some(work) = next {
        let is_too_much = branches.len() >= most || likeliest == 0;
        let branch = match &work.place {
            Some((cursor, _)) if is_too_much => too_many(work.walker, cursor),
            _ => finish(program, arrival, work, (&mut todo, forks)),
        };
        branches.push(branch);
        next = match likeliest {
            1.. if todo.is_doubling => {
                likeliest -= 1;
                todo.pop_likeliest()
            }
            _ => todo.pop(),
        };
    }
}

/// Maximum number of branches of a packet that are followed through a hook. Each endpoint of a Service is one; if consecutive random rules
/// double their number, [`MAX_ALIKE`](super::chain_position::MAX_ALIKE) ends the walk much earlier.
const MAX_BRANCHES: usize = 1 << 14;

/// Number of branches that are still followed once there are too many: the most likely ones. Each random rule that hardly any packet
/// matches uses up one of them, so the outcome is known for most packets of 31 such rules, one for each bit of a mark.
const MAX_LIKELIEST: usize = 32;

/// Ends the pending branches if there are too many, at the next random rule.
fn too_many<T: Trace>(walker: Walker<T>, at: &Cursor) -> Branch<T> {
    let why = "too many random branches: their number doubles with each random rule, or exceeds 16,384".into();
    walker.end(HookVerdict::Unknown(Unknown { rule: RuleId(at.rule.saturating_sub(1)), why }))
}

fn finish<C: Code, T: Trace>(
    program: &Program<C>,
    &Arrival { environment, hook, .. }: &Arrival<'_>,
    mut work: Work<T>,
    (todo, forks): (&mut Todo<T>, &mut Vec<Fork<T>>),
) -> Branch<T> {
    let walker = &mut work.walker;
    for (position, stop) in program.stops[hook as usize].iter().enumerate().skip(work.stop) {
        let (chain, reroutes) = match *stop {
            Stop::Lookup => {
                walker.look_up();
                continue;
            }
            Stop::Translation => {
                walker.translate(hook);
                let is_later = |stop: &Stop| matches!(stop, Stop::Chain { .. });
                if walker.source_nat.is_some() && program.stops[hook as usize][position + 1..].iter().any(is_later) {
                    return work.walker.end_at(HookVerdict::Accept, Some(position + 1));
                }
                continue;
            }
            Stop::Nat(_) if work.place.is_none() && !walker.asks_nat(hook) => continue,
            Stop::Nat(chain) => (chain, false),
            Stop::Chain { chain, reroutes } => (chain, reroutes),
        };
        let (cursor, next) = work.place.take().unwrap_or_else(|| {
            (walker.mark_before, walker.is_chosen_at_random) = (walker.packet.mark, false);
            (Cursor { chain, rule: program.first_rule(chain), callers: ArrayVec::new() }, Next::Rule)
        });
        let mut pass = Pass { environment, hook, stop: position, cursor, todo, forks, draws: Draws::Alike };
        if let Some(outcome) = pass.run(program, walker, next, chain) {
            return work.walker.end(outcome);
        }
        walker.reroute |= reroutes && hook == Hook::Output && walker.packet.mark != walker.mark_before;
    }
    work.walker.end(HookVerdict::Accept)
}

/// Walks a packet through a single rule, to all of its possible next steps. Random numbers have their exact shares here.
pub(super) fn meet_alone<C: Code, T: Trace>(
    code: &C,
    environment: &Environment,
    hook: Hook,
    mut walker: Walker<T>,
    rule: u32,
) -> impl Iterator<Item = (Walker<T>, Next)> {
    let (mut todo, mut forks) = (Todo::new(), Vec::new());
    let cursor = Cursor { chain: 0, rule, callers: ArrayVec::new() };
    let mut pass =
        Pass { environment, hook, stop: 0, cursor, todo: &mut todo, forks: &mut forks, draws: Draws::Counted };
    let next = code.evaluate_rule(&mut pass, &mut walker, rule);
    // The branch added last is followed first.
    let others = std::iter::from_fn(move || todo.pop()).filter_map(|work| Some((work.walker, work.place?.1)));
    std::iter::once((walker, next)).chain(others)
}

impl<T: Trace> Pass<'_, T> {
    /// Walks from rule to rule to the end of a base chain; returns the verdict if the packet does not continue.
    fn run<C: Code>(
        &mut self,
        program: &Program<C>,
        walker: &mut Walker<T>,
        mut next: Next,
        entry: u32,
    ) -> Option<HookVerdict> {
        loop {
            match next {
                Next::Rule => {}
                Next::Accept => return None,
                Next::End(outcome) => return Some(*outcome),
                Next::Return => match self.cursor.callers.pop() {
                    Some(caller) => (self.cursor.chain, self.cursor.rule) = caller,
                    None => return program.span(entry).drops.then_some(HookVerdict::Drop(By::Policy(ChainId(entry)))),
                },
                Next::Jump(chain) => {
                    self.cursor.callers.push((self.cursor.chain, self.cursor.rule));
                    (self.cursor.chain, self.cursor.rule) = (chain, program.first_rule(chain));
                }
                Next::Goto(chain) => (self.cursor.chain, self.cursor.rule) = (chain, program.first_rule(chain)),
            }
            next = match program.code.next_rule(program.span(self.cursor.chain), self.cursor.rule, walker) {
                None => Next::Return,
                Some(rule) => {
                    if let Err(why) = self.todo.count_rule() {
                        next = stop(walker, rule, why);
                        continue;
                    }
                    let is_part = walker.share != Share::ONE && walker.effects.is_empty();
                    let before = walker.trace.may_fork(is_part).then(|| walker.clone());
                    self.cursor.rule = rule + 1;
                    let next = program.code.evaluate_rule(self, walker, rule);
                    next.record(walker);
                    if let Some(before) = before {
                        self.fork(&before, walker, rule);
                    }
                    next
                }
            };
        }
    }

    /// Keeps the packet as it was before a rule that forks sources off.
    fn fork(&mut self, before: &Walker<T>, walker: &mut Walker<T>, rule: u32) {
        for forked in walker.trace.take_forked() {
            let mut walker = before.clone();
            walker.trace = before.trace.alone();
            let cursor = Cursor { rule, ..self.cursor.clone() };
            self.forks.push(Fork { forked, work: Work { walker, stop: self.stop, place: Some((cursor, Next::Rule)) } });
        }
    }
}
