//! Takes a packet through the tables of a hook.

use std::sync::Arc;

use arrayvec::ArrayVec;
use smallvec::SmallVec;

use super::action::{Action, Destination};
use super::check::DEEPEST;
use super::program::Program;
use super::walker::Walker;
use crate::iptables::{Policy, TableName};
use crate::walk::{
    Assumptions, Branch, By, Did, Environment, Held, Hook, NoTrace, Outcome, Packet, Path, RuleId, Share, Step, Trace,
    Tracking, Unknown,
};

/// A stop on the way through a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The rules of a table.
    Table(TableName),
    /// The connection table is asked.
    Lookup,
}

/// The stops of a hook in the order of their priorities: raw -300, connections -200, mangle -150, nat of destinations
/// -100, filter 0, security 50, nat of sources 100 (`netfilter_ipv4.h`).
fn stops(hook: Hook) -> &'static [Stop] {
    use Stop::{Lookup, Table};
    use TableName::{Filter, Mangle, Nat, Raw, Security};
    match hook {
        Hook::Prerouting => &[Table(Raw), Lookup, Table(Mangle), Table(Nat)],
        Hook::Input => &[Table(Mangle), Table(Filter), Table(Security), Table(Nat)],
        Hook::Forward => &[Table(Mangle), Table(Filter), Table(Security)],
        Hook::Output => &[Table(Raw), Lookup, Table(Mangle), Table(Nat), Table(Filter), Table(Security)],
        Hook::Postrouting => &[Table(Mangle), Table(Nat)],
    }
}

/// Where a packet is in a table.
#[derive(Debug, Clone)]
struct Cursor {
    chain: u32,
    /// The rule that is next.
    rule: u32,
    /// Chains to come back to, with the rules to go on with.
    callers: ArrayVec<(u32, u32), DEEPEST>,
}

/// A packet that is yet to be taken to the end of the hook.
struct Work<T> {
    walker: Walker<T>,
    /// The position of the stop where it is.
    stop: usize,
    /// Where it is in the table; not yet in it where this is missing.
    cursor: Option<Cursor>,
}

/// How a table is left.
enum End {
    Accept,
    Otherwise(Outcome),
}

/// What a rule leads to.
enum Next {
    Rule,
    Jump(u32),
    Goto(u32),
    Return,
    End(End),
}

impl Program {
    /// Takes a packet through a hook.
    ///
    /// The branches come in the order of the rules that chance decides; none has a share of zero, and the shares add up
    /// to one. `tracking` is what the connection table has for the packet: at PREROUTING and OUTPUT
    /// [`Tracking::first`] for the first packet of a connection; at later hooks what the branch before ended with.
    pub fn walk(&self, environment: &Environment, hook: Hook, packet: &Packet, tracking: Tracking) -> Vec<Branch> {
        let mut branches = Vec::new();
        self.walk_into::<NoTrace>(environment, hook, packet, tracking, &mut branches);
        branches
    }

    /// The same, with the rules met on the way.
    pub fn walk_traced(
        &self,
        environment: &Environment,
        hook: Hook,
        packet: &Packet,
        tracking: Tracking,
    ) -> Vec<Branch<Path>> {
        let mut branches = Vec::new();
        self.walk_into(environment, hook, packet, tracking, &mut branches);
        branches
    }

    /// The same; the branches are put behind those that are in `branches` already.
    pub fn walk_into<T: Trace>(
        &self,
        environment: &Environment,
        hook: Hook,
        packet: &Packet,
        tracking: Tracking,
        branches: &mut Vec<Branch<T>>,
    ) {
        let mut walker = Walker::new(packet, tracking);
        if packet.family() != self.family {
            // The kernel keeps the families apart: these rules never see the packet.
            walker.look_up();
            branches.push(walker.end(Outcome::Accept));
            return;
        }
        if hook.is_entry() {
            walker.forget_connection();
        }
        let mut todo = Todo::new();
        todo.push(Work { walker, stop: 0, cursor: None });
        while let Some(work) = todo.pop() {
            branches.push(self.finish(environment, hook, work, &mut todo));
        }
    }

    fn finish<T: Trace>(&self, environment: &Environment, hook: Hook, work: Work<T>, todo: &mut Todo<T>) -> Branch<T> {
        let Work { mut walker, stop: first, mut cursor } = work;
        for (stop, what) in stops(hook).iter().enumerate().skip(first) {
            let Stop::Table(table) = *what else {
                walker.look_up();
                continue;
            };
            let asked = table != TableName::Nat || walker.asks_nat(hook);
            if let Some(chain) = self.entry(table, hook).filter(|_| asked) {
                if cursor.is_none() {
                    walker.mark_before = walker.packet.mark;
                }
                let start = || Cursor { chain, rule: self.spans[chain as usize].first, callers: ArrayVec::new() };
                let cursor = cursor.take().unwrap_or_else(start);
                let mut pass = Pass { program: self, environment, hook, entry: chain, stop, todo };
                if let End::Otherwise(outcome) = pass.run(&mut walker, cursor) {
                    return walker.end(outcome);
                }
                walker.reroute |=
                    hook == Hook::Output && table == TableName::Mangle && walker.packet.mark != walker.mark_before;
            }
            if table == TableName::Nat {
                walker.translate(hook);
            }
        }
        walker.end(Outcome::Accept)
    }
}

type Todo<T> = SmallVec<[Work<T>; 2]>;

/// One way of a packet through one table.
struct Pass<'a, T> {
    program: &'a Program,
    environment: &'a Environment,
    hook: Hook,
    /// The kernel's chain.
    entry: u32,
    stop: usize,
    todo: &'a mut Todo<T>,
}

