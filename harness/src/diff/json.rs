//! The result of `svclab diff` as JSON. `svclab schema diff` describes every field.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Diff, Step, known_differences, live_result, merge, notes};

/// The changes as a serializable value.
pub fn json(diff: &Diff) -> impl Serialize {
    Document::of(diff)
}

/// The changes of each release as a serializable value.
pub fn steps_json(steps: &[Step]) -> impl Serialize {
    let all = steps.iter().map(|Step { name, diff }| StepDocument { name, diff: Document::of(diff) });
    Steps { accepted: steps.iter().all(|step| step.diff.holds()), steps: all.collect() }
}

/// The results of `svclab diff`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    /// The kube-proxy before, as text.
    before: &'a str,
    /// The kube-proxy after, as text.
    after: &'a str,
    /// The file of each side.
    files: &'a [String; 2],
    /// Whether all changes are accepted.
    accepted: bool,
    /// The changes: first those that lose packets, and among these first those that clients notice.
    changes: Vec<Change<'a>>,
    /// Changes that do not affect packets.
    notes: Vec<Note<'a>>,
    /// The number of classes of packets compared.
    classes: usize,
    /// Whether all classes were compared.
    complete: bool,
    /// The rules that svclab does not model and that packets reach.
    unknown: Vec<Unknown<'a>>,
    /// The rules of the inputs that are not part of the clusters, as text: their effect is unknown.
    ignored_rules: &'a [String],
    /// The vantage points that only one side has.
    not_compared: &'a [String],
    /// The accepted changes that do not occur.
    unused_accepted: &'a [String],
}

impl<'a> Document<'a> {
    fn of(diff: &'a Diff) -> Self {
        Self {
            before: &diff.sides[0],
            after: &diff.sides[1],
            files: &diff.files,
            accepted: diff.holds(),
            changes: diff.changes.iter().map(Change::of).collect(),
            notes: diff.notes.iter().map(Note::of).collect(),
            classes: diff.classes,
            complete: !diff.is_cut,
            unknown: diff.unknown.iter().map(|(rule, classes)| Unknown { rule, classes: *classes }).collect(),
            ignored_rules: &diff.ignored_rules,
            not_compared: &diff.not_compared,
            unused_accepted: &diff.unused,
        }
    }
}

/// The results of `svclab diff --each-release`.
#[derive(Serialize, JsonSchema)]
pub struct Steps<'a> {
    /// Whether no release changes anything.
    accepted: bool,
    /// The releases and modes, the oldest first.
    steps: Vec<StepDocument<'a>>,
}

/// The changes of one release or mode.
#[derive(Serialize, JsonSchema)]
struct StepDocument<'a> {
    /// The release or mode that introduces the changes: `1.28`, `1.33, nftables mode`.
    name: &'a str,
    /// The comparison with the release or mode before it.
    diff: Document<'a>,
}

/// A rule that svclab does not model.
#[derive(Serialize, JsonSchema)]
struct Unknown<'a> {
    /// The rule, and why it is unknown.
    rule: &'a str,
    /// The number of classes of packets that depend on it.
    classes: usize,
}

/// A change.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Change<'a> {
    /// The name of the change, for files of accepted changes.
    id: String,
    /// The kinds of destinations of the packets, the most frequent first: `cluster-ip`, `node-port-at-loopback`.
    targets: Vec<&'static str>,
    /// Their outcomes before and after: the most severe first, and among these the most frequent.
    outcomes: Vec<OutcomeChange>,
    /// The services that the packets are sent to.
    services: Vec<&'a str>,
    /// The vantage points that send the packets.
    from: Vec<Origin<'a>>,
    /// The number of classes of packets.
    classes: usize,
    /// The release or mode that introduces the change, if known.
    since: Option<String>,
    /// The documented cause.
    known: Option<Known>,
    /// The later releases or modes that change the outcome of some of the packets again.
    later_changes: Vec<Again>,
    /// Whether the change is accepted.
    accepted: bool,
    /// Why the change is accepted.
    reason: Option<&'a str>,
    /// One of the packets; `null` if no first packet shows the change.
    example: Option<Example<'a>>,
    /// What the kernel did with the example; `null` if it was not sent.
    live: Option<Live<'a>>,
    /// Why the example was not sent, with `--live`.
    not_sent: Option<&'static str>,
}

/// A release or mode that changes again what an earlier one changed.
#[derive(Serialize, JsonSchema)]
struct Again {
    /// The release or mode.
    since: String,
    /// The documented cause.
    known: Option<Known>,
    /// The number of classes of packets.
    classes: usize,
}

