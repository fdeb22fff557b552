//! A rule that leads to an endpoint, with its probability and share.

use schemars::JsonSchema;
use serde::Serialize;
use svclab_rules::{cascade, walk};

/// A rule that takes a part of the connections that reach it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Step<'a> {
    /// Its number in the chain, from 1.
    rule: usize,
    /// Its endpoint: `10.244.1.2:80`.
    endpoint: &'a str,
    /// The endpoint's own chain, if it has one.
    chain: Option<&'a str>,
    /// The share that it takes of the connections that reach it.
    chance: Chance,
    /// The share that it takes of all connections; `null` if unknown, as are the other shares.
    share: Option<Share>,
    /// The deviation from the even share, relative to it.
    deviation: Option<f64>,
    /// The share that it and the rules before it take of all connections.
    cumulative: Option<Share>,
}

impl<'a> Step<'a> {
    pub(super) fn of(own: &cascade::Cascade, step: &'a cascade::Step) -> Self {
        let known = own.is_known(step);
        Self {
            rule: step.rule,
            endpoint: &step.endpoint,
            chain: Some(&*step.chain).filter(|chain| !chain.is_empty()),
            chance: Chance::of(step.chance),
            share: known.then(|| Share::of(step.share)),
            deviation: known.then(|| own.deviation(step)),
            cumulative: known.then(|| Share::of(step.cumulative)),
        }
    }
}

/// The condition under which a rule takes a connection that reaches it: its draw is below the threshold.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Chance {
    /// iptables' `statistic --mode random`.
    Random(Drawn),
    /// All.
    Always(Drawn),
    /// nft's `numgen random`.
    Numgen(Drawn),
    /// iptables' `statistic --mode nth`: `part` of every `every` packets, in turn.
    Nth(Turn),
    /// By a condition on the packet; the share is that of the connections that all shares describe.
    Condition,
}

/// Packets that are taken in turn.
#[derive(Serialize, JsonSchema)]
struct Turn {
    /// The number of packets taken.
    part: u32,
    /// The length of a round in packets.
    every: u32,
}

/// A random choice.
#[derive(Serialize, JsonSchema)]
struct Drawn {
    /// As written in the rules: `0.33333333349`.
    written: String,
    /// The number of draws that match.
    threshold: u32,
    /// The number of possible draws.
    draws: u64,
}

impl Chance {
    fn of(chance: cascade::Chance) -> Self {
        let drawn = || Drawn { written: chance.words(), threshold: chance.threshold(), draws: chance.draws() };
        match chance {
            cascade::Chance::Below(_) => Self::Random(drawn()),
            cascade::Chance::Always => Self::Always(drawn()),
            cascade::Chance::Drawn { .. } => Self::Numgen(drawn()),
            cascade::Chance::Nth { part, every } => Self::Nth(Turn { part, every }),
            cascade::Chance::Condition => Self::Condition,
        }
    }
}

/// A share of connections. The true value is at least `value`, and at most `error` greater, apart from the last bit of the number itself.
#[derive(Serialize, JsonSchema)]
pub(super) struct Share {
    /// From 0 to 1.
    value: f64,
    /// The true value exceeds `value` by at most this.
    error: f64,
    /// The share itself if it is exact, as text because of its size: `1/3`.
    fraction: Option<String>,
}

impl Share {
    pub(super) fn of(share: walk::Share) -> Self {
        let fraction = share.fraction().map(|(numerator, denominator)| format!("{numerator}/{denominator}"));
        Self { value: share.to_f64(), error: share.error(), fraction }
    }
}
