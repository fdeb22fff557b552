//! The messages of a worker.

use serde::{Deserialize, Serialize};

use crate::lab::Backend;
use crate::report::Trouble;

/// A request of a command to a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum Request<O> {
    /// Report the environment of the worker: its [`Environment`](crate::environment::Environment) and
    /// [`Kernel`](svclab_rules::cluster::Kernel).
    Environment(Backend),
    /// Execute an order.
    Order(O),
}

/// A message of a worker: events `E` until the result `R`.
#[derive(Serialize, Deserialize)]
pub(super) enum Message<E, R> {
    /// The worker is alive, and has counted this number of flows, of the maximum that is expected.
    Alive { counted: u64, wanted: u64 },
    /// An event; whether it is answered depends on its kind.
    Event(E),
    /// The order has been executed.
    Done(R),
    /// The order cannot be executed.
    Unable(Trouble),
}
