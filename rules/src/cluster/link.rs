//! The links by which machines are connected, where they are not as usual.

use std::fmt;
use std::time::Duration;

use super::ObjectName;

/// A machine that has a link of its own to the network. Shown as scenarios write it: `node/worker`, `pod/other/web`, `host/outside`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkOwner {
    /// A node: its link leads to the network between nodes.
    Node(String),
    /// A pod: its link leads to its node.
    Pod(ObjectName),
    /// A machine outside of the cluster: its link leads to the network between nodes.
    Host(String),
}

impl fmt::Display for LinkOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Pod(pod) if pod.namespace == "default" => write!(f, "pod/{}", pod.name),
            Self::Pod(pod) => write!(f, "pod/{pod}"),
            Self::Host(name) => write!(f, "host/{name}"),
        }
    }
}

/// A machine's link, where it is not as usual. Kubernetes knows nothing of it, so neither rules nor promises depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Link {
    /// Whether packets pass.
    pub state: LinkState,
    /// The largest IP packet that passes, in bytes; `None` for 1500.
    pub mtu: Option<u16>,
    /// What happens to packets, in each direction.
    pub impairment: Impairment,
}

/// What a link does to packets, in each direction by itself: the parameters of netem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Impairment {
    /// The part of packets that is lost.
    pub loss: Percentage,
    /// How long packets take.
    pub delay: Duration,
    /// How much longer or shorter that is, at most.
    pub jitter: Duration,
    /// The part of packets that arrives twice.
    pub duplicate: Percentage,
    /// The part of packets that is not delayed, and so overtakes those that are.
    pub reorder: Percentage,
    /// Bits per second; `None` for as many as the machine can send.
    pub rate: Option<u64>,
}

/// A part of many, from 0 to 100 %, in millionths. Shown as a percentage: `2.5%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Percentage(u32);

impl Percentage {
    /// This many millionths; `None` for more than all.
    pub fn from_millionths(millionths: u32) -> Option<Self> {
        (millionths <= 1_000_000).then_some(Self(millionths))
    }

    /// In millionths, from 0 to 1,000,000.
    pub fn millionths(self) -> u32 {
        self.0
    }

    /// Whether it is none at all.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10_000.0)
    }
}

/// Whether a link passes packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LinkState {
    /// It passes packets.
    #[default]
    Up,
    /// It passes none, in both directions.
    Down,
    /// The machine is off, so its link is down, and nothing on it runs.
    MachineOff,
}

impl LinkState {
    /// Whether packets pass.
    pub fn is_up(self) -> bool {
        self == Self::Up
    }
}
