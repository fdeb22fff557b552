//! The messages on the socket, sent as frames of the worker protocol.

use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Uid, geteuid};
use serde::{Deserialize, Serialize};

use crate::shell::namespaces::PlaceInfo;
use crate::shell::reply::{Completion, PlaceTask, Printed, View};

/// A request of a client.
#[derive(Serialize, Deserialize)]
pub(super) enum Request {
    /// The user namespace of the lab, as a descriptor.
    UserNamespace,
    Execute(Vec<String>, View),
    Complete(String),
    Interrupt,
}

/// The server's response. For `UserNamespace` and `PlaceTask` descriptors follow it.
#[derive(Serialize, Deserialize)]
pub(super) enum Response {
    Printed(Printed),
    Gone(Printed),
    PlaceTask(PlaceInfo, PlaceTask),
    Exit,
    Completion(Completion),
    Nothing,
}

/// Whether the other end of a connection is a process of the same user, as this process sees it.
pub(super) fn is_from_same_user(stream: &UnixStream) -> bool {
    getsockopt(stream, sockopt::PeerCredentials).is_ok_and(|peer| Uid::from_raw(peer.uid()) == geteuid())
}
