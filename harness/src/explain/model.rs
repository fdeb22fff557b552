//! The values of an explanation, which are also its JSON form.

use std::fmt;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Serialize;
use svclab_rules::walk::Share;

/// The explanation of one packet's path.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The scenario's name.
    pub scenario: String,
    /// The scenario's file, as given on the command line.
    pub file: String,
    /// The number of changes of the cluster (`apply`, `restart`, `stop`, `start`) carried out before.
    pub step: usize,
    /// The nodes whose kube-proxy is stopped at that step.
    pub stopped: Vec<StoppedProxy>,
    /// Rules of the input that are not part of the scenario, as text: their effect on the packet is unknown.
    pub ignored_rules: Vec<String>,
    /// The packet that is explained.
    pub packet: FirstPacket,
    /// The outcome that the Service API promises; `null` if the sender has no address to send from.
    pub promise: Option<ExplainedPromise>,
    /// Why there is no prediction; `null` if there is one.
    pub unpredicted: Option<String>,
    /// Where the prediction does not keep the promise: how rules differ from those that kube-proxy writes, as text. Missing rules are on no
    /// path.
    pub rule_differences: Vec<String>,
    /// The possible paths of the packet, one for each outcome of random choices.
    pub paths: Vec<Path>,
    /// What the kernel did with a real packet; `null` if none was sent.
    pub kernel: Option<KernelRun>,
    /// Other address families that both ends have: `ipv4`, `ipv6`.
    pub families: Vec<&'static str>,
}

impl Explanation {
    /// Returns what makes the paths uncertain, each with its kind.
    pub(crate) fn doubts(&self) -> impl Iterator<Item = (&'static str, String)> {
        let stale = self.stopped.iter().map(|stopped| ("stale", stopped.to_string()));
        stale.chain(self.ignored_rules.iter().map(|words| ("unknown", words.clone())))
    }
}

/// A node whose kube-proxy is stopped: its rules are those from before the stop, and do not follow later changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoppedProxy {
    /// The node.
    pub node: String,
    /// The number of the change that stopped it, from 1.
    pub change: usize,
}

impl fmt::Display for StoppedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, change } = self;
        write!(
            f,
            "kube-proxy on node {node} is stopped since change {change}: its rules are those from before that change"
        )
    }
}

/// What the kernel did with a real packet, compared with the prediction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KernelRun {
    /// The observed outcome, as text.
    pub observed: String,
    /// Whether the outcome is one of those predicted; `null` if there is no prediction.
    pub predicted: Option<bool>,
    /// The number of the predicted path that the kernel followed farthest, from 1.
    pub path: Option<usize>,
    /// The number of rules matched as predicted, one after the other.
    pub as_predicted: usize,
    /// The number of rules that the kernel matched, on all machines.
    pub matched: usize,
    /// The first difference from the predicted path.
    pub divergence: Option<Divergence>,
}

/// Where the kernel diverged from the predicted path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Divergence {
    /// The machine.
    pub place: String,
    /// The packet: `the packet` or `the reply`.
    pub packet: &'static str,
    /// The rule predicted next; `null` if none was.
    pub predicted: Option<String>,
    /// What the kernel matched instead.
    pub kernel: String,
}

impl KernelRun {
    /// Returns whether the kernel acted as predicted, if there is a prediction.
    pub fn agrees(&self) -> bool {
        self.predicted != Some(false) && self.divergence.is_none()
    }
}

/// The packet as its sender sends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FirstPacket {
    /// The sender, as in scenarios: `pod/client`.
    pub from: String,
    /// The destination, as given on the command line.
    pub to: String,
    /// The protocol: `tcp`, `udp` or `sctp`.
    pub protocol: &'static str,
    /// The source address and port; `null` if the sender has no address.
    pub source: Option<SocketAddr>,
    /// The destination address and port.
    pub destination: SocketAddr,
}

/// The outcome that the Service API promises.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedPromise {
    /// The outcome, as text.
    pub outcome: String,
    /// The service port of the destination: `namespace/name:port`.
    pub service: Option<String>,
    /// The clauses that the promise is based on.
    pub reasons: Vec<Reason>,
    /// The known bug because of which this release does not keep the promise.
    pub known_bug: Option<String>,
}

/// A clause that a promise is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The clause, as a lower-case fragment.
    pub sentence: &'static str,
    /// The API field or documentation page that states it.
    pub citation: &'static str,
}

