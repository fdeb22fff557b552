//! A connection at the node that handles it.

use std::net::SocketAddr;

use super::address_lookup::Claim;
use super::client_path::Client;
use super::cluster_index::Setting;
use crate::cluster::Node;

/// A connection whose destination is a service's, at the first node that knows it.
pub(super) struct Handling<'s, 'a> {
    pub(super) setting: &'s Setting<'a>,
    /// The sender.
    pub(super) client: Client<'a>,
    /// The node.
    pub(super) node: &'a Node,
    /// The service port, and which of its addresses is asked.
    pub(super) claim: Claim<'a>,
    /// This address.
    pub(super) to: SocketAddr,
}
