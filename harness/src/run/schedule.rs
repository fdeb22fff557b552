//! The scenarios of a run and their order.

use std::borrow::Cow;

use super::Options;
use crate::scenario::Scenario;

/// A scheduled scenario.
#[derive(Debug)]
pub(super) struct Scheduled<'s> {
    /// The scenario; its tests may be in another order.
    pub(super) scenario: Cow<'s, Scenario>,
    /// The number of the repetition, from 1, if scenarios are repeated.
    pub(super) repetition: Option<u32>,
}

impl Scheduled<'_> {
    /// The suffix of file names, so that no repetition or retry overwrites the files of another.
    pub(super) fn suffix(&self, retry: u32) -> String {
        let repetition = self.repetition.map(|number| format!(".repetition-{number}")).unwrap_or_default();
        if retry == 0 { repetition } else { format!("{repetition}.retry-{retry}") }
    }
}

/// The scenarios with a selected test, repeated as the options specify; with a seed, in random order.
pub(super) fn schedule<'s>(scenarios: &'s [Scenario], options: &Options) -> Vec<Scheduled<'s>> {
    let times = options.repeat.max(1);
    let chosen = |scenario: &&Scenario| options.runs(scenario);
    let mut all: Vec<Scheduled<'s>> = (1..=times)
        .flat_map(|number| {
            let repetition = (times > 1).then_some(number);
            scenarios
                .iter()
                .filter(chosen)
                .map(move |scenario| Scheduled { scenario: Cow::Borrowed(scenario), repetition })
        })
        .collect();
    if let Some(seed) = options.shuffle {
        let mut dice = Dice(seed);
        dice.shuffle(&mut all);
        for one in &mut all {
            if is_unordered(&one.scenario) {
                dice.shuffle(&mut one.scenario.to_mut().tests);
            }
        }
    }
    all
}

/// Whether no test builds on changes of earlier tests.
fn is_unordered(scenario: &Scenario) -> bool {
    !scenario.tests.iter().flat_map(|test| &test.steps).any(|step| step.change().is_some())
}

/// SplitMix64: a seed gives the same order on every machine.
struct Dice(u64);

impl Dice {
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.next() % (last as u64 + 1);
            items.swap(last, other as usize);
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario;

    fn names(scheduled: &[Scheduled<'_>]) -> Vec<(String, Vec<String>)> {
        let tests = |one: &Scheduled<'_>| one.scenario.tests.iter().map(|test| test.name.clone()).collect();
        scheduled.iter().map(|one| (one.scenario.name.clone(), tests(one))).collect()
    }

    #[test]
    fn a_seed_gives_one_order_and_keeps_all() {
        let load = |file: &str| scenario::load(&Path::new("../scenarios").join(file)).unwrap();
        let files = ["seeds/001-kind-clusterip.yaml", "updates/scale-to-zero.yaml", "cluster-ip/same-node.yaml"];
        let scenarios = files.map(load);
        let with = |seed| Options { shuffle: Some(seed), repeat: 3, ..Options::default() };
        let plain = schedule(&scenarios, &Options { repeat: 3, ..Options::default() });
        let orders: Vec<_> = (0..8).map(|seed| names(&schedule(&scenarios, &with(seed)))).collect();
        assert_eq!(orders[3], names(&schedule(&scenarios, &with(3))));
        assert!(orders.iter().any(|order| *order != names(&plain)));
        for mut order in orders {
            let mut all = names(&plain);
            order.iter_mut().chain(&mut all).for_each(|(_, tests)| tests.sort());
            order.sort();
            all.sort();
            assert_eq!(order, all);
        }
    }
}
