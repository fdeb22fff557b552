//! Links between machines that are down, impaired or have an unusual MTU.

use std::fmt;
use std::time::Duration;

use super::ObjectName;

/// A machine with its own link to the network. Displayed as in scenarios: `node/worker`, `pod/other/web`, `host/outside`.
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

/// The state of a machine's link, if it is not the default. Kubernetes does not know it, so neither rules nor promises depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Link {
    /// Whether packets pass the link.
    pub state: LinkState,
    /// The largest IP packet that passes, in bytes; `None` for 1500.
    pub mtu: Option<u16>,
    /// What happens to packets, in each direction.
    pub impairment: Impairment,
}

/// The netem parameters of a link, applied in each direction independently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Impairment {
    /// The fraction of packets that is lost.
    pub loss: Percentage,
    /// The delay of packets.
    pub delay: Duration,
    /// The maximum deviation from that delay.
    pub jitter: Duration,
    /// The fraction of packets that is duplicated.
    pub duplicate: Percentage,
    /// The fraction of packets that is sent without delay, and so overtakes others.
    pub reorder: Percentage,
    /// The rate in bits per second; `None` for no limit.
    pub rate: Option<u64>,
}

/// A fraction from 0 to 100 %, in millionths. Displayed as a percentage: `2.5%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Percentage(u32);

impl Percentage {
    /// Creates a fraction from millionths; `None` for more than 1,000,000.
    pub fn from_millionths(millionths: u32) -> Option<Self> {
        (millionths <= 1_000_000).then_some(Self(millionths))
    }

    /// In millionths, from 0 to 1,000,000.
    pub fn millionths(self) -> u32 {
        self.0
    }

    /// Returns whether the fraction is zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10_000.0)
    }
}

/// Whether a link is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LinkState {
    /// The link is up.
    #[default]
    Up,
    /// The link is down, in both directions.
    Down,
    /// The machine is off: its link is down, and nothing runs on it.
    MachineOff,
}

impl LinkState {
    /// Returns whether packets pass the link.
    pub fn is_up(self) -> bool {
        self == Self::Up
    }
}
