//! Real packets compared with exact shares: the flows that arrived at every endpoint, and its rule's counter.

use std::collections::HashMap;
use std::net::SocketAddr;

use svclab_rules::cascade::Cascade;
use svclab_rules::walk::Share;

use crate::observation::{INDEPENDENT, Tally};
use crate::stats::{Fit, Goal, conclude, fit, is_clear};
use crate::text::grouped;

/// The outcome of many new flows through the rules of one cascade.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// The sender, as in scenarios: `pod/client`.
    pub(crate) from: String,
    /// The address and port that all flows were sent to.
    pub(crate) to: SocketAddr,
    /// The number of flows sent.
    pub(crate) sent: u64,
    /// The number of flows that were resent because the kernel had dropped them for reasons other than rules: see [`Tally::resent`].
    pub(crate) resent: u64,
    /// Every endpoint in the order of its first rule; then, if rules send some flows to none, the flows that reached none.
    pub(crate) arrivals: Vec<Arrival>,
    /// The comparison of counts with shares; `None` if nothing arrived.
    pub(crate) fit: Option<Fit>,
    /// What the sample shows, as sentences without full stops.
    pub(crate) confirmations: Vec<String>,
    /// The faults, as fragments; empty if counts fit, flows are independent, every flow is accounted for and the counters agree.
    pub(crate) faults: Vec<String>,
}

/// Flows that arrived at one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arrival {
    /// The endpoint.
    pub(crate) endpoint: String,
    /// Its exact share.
    pub(crate) share: Share,
    /// Flows that arrived there.
    pub(crate) arrived: u64,
    /// Flows that rules translated to it, by the rules' counters; `None` if rules have none.
    pub(crate) counted: Option<u64>,
}

/// The placeholder for flows that rules send to no endpoint.
const NOWHERE: &str = "no endpoint";

