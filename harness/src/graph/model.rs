//! The values of a graph. Strings are plain text, which renderers escape.

use crate::explain::OutcomeKind;

/// The contents of a picture of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// The scenario's name.
    pub(super) title: String,
    /// Its file, the kube-proxy that writes its rules, and how machines are connected.
    pub(super) subtitle: String,
    /// Machines outside of the cluster.
    pub(super) hosts: Vec<Machine>,
    /// Nodes, with their pods.
    pub(super) nodes: Vec<Node>,
    /// Services.
    pub(super) services: Vec<Service>,
    /// What did not fit, as text.
    pub(super) left_out: Vec<String>,
    /// The flow that is drawn.
    pub(super) flow: Option<Flow>,
}

/// A machine with addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Machine {
    /// Its name in probes: `node/worker`, `pod/web`, `host/laptop`.
    pub(super) name: String,
    /// Its addresses and other properties, one per line.
    pub(super) lines: Vec<String>,
    /// Whether its link is down.
    pub(super) is_cut_off: bool,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) machine: Machine,
    pub(super) pods: Vec<Pod>,
    /// The number of its pods that are not shown.
    pub(super) more: usize,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) machine: Machine,
    /// The indices of the shown services that it is an endpoint of.
    pub(super) services: Vec<usize>,
}

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    /// Its name, with its namespace unless that is `default`.
    pub(super) name: String,
    /// Its type, addresses, ports and policies, one per line.
    pub(super) lines: Vec<String>,
    /// The number of its endpoints.
    pub(super) endpoints: usize,
    /// Endpoints that are not a pod in the picture, as text.
    pub(super) elsewhere: Vec<String>,
}

/// A place where a packet can be, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    Underlay,
    Host(usize),
    Node(usize),
    Pod(usize, usize),
}

impl Place {
    /// Returns the place through which it is linked to all others.
    pub(super) fn parent(self) -> Option<Self> {
        match self {
            Self::Underlay => None,
            Self::Host(_) | Self::Node(_) => Some(Self::Underlay),
            Self::Pod(node, _) => Some(Self::Node(node)),
        }
    }
}

/// The path of a flow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flow {
    /// `pod/client > service/web:80 tcp`
    pub(super) title: String,
    /// The promise, and what makes the prediction uncertain.
    pub(super) notes: Vec<String>,
    /// Each possible outcome, with its share; that of the drawn path first.
    pub(super) outcomes: Vec<Outcome>,
    /// The places that the packet visits, each linked to the next.
    pub(super) there: Vec<Place>,
    /// The hops of the reply, or of the rejection.
    pub(super) back: Vec<Place>,
    /// What happens on the way, in order.
    pub(super) steps: Vec<Step>,
}

/// A possible outcome of a flow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// The share of flows, if there are several outcomes.
    pub(super) share: Option<String>,
    /// The share, rounded to fit into a pod's box.
    pub(super) rounded: Option<String>,
    /// The outcome, as text.
    pub(super) words: String,
    pub(super) kind: OutcomeKind,
    /// The places that the packet visits, each linked to the next; empty if they are unknown.
    pub(super) places: Vec<Place>,
}

/// A direction of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    There,
    Back,
}

/// What happens at a place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) place: Place,
    pub(super) way: Direction,
    /// The descriptions, as fragments.
    pub(super) words: Vec<String>,
}

impl Graph {
    /// Returns the name of a place.
    pub(super) fn name(&self, place: Place) -> &str {
        match place {
            Place::Underlay => "underlay",
            Place::Host(host) => &self.hosts[host].name,
            Place::Node(node) => &self.nodes[node].machine.name,
            Place::Pod(node, pod) => &self.nodes[node].pods[pod].machine.name,
        }
    }

    /// Returns the place with this name, if it is shown.
    pub(super) fn place(&self, name: &str) -> Option<Place> {
        let mut all = self.places();
        all.find(|place| self.name(*place) == name)
    }

    /// Returns all places: the underlay, hosts, then each node with its pods.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let nodes = self.nodes.iter().enumerate().flat_map(|(number, node)| {
            let pods = (0..node.pods.len()).map(move |pod| Place::Pod(number, pod));
            std::iter::once(Place::Node(number)).chain(pods)
        });
        std::iter::once(Place::Underlay).chain((0..self.hosts.len()).map(Place::Host)).chain(nodes)
    }

    /// Returns the pods that are endpoints of a service.
    pub(super) fn endpoints(&self, service: usize) -> impl Iterator<Item = Place> {
        let of = move |place: &Place| match *place {
            Place::Pod(node, pod) => self.nodes[node].pods[pod].services.contains(&service),
            _ => false,
        };
        self.places().filter(of)
    }
}

impl Service {
    /// Returns a line about its endpoints: their number, and those that are not a pod in the picture.
    pub(super) fn endpoint_words(&self) -> String {
        let count = crate::text::counted(self.endpoints, "endpoint");
        if self.elsewhere.is_empty() { count } else { format!("{count}; {}", self.elsewhere.join(", ")) }
    }
}
