//! Walks of connections through all rules of a group's chain.

use super::group::{Walk, Walked};
use super::outcome::{Case, ConnectionOutcome, Unknown};
use super::packets::{difference, machine, packets};
use super::share_accounting::Ledger;
use crate::chains::Reading;
use crate::cluster::Protocol;
use crate::walk::{End, Entry, Environment, Inspect, Packet, Portion, Reach, Scan, Share, distribute};

/// Maximum number of rule evaluations for one packet, in addition to [`TIMES`] for each rule.
const MAX_STEPS: usize = 1 << 16;
const TIMES: usize = 16;
/// Maximum number of rules for all packets together.
const MAX_RULES: usize = 1 << 20;

/// Walks a group; returns nothing if none of its rules leads, or may lead, to an endpoint.
pub(super) fn walk<'b, C: Inspect, R: Reading<'b>>(walk: &Walk<'_, 'b, C, R>) -> Option<Walked> {
    let is_border = |chain: u32| chain != walk.chain && walk.is_group(chain);
    let mut reach = Reach::new(walk.program, &is_border, true);
    let mut scan = reach.scan(walk.chain);
    if !scan.edges.marks.is_empty() {
        reach = Reach::new(walk.program, &is_border, false);
        scan = reach.scan(walk.chain);
    }
    let Scan { edges, rules, history } = scan;
    let family = walk.program.family();
    let protocol = walk.group.protocol.unwrap_or(Protocol::Tcp);
    let tried = packets(family, protocol, &walk.group.frontends, &edges);
    let mut ledger = Ledger::new(walk, &mut reach, &tried.main);
    let environment = machine(family);
    let walking = Walking { walk, is_border: &is_border, forgets_marks: edges.marks.is_empty(), environment, rules };
    let parts = walking.parts(&tried.main);
    if ledger.steps.is_empty() && !parts.iter().any(|part| matches!(part.end, End::Unknown(_))) {
        return None;
    }
    parts.iter().for_each(|part| ledger.take(part));
    let others = if rules.saturating_mul(tried.others.len()) > MAX_RULES { &[][..] } else { &tried.others };
    let cases = walking.cases(&ledger, &tried.main, &parts, others);
    ledger.conditional(&cases);
    if tried.is_cut || others.len() < tried.others.len() {
        let why = "the rules distinguish more kinds of packets than are tried".to_owned();
        ledger.unknown.push(Unknown { rule: 0, share: None, why });
    }
    ledger.history(&history);
    Some(ledger.finish(&parts, cases))
}

struct Walking<'a, 'w, 'b, C, R> {
    walk: &'a Walk<'w, 'b, C, R>,
    is_border: &'a dyn Fn(u32) -> bool,
    forgets_marks: bool,
    environment: Environment,
    rules: usize,
}

impl<'b, C: Inspect, R: Reading<'b>> Walking<'_, '_, 'b, C, R> {
    fn parts(&self, packet: &Packet) -> Vec<Portion> {
        let Self { walk, is_border, forgets_marks, environment, rules } = self;
        let most_steps = MAX_STEPS + TIMES * rules;
        let entry = Entry { chain: walk.chain, packet, is_border, forgets_marks: *forgets_marks, most_steps };
        distribute(walk.program, environment, &entry)
    }

    /// Returns the packets that are handled differently from the main one, one of each kind.
    fn cases(
        &self,
        ledger: &Ledger<'_, '_, 'b, C, R>,
        main: &Packet,
        parts: &[Portion],
        others: &[Packet],
    ) -> Vec<Case> {
        let mut cases: Vec<Case> = Vec::new();
        for packet in others {
            let own = self.parts(packet);
            let is_same = own.len() == parts.len() && own.iter().zip(parts).all(|(one, other)| is_alike(one, other));
            if is_same || self.is_handed_on(&own) {
                continue;
            }
            let rule = own.iter().zip(parts).find(|(one, other)| !is_alike(one, other)).map_or(0, |(one, other)| {
                [one.by, other.by].into_iter().flatten().min().map_or(0, |rule| ledger.number(rule))
            });
            let fates: Vec<(ConnectionOutcome, Share)> =
                own.iter().map(|part| (ledger.fate(part), part.share)).collect();
            if !cases.iter().any(|case| case.fates == fates) {
                cases.push(Case { example: difference(packet, main), rule, fates });
            }
        }
        cases
    }

    /// Returns whether all connections continue in another group of the same service, as those from pods to a load balancer's address do.
    fn is_handed_on(&self, parts: &[Portion]) -> bool {
        let is_kin = |part: &Portion| matches!(part.end, End::Handed(chain) if self.walk.is_kin(chain));
        parts.iter().all(is_kin)
    }
}

/// Returns whether two portions have the same outcome, whatever lists record about them.
fn is_alike(one: &Portion, other: &Portion) -> bool {
    (one.by, &one.end, one.share) == (other.by, &other.end, other.share)
}
