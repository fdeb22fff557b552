//! The section `connections:`.

use schemars::JsonSchema;
use serde::Deserialize;

/// An initial conntrack entry of a node, as if packets had been sent before. Packets of this connection are translated according to the
/// entry, whatever the rules. A probe that counts many flows flushes the tables.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RawConnection {
    /// The node.
    pub(crate) node: String,
    /// tcp, udp or sctp. Default: tcp.
    #[schemars(extend("enum" = ["tcp", "udp", "sctp", null]))]
    pub(crate) protocol: Option<String>,
    /// The source of its first packet: `ADDRESS:PORT` or `[IPV6]:PORT`.
    pub(crate) from: String,
    /// The destination of its first packet, before any translation.
    pub(crate) to: String,
    /// The source of replies: the destination that the node sends packets to. Default: `to`, for a connection whose destination is not
    /// translated.
    pub(crate) reply_from: Option<String>,
    /// The destination of replies: the address and port that the node masquerades with. Default: `from`, for a connection whose source is
    /// not translated.
    pub(crate) reply_to: Option<String>,
    /// Whether no reply was seen yet: `[UNREPLIED]`, for TCP `SYN_SENT`. Default: false.
    #[serde(default)]
    pub(crate) unreplied: bool,
}
