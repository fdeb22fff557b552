//! The resolved scenario: every reference looked up, every default filled in.

mod connection;
mod during;
mod expectation;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use svclab_rules::cluster::{Cluster, Family, ObjectName, Protocol};
use svclab_rules::nftables::{self, OtherTable};
use svclab_rules::ruleset::Rules;

use super::tag::Tag;
pub use shape::Shape;

use crate::input::Span;
pub use crate::wire::{RejectKind, TcpFlags};
pub use connection::ConntrackEntry;
pub(crate) use during::flows_at_rate;
pub use during::{Bounds, During, DuringExpectation, DuringProbe};
pub use expectation::{
    Balance, DropPlace, Expectation, ExpectedOutcome, ReplyExpectation, SourceExpectation, Target, TooBig,
};

/// A note that is not an error, for example on an object that was ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The place of the object.
    #[serde(flatten)]
    pub span: Span,
    /// The message, a lower-case fragment.
    pub message: String,
    /// Whether the author probably meant something else. Such notes are printed without `-v`.
    #[serde(skip)]
    pub is_warning: bool,
}

/// The start of the note on tables that are not installed; their names follow, separated by commas.
const TABLES_LEFT_OUT: &str = "other tables are not installed (`install: before` adds them): ";

impl Note {
    /// Returns the note that nftables tables alongside kube-proxy's are not installed; `None` if there are none.
    pub(crate) fn tables_not_installed(parsed: &nftables::Parsed, span: Span) -> Option<Self> {
        let table = |one: &OtherTable| format!("{} {} (rules: {})", one.family, one.name, one.rules);
        let others: Vec<String> = parsed.others.iter().map(table).collect();
        let message = format!("{TABLES_LEFT_OUT}{}", others.join(", "));
        (!others.is_empty()).then_some(Self { span, message, is_warning: true })
    }

    /// Returns the tables that are not installed, if the note is about them.
    pub(crate) fn left_out_tables(&self) -> Option<Vec<&str>> {
        Some(self.message.strip_prefix(TABLES_LEFT_OUT)?.split(", ").collect())
    }
}

/// A scenario that can be built and run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scenario {
    /// A sentence that says what the scenario shows.
    pub name: String,
    /// The file it was read from.
    pub file: PathBuf,
    /// All files that it was read from, with their texts: the scenario itself, manifests, rules.
    pub inputs: BTreeMap<PathBuf, Arc<str>>,
    /// The cluster as it is before the first step.
    pub cluster: Cluster,
    /// The releases of kube-proxy that it applies to.
    pub releases: Releases,
    /// How pods are connected.
    pub cni: Cni,
    /// Machines outside of the cluster.
    pub hosts: Vec<Host>,
    /// Kernel settings of single nodes, in addition to kube-proxy's; by node, then by dotted name.
    pub sysctls: BTreeMap<String, BTreeMap<String, Setting>>,
    /// The names of programs that write the rules of single nodes, if the command line gives programs.
    pub programs: BTreeMap<String, String>,
    /// Rules that are not the generator's.
    pub rules: Vec<OtherRules>,
    /// The initial conntrack entries of nodes.
    pub connections: Vec<ConntrackEntry>,
    /// The tests, in order. Later tests see the connections of earlier ones.
    pub tests: Vec<Test>,
    /// Notes on ignored objects.
    pub notes: Vec<Note>,
    /// A description of rules in a dump that are not part of the scenario: their effect is unknown.
    pub ignored_rules: Vec<String>,
    /// Whether the text sets kube-proxy's mode.
    pub sets_mode: bool,
}

