//! Links of machines that are not as usual.

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::RawTime;

/// The link of a machine: of a pod, to its node; of a node or an outside host, to the network between nodes. Fields that are not given stay
/// as they are.
#[derive(Debug, Deserialize, JsonSchema)]
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
    /// The part of packets that is lost, in each direction, as `10%` or `0.5%`. Default: `0%`.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,4})?%$"))]
    pub(crate) loss: Option<String>,
    /// How long a packet takes, in each direction, as `5ms`; at most `5s`. Default: `0ms`.
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]+(ms|s)$"))]
    pub(crate) delay: Option<RawTime>,
    /// How much more or less than `delay` that is; at most `delay`. Default: `0ms`.
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]+(ms|s)$"))]
    pub(crate) jitter: Option<RawTime>,
    /// The part of packets that arrives twice. Default: `0%`.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,4})?%$"))]
    pub(crate) duplicate: Option<String>,
    /// The part of packets that overtakes others: it is not delayed. Needs a `delay`. Default: `0%`.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,4})?%$"))]
    pub(crate) reorder: Option<String>,
    /// How much is sent in a second, in bits, as tc(8) writes it: `10mbit`, `512kbit`, `1gbit`; `unlimited` for as much as the machine can.
    /// Default: `unlimited`.
    #[schemars(regex(pattern = r"^([1-9][0-9]*[kmg]?bit|unlimited)$"))]
    pub(crate) rate: Option<String>,
}

impl RawLink {
    /// The fields that name a machine.
    pub(crate) const OWNERS: [&str; 3] = ["node", "pod", "host"];
    /// The fields that say how the link is.
    pub(crate) const PROPERTIES: [&str; 8] =
        ["state", "mtu", "loss", "delay", "jitter", "duplicate", "reorder", "rate"];
}

/// Whether a link passes packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawLinkState {
    /// It passes packets.
    Up,
    /// It has no carrier: packets are lost without an error.
    Down,
}
