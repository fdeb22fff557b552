//! Rules of a listing that may have interfaces which it does not show.
//!
//! Such a rule is walked both as one that matches and as one that does not. The promise is broken for certain only if it is broken
//! whichever of these rules match.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::walk::Evaluated;

use crate::predict::{Network, PredictedBranch, Prediction, RulePlace, Stage};

/// The most rules whose combinations are tried; with more of them, it is unknown whether the promise is broken whichever match.
const MAX_RULES: usize = 10;

/// A rule on the path of the packet, or of its reply: they have different interfaces.
type Key = (bool, String, String, String, usize);

/// Whether each of these rules matched.
type Matched = BTreeMap<Key, bool>;

/// The rule that decides whether the promise is broken, if that depends on such rules.
pub(super) fn deciding(
    network: &Network<'_>,
    prediction: &Prediction,
    is_broken: impl Fn(&PredictedBranch) -> bool,
) -> Option<RulePlace> {
    if !prediction.branches.iter().any(|branch| branch.assumptions.depends_on_interfaces()) {
        return None;
    }
    let mut places: BTreeMap<Key, RulePlace> = BTreeMap::new();
    let (broken, kept): (Vec<_>, Vec<_>) = prediction.branches.iter().partition(|branch| is_broken(branch));
    let mut matched = |branches: Vec<&PredictedBranch>| -> Vec<Matched> {
        branches.into_iter().map(|branch| matched(network, branch, &mut places)).collect()
    };
    let (broken, kept) = (matched(broken), matched(kept));
    if broken.is_empty() || kept.is_empty() || is_always_one_of(&broken) {
        return None;
    }
    // One that matched only where the promise is broken, or only where it is kept.
    let with = |all: &[Matched], did: bool| -> BTreeSet<Key> {
        all.iter().flatten().filter(|(_, matched)| **matched == did).map(|(key, _)| key.clone()).collect()
    };
    let [breaks, keeps] = [&broken, &kept].map(|all| with(all, true));
    let one = breaks.difference(&keeps).next().or_else(|| keeps.difference(&breaks).next());
    let one = one.or_else(|| breaks.first()).or_else(|| keeps.first())?;
    places.remove(one)
}

/// The number of such rules that match on the path of a branch.
pub(super) fn matched_count(network: &Network<'_>, branch: &PredictedBranch) -> usize {
    if !branch.assumptions.depends_on_interfaces() {
        return 0;
    }
    matched(network, branch, &mut BTreeMap::new()).values().filter(|did| **did).count()
}

/// Whether one of these branches is taken whichever rules match.
fn is_always_one_of(branches: &[Matched]) -> bool {
    let rules: Vec<&Key> = branches.iter().flat_map(Matched::keys).collect::<BTreeSet<_>>().into_iter().collect();
    if rules.len() > MAX_RULES {
        return branches.iter().any(Matched::is_empty);
    }
    (0..1_usize << rules.len()).all(|choice| {
        let matches = |rule: &Key| rules.binary_search(&rule).is_ok_and(|at| choice >> at & 1 == 1);
        branches.iter().any(|branch| branch.iter().all(|(rule, did)| matches(rule) == *did))
    })
}

/// Which of these rules matched on the path of a branch.
fn matched(network: &Network<'_>, branch: &PredictedBranch, places: &mut BTreeMap<Key, RulePlace>) -> Matched {
    let mut all = Matched::new();
    let stages = |back: bool| if back { &branch.back } else { &branch.stages };
    for (is_back, stage) in [false, true].into_iter().flat_map(|back| stages(back).iter().map(move |one| (back, one))) {
        let stage: &Stage = stage;
        for one in network.matched_rules(stage).into_iter().filter(|one| one.rule.hides_interfaces()) {
            let RulePlace { netns, table, chain, number, .. } = &one.place;
            let key = (is_back, netns.clone(), table.clone(), chain.clone(), *number);
            all.insert(key.clone(), !matches!(one.did, Evaluated::NotChosen(_)));
            places.entry(key).or_insert(one.place);
        }
    }
    all
}