impl Sample {
    /// Returns whether everything agrees with the rules.
    pub(crate) fn agrees(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Returns the expected shares: of endpoints, and of flows without an endpoint.
pub(crate) fn expected(cascade: &Cascade) -> Expected {
    let mut shares: Expected = cascade.shares().into_iter().map(|(at, share)| (at.to_owned(), share)).collect();
    if cascade.left != Share::ZERO {
        shares.push((NOWHERE.to_owned(), cascade.left));
    }
    shares
}

/// The shares of endpoints, and of flows without one.
pub(crate) type Expected = Vec<(String, Share)>;

/// Returns the flows that arrived at each expected endpoint, or nowhere if rules leave some without an endpoint; and those that arrived
/// elsewhere.
fn arrivals(expected: &Expected, tally: &Tally) -> (Vec<Arrival>, HashMap<String, u64>) {
    let mut delivered: HashMap<String, u64> =
        tally.delivered.iter().map(|(at, count)| (at.to_string(), *count)).collect();
    let counted = |endpoint: &str| {
        let by_destination = tally.translated.as_ref()?.by_destination();
        Some(endpoint.parse().ok().and_then(|at: SocketAddr| by_destination.get(&at).copied()).unwrap_or(0))
    };
    let arrival = |&(ref endpoint, share): &(String, Share)| match endpoint.as_str() {
        NOWHERE => Arrival { endpoint: NOWHERE.to_owned(), share, arrived: tally.lost, counted: None },
        endpoint => {
            let arrived = delivered.remove(endpoint).unwrap_or(0);
            Arrival { endpoint: endpoint.to_owned(), share, arrived, counted: counted(endpoint) }
        }
    };
    (expected.iter().map(arrival).collect(), delivered)
}

fn counts_and_shares(arrivals: &[Arrival]) -> (Vec<u64>, Vec<f64>) {
    arrivals.iter().map(|own| (own.arrived, own.share.to_f64())).unzip()
}

/// Returns whether enough flows have arrived: see [`is_clear`].
pub(crate) fn is_enough(expected: &Expected, tally: &Tally, goal: &Goal) -> bool {
    let (counts, shares) = counts_and_shares(&arrivals(expected, tally).0);
    // More flows do not help if nothing can be judged.
    is_clear(&counts, &shares, goal).unwrap_or(true)
}

/// Compares the arrived flows with the exact shares of a cascade. `stops_early` is whether flows were counted until there [were
/// enough](is_enough).
pub(crate) fn judge(
    cascade: &Cascade,
    from: String,
    to: SocketAddr,
    tally: &Tally,
    goal: &Goal,
    stops_early: bool,
) -> Sample {
    let (arrivals, elsewhere) = arrivals(&expected(cascade), tally);
    let mut faults = delivery_faults(cascade, tally, &elsewhere);
    let mut confirmations = Vec::new();
    let (counts, shares) = counts_and_shares(&arrivals);
    let fitted = if stops_early { conclude(&counts, &shares, goal) } else { fit(&counts, &shares, goal.false_alarm) };
    let fit = fitted.map_err(|error| faults.push(error.to_string())).ok();
    if let Some(fit) = &fit {
        let words = fit.words(|cell| arrivals[cell].endpoint.clone());
        if fit.agrees { &mut confirmations } else { &mut faults }.extend(words);
    }
    let tests = tally.independence(cascade.endpoints);
    let dependent =
        tests.iter().filter_map(|(on, test)| Some((on, test.filter(|test| !test.agrees(goal.false_alarm))?)));
    faults.extend(dependent.map(|(on, test)| test.words(on)));
    if tests.iter().all(|(_, test)| test.is_some_and(|test| test.agrees(goal.false_alarm))) {
        confirmations.push(INDEPENDENT.to_owned());
    }
    confirmations.extend(tally.confirmation());
    Sample { from, to, sent: tally.sent, resent: tally.resent, arrivals, fit, confirmations, faults }
}

/// Returns faults for flows that are lost, duplicated, delivered elsewhere or not attributed.
fn delivery_faults(cascade: &Cascade, tally: &Tally, elsewhere: &HashMap<String, u64>) -> Vec<String> {
    let sent = grouped(tally.sent);
    let mut faults = Vec::new();
    if tally.lost > 0 && cascade.left == Share::ZERO {
        faults.push(format!("{} of {sent} flows were not delivered", grouped(tally.lost)));
    }
    if tally.duplicated > 0 {
        faults.push(format!("{} of {sent} flows were delivered more than once", grouped(tally.duplicated)));
    }
    if tally.unattributed > 0 {
        faults.push(format!("{} packets were delivered that are not part of any flow", grouped(tally.unattributed)));
    }
    let mut elsewhere: Vec<_> = elsewhere.iter().collect();
    elsewhere.sort();
    let words = |(at, count): (&String, &u64)| {
        format!("{} of {sent} flows were delivered to {at}, which is not an endpoint", grouped(*count))
    };
    faults.extend(elsewhere.into_iter().map(words));
    faults
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::cascade::input::read;
    use crate::observation::Translations;

    fn cascade() -> Cascade {
        let text = "*nat\n:WEB - [0:0]\n\
            -A WEB -p tcp -m statistic --mode random --probability 0.33333333349 -j DNAT --to-destination 10.0.0.1:80\n\
            -A WEB -p tcp -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.0.0.2:80\n\
            -A WEB -p tcp -j DNAT --to-destination 10.0.0.3:80\nCOMMIT\n";
        read(&crate::evidence::read(text), Path::new("rules"))
            .unwrap_or_else(|found| panic!("{:?}", found.errors))
            .cascades
            .remove(0)
    }

    fn tally(counts: [u64; 3]) -> Tally {
        let at = |last: u8| SocketAddr::from(([10, 0, 0, last], 80));
        let delivered = BTreeMap::from([(at(1), counts[0]), (at(2), counts[1]), (at(3), counts[2])]);
        Tally { sent: counts.iter().sum(), delivered, ..Tally::default() }
    }

    fn judged(tally: &Tally, counters: Option<[u64; 3]>) -> Sample {
        let counters = counters.map(|counts| {
            let mut all = Translations::default();
            (1..)
                .zip(counts)
                .for_each(|(last, count)| all.add("node/worker", SocketAddr::from(([10, 0, 0, last], 80)), count));
            all
        });
        let to = SocketAddr::from(([10, 96, 0, 1], 80));
        let tally = Tally { translated: counters.map(Box::new), ..tally.clone() };
        judge(&cascade(), "pod/client".to_owned(), to, &tally, &Goal::default(), false)
    }

    #[test]
    fn counts_that_fit_show_how_far_shares_can_be_off() {
        let sample = judged(&tally([18_500, 18_610, 18_421]), Some([18_500, 18_610, 18_421]));
        assert_eq!(sample.faults, Vec::<String>::new());
        assert_eq!(
            sample.confirmations,
            [
                "no endpoint is off by more than 3.7 % (relative), at a false-alarm rate of 1e-6; 55,531 flows",
                "the rules' counters agree with what arrived",
            ]
        );
    }

    #[rstest]
    #[case::biased(tally([20_000, 18_000, 18_000]), "10.0.0.1:80 got 20,000 of 56,000 flows")]
    #[case::lost(Tally { lost: 1, ..tally([18_500, 18_610, 18_421]) }, "1 of 55,531 flows were not delivered")]
    #[case::duplicated(Tally { duplicated: 2, ..tally([18_500, 18_610, 18_421]) }, "2 of 55,531 flows were delivered more than once")]
    #[case::of_no_flow(Tally { unattributed: 3, ..tally([18_500, 18_610, 18_421]) }, "3 packets were delivered that are not part of any flow")]
    #[case::nothing(tally([0, 0, 0]), "no flow was counted")]
    fn what_is_wrong_is_reported(#[case] tally: Tally, #[case] said: &str) {
        let sample = judged(&tally, None);
        assert!(!sample.agrees());
        assert!(sample.faults[0].starts_with(said), "{:?}", sample.faults);
    }

    #[test]
    fn rules_count_a_resent_flow_twice() {
        let resent = Tally { resent: 1, ..tally([18_500, 18_610, 18_421]) };
        let sample = judged(&resent, Some([18_501, 18_610, 18_421]));
        assert_eq!(sample.faults, Vec::<String>::new());
        assert_eq!(sample.confirmations[1], "the rules' counters agree with what arrived, except for 1 flow resent");
    }

    #[test]
    fn flows_delivered_elsewhere_are_reported_with_their_address() {
        let mut tally = tally([18_500, 18_610, 18_421]);
        tally.delivered.insert(SocketAddr::from(([10, 0, 0, 9], 80)), 7);
        let faults = judged(&tally, None).faults;
        assert_eq!(faults, ["7 of 55,531 flows were delivered to 10.0.0.9:80, which is not an endpoint"]);
    }
}
