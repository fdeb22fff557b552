//! State shared by all requests: the objects, the settings and the limits.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use serde_json::Value;
use svclab_rules::cluster::objects::NODE_PORTS;
use tokio::sync::Semaphore;

use super::admission;
use super::object::Content;
use super::store::Store;

/// Maximum number of open watches.
pub(super) const WATCHES: usize = 1024;

/// Maximum number of open connections; others wait to be accepted.
const CONNECTIONS: usize = 1024;

/// The settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The range of node ports (`--service-node-port-range`).
    pub(crate) node_ports: RangeInclusive<u16>,
    /// The number of changes that are kept: a watch that is further behind has to list again.
    pub(crate) history: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { node_ports: NODE_PORTS, history: 10_000 }
    }
}

/// The reason why a server cannot start, or rejects objects.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Objects that an API server would not store.
    #[error("the API server rejects {}: {}", counted(.0.len()), .0.join("; "))]
    Invalid(Vec<String>),
    /// The thread or its runtime failed.
    #[error("cannot start the API server: {0}")]
    Start(io::Error),
}

fn counted(objects: usize) -> String {
    if objects == 1 { "1 object".to_owned() } else { format!("{objects} objects") }
}

/// State shared by all requests.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) store: Store,
    pub(super) settings: Settings,
    pub(super) watches: Arc<Semaphore>,
    pub(super) connections: Arc<Semaphore>,
}

impl Api {
    /// Creates the state from the first objects.
    ///
    /// # Errors
    ///
    /// All objects that an API server would not store.
    pub(super) fn new(settings: Settings, objects: Vec<Value>) -> Result<Self, ApiError> {
        let api = Self {
            store: Store::new(settings.history),
            settings,
            watches: Arc::new(Semaphore::new(WATCHES)),
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
        };
        api.store.fill(api.admit(objects)?);
        Ok(api)
    }

    /// Replaces all objects, and returns the resourceVersion of the new state.
    ///
    /// # Errors
    ///
    /// All objects that an API server would not store; in that case nothing changes.
    pub(super) fn replace(&self, objects: Vec<Value>) -> Result<u64, ApiError> {
        Ok(self.store.replace(self.admit(objects)?))
    }

    fn admit(&self, objects: Vec<Value>) -> Result<Vec<Content>, ApiError> {
        let contents = admission::admit(objects, &self.settings.node_ports);
        contents.map_err(|rejections| ApiError::Invalid(rejections.iter().map(ToString::to_string).collect()))
    }
}