impl Scenario {
    /// Returns the states of the cluster: the initial one, then the one after each change.
    pub fn states(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.cluster).chain(self.changed_states().map(|(_, state)| state))
    }

    /// Returns the conntrack entries in a state of the cluster before anything is sent: those of the scenario in its first state. After
    /// changes, kube-proxy deletes entries; which remain is not predicted.
    pub(crate) fn connections_with(&self, cluster: &Cluster) -> &[ConntrackEntry] {
        if *cluster == self.cluster { &self.connections } else { &[] }
    }

    /// Returns each change with the state of the cluster after it.
    pub(crate) fn changed_states(&self) -> impl Iterator<Item = (&Change, &Cluster)> {
        self.changes().scan(&self.cluster, |now, change| {
            *now = change.state_after(now);
            Some((change, *now))
        })
    }

    /// Returns the changes of all tests, in order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.tests.iter().flat_map(|test| &test.steps).filter_map(Step::change)
    }

    /// Returns the distinct states, mutably.
    pub(crate) fn states_mut(&mut self) -> impl Iterator<Item = &mut Cluster> {
        let changed = self.tests.iter_mut().flat_map(|test| &mut test.steps).filter_map(|step| match step {
            Step::Change(change) => change.state_mut(),
            Step::During(during) => during.change.state_mut(),
            Step::Probe(..) | Step::Wait(_) => None,
        });
        std::iter::once(&mut self.cluster).chain(changed)
    }
}

/// The releases of kube-proxy that a scenario applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Releases {
    /// All.
    #[default]
    All,
    /// The release of its cluster, including all patch releases if the cluster names none.
    Only,
    /// The release of its cluster, and later ones.
    From,
}

/// Whether a scenario must have tests, as for commands that run them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tests {
    /// A scenario without tests is an error.
    Required,
    /// A scenario may have no tests: then it only describes a cluster.
    Optional,
}

/// The value of a sysctl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The value as written to the kernel.
    pub value: String,
    /// Its place in the scenario.
    pub span: Span,
}

/// How pods are connected with their node, and nodes with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cni {
    /// Between pod and node.
    pub kind: CniKind,
    /// Between nodes.
    pub overlay: Overlay,
}

/// The link between a pod and its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CniKind {
    /// A veth pair and a host route for each pod (kindnet, calico).
    #[default]
    Ptp,
    /// Ports of a bridge `cni0` with the range's first address (flannel, the bridge plugin).
    Bridge {
        /// Whether a port may send a packet back to where it came from (hairpin mode).
        hairpin: bool,
        /// `net.bridge.bridge-nf-call-iptables` (and its IPv6 twin).
        nf_call_iptables: bool,
    },
}

/// How a pod's packet reaches another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlay {
    /// By a route over the nodes' network.
    #[default]
    None,
    /// Inside VXLAN, as with flannel (VNI 1, UDP port 8472).
    Vxlan,
}

/// A machine outside of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its addresses, at most one of each family.
    pub ips: Vec<IpAddr>,
}

/// Rules from a file or from the scenario's own text, for one namespace and family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherRules {
    /// The network namespace that they are installed in.
    pub place: Place,
    /// The family of the rules; other nftables tables name their own.
    pub family: Family,
    /// The rules.
    pub rules: Arc<Rules>,
    /// Where their text starts.
    pub origin: Span,
    /// Their order relative to the generated rules.
    pub install: Install,
}

impl OtherRules {
    /// Returns whether they are nftables tables alongside kube-proxy's rules.
    pub fn is_other_tables(&self) -> bool {
        matches!(*self.rules, Rules::OtherTables(_))
    }
}

/// A network namespace that rules can be installed in.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A node's.
    Node(String),
    /// A pod's own.
    Pod(ObjectName),
}

/// The order of other rules relative to the generated ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    /// There are no generated rules.
    Instead,
    /// The other rules come first in chains that exist in both.
    Before,
    /// The other rules come last in chains that exist in both.
    After,
}

/// A named sequence of steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// Its name; unique in the scenario.
    pub name: String,
    /// Its place.
    pub span: Span,
    /// Its tags and those of its scenario.
    pub tags: BTreeSet<Tag>,
    /// The steps, in order; at least one is a probe.
    pub steps: Vec<Step>,
}

/// A step of a test.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The cluster changes.
    Change(Change),
    /// Packets are sent and their outcome is judged.
    Probe(Box<Probe>, Expectation),
    /// The cluster changes while flows are sent.
    During(Box<During>),
    /// Nothing is sent for this long, so that kernel state ages.
    Wait(Duration),
}

