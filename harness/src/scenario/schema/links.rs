//! Links of machines with other than default settings.

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::RawTime;

/// The link of a machine: of a pod, to its node; of a node or an outside host, to the network between nodes. Fields that are not given keep
/// their values.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawLink {
    /// The node whose link it is.
    pub(crate) node: Option<String>,
    /// The pod whose link it is, or all replicas of that name.
    pub(crate) pod: Option<String>,
    /// The outside host whose link it is.
    pub(crate) host: Option<String>,
    /// Whether packets pass, in both directions. Default: `up`.
    pub(crate) state: Option<RawLinkState>,
    /// The size of the largest IP packet that passes, in bytes: at most 1500. Default: 1500.
    #[schemars(range(min = 576, max = 1500))]
    pub(crate) mtu: Option<u16>,
    /// The fraction of packets that is lost, in each direction, such as `10%` or `0.5%`. Default: `0%`.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,4})?%$"))]
    pub(crate) loss: Option<String>,
    /// The delay of a packet, in each direction, such as `5ms`; at most `5s`. Default: `0ms`.
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]+(ms|s)$"))]
    pub(crate) delay: Option<RawTime>,
    /// The maximum deviation from `delay`; at most `delay`. Default: `0ms`.
    #[schemars(with = "Option<String>", regex(pattern = r"^[0-9]+(ms|s)$"))]
    pub(crate) jitter: Option<RawTime>,
    /// The fraction of packets that is duplicated. Default: `0%`.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,4})?%$"))]
    pub(crate) duplicate: Option<String>,
    /// The fraction of packets that is sent without delay, and so overtakes others. Needs a `delay`. Default: `0%`.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]{1,4})?%$"))]
    pub(crate) reorder: Option<String>,
    /// The rate in bits per second, as in tc(8): `10mbit`, `512kbit`, `1gbit`; `unlimited` for no limit.
    /// Default: `unlimited`.
    #[schemars(regex(pattern = r"^([1-9][0-9]*[kmg]?bit|unlimited)$"))]
    pub(crate) rate: Option<String>,
}

impl RawLink {
    /// The fields that name a machine.
    pub(crate) const OWNERS: [&str; 3] = ["node", "pod", "host"];
    /// The fields with properties of the link.
    pub(crate) const PROPERTIES: [&str; 8] =
        ["state", "mtu", "loss", "delay", "jitter", "duplicate", "reorder", "rate"];
}

/// Whether a link is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawLinkState {
    /// The link is up.
    Up,
    /// It has no carrier: packets are lost without an error.
    Down,
}
