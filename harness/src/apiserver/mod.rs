//! An API server of Kubernetes for the clients inside of a lab: discovery, lists and watches of the objects that it is given.
//!
//! It serves plain HTTP on listeners that its owner bound, each in the network namespace that it belongs to. `resource` is the table
//! of what is served; `admission` makes objects what an API server would store; `store` numbers them and remembers the changes; `route`,
//! `query` and `selector` read requests; `list`, `watch` and `write` respond to them. Clients may send Events in `protobuf`.

mod activity;
mod admission;
mod body;
mod discovery;
mod form;
mod list;
mod object;
mod protobuf;
mod query;
mod request;
mod resource;
mod route;
mod selector;
mod status;
mod store;
mod watch;
mod write;

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as BoundListener;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use svclab_rules::cluster::objects::NODE_PORTS;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

#[expect(unused_imports, reason = "what `clients` answers is made of it")]
pub(crate) use activity::{ClientActivity, ResourceActivity};

use activity::Activity;
use admission::HealthPorts;
use store::Store;

/// The number of watches that may be open.
const WATCHES: usize = 1024;

/// The number of connections that may be open; others wait to be accepted.
const CONNECTIONS: usize = 1024;

/// The size that the head of a request may have.
const HEAD: usize = 64 << 10;

/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(90);

/// The settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The range of node ports (`--service-node-port-range`).
    pub(crate) node_ports: RangeInclusive<u16>,
    /// The number of changes that are remembered: a watch that is further behind has to list again.
    pub(crate) history: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { node_ports: NODE_PORTS, history: 10_000 }
    }
}

/// Why a server cannot start, or does not take objects.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Objects that an API server would not store.
    #[error("the API server rejects {}: {}", counted(.0.len()), .0.join("; "))]
    Invalid(Vec<String>),
    /// The thread or its runtime.
    #[error("cannot start the API server: {0}")]
    Start(io::Error),
}

fn counted(objects: usize) -> String {
    if objects == 1 { "1 object".to_owned() } else { format!("{objects} objects") }
}

/// What all requests share.
#[derive(Debug)]
struct Api {
    store: Store,
    settings: Settings,
    watches: Arc<Semaphore>,
    connections: Arc<Semaphore>,
    health_ports: Mutex<HealthPorts>,
}

/// A server with a thread of its own, which ends when the server is dropped.
#[derive(Debug)]
pub(crate) struct ApiServer {
    api: Arc<Api>,
    activities: Vec<Arc<Activity>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ApiServer {
    /// Serves objects on listeners that are bound already.
    ///
    /// # Errors
    ///
    /// All objects that an API server would not store, or the failure to start.
    pub(crate) fn start(
        settings: Settings,
        objects: Vec<Value>,
        listeners: Vec<BoundListener>,
    ) -> Result<Self, ApiError> {
        let api = Arc::new(Api {
            store: Store::new(settings.history),
            settings,
            watches: Arc::new(Semaphore::new(WATCHES)),
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            health_ports: Mutex::default(),
        });
        let contents = api.admit(objects)?;
        api.store.fill(contents);
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(ApiError::Start)?;
        let activities: Vec<Arc<Activity>> = listeners.iter().map(|_| Arc::default()).collect();
        let sockets = {
            let _inside = runtime.enter();
            let sockets = listeners.into_iter().map(|listener| {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            });
            sockets.collect::<io::Result<Vec<_>>>().map_err(ApiError::Start)?
        };
        let served: Vec<_> = sockets.into_iter().zip(activities.iter().cloned()).collect();
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&api);
        let serve = move || runtime.block_on(serve(shared, served, stopped));
        let thread = thread::Builder::new().name("apiserver".to_owned()).spawn(serve).map_err(ApiError::Start)?;
        Ok(Self { api, activities, stop: Some(stop), thread: Some(thread) })
    }

    /// Replaces all objects, and answers the resourceVersion of the new state; watches see the changes that lead there.
    ///
    /// # Errors
    ///
    /// All objects that an API server would not store; then nothing is changed.
    pub(crate) fn replace(&self, objects: Vec<Value>) -> Result<u64, ApiError> {
        let contents = self.api.admit(objects)?;
        Ok(self.api.store.replace(contents))
    }

    /// What the clients of a listener, by its place in the list, asked for so far.
    pub(crate) fn clients(&self, listener: usize) -> ClientActivity {
        self.activities.get(listener).map(|activity| activity.so_far()).unwrap_or_default()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been reported, and nothing is left that could be stopped.
            _ = thread.join();
        }
    }
}

impl Api {
    fn admit(&self, objects: Vec<Value>) -> Result<Vec<object::Content>, ApiError> {
        let mut health_ports = self.health_ports.lock().unwrap_or_else(PoisonError::into_inner);
        let mut allocated = health_ports.clone();
        let contents = admission::admit(objects, &self.settings.node_ports, &mut allocated);
        let contents =
            contents.map_err(|refusals| ApiError::Invalid(refusals.iter().map(ToString::to_string).collect()))?;
        *health_ports = allocated;
        Ok(contents)
    }
}

/// Serves all listeners until the owner lets go.
async fn serve(api: Arc<Api>, listeners: Vec<(TcpListener, Arc<Activity>)>, stopped: oneshot::Receiver<()>) {
    let mut tasks = JoinSet::new();
    for (listener, activity) in listeners {
        tasks.spawn(accept(Arc::clone(&api), listener, activity));
    }
    _ = stopped.await;
}

async fn accept(api: Arc<Api>, listener: TcpListener, activity: Arc<Activity>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&api.connections).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptor is free, or the connection is gone already.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let connection = converse(Arc::clone(&api), Arc::clone(&activity), stream);
        connections.spawn(async move {
            connection.await;
            drop(permit);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(api: Arc<Api>, activity: Arc<Activity>, stream: TcpStream) {
    _ = stream.set_nodelay(true);
    let respond = service_fn(move |request| {
        let response = request::respond(Arc::clone(&api), Arc::clone(&activity), request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(HEAD);
    // A client that goes away is no error of the server.
    _ = server.serve_connection(TokioIo::new(stream), respond).await;
}
