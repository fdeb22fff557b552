//! Front ends in other processes: the shell listens on a socket.
//!
//! The socket is abstract (`unix(7)`): it has no file, and disappears with its process, however that ends. Its name, `svclab/UID/LAB/PID`,
//! identifies its owner (`running`). Only processes of the same user are served. Requests and responses (`protocol`) are those of
//! [`Access`](super::Access). Descriptors of namespaces are passed over the socket (`descriptors`), so that a client can run programs
//! itself, on its own terminal.

mod client;
mod descriptors;
mod protocol;
mod running;
mod server;

pub use client::Remote;
pub use running::{Running, running};
pub use server::Socket;