/// A possible path of a packet.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Path {
    /// The share of such packets that takes this path.
    pub share: Proportion,
    /// The kind of outcome.
    pub outcome_kind: OutcomeKind,
    /// The outcome, as text.
    pub outcome: String,
    /// The receiver of the packet, or the place where it is dropped.
    pub at: Option<String>,
    /// The source that the receiver sees.
    pub source: Option<SocketAddr>,
    /// The destination that the receiver sees.
    pub destination: Option<SocketAddr>,
    /// The assumptions of this path, as text.
    pub assumed: Option<String>,
    /// The hooks in the original direction.
    pub original: Vec<HookVisit>,
    /// The hooks in the reply direction: those of the reply, or of the ICMP error or reset that rejects the packet.
    pub reply: Vec<HookVisit>,
    /// The outcome of the reply, as text; `null` if none is sent.
    pub reply_outcome: Option<String>,
    /// The address that the sender gets the reply from; `null` if it gets none.
    pub reply_from: Option<SocketAddr>,
    /// Whether the hooks are omitted because there are too many paths: `--path` chooses a path to show with its hooks.
    pub abridged: bool,
}

/// The kind of outcome of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum OutcomeKind {
    /// The packet is delivered.
    Delivered,
    /// The packet is rejected: its sender gets a TCP reset or an ICMP error.
    Rejected,
    /// The packet is dropped.
    Dropped,
    /// The outcome depends on a rule that is not modelled.
    Unknown,
}

/// A share of packets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proportion {
    /// As text: `1`, `1/3`, `33.333333 %`.
    pub text: String,
    /// As a number from 0 to 1.
    pub number: f64,
    /// As numerator and denominator; `null` if it is not exact or they exceed 2^64.
    pub exact: Option<(u64, u64)>,
}

impl From<Share> for Proportion {
    fn from(share: Share) -> Self {
        let narrow = |(part, whole): (u128, u128)| Some((u64::try_from(part).ok()?, u64::try_from(whole).ok()?));
        Self { text: share.to_string(), number: share.to_f64(), exact: share.fraction().and_then(narrow) }
    }
}

/// A packet at a netfilter hook of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookVisit {
    /// The machine: `node/worker`.
    pub place: String,
    /// The hook: `PREROUTING`, `INPUT`, `FORWARD`, `OUTPUT` or `POSTROUTING`.
    pub hook: &'static str,
    /// The input interface.
    pub input: Option<String>,
    /// The output interface, if the packet is routed already.
    pub output: Option<String>,
    /// The packet as it enters the hook: `10.244.1.3:33000 > 10.96.0.10:80 tcp`.
    pub packet: String,
    /// Its conntrack state when it enters the machine, as text; `null` for the first packet of a connection.
    pub connection: Option<String>,
    /// What the hook changes in the packet.
    pub changes: Vec<Change>,
    /// The rules that match or may match, in order; those of a chain follow the jump to it.
    pub rules: Vec<RuleVisit>,
    /// The number of other rules evaluated: those that do not match, and jumps to chains without a matching rule.
    pub without_effect: usize,
    /// What happens next, as a lower-case fragment.
    pub next: String,
}

/// A change that a hook makes to a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The field: `source`, `destination` or `mark`.
    pub what: &'static str,
    /// The value before.
    pub from: String,
    /// The value after.
    pub to: String,
}

/// A rule that a packet is evaluated against.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleVisit {
    /// The depth of jumps: 0 in a base chain.
    pub depth: usize,
    /// The language of the rule: `iptables` or `nftables`.
    pub language: &'static str,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// The position of the rule in its chain, from 1.
    pub number: usize,
    /// The number of rules in the chain.
    pub chain_length: usize,
    /// The number of rules immediately before it in its chain that do not match, or that jump to chains without a matching rule.
    pub without_effect: usize,
    /// The rule itself.
    pub text: String,
    /// Whether it matches.
    pub matched: Matched,
    /// Its conditions, as a lower-case fragment.
    pub condition: String,
    /// Its effect, as a lower-case fragment.
    pub effect: String,
    /// The share of the evaluated packets that it takes, if it chooses at random.
    pub chance: Option<Proportion>,
    /// Whether the kernel matched it too; `null` if no packet was traced this far.
    pub kernel: Option<bool>,
    /// More about such rules.
    pub note: Option<String>,
}

/// Whether a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Matched {
    /// It matches.
    Yes,
    /// Its random condition does not match on this path.
    NotChosen,
    /// It may match, which makes no difference to the outcome.
    Maybe,
    /// Whether it matches is unknown, and the outcome depends on it.
    Unknown,
}