/// The outcome of packets before and after.
#[derive(Serialize, JsonSchema)]
struct OutcomeChange {
    /// The outcome before, as text.
    before: String,
    /// The outcome after, as text.
    after: String,
    /// What differs if both sides deliver, reject or drop the packets: `fewer-endpoints`, `another-source-address`.
    differs: Vec<&'static str>,
    /// The number of classes of packets.
    classes: usize,
}

/// What the kernel did with a packet, before and after.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Live<'a> {
    /// What was observed before.
    before: &'a str,
    /// What was observed after.
    after: &'a str,
    /// Whether both were predicted.
    is_predicted: bool,
    /// Why the kernel shows no difference; `null` if it shows one.
    no_difference_reason: Option<&'static str>,
}

/// A change that does not affect packets.
#[derive(Serialize, JsonSchema)]
struct Note<'a> {
    /// The name of the note: `rules`, `sysctls`, `firewall`, `held-ports`.
    code: &'static str,
    /// What changes.
    what: &'a str,
    /// Details, one per line.
    details: &'a [String],
    /// The documented cause.
    known: Option<Known>,
}

/// Vantage points of one kind.
#[derive(Serialize, JsonSchema)]
struct Origin<'a> {
    /// The kind: `pod`, `node`, `localhost` or `host`.
    kind: &'a str,
    /// Their number.
    number: usize,
}

/// A documented difference.
#[derive(Serialize, JsonSchema)]
struct Known {
    /// The name of the difference.
    code: &'static str,
    /// What differs, in a sentence.
    what: &'static str,
    /// The address of the document.
    document: &'static str,
}

/// One of the packets of a change.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Example<'a> {
    /// The vantage point that sends it.
    from: String,
    /// The destination of the packet.
    to: String,
    /// The protocol.
    protocol: String,
    /// The flags of a TCP segment that opens no connection, in the letters of tcpdump.
    tcp_flags: Option<String>,
    /// All packets of its class, as text.
    class: &'a str,
    /// The outcomes before, each with its share.
    before: &'a [String],
    /// The outcomes after.
    after: &'a [String],
    /// The rule that decides the outcome before.
    rule_before: Option<&'a str>,
    /// The rule that decides the outcome after.
    rule_after: Option<&'a str>,
}

impl<'a> Change<'a> {
    fn of(change: &'a merge::Change) -> Self {
        Self {
            id: change.id(),
            targets: change.targets.iter().map(|target| target.code()).collect(),
            outcomes: change.outcomes.iter().map(OutcomeChange::of).collect(),
            services: change.services.iter().map(String::as_str).collect(),
            from: change.origins.iter().map(|(kind, number)| Origin { kind: kind.as_str(), number: *number }).collect(),
            classes: change.classes,
            since: change.since.as_ref().map(ToString::to_string),
            known: change.known.map(Known::of),
            later_changes: change.then.iter().map(Again::of).collect(),
            accepted: change.accepted.is_some(),
            reason: change.accepted.as_deref(),
            example: change.example.as_ref().map(|example| Example {
                from: example.from.to_string(),
                to: example.to(),
                protocol: example.protocol(),
                tcp_flags: example.segment().map(|flags| flags.to_string()),
                class: &example.class,
                before: &example.was,
                after: &example.is,
                rule_before: example.rules[0].as_deref(),
                rule_after: example.rules[1].as_deref(),
            }),
            live: match &change.live {
                Some(live_result::Live::Sent(sent)) => Some(Live::of(sent)),
                Some(live_result::Live::NotSent(_)) | None => None,
            },
            not_sent: match change.live {
                Some(live_result::Live::NotSent(why)) => Some(why),
                Some(live_result::Live::Sent(_)) | None => None,
            },
        }
    }
}

impl Again {
    fn of(again: &merge::Again) -> Self {
        let merge::Again { since, known, classes } = again;
        Self { since: since.to_string(), known: known.map(Known::of), classes: *classes }
    }
}

impl<'a> Live<'a> {
    fn of(seen: &'a live_result::KernelOutcomes) -> Self {
        let live_result::KernelOutcomes { seen: [before, after], is_predicted, alike } = seen;
        Self { before, after, is_predicted: *is_predicted == [true; 2], no_difference_reason: *alike }
    }
}

impl OutcomeChange {
    fn of(one: &merge::OutcomeChange) -> Self {
        let merge::OutcomeChange { contrast, classes } = one;
        let differs = contrast.aspects.iter().map(|aspect| aspect.code()).collect();
        Self { before: contrast.was.to_string(), after: contrast.is_words(), differs, classes: *classes }
    }
}

impl<'a> Note<'a> {
    fn of(note: &'a notes::Note) -> Self {
        Self { code: note.code, what: &note.what, details: &note.details, known: note.known.map(Known::of) }
    }
}

impl Known {
    fn of(known: known_differences::Known) -> Self {
        Self { code: known.code, what: known.what, document: known.document }
    }
}
