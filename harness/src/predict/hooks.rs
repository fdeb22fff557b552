//! Evaluates a packet at a hook: the branches that continue, and how the others end.

use std::net::IpAddr;

use svclab_rules::cluster::Family;
use svclab_rules::walk::{
    Arrival, Branch, By, Field, Hook, HookVerdict, Intervals, Narrowed, Packet, Share, SourceNat, address_bits,
};

use super::packet_state::{Ended, ForkMode, ForkPoint, PacketState};
use super::prediction::{Cause, Stage};
use super::route_table::Out;
use super::rules::Rules;
use super::set_queries::is_among;
use super::traversal::Traversal;
use crate::topology::NetnsId;

impl Traversal<'_, '_> {
    /// Evaluates a packet at a hook and returns the branches that continue. `out` is the route by which it leaves.
    pub(super) fn hook(
        &mut self,
        netns: NetnsId,
        hook: Hook,
        state: PacketState,
        out: Option<Out>,
    ) -> Vec<PacketState> {
        let machine = self.machine(netns);
        let family = Family::of(state.packet.destination);
        let Some(rules) = machine.rules(family) else { return vec![state] };
        let spent = self.origin.budget.spend(&state);
        if let Some(rule) = spent.and_then(|(netns, family, rule)| self.machine(netns).place(family, rule)) {
            let why = "too many random branches, for example because packets loop through a random choice".into();
            self.end(state, Ended::Unknown(rule, why));
            return Vec::new();
        }
        let environment = self.origin.memory.and_then(|memory| memory.get(&netns)).unwrap_or(&machine.environment);
        let effects = state.effects.of(netns);
        let arrival = Arrival { environment, hook, packet: &state.packet, tracking: state.tracking, effects: &effects };
        let mut branches = self.branches_of(netns, rules, arrival, &state);
        self.settle_sources(netns, out, &mut branches);
        if branches.iter().any(Branch::continues) {
            branches = branches.into_iter().flat_map(|branch| rules.continue_settled(arrival, branch)).collect();
        }
        if branches.len() > 1 {
            // Not every branch contains the random rule: it may match by chance and then fail another of its conditions.
            let steps = || branches.iter().flat_map(|branch| branch.trace.path.steps());
            let decided = steps().find(|step| step.is_by_chance()).or_else(|| steps().next());
            self.origin.budget.split(&state, branches.len(), decided.map(|step| (netns, family, step.rule)));
        }
        let mut accepted = Vec::with_capacity(branches.len());
        let mut whole = Some(state);
        let mut branches = branches.into_iter().peekable();
        while let Some(mut branch) = branches.next() {
            // The last branch takes the state that the others copy: usually there is only one.
            let state = if branches.peek().is_some() { whole.clone() } else { whole.take() };
            let Some(state) = state else { break };
            let how = match std::mem::replace(&mut branch.outcome, HookVerdict::Accept) {
                HookVerdict::Accept if branch.source_nat.is_some() => Some(Ended::Dropped(netns, Cause::NoAddress)),
                outcome => self.ended(netns, family, outcome),
            };
            let state = after(netns, hook, state, branch);
            // The tables that request rerouting do so before the filter tables run.
            let rerouted = how.is_some() && state.reroute;
            let way = rerouted.then(|| machine.route_output(state.packet.source, state.packet.destination, self.set()));
            match (how, way) {
                (None, _) => accepted.push(state),
                (Some(_), Some(Err(cause))) => self.end_without_way(netns, state, cause),
                (Some(how), _) => self.end(state, how),
            }
        }
        accepted
    }

