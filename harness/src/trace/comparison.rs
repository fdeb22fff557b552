//! Compares the kernel's path with the predicted one.

use svclab_rules::cluster::Family;
use svclab_rules::ruleset::Rule;
use svclab_rules::walk::{Evaluated, Transport};

use super::event::{TraceSource, Traced, TracedWhat};
use super::headers::Passage;
use crate::predict::{MatchedRule, Network, PredictedBranch, Stage};
use crate::sources::FlowOutcome;
use crate::topology::NetnsId;

/// The port of tunnel packets, which are not traced (the Linux default for VXLAN).
const TUNNEL: u16 = 8472;

/// The comparison of the kernel's path with the predicted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// The number of rules that both matched before the first difference.
    pub(crate) alike: usize,
    /// The first difference, if there is one.
    pub(crate) difference: Option<Difference>,
    /// For each hook on the path there and back, and each matched rule: whether the kernel matched it too. `None` after the first
    /// difference, and for rules that the kernel does not report.
    pub(crate) matched: Vec<Vec<Option<bool>>>,
}

/// The place where the kernel leaves the predicted path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The machine.
    pub(crate) place: String,
    /// The packet.
    pub(crate) passage: Passage,
    /// The predicted rule; `None` if no further rule was predicted.
    pub(crate) predicted: Option<String>,
    /// The rule that the kernel matched instead, in words.
    pub(crate) kernel: String,
}

/// A rule that is predicted to match, and its position in [`Comparison::matched`].
struct Predicted<'m> {
    matched: &'m MatchedRule<'m>,
    stage: usize,
    index: usize,
}

/// The branch that the kernel followed farthest, and its comparison. If a random choice within one rule leaves several, it is the one with
/// the observed outcome. `None` if the kernel reported no rule at all, for example rules of iptables-legacy without `nfnetlink_log`.
pub(crate) fn nearest(
    network: &Network<'_>,
    branches: &[PredictedBranch],
    traced: &[Traced],
    seen: &FlowOutcome,
) -> Option<(usize, Comparison)> {
    if traced.is_empty() {
        return None;
    }
    let compared = branches.iter().map(|branch| compare(network, branch, traced)).enumerate();
    // Among equals, the first.
    compared.reduce(|best, next| {
        let ends_so = |way: usize| FlowOutcome::predicted(&branches[way].outcome).is_some_and(|end| end.is_like(seen));
        let rank = |(way, one): &(usize, Comparison)| (one.difference.is_none(), one.alike, ends_so(*way));
        if rank(&next) > rank(&best) { next } else { best }
    })
}

/// Compares a trace with a branch.
pub(crate) fn compare(network: &Network<'_>, branch: &PredictedBranch, traced: &[Traced]) -> Comparison {
    let stages: Vec<(Passage, &Stage)> = passages(branch).collect();
    let rules: Vec<Vec<MatchedRule<'_>>> = stages.iter().map(|(_, stage)| network.matched_rules(stage)).collect();
    let matched = rules.iter().map(|rules| vec![None; rules.len()]).collect();
    let mut comparison = Comparison { alike: 0, difference: None, matched };
    for (passage, netns) in visits(&stages, traced) {
        let here = |(_, (of, stage)): &(usize, &(Passage, &Stage))| {
            *of == passage && stage.netns == netns && !is_of_tunnel(stage)
        };
        let predicted = stages.iter().enumerate().filter(here).flat_map(|(stage, _)| {
            rules[stage].iter().enumerate().map(move |(index, matched)| Predicted { matched, stage, index })
        });
        let predicted: Vec<Predicted<'_>> =
            predicted.filter(|one| !matches!(one.matched.did, Evaluated::NotChosen(_))).collect();
        let kernel: Vec<&Traced> = traced.iter().filter(|one| one.netns == netns && one.passage == passage).collect();
        let difference = by_source(predicted, kernel)
            .into_iter()
            .find_map(|(predicted, kernel)| comparison.walk(&predicted, &kernel));
        if let Some((predicted, instead)) = difference {
            let place = network.topology().namespaces[netns].name.clone();
            let family = stages.first().map_or(Family::Ipv4, |(_, stage)| stage.family);
            let kernel = kernel_words(network, family, instead);
            let predicted = predicted.map(|matched| matched.place.text.clone());
            comparison.difference = Some(Difference { place, passage, predicted, kernel });
            return comparison;
        }
    }
    comparison
}

