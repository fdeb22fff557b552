//! The server: a thread that accepts connections and serves their requests.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener as BoundListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::activity::{Activity, ClientActivity};
use super::api::{Api, ApiError, Settings};
use super::request;

/// Maximum size of a request's head.
const HEAD: usize = 64 << 10;

/// Maximum idle time of a connection.
const IDLE: Duration = Duration::from_secs(90);

/// A server with its own thread, which ends when the server is dropped.
#[derive(Debug)]
pub(crate) struct ApiServer {
    api: Arc<Api>,
    activities: Vec<Arc<Activity>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ApiServer {
    /// Serves objects on bound listeners.
    ///
    /// # Errors
    ///
    /// All objects that an API server would not store, or the failure to start.
    pub(crate) fn start(
        settings: Settings,
        objects: Vec<Value>,
        listeners: Vec<BoundListener>,
    ) -> Result<Self, ApiError> {
        let api = Arc::new(Api::new(settings, objects)?);
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

    /// Replaces all objects, and returns the resourceVersion of the new state; watches receive the changes in between.
    ///
    /// # Errors
    ///
    /// All objects that an API server would not store; then nothing is changed.
    pub(crate) fn replace(&self, objects: Vec<Value>) -> Result<u64, ApiError> {
        self.api.replace(objects)
    }

    /// Returns the requests so far of a listener's clients; the listener is given by its position in the list.
    pub(crate) fn clients(&self, listener: usize) -> ClientActivity {
        self.activities.get(listener).map(|activity| activity.so_far()).unwrap_or_default()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been reported, and there is nothing left to stop.
            _ = thread.join();
        }
    }
}

/// Serves all listeners until the server is dropped.
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
            // No file descriptor is free, or the connection is already closed.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let connection = serve_connection(Arc::clone(&api), Arc::clone(&activity), stream);
        connections.spawn(async move {
            connection.await;
            drop(permit);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(api: Arc<Api>, activity: Arc<Activity>, stream: TcpStream) {
    _ = stream.set_nodelay(true);
    let respond = service_fn(move |request| {
        let response = request::respond(Arc::clone(&api), Arc::clone(&activity), request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(HEAD);
    // A client that goes away is not an error of the server.
    _ = server.serve_connection(TokioIo::new(stream), respond).await;
}
