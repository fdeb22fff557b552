//! Rules to cascades.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::defect::{Defect, Kind};
use super::even::{FIVE_DIGITS, TEN_DIGITS, is_even};
use super::{Cascade, Step};
use crate::iptables::{Chain, Match, Nat, Probability, Rule, RuleSet, Statistic, TableName, Target};
use crate::walk::Share;

/// The beginnings of the names of chains that share connections out, in every release.
const GROUPS: [&str; 3] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-XLB-"];
/// The beginning of the names of endpoints' chains.
const ENDPOINT: &str = "KUBE-SEP-";
/// 2^31: as many values a draw can have.
const DRAWS: u64 = Probability::ONE as u64;

/// Every chain of a rule set that shares connections out among endpoints, in the rule set's order. Chains that lead to none
/// are left out.
pub fn cascades(rules: &RuleSet) -> Vec<Cascade> {
    let Some(nat) = rules.table(TableName::Nat) else { return Vec::new() };
    let endpoints: HashMap<&str, &Chain> =
        nat.chains.iter().map(|chain| (&*chain.name, chain)).filter(|(name, _)| name.starts_with(ENDPOINT)).collect();
    let groups = nat.chains.iter().filter(|chain| GROUPS.iter().any(|group| chain.name.starts_with(group)));
    groups.filter_map(|chain| cascade(chain, &endpoints)).collect()
}

/// A rule of a group that leads to an endpoint.
struct Led<'a> {
    number: usize,
    chain: &'a str,
    chance: Chance,
}

/// What a rule asks for.
enum Chance {
    /// Nothing.
    Always,
    /// That a draw is below the threshold.
    Below(Probability),
    /// That the client was here before.
    Affinity,
    /// Something of the packet.
    Condition,
}

fn cascade(chain: &Chain, endpoints: &HashMap<&str, &Chain>) -> Option<Cascade> {
    let led: Vec<Led<'_>> = chain.rules.iter().zip(1..).filter_map(|(rule, number)| led(rule, number)).collect();
    let has_affinity = led.iter().any(|one| matches!(one.chance, Chance::Affinity));
    let led: Vec<Led<'_>> = led.into_iter().filter(|one| !matches!(one.chance, Chance::Affinity)).collect();
    let first = led.first()?;
    let service = chain.rules.iter().chain(endpoints.get(first.chain).into_iter().flat_map(|own| &own.rules));
    let service = service.filter_map(service_in).next().unwrap_or(&chain.name).to_owned();
    let mut walk =
        Walk { first: HashMap::new(), left: Share::ONE, taken: Share::ZERO, steps: Vec::new(), defects: Vec::new() };
    for (position, one) in led.iter().enumerate() {
        walk.step(one, led.len() - position, led.len(), endpoints);
    }
    let Walk { first, left, steps, mut defects, .. } = walk;
    if left != Share::ZERO {
        defects.push(Defect { rule: 0, kind: Kind::FallsThrough { share: left } });
    }
    Some(Cascade { service, chain: chain.name.to_string(), steps, endpoints: first.len(), left, has_affinity, defects })
}

/// `namespace/name:port` in a rule's comment.
fn service_in(rule: &Rule) -> Option<&str> {
    rule.comment()?.split(' ').find(|word| word.contains('/'))
}

fn led(rule: &Rule, number: usize) -> Option<Led<'_>> {
    let chain = rule.next_chain().filter(|next| next.starts_with(ENDPOINT))?;
    Some(Led { number, chain, chance: chance(rule) })
}

/// What a rule asks for, beside what all rules of a service's chain have in common: a protocol.
fn chance(rule: &Rule) -> Chance {
    let mut chance = Chance::Always;
    for one in &rule.matches {
        chance = match (one, chance) {
            (Match::Comment(_), chance) => chance,
            (Match::Statistic(Statistic::Random(random)), Chance::Always) if !random.negated => {
                Chance::Below(random.value)
            }
            (Match::Recent(_), _) => return Chance::Affinity,
            _ => return Chance::Condition,
        };
    }
    let asks = rule.source.is_some()
        || rule.destination.is_some()
        || rule.in_interface.is_some()
        || rule.out_interface.is_some();
    if asks { Chance::Condition } else { chance }
}

/// What has been seen of a cascade.
struct Walk<'a> {
    /// The number of the first rule of each endpoint's chain.
    first: HashMap<&'a str, usize>,
    left: Share,
    taken: Share,
    steps: Vec<Step>,
    defects: Vec<Defect>,
}

impl<'a> Walk<'a> {
    /// Takes a rule's share of what is left; `to_come` rules are still there, this one included, of `all`.
    fn step(&mut self, led: &Led<'a>, to_come: usize, all: usize, endpoints: &HashMap<&str, &Chain>) {
        let destination = endpoints.get(led.chain).and_then(|own| own.rules.iter().find_map(destination));
        let endpoint = destination.map_or_else(|| led.chain.to_owned(), |address| address.to_string());
        let (threshold, probability) = match led.chance {
            Chance::Below(own) => (own.threshold(), Some(own)),
            Chance::Always => (Probability::ONE, None),
            Chance::Affinity | Chance::Condition => (0, None),
        };
        let share = self.left.times(threshold, DRAWS);
        if destination.is_none() {
            self.found(led, Kind::NoDestination { chain: led.chain.to_owned() });
        }
        let first = *self.first.entry(led.chain).or_insert(led.number);
        if first != led.number {
            self.found(led, Kind::Duplicate { endpoint: endpoint.clone(), first });
        }
        if matches!(led.chance, Chance::Condition) {
            self.found(led, Kind::Conditional { endpoint: endpoint.clone() });
        } else if self.left == Share::ZERO {
            self.found(led, Kind::Unreachable { endpoint: endpoint.clone() });
        } else if let Some(kind) = uneven(threshold, share, to_come, all) {
            self.found(led, kind);
        }
        self.left = self.left.times(Probability::ONE - threshold, DRAWS);
        self.taken = self.taken.plus(share);
        let (chain, cumulative) = (led.chain.to_owned(), self.taken);
        self.steps.push(Step { endpoint, chain, rule: led.number, probability, share, cumulative });
    }

    fn found(&mut self, led: &Led<'_>, kind: Kind) {
        self.defects.push(Defect { rule: led.number, kind });
    }
}

/// What is wrong with a threshold, where so many endpoints are to come of all.
fn uneven(threshold: u32, share: Share, to_come: usize, all: usize) -> Option<Kind> {
    let even = 1.0 / to_come as f64;
    let written = f64::from(threshold) / DRAWS as f64;
    if is_even(threshold, to_come, TEN_DIGITS) {
        return None;
    }
    if is_even(threshold, to_come, FIVE_DIGITS) {
        return Some(Kind::FiveDigits { written, deviation: share.to_f64() * all as f64 - 1.0 });
    }
    Some(Kind::Probability { written, even, share })
}

/// Where a rule translates to.
fn destination(rule: &Rule) -> Option<SocketAddr> {
    match &rule.target {
        Some(Target::Dnat(Nat { addresses: Some((address, _)), ports: Some(ports), .. })) => {
            Some(SocketAddr::new(*address, ports.first))
        }
        _ => None,
    }
}
