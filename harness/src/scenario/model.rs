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

/// Something worth knowing that is not an error, for example an object that was ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The place of the object.
    #[serde(flatten)]
    pub span: Span,
    /// The message: a fragment in lower case.
    pub message: String,
    /// Whether the author probably meant something else. Such notes are printed without `-v`.
    #[serde(skip)]
    pub is_warning: bool,
}

/// The start of the note of tables that are not installed; their names follow, with commas between them.
const TABLES_LEFT_OUT: &str = "other tables are not installed, `install: before` adds them: ";

impl Note {
    /// That tables of nftables alongside kube-proxy's are not installed; `None` if there are none.
    pub(crate) fn tables_not_installed(parsed: &nftables::Parsed, span: Span) -> Option<Self> {
        let table = |one: &OtherTable| format!("{} {} (rules: {})", one.family, one.name, one.rules);
        let others: Vec<String> = parsed.others.iter().map(table).collect();
        let message = format!("{TABLES_LEFT_OUT}{}", others.join(", "));
        (!others.is_empty()).then_some(Self { span, message, is_warning: true })
    }

    /// The tables that are not installed, if it is about that.
    pub(crate) fn left_out_tables(&self) -> Option<Vec<&str>> {
        Some(self.message.strip_prefix(TABLES_LEFT_OUT)?.split(", ").collect())
    }
}

/// A scenario that can be built and run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scenario {
    /// What the scenario shows, in a sentence.
    pub name: String,
    /// The file it was read from.
    pub file: PathBuf,
    /// All files that it was read from, with their texts: its own, manifests, rules.
    pub inputs: BTreeMap<PathBuf, Arc<str>>,
    /// The cluster as it is before the first step.
    pub cluster: Cluster,
    /// The releases of kube-proxy that it is about.
    pub releases: Releases,
    /// How pods are connected.
    pub cni: Cni,
    /// Machines outside of the cluster.
    pub hosts: Vec<Host>,
    /// Kernel settings of single nodes, on top of those that kube-proxy makes; by node, then by dotted name.
    pub sysctls: BTreeMap<String, BTreeMap<String, Setting>>,
    /// The names of programs that write the rules of single nodes, where the command line gives programs.
    pub programs: BTreeMap<String, String>,
    /// Rules that are not the generator's.
    pub rules: Vec<OtherRules>,
    /// What connection tables of nodes have from the start.
    pub connections: Vec<ConntrackEntry>,
    /// The tests, in order. Later tests see the connections of earlier ones.
    pub tests: Vec<Test>,
    /// Notes on ignored objects.
    pub notes: Vec<Note>,
    /// The rules of a dump that are not part of the scenario, in words: their effect is unknown.
    pub ignored_rules: Vec<String>,
}

impl Scenario {
    /// The states of the cluster: the initial one, then the one after each change.
    pub fn states(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.cluster).chain(self.changed_states().map(|(_, state)| state))
    }

    /// The connections that tables have in a state of the cluster before anything is sent: those of the scenario in its first state. Changes
    /// make kube-proxy delete connections; which are left after them is not predicted.
    pub(crate) fn connections_with(&self, cluster: &Cluster) -> &[ConntrackEntry] {
        if *cluster == self.cluster { &self.connections } else { &[] }
    }

    /// Each change with the state of the cluster after it.
    pub(crate) fn changed_states(&self) -> impl Iterator<Item = (&Change, &Cluster)> {
        self.changes().scan(&self.cluster, |now, change| {
            *now = change.state_after(now);
            Some((change, *now))
        })
    }

    /// The changes of all tests, in their order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.tests.iter().flat_map(|test| &test.steps).filter_map(Step::change)
    }

    /// The states that differ, to be changed.
    pub(crate) fn states_mut(&mut self) -> impl Iterator<Item = &mut Cluster> {
        let changed = self.tests.iter_mut().flat_map(|test| &mut test.steps).filter_map(|step| match step {
            Step::Change(change) => change.state_mut(),
            Step::During(during) => during.change.state_mut(),
            Step::Probe(..) | Step::Wait(_) => None,
        });
        std::iter::once(&mut self.cluster).chain(changed)
    }
}