/// Prediction and trace of a machine: as a whole, or separately for each language if both have traces of their own.
fn by_source<'m, 't>(
    predicted: Vec<Predicted<'m>>,
    kernel: Vec<&'t Traced>,
) -> Vec<(Vec<Predicted<'m>>, Vec<&'t Traced>)> {
    let is_of_iptables = |one: &Predicted<'_>| matches!(one.matched.rule, Rule::Iptables { .. });
    let is_of_legacy = |one: &&Traced| one.trace_source == TraceSource::Legacy;
    if !kernel.iter().any(is_of_legacy) || predicted.iter().all(is_of_iptables) {
        return vec![(predicted, kernel)];
    }
    let (of_iptables, own) = predicted.into_iter().partition(is_of_iptables);
    let (by_legacy, by_nftables) = kernel.into_iter().partition(is_of_legacy);
    vec![(own, by_nftables), (of_iptables, by_legacy)]
}

/// The hooks of a branch, there and back.
fn passages(branch: &PredictedBranch) -> impl Iterator<Item = (Passage, &Stage)> {
    let there = branch.stages.iter().map(|stage| (Passage::There, &**stage));
    there.chain(branch.back.iter().map(|stage| (Passage::Back, &**stage)))
}

/// The namespaces that each packet traverses: in the predicted order, then those that only the trace has.
fn visits(stages: &[(Passage, &Stage)], traced: &[Traced]) -> Vec<(Passage, NetnsId)> {
    let mut visits = Vec::new();
    for passage in [Passage::There, Passage::Back] {
        let predicted = stages.iter().filter(|(of, _)| *of == passage).map(|(_, stage)| stage.netns);
        let in_trace = traced.iter().filter(|one| one.passage == passage).map(|one| one.netns);
        for netns in predicted.chain(in_trace) {
            if !visits.contains(&(passage, netns)) {
                visits.push((passage, netns));
            }
        }
    }
    visits
}

/// Whether the packet is the outer packet of a tunnel, which is not traced.
fn is_of_tunnel(stage: &Stage) -> bool {
    matches!(stage.came.transport, Transport::Udp { destination: TUNNEL, .. })
}

