//! The section `connections:`.

use schemars::JsonSchema;
use serde::Deserialize;

/// An entry that a node's connection table has from the start, as if packets had come before. Packets of this connection are translated as the
/// entry says, whatever the rules are. A probe that counts many flows empties the tables.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawConnection {
    /// The node whose table has it.
    pub(crate) node: String,
    /// tcp, udp or sctp. Default: tcp.
    #[schemars(extend("enum" = ["tcp", "udp", "sctp", null]))]
    pub(crate) protocol: Option<String>,
    /// Who sent its first packet: `ADDRESS:PORT` or `[IPV6]:PORT`.
    pub(crate) from: String,
    /// To where, before any translation.
    pub(crate) to: String,
    /// Who replies: where the node sends the packets. Default: `to`, for a connection whose destination is not translated.
    pub(crate) reply_from: Option<String>,
    /// To where replies are sent: the address and port by which the node masquerades. Default: `from`, for a connection whose source is not
    /// translated.
    pub(crate) reply_to: Option<String>,
    /// True if no reply was seen yet: `[UNREPLIED]`, of TCP `SYN_SENT`. Default: false.
    #[serde(default)]
    pub(crate) unreplied: bool,
}
