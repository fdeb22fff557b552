//! Links of machines that are not as usual.

use schemars::JsonSchema;
use serde::Deserialize;

/// The link of a machine: of a pod, to its node; of a node or an outside host, to the network between nodes. Fields that are not given stay
/// as they are.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawLink {
    /// The node whose link it is.
    pub(crate) node: Option<String>,
    /// The pod whose link it is, and all replicas of that name.
    pub(crate) pod: Option<String>,
    /// The outside host whose link it is.
    pub(crate) host: Option<String>,
    /// Whether packets pass, in both directions. Default: `up`.
    pub(crate) state: Option<RawLinkState>,
    /// The size of the largest IP packet that passes, in bytes: at most 1500. Default: 1500.
    #[schemars(range(min = 576, max = 1500))]
    pub(crate) mtu: Option<u16>,
}

impl RawLink {
    /// The fields that name a machine.
    pub(crate) const OWNERS: [&str; 3] = ["node", "pod", "host"];
    /// The fields that say how the link is.
    pub(crate) const PROPERTIES: [&str; 2] = ["state", "mtu"];
}

/// Whether a link passes packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawLinkState {
    /// It passes packets.
    Up,
    /// It has no carrier: what is sent is lost, and no one is told.
    Down,
}