/// The predicted rule, if any, and the one that the kernel matched instead, if any.
type FirstDifference<'m, 't> = (Option<&'m MatchedRule<'m>>, Option<&'t Traced>);

impl Comparison {
    /// Follows both paths through a namespace as long as they are equal.
    fn walk<'m, 't>(&mut self, predicted: &[Predicted<'m>], kernel: &[&'t Traced]) -> Option<FirstDifference<'m, 't>> {
        let mut kernel = kernel.iter().filter(|one| matches!(one.what, TracedWhat::Rule(_))).copied().peekable();
        for Predicted { matched, stage, index } in predicted {
            let place = &matched.place;
            let is_it = |one: &&Traced| {
                (one.table.as_str(), &one.chain, one.what)
                    == (place.table.as_str(), &place.chain, TracedWhat::Rule(Some(place.number)))
            };
            match kernel.next_if(is_it) {
                Some(_) => {
                    self.alike += 1;
                    self.matched[*stage][*index] = Some(true);
                }
                // A rule that may match need not be in the trace.
                None if matches!(matched.did, Evaluated::Maybe) => {}
                None => {
                    self.matched[*stage][*index] = Some(false);
                    return Some((Some(*matched), kernel.next()));
                }
            }
        }
        kernel.next().map(|more| (None, Some(more)))
    }
}

/// The rule that the kernel matched, in words: its text if it is an installed rule.
fn kernel_words(network: &Network<'_>, family: Family, matched: Option<&Traced>) -> String {
    let Some(Traced { netns, table, chain, what, .. }) = matched else {
        return "no further rule".to_owned();
    };
    let TracedWhat::Rule(Some(number)) = what else {
        return format!("a rule of chain {chain} in table {table} that no longer exists");
    };
    let place = format!("rule {number} of chain {chain} in table {table}");
    network.rule_text(*netns, family, table, chain, *number).map_or(place, |text| format!("table {table}: {text}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::documents;
    use crate::infer::{AdHocProbe, load_with_ad_hoc_probe};
    use crate::predict::{NewFlow, Prediction};
    use crate::topology;

    /// A packet to a service with three endpoints, and the trace of a kernel that takes the second branch.
    fn with_kernel(check: impl FnOnce(&Network<'_>, &Prediction, Vec<Traced>)) {
        let probe =
            AdHocProbe { from: "pod/client".to_owned(), to: "service/web:80".to_owned(), ..AdHocProbe::default() };
        let ad_hoc = load_with_ad_hoc_probe(Path::new("../scenarios/distribution/three.yaml"), &probe).unwrap();
        let documents = documents::generate(&ad_hoc.scenario, &ad_hoc.cluster).unwrap();
        let topology = topology::plan(&ad_hoc.scenario);
        let network = Network::of(&topology, &documents, &ad_hoc.cluster).unwrap();
        let prediction = network.predict(&NewFlow::of(&ad_hoc.probes[0], 33_000)).unwrap();
        let matched = passages(&prediction.branches[1]).flat_map(|(passage, stage)| {
            let rules =
                network.matched_rules(stage).into_iter().filter(|matched| matches!(matched.did, Evaluated::Match(_)));
            rules.map(move |matched| Traced {
                netns: stage.netns,
                passage,
                table: matched.place.table,
                chain: matched.place.chain,
                what: TracedWhat::Rule(Some(matched.place.number)),
                trace_source: TraceSource::Nftables,
            })
        });
        let matched = matched.collect();
        check(&network, &prediction, matched);
    }

    fn dropped_on_worker() -> FlowOutcome {
        let at = "node/worker".to_owned();
        FlowOutcome::Dropped { at, is_beyond_rules: false, has_no_listener: false, is_martian: false }
    }

    #[test]
    fn the_branch_that_the_kernel_took_is_found() {
        with_kernel(|network, prediction, matched| {
            let (way, comparison) = nearest(network, &prediction.branches, &matched, &dropped_on_worker()).unwrap();
            assert_eq!((way, comparison.alike, &comparison.difference), (1, matched.len(), &None));
            let of_ways = comparison.matched.iter().flatten().filter(|one| **one == Some(true)).count();
            assert_eq!(of_ways, matched.len());
        });
    }

    #[rstest]
    #[case::another_rule(
        2,
        Some(TracedWhat::Rule(Some(4))),
        "KUBE-SVC-LOLE4ISW44XBNF3G",
        "-A KUBE-SVC-LOLE4ISW44XBNF3G"
    )]
    #[case::a_rule_less(1, None, "-j KUBE-SVC-LOLE4ISW44XBNF3G", "statistic")]
    fn the_first_difference_is_reported(
        #[case] position: usize,
        #[case] instead: Option<TracedWhat>,
        #[case] predicted: &str,
        #[case] kernel: &str,
    ) {
        with_kernel(|network, prediction, mut matched| {
            match instead {
                Some(what) => matched[position].what = what,
                None => drop(matched.remove(position)),
            }
            let comparison = compare(network, &prediction.branches[1], &matched);
            let difference = comparison.difference.unwrap();
            assert_eq!((difference.place.as_str(), difference.passage), ("node/worker", Passage::There));
            assert!(difference.predicted.unwrap().contains(predicted));
            assert!(difference.kernel.contains(kernel), "{}", difference.kernel);
            assert_eq!(comparison.alike, position.min(2));
        });
    }

    /// A rule that occurs only in the trace is a difference too, even on a machine that no packet should reach.
    #[test]
    fn a_rule_beyond_the_prediction_is_a_difference() {
        with_kernel(|network, prediction, mut matched| {
            let netns = network.topology().find("node/worker2").unwrap();
            matched.push(Traced { netns, ..matched[0].clone() });
            let (_, comparison) = nearest(network, &prediction.branches, &matched, &dropped_on_worker()).unwrap();
            let difference = comparison.difference.unwrap();
            assert_eq!((difference.place.as_str(), difference.predicted), ("node/worker2", None));
        });
    }
}
