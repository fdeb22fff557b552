//! The worker of a thread.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Kind;
use super::error::WorkerError;
use super::location::WorkerLocation;
use super::message::Request;
use super::process::Worker;
use super::timeouts::WorkerTimeout;
use crate::probe::Progress;

/// The worker of a thread, which is started on demand, and restarted after its death.
pub(crate) struct Slot<'p> {
    location: &'p WorkerLocation,
    kind: Kind,
    running: Option<Worker>,
}

impl<'p> Slot<'p> {
    pub(crate) fn new(location: &'p WorkerLocation, kind: Kind) -> Self {
        Self { location, kind, running: None }
    }

    /// Sends an order without events, and waits for its result.
    ///
    /// # Errors
    ///
    /// If the worker dies, or cannot execute the order.
    pub(crate) fn ask<R: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        progress: &Arc<Progress>,
    ) -> Result<R, WorkerError> {
        self.ask_with(order, progress, |(), _| Ok(None::<()>))
    }

    /// Sends an order. Events are passed to `happens`, whose answer, if there is one, is sent back.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub(crate) fn ask_with<E: DeserializeOwned, A: Serialize, R: DeserializeOwned>(
        &mut self,
        order: &impl Serialize,
        progress: &Arc<Progress>,
        happens: impl FnMut(E, &mut WorkerTimeout) -> io::Result<Option<A>>,
    ) -> Result<R, WorkerError> {
        let mut worker = self.running.take().map_or_else(|| self.location.worker(self.kind), Ok)?;
        let result = worker.ask(&Request::Order(order), progress, happens);
        if matches!(result, Ok(_) | Err(WorkerError::Unable(_))) {
            self.running = Some(worker);
        }
        result
    }
}