/// The releases of kube-proxy that a scenario is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Releases {
    /// All.
    #[default]
    All,
    /// The release of its cluster; with all patch releases if it names none.
    Only,
    /// The release of its cluster, and later ones.
    From,
}

/// Whether a scenario must have tests: what runs them needs some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tests {
    /// A scenario without tests is an error.
    Required,
    /// A scenario without tests describes a cluster.
    Optional,
}

/// The value of a sysctl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its value, as it is written to the kernel.
    pub value: String,
    /// Its place in the scenario.
    pub span: Span,
}

/// How pods of a node are connected with it, and nodes with each other.
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
    /// Ports of a bridge `cni0` that has the range's first address (flannel, the bridge plugin).
    Bridge {
        /// Whether a port sends packets back to where they came from.
        hairpin: bool,
        /// `net.bridge.bridge-nf-call-iptables` (and its IPv6 twin).
        nf_call_iptables: bool,
    },
}

/// How a pod's packet gets to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlay {
    /// By a route over the nodes' own network.
    #[default]
    None,
    /// Inside VXLAN, as flannel does it (VNI 1, UDP port 8472).
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
    /// Whether they are tables of nftables alongside kube-proxy's rules.
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
    /// In chains that both have, the other rules come first.
    Before,
    /// In chains that both have, the other rules come last.
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
    /// Nothing is sent for this long, so that what kernels remember gets older.
    Wait(Duration),
}

impl Step {
    /// The change of the cluster that it makes, if it makes one.
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
    /// This is its state from now on: objects have changed, or kube-proxies are stopped or started. Rules are synced on every node
    /// where a kube-proxy runs.
    State(Box<Cluster>),
    /// The kube-proxies of these nodes are restarted: each writes all of its rules anew.
    Restart(Vec<String>),
}

impl Change {
    /// The state that it leads to from another.
    pub(crate) fn state_after<'a>(&'a self, before: &'a Cluster) -> &'a Cluster {
        match self {
            Self::State(state) => state,
            Self::Restart(_) => before,
        }
    }

    /// The nodes whose kube-proxies it restarts.
    pub(crate) fn restarted(&self) -> &[String] {
        match self {
            Self::State(_) => &[],
            Self::Restart(nodes) => nodes,
        }
    }

    /// The state that it leads to, to be changed; `None` if that is the one before.
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
    /// The sender's port; a fresh one for each flow where `None`.
    pub source_port: Option<u16>,
    /// How many flows.
    pub flows: Flows,
    /// The flags of the TCP segment, if it is none that opens a connection.
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

/// As scenarios write it: `pod/client`, `pod/other/client` outside of the namespace `default`, `localhost@worker`.
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

/// A kind of sender, in the order of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VantageKind {
    Host,
    Localhost,
    Node,
    Pod,
}

impl VantageKind {
    /// The name: what the text of a [`Vantage`] starts with.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Localhost => "localhost",
            Self::Node => "node",
            Self::Pod => "pod",
        }
    }
}

/// A pod as scenarios write it: `pod/NAME`, with the Kubernetes namespace where that is not `default`.
pub(crate) fn pod_label(pod: &ObjectName) -> String {
    format!("pod/{}", short_name(pod))
}

/// A name as authors write it: without the namespace `default`.
pub(crate) fn short_name(name: &ObjectName) -> String {
    if name.namespace == "default" { name.name.clone() } else { name.to_string() }
}

/// The destination of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// As in the scenario: `service/nginx:80`.
    pub label: String,
    /// The address on the wire.
    pub address: IpAddr,
    /// The port on the wire.
    pub port: u16,
    /// The node that receives the packets, if the scenario chooses one.
    pub via: Option<String>,
}

/// How many flows a probe has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flows {
    /// This many, at least one.
    Exactly(u64),
    /// As many as the balance test needs.
    Auto,
}