impl Step {
    /// Returns the change that it makes to the cluster, if any.
    pub fn change(&self) -> Option<&Change> {
        match self {
            Self::Change(change) => Some(change),
            Self::During(during) => Some(&during.change),
            Self::Probe(..) | Self::Wait(_) => None,
        }
    }
}

/// A change of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The new state: objects have changed, or kube-proxies are stopped or started. Rules are synced on every node where a kube-proxy runs.
    State(Box<Cluster>),
    /// The kube-proxies of these nodes are restarted: each rewrites all of its rules.
    Restart(Vec<String>),
}

impl Change {
    /// Returns the state after the change.
    pub(crate) fn state_after<'a>(&'a self, before: &'a Cluster) -> &'a Cluster {
        match self {
            Self::State(state) => state,
            Self::Restart(_) => before,
        }
    }

    /// Returns the nodes whose kube-proxies it restarts.
    pub(crate) fn restarted(&self) -> &[String] {
        match self {
            Self::State(_) => &[],
            Self::Restart(nodes) => nodes,
        }
    }

    /// Returns the state after the change, mutably; `None` if the state does not change.
    fn state_mut(&mut self) -> Option<&mut Cluster> {
        match self {
            Self::State(state) => Some(state),
            Self::Restart(_) => None,
        }
    }
}

/// Packets to send.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The place of the step.
    pub span: Span,
    /// The sender.
    pub from: Vantage,
    /// The destination.
    pub to: Destination,
    /// The protocol.
    pub protocol: Protocol,
    /// The sender's port; if `None`, a new one for each flow.
    pub source_port: Option<u16>,
    /// The number of flows.
    pub flows: Flows,
    /// The flags of the TCP segment, if it does not open a connection.
    pub tcp_flags: Option<TcpFlags>,
    /// The size of the datagram, and how it is sent.
    pub shape: Shape,
}

/// The sender of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Vantage {
    /// A pod; a pod with `hostNetwork` sends as its node does.
    Pod(ObjectName),
    /// A process on a node.
    Node(String),
    /// A process on a node that connects from the loopback address.
    Localhost(String),
    /// A machine outside of the cluster.
    Host(String),
}

/// Displayed as in scenarios: `pod/client`, `pod/other/client` outside of the namespace `default`, `localhost@worker`.
impl fmt::Display for Vantage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(name) => f.write_str(&pod_label(name)),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Localhost(name) => write!(f, "localhost@{name}"),
            Self::Host(name) => write!(f, "host/{name}"),
        }
    }
}

impl Vantage {
    /// Its kind.
    pub(crate) fn kind(&self) -> VantageKind {
        match self {
            Self::Pod(_) => VantageKind::Pod,
            Self::Node(_) => VantageKind::Node,
            Self::Localhost(_) => VantageKind::Localhost,
            Self::Host(_) => VantageKind::Host,
        }
    }
}

/// A kind of sender, ordered by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VantageKind {
    Host,
    Localhost,
    Node,
    Pod,
}

impl VantageKind {
    /// Returns the name: the start of the text of a [`Vantage`].
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Localhost => "localhost",
            Self::Node => "node",
            Self::Pod => "pod",
        }
    }
}

/// Returns a pod as scenarios write it: `pod/NAME`, with the Kubernetes namespace if that is not `default`.
pub(crate) fn pod_label(pod: &ObjectName) -> String {
    format!("pod/{}", short_name(pod))
}

/// Returns a name as authors write it: without the namespace `default`.
pub(crate) fn short_name(name: &ObjectName) -> String {
    if name.namespace == "default" { name.name.clone() } else { name.to_string() }
}

/// The destination of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// As in the scenario: `service/nginx:80`.
    pub label: String,
    /// The destination address of the packet.
    pub address: IpAddr,
    /// The destination port of the packet.
    pub port: u16,
    /// The node that receives the packets, if the scenario chooses one.
    pub via: Option<String>,
}

/// The number of flows of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flows {
    /// This many, at least one.
    Exactly(u64),
    /// As many as the balance test needs.
    Auto,
}
