//! What a worker says.

use serde::{Deserialize, Serialize};

use crate::lab::Backend;
use crate::report::Trouble;

/// What a command asks of a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum Asked<O> {
    /// What results depend on where the worker is: its [`Environment`](crate::environment::Environment) and [`Kernel`](svclab_rules::cluster::Kernel).
    Environment(Backend),
    /// To carry out an order.
    Order(O),
}

/// What a worker says: events `E` until the result `R`.
#[derive(Serialize, Deserialize)]
pub(super) enum Message<E, R> {
    /// The worker is alive, and has counted this many flows of those that are wanted at most.
    Alive { counted: u64, wanted: u64 },
    /// Something of interest; whether it is answered depends on it.
    Event(E),
    /// The order has been carried out.
    Done(R),
    /// The order cannot be carried out.
    Unable(Trouble),
}