impl<T: Trace> Pass<'_, T> {
    fn run(&mut self, walker: &mut Walker<T>, mut cursor: Cursor) -> End {
        let port = walker.packet.transport.ports().map(|(_, destination)| destination);
        loop {
            let span = &self.program.spans[cursor.chain as usize];
            let position = match span.index {
                None => (cursor.rule < span.end).then_some(cursor.rule),
                Some(index) => {
                    let protocol = walker.packet.transport.protocol();
                    self.program.indexes[index as usize].next(cursor.rule, walker.destination, protocol, port)
                }
            };
            let next = match position {
                None => Next::Return,
                Some(position) => {
                    cursor.rule = position + 1;
                    self.rule(walker, &cursor, position)
                }
            };
            match next {
                Next::Rule => {}
                Next::End(end) => return end,
                Next::Return => match cursor.callers.pop() {
                    Some((chain, rule)) => (cursor.chain, cursor.rule) = (chain, rule),
                    None => return self.policy(),
                },
                Next::Jump(chain) => {
                    cursor.callers.push((cursor.chain, cursor.rule));
                    (cursor.chain, cursor.rule) = (chain, self.program.spans[chain as usize].first);
                }
                Next::Goto(chain) => {
                    (cursor.chain, cursor.rule) = (chain, self.program.spans[chain as usize].first);
                }
            }
        }
    }

    fn policy(&self) -> End {
        let chain = &self.program.chains[self.entry as usize];
        match chain.policy {
            None | Some(Policy::Accept) => End::Accept,
            Some(Policy::Drop) => {
                let by = By::Policy { table: chain.table.as_str(), chain: self.hook.as_str() };
                End::Otherwise(Outcome::Drop(by))
            }
        }
    }

    /// Asks all conditions of a rule, and carries it out where they hold.
    fn rule(&mut self, walker: &mut Walker<T>, cursor: &Cursor, position: u32) -> Next {
        let rule = &self.program.rules[position as usize];
        let id = RuleId(position);
        let mut why = None;
        let mut matters = !rule.action.is_inert();
        let mut assumed = Assumptions::NONE;
        let mut chance = Share::ONE;
        for condition in self.program.conditions(rule) {
            if condition.has_effect() {
                if why.is_some() {
                    // Whether the effect takes place depends on what is unknown.
                    matters = true;
                    break;
                }
                walker.assume(assumed);
            }
            match walker.holds(condition, self.environment) {
                Held::Yes => {}
                Held::No => return Next::Rule,
                Held::Assuming(more) => assumed = assumed.and(more),
                Held::Sometimes(part, whole) => {
                    walker.assume(assumed);
                    self.split(walker, cursor, id, whole as u32 - part, whole);
                    walker.share = walker.share.times(part, whole);
                    chance = chance.times(part, whole);
                }
                Held::Unknown(reason) => why = why.or(Some(reason)),
            }
        }
        walker.assume(assumed);
        match why {
            Some(why) if matters => self.stop(walker, id, why),
            why => {
                let is_sure = why.is_none() && !matches!(rule.action, Action::Perhaps);
                let did = if is_sure { Did::Match(chance) } else { Did::Perhaps };
                walker.trace.step(|| Step { rule: id, did });
                self.act(walker, &rule.action, id)
            }
        }
    }

    /// Leaves the part of the packets for later for which a rule does not hold by chance.
    fn split(&mut self, walker: &Walker<T>, cursor: &Cursor, rule: RuleId, part: u32, whole: u64) {
        let mut missed = walker.clone();
        missed.share = missed.share.times(part, whole);
        missed.trace.step(|| Step { rule, did: Did::PassByChance(Share::ONE.times(part, whole)) });
        self.todo.push(Work { walker: missed, stop: self.stop, cursor: Some(cursor.clone()) });
    }

    fn stop(&self, walker: &mut Walker<T>, rule: RuleId, why: Arc<str>) -> Next {
        walker.trace.step(|| Step { rule, did: Did::Stop });
        Next::End(End::Otherwise(Outcome::Unknown(Unknown { rule, why })))
    }

    fn act(&self, walker: &mut Walker<T>, action: &Action, rule: RuleId) -> Next {
        let translated = match action {
            Action::Continue | Action::Perhaps => return Next::Rule,
            Action::Accept => return Next::End(End::Accept),
            Action::Drop => return Next::End(End::Otherwise(Outcome::Drop(By::Rule(rule)))),
            Action::Reject(refusal) => return Next::End(End::Otherwise(Outcome::Reject(rule, *refusal))),
            Action::Return => return Next::Return,
            Action::Jump(chain) => return Next::Jump(*chain),
            Action::Goto(chain) => return Next::Goto(*chain),
            Action::Mark(change) => {
                walker.packet.mark = (walker.packet.mark & !change.mask) ^ change.value;
                return Next::Rule;
            }
            Action::Connmark(change) => {
                walker.change_marks(*change);
                return Next::Rule;
            }
            Action::NoTrack => {
                walker.exempt();
                return Next::Rule;
            }
            Action::Unknown(why) => Err(why.clone()),
            Action::Dnat(destination) => walker.dnat(*destination),
            Action::Redirect(destination) => match walker.own_address(self.hook, self.environment) {
                Some(address) => walker.dnat(Destination { address: Some(address), ..*destination }),
                // `nf_nat_redirect_ipv4`: an interface without an address.
                None => return Next::End(End::Otherwise(Outcome::Drop(By::Rule(rule)))),
            },
            Action::Snat(source) => {
                walker.snat(*source);
                Ok(())
            }
        };
        match translated {
            Ok(()) => Next::End(End::Accept),
            Err(why) => self.stop(walker, rule, why),
        }
    }
}