    /// The possible outcomes of a packet at a hook. If this hook is the first with a random choice, some sources of the packet's set may be
    /// forked off.
    fn branches_of(
        &self,
        netns: NetnsId,
        rules: &Rules,
        arrival: Arrival<'_>,
        state: &PacketState,
    ) -> Vec<Branch<Narrowed>> {
        let hook = arrival.hook;
        let trace = Narrowed::by(self.narrowing.as_ref());
        match self.origin.fork_mode {
            ForkMode::Record(noted) if !self.is_answer && state.share == Share::ONE => {
                let trace = trace.forking();
                let (branches, forks) = rules.walk(arrival, trace);
                let passed = state.passed();
                noted.borrow_mut().extend(forks.into_iter().map(|fork| ForkPoint { netns, hook, passed, fork }));
                branches
            }
            ForkMode::Resume(places) if !self.is_answer => {
                let passed = state.passed();
                let is_here = |place: &&ForkPoint| (place.netns, place.hook, place.passed) == (netns, hook, passed);
                let mut here = places.iter().filter(is_here).peekable();
                if here.peek().is_none() {
                    return rules.walk(arrival, trace).0;
                }
                here.flat_map(|place| rules.resume(arrival, &place.fork, self.narrowing.as_ref())).collect()
            }
            _ => rules.walk(arrival, trace).0,
        }
    }

    /// Chooses the source addresses that rules leave open. Where there is none, the source NAT stays requested.
    fn settle_sources(&self, netns: NetnsId, out: Option<Out>, branches: &mut [Branch<Narrowed>]) {
        for branch in branches {
            if let Some(wanted) = branch.source_nat
                && let Some(address) = wanted.address.or_else(|| self.masquerade_address(netns, out, &branch.packet))
            {
                self.settle_source(netns, branch, wanted, address);
            }
        }
    }

    /// The address that MASQUERADE chooses; `None` without one.
    fn masquerade_address(&self, netns: NetnsId, out: Option<Out>, packet: &Packet) -> Option<IpAddr> {
        let address = self.machine(netns).preferred(out?, packet.destination, self.set())?;
        // It matters whether it is the old address: then nothing is translated.
        is_among(self.set(), Field::Source, packet.source, &Intervals::one(address_bits(address)));
        Some(address)
    }

    fn settle_source(&self, netns: NetnsId, branch: &mut Branch<Narrowed>, wanted: SourceNat, address: IpAddr) {
        let port = wanted.choose_port(branch.packet.tuple().source_port);
        let is_open = wanted.first_port < wanted.last_port;
        let known = self.origin.chosen.get(&netns).copied();
        let port = known.filter(|port| is_open && wanted.allows(*port)).unwrap_or(port);
        branch.settle_source(address, port);
    }

    /// How a packet's path ends with a hook's verdict; `None` if it continues.
    fn ended(&self, netns: NetnsId, family: Family, outcome: HookVerdict) -> Option<Ended> {
        let machine = self.machine(netns);
        let place = |rule| machine.place(family, rule);
        match outcome {
            HookVerdict::Accept => None,
            HookVerdict::Drop(By::Rule(rule)) => place(rule).map(|rule| Ended::Dropped(netns, Cause::Rule(rule))),
            HookVerdict::Drop(By::Policy(chain)) => {
                let (table, chain) = machine.rules(family)?.chain(chain);
                let cause = Cause::Policy { table: table.to_owned(), chain: chain.to_owned() };
                Some(Ended::Dropped(netns, cause))
            }
            HookVerdict::Reject(rule, rejection) => {
                place(rule).map(|rule| Ended::Rejected(netns, rejection, Cause::Rule(rule)))
            }
            HookVerdict::Unknown(unknown) => place(unknown.rule).map(|rule| Ended::Unknown(rule, unknown.why)),
        }
    }
}

/// The state after a hook, for one of the possible branches.
fn after(netns: NetnsId, hook: Hook, state: PacketState, mut branch: Branch<Narrowed>) -> PacketState {
    let path = std::mem::take(&mut branch.trace.path);
    let family = Family::of(state.packet.destination);
    let (came, left, tracking) = (state.packet, branch.packet, state.tracking);
    let stage = Stage { netns, family, hook, came, left, tracking, path };
    let mut forked = state.forked;
    forked.append(branch.trace.forked.get_mut());
    PacketState {
        share: branch.share.within(state.share),
        packet: branch.packet,
        tracking: branch.tracking,
        reroute: branch.reroute,
        is_at_one_of_many: false,
        assumptions: state.assumptions.and(branch.assumptions),
        effects: state.effects.with(netns, branch.effects),
        trail: state.trail.and(stage),
        forked,
        ..state
    }
}
