//! What would repair a failing class: the fewest deviations from kube-proxy's rules without which it keeps its promise.
//!
//! A reduction that only requires the same failure would remove the rules around its cause, since the flow fails without them, too.

use super::delta::shortest;
use super::missing_rules::IncompleteChain;
use super::obstacles::Obstacle;
use super::rules::{generated, units};
use crate::scenario::{Install, Scenario};

/// Deviations without which a class keeps its promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repair(Vec<Deviation>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Deviation {
    Obstacle(Obstacle),
    Incomplete(IncompleteChain),
}

/// The most deviations that are tried.
const MAX: usize = 64;

impl Repair {
    /// The fewest deviations such that the scenario `holds` without them.
    pub(super) fn find(scenario: &Scenario, mut holds: impl FnMut(&Scenario) -> bool) -> Option<Self> {
        let (mut all, mut incomplete) = (Vec::new(), Vec::new());
        for own in &scenario.rules {
            let generated = generated(scenario, own);
            all.extend(Obstacle::all(own, generated.as_ref()).into_iter().map(Deviation::Obstacle));
            if let Some(generated) = generated.filter(|_| own.install == Install::Instead) {
                let chains = IncompleteChain::all(own, &generated, MAX + 1);
                incomplete.extend(chains.into_iter().map(Deviation::Incomplete));
            }
        }
        // The first are given up first: if the missing rules alone are enough, the others are not the cause.
        all.append(&mut incomplete);
        let mut holds_without = |some: &[Deviation]| {
            let repaired = Self(some.to_vec()).repaired(scenario);
            repaired.is_some_and(|repaired| holds(&repaired))
        };
        (all.len() <= MAX && holds_without(&all)).then(|| Self(shortest(all, holds_without)))
    }

    /// The scenario without the deviations, with chains completed as kube-proxy writes them for the scenario's own objects; `None` if it does
    /// not have all of the rules that are too many, or lacks none.
    pub(super) fn repaired(&self, scenario: &Scenario) -> Option<Scenario> {
        let mut repaired = scenario.clone();
        for deviation in &self.0 {
            let Deviation::Incomplete(chain) = deviation else { continue };
            let Some(own) = repaired.rules.iter_mut().find(|rules| chain.is_of(rules)) else { continue };
            let Some(generated) = generated(scenario, own) else { continue };
            own.rules = chain.completed(&own.rules, &generated)?.into();
        }
        let total = |scenario: &Scenario| scenario.rules.iter().map(|own| units(&own.rules)).sum::<usize>();
        let is_missing = self.0.iter().any(|deviation| matches!(deviation, Deviation::Incomplete(_)));
        if is_missing && total(&repaired) == total(scenario) {
            return None;
        }
        for deviation in &self.0 {
            let Deviation::Obstacle(obstacle) = deviation else { continue };
            obstacle.remove(&mut repaired).then_some(())?;
        }
        (!self.0.is_empty()).then_some(repaired)
    }
}
