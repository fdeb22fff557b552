//! The context of a connection at the node that handles it.

use std::net::SocketAddr;

use super::address_lookup::Claim;
use super::client_path::Client;
use super::cluster_index::Setting;
use crate::cluster::Node;

/// A connection to a service address, at the first node that handles it.
pub(super) struct Handling<'s, 'a> {
    pub(super) setting: &'s Setting<'a>,
    /// The sender.
    pub(super) client: Client<'a>,
    /// The node.
    pub(super) node: &'a Node,
    /// The service port and the kind of its address.
    pub(super) claim: Claim<'a>,
    /// The address.
    pub(super) to: SocketAddr,
}
