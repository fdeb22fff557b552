//! What a worker says.

use serde::{Deserialize, Serialize};

use crate::report::Trouble;

/// What a worker says: events `E` until the result `R`.
#[derive(Serialize, Deserialize)]
pub(super) enum Message<E, R> {
    /// The worker is alive, and has counted so many flows of those that are wanted at most.
    Alive { counted: u64, wanted: u64 },
    /// Something of interest; whether it is answered depends on it.
    Event(E),
    /// The order has been carried out.
    Done(R),
    /// The order cannot be carried out.
    Unable(Trouble),
}
