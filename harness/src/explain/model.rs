//! What an explanation says: plain values, which are its JSON form too.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Serialize;
use svclab_rules::walk::Share;

/// Everything there is to say of one packet's way.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "svclab explain --format json")]
pub struct Explanation {
    /// The version of this form: 1. Fields may be added; none is renamed or removed without a new number.
    pub version: u32,
    /// The scenario's name.
    pub scenario: String,
    /// Its file, as the user named it.
    pub file: String,
    /// After how many `apply` of the scenario's steps.
    pub step: usize,
    /// The packet that is explained.
    pub packet: FirstPacket,
    /// What should become of it; `null` where its sender has no address to send from.
    pub promise: Option<Promised>,
    /// Why nothing is predicted, where that is so.
    pub unpredicted: Option<String>,
    /// What can become of it: one way for each outcome of chance.
    pub ways: Vec<Way>,
    /// What the kernel did with a real packet, where one was sent.
    pub kernel: Option<Kernel>,
    /// Other families that the same question could be asked for.
    pub families: Vec<&'static str>,
}

/// What the kernel did with a real packet, and how far it went the predicted way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Kernel {
    /// What was seen, in words.
    pub observed: String,
    /// Whether that is among what is predicted; `null` where nothing is.
    pub predicted: Option<bool>,
    /// The way that it went, from 1: the one whose rules it met farthest.
    pub way: Option<usize>,
    /// How many rules it met as predicted, one after the other.
    pub alike: usize,
    /// How many rules it met, on all machines.
    pub met: usize,
    /// Where it first left the predicted way.
    pub difference: Option<Parting>,
}

/// Where the kernel leaves the predicted way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Parting {
    /// The machine.
    pub place: String,
    /// Which packet: `the packet`, `the answer`.
    pub packet: &'static str,
    /// The rule that was predicted; `null` where no further one was.
    pub predicted: Option<String>,
    /// What the kernel met instead.
    pub kernel: String,
}

impl Kernel {
    /// Whether the kernel did what is predicted, where anything is.
    pub fn agrees(&self) -> bool {
        self.predicted != Some(false) && self.difference.is_none()
    }
}

/// A packet as its sender sends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FirstPacket {
    /// Who sends, as scenarios name it.
    pub from: String,
    /// To where, as the user wrote it.
    pub to: String,
    /// The protocol.
    pub protocol: &'static str,
    /// The source on the wire; `null` where nobody can say.
    pub source: Option<SocketAddr>,
    /// The destination on the wire.
    pub destination: SocketAddr,
}

/// What the Service API promises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Promised {
    /// What becomes of the packet, in words.
    pub outcome: String,
    /// The service and port that the address belongs to: `namespace/name:port`.
    pub service: Option<String>,
    /// Why.
    pub because: Vec<Because>,
    /// Why this release is known not to keep the promise, where that is so.
    pub known_bug: Option<String>,
}

/// A clause that a promise rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Because {
    /// What it says.
    pub sentence: &'static str,
    /// Where it stands.
    pub citation: &'static str,
}

/// One of the things that can become of a packet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Way {
    /// How much of all such packets goes this way.
    pub share: Part,
    /// How it ends.
    pub verdict: OutcomeKind,
    /// The end in words.
    pub outcome: String,
    /// Where it ends: who gets the packet, or where it is lost.
    pub at: Option<String>,
    /// The source that the receiver sees.
    pub source: Option<SocketAddr>,
    /// The destination that the receiver sees.
    pub destination: Option<SocketAddr>,
    /// What had to be assumed, in words.
    pub assumed: Option<String>,
    /// The hooks on the way there.
    pub there: Vec<Stop>,
    /// The hooks on the way of the answer, or of the rejection.
    pub back: Vec<Stop>,
    /// What becomes of the answer, in words; nothing where none is sent.
    pub reply: Option<String>,
    /// True where the hooks are left out, because there are too many ways to tell all of each: `--way` chooses one that is told.
    pub brief: bool,
}

/// How a way ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeKind {
    /// The packet comes out.
    Delivered,
    /// Its sender is told that it is refused.
    Rejected,
    /// It is lost.
    Dropped,
    /// Nobody can say.
    Unknown,
}

/// A share of packets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Part {
    /// As people write it: `1`, `1/3`, `33.333333 %`.
    pub text: String,
    /// As a number from 0 to 1.
    pub number: f64,
    /// As numerator and denominator, where they are exact and not above 2^64.
    pub exact: Option<(u64, u64)>,
}

impl From<Share> for Part {
    fn from(share: Share) -> Self {
        let narrow = |(part, whole): (u128, u128)| Some((u64::try_from(part).ok()?, u64::try_from(whole).ok()?));
        Self { text: share.to_string(), number: share.to_f64(), exact: share.fraction().and_then(narrow) }
    }
}

/// A packet at one of the places in a machine's kernel where rules are asked.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Stop {
    /// The machine: `node/worker`.
    pub place: String,
    /// The hook, as iptables calls its chains: `PREROUTING`.
    pub hook: &'static str,
    /// The interface that it came in by.
    pub input: Option<String>,
    /// The interface that it leaves by, where that is known already.
    pub output: Option<String>,
    /// The packet as it came: `10.244.1.3:33000 > 10.96.0.10:80 tcp`.
    pub came: String,
    /// What the machine's connection table says of it when it comes in or is sent, in words; nothing of the first packet of a
    /// connection.
    pub connection: Option<&'static str>,
    /// What is different when it leaves.
    pub changes: Vec<Change>,
    /// The rules that matter, in order, those inside of a chain behind the jump into it.
    pub rules: Vec<Line>,
    /// How many other rules of the chains on its way have nothing for this packet.
    pub passed: usize,
    /// What follows, as a lower-case fragment.
    pub then: String,
}

/// Something that is different when a packet leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// What: `source`, `destination` or `mark`.
    pub what: &'static str,
    /// Before.
    pub from: String,
    /// After.
    pub to: String,
}

/// A rule on the way.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Line {
    /// Through how many chains the packet came here: 0 in the kernel's own chain.
    pub depth: usize,
    /// The language that the rule is in: `iptables` or `nftables`.
    pub language: &'static str,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// The number of the rule in its chain, from 1.
    pub number: usize,
    /// How many rules the chain has.
    pub of: usize,
    /// How many rules right before it, in its chain, have nothing for this packet.
    pub passed: usize,
    /// The rule itself.
    pub text: String,
    /// Whether it is carried out.
    pub matched: Matched,
    /// Why, as a lower-case fragment: what it asks for.
    pub why: String,
    /// What it does, as a lower-case fragment.
    pub does: String,
    /// How many of the packets that come to this rule it takes, where chance decides.
    pub chance: Option<Part>,
    /// Whether the kernel met it too, where a real packet was sent and the kernel tells.
    pub kernel: Option<bool>,
    /// More about it, for a reader who meets such a rule for the first time.
    pub note: Option<String>,
}

/// Whether a rule is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Matched {
    /// It is.
    Yes,
    /// Only chance keeps it from being.
    NotByChance,
    /// It may be, and nothing depends on it.
    Perhaps,
    /// Nobody can say, and the packet's fate depends on it.
    Unknown,
}
