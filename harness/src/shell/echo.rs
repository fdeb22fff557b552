//! Servers for real clients: an HTTP server on every TCP port of a pod, whose response names the server and the client, and the same over
//! UDP.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hyper::Request;
use hyper::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use svclab_rules::cluster::{Cluster, Pod, Protocol};
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use crate::lab::{Lab, LabError, leave_cpu};
use crate::scenario::{pod_label, served_on};
use crate::topology::{NetnsId, Topology};

/// How long a server that cannot accept a connection waits before it tries again.
const PAUSE: Duration = Duration::from_millis(10);
/// The time between two checks whether servers have stopped.
const LOOK: Duration = Duration::from_micros(100);

/// A port of a server.
type Port = (NetnsId, Protocol, SocketAddr);

/// The servers of a lab.
pub(super) struct Echo {
    runtime: Handle,
    names: Arc<HashMap<IpAddr, String>>,
    open: HashMap<Port, Server>,
    /// The thread of the servers ends when this is dropped.
    _stop: oneshot::Sender<()>,
}

/// A server, which is stopped with its connections when it is dropped.
struct Server(AbortHandle);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The ports to serve: those on nodes belong to the prober while it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ports {
    All,
    OfPods,
}

impl Echo {
    /// Starts the thread of the servers, without any server yet.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub(super) fn start(lab: &Lab, cluster: &Cluster) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            // If this is not allowed, the servers share the lab's CPU.
            let _ = leave_cpu();
            runtime.block_on(async { _ = stopped.await });
        };
        thread::Builder::new().name("echo".to_owned()).spawn(serve)?;
        Ok(Self { runtime: handle, names: Arc::new(names(lab.topology(), cluster)), open: HashMap::new(), _stop: stop })
    }

    /// Serves the ports of pods in a state of the cluster. Servers that are still needed stay open, with their connections.
    ///
    /// # Errors
    ///
    /// If a listener cannot be opened.
    pub(super) fn serve(&mut self, lab: &Lab, cluster: &Cluster, which: Ports) -> Result<(), LabError> {
        let wanted: HashMap<Port, String> = wanted(lab.topology(), cluster, which).into_iter().collect();
        // A pod continues to serve when it is no longer an endpoint.
        let serving: HashSet<NetnsId> = pods(lab.topology(), cluster).map(|(netns, _)| netns).collect();
        let stays = |port: &Port| wanted.contains_key(port) || serving.contains(&port.0);
        let closed = self.open.extract_if(|port, _| !stays(port));
        let closed: Vec<AbortHandle> = closed.map(|(_, server)| server.0.clone()).collect();
        // Each was dropped; its socket is closed by the thread of the servers.
        while closed.iter().any(|task| !task.is_finished()) {
            thread::sleep(LOOK);
        }
        for (port, owner) in wanted {
            if !self.open.contains_key(&port) {
                let server = self.listen(lab, port, &owner);
                let place = &lab.topology().namespaces[port.0].name;
                let (_, protocol, at) = port;
                let what = format!("listening on {at} {protocol} for {owner}");
                self.open.extend(server?.map_err(LabError::socket(place, what))?.map(|server| (port, server)));
            }
        }
        Ok(())
    }

    fn listen(
        &self,
        lab: &Lab,
        (netns, protocol, at): Port,
        owner: &str,
    ) -> Result<io::Result<Option<Server>>, LabError> {
        let _runtime = self.runtime.enter();
        let (names, owner) = (Arc::clone(&self.names), owner.to_owned());
        let me = Me { names, owner, at };
        lab.inside(netns, || match protocol {
            Protocol::Tcp => {
                let listener = std::net::TcpListener::bind(at)?;
                listener.set_nonblocking(true)?;
                let task = self.runtime.spawn(accept(TcpListener::from_std(listener)?, Arc::new(me)));
                Ok(Some(Server(task.abort_handle())))
            }
            Protocol::Udp => {
                let socket = std::net::UdpSocket::bind(at)?;
                socket.set_nonblocking(true)?;
                Ok(Some(Server(self.runtime.spawn(answer(UdpSocket::from_std(socket)?, me)).abort_handle())))
            }
            // Few real programs use it, and many kernels lack it.
            Protocol::Sctp => Ok(None),
        })
    }
}

/// The server of a port.
struct Me {
    names: Arc<HashMap<IpAddr, String>>,
    owner: String,
    at: SocketAddr,
}

impl Me {
    /// `pod/nginx at 10.244.2.2:80, client 10.244.1.2:40112 (pod/client)`.
    fn says(&self, client: SocketAddr) -> String {
        let name = self.names.get(&client.ip().to_canonical()).map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{} at {}, client {client}{name}\n", self.owner, self.at)
    }
}

async fn accept(listener: TcpListener, me: Arc<Me>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, client)) = listener.accept().await else {
            // The connection is gone already, or no file descriptor is free, which may last for a while.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let me = Arc::clone(&me);
        connections.spawn(async move {
            let respond = service_fn(|request: Request<Incoming>| {
                let text = me.says(client) + &head(&request);
                async { Ok::<_, Infallible>(Response::new(text)) }
            });
            // A client that disconnects is not an error of the server.
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), respond).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// The request as received, without its body.
fn head<B>(request: &Request<B>) -> String {
    let mut text = format!("{} {} {:?}\n", request.method(), request.uri(), request.version());
    for (name, value) in request.headers() {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    text
}

async fn answer(socket: UdpSocket, me: Me) {
    let mut buffer = [0; 2048];
    loop {
        // The rejection of an earlier answer is reported here.
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
        let answer = [me.says(client).as_bytes(), &buffer[..length]].concat();
        let _ = socket.send_to(&answer, client).await;
    }
}

/// The pods that serve in a network namespace of their own. Pods with rules of their own forward packets instead.
fn pods<'a>(topology: &'a Topology, cluster: &'a Cluster) -> impl Iterator<Item = (NetnsId, &'a Pod)> {
    let own = cluster.pods.iter().filter(|pod| !pod.host_network && !cluster.is_off(&pod.node));
    let found = own.filter_map(|pod| Some((topology.find(&pod_label(&pod.name))?, pod)));
    found.filter(|(netns, _)| !topology.namespaces[*netns].forwards())
}

/// The ports that pods serve, with their owners.
fn wanted(topology: &Topology, cluster: &Cluster, which: Ports) -> Vec<(Port, String)> {
    let mut wanted = Vec::new();
    for (netns, pod) in pods(topology, cluster) {
        let owner = pod_label(&pod.name);
        let mut ports: BTreeSet<(Protocol, SocketAddr)> = BTreeSet::new();
        for ip in &pod.ips {
            ports.extend(pod.ports.iter().map(|port| (port.protocol, SocketAddr::new(*ip, port.port))));
            let own = cluster
                .slices
                .iter()
                .filter(|slice| slice.endpoints.iter().any(|endpoint| endpoint.addresses.contains(ip)));
            let served = own.flat_map(|slice| &slice.ports).filter_map(|port| Some((port.protocol, port.port?)));
            ports.extend(served.map(|(protocol, port)| (protocol, SocketAddr::new(*ip, port))));
        }
        wanted.extend(ports.into_iter().map(|(protocol, at)| ((netns, protocol, at), owner.clone())));
    }
    for node in cluster.nodes.iter().filter(|node| which == Ports::All && !cluster.is_off(&node.name)) {
        let Some(netns) = topology.find(&format!("node/{}", node.name)) else { continue };
        let served = served_on(cluster, node).into_iter();
        wanted.extend(served.map(|(protocol, at, owner)| ((netns, protocol, at), owner)));
    }
    wanted
}

/// The machines behind addresses.
fn names(topology: &Topology, cluster: &Cluster) -> HashMap<IpAddr, String> {
    let owned = topology.owners.iter().map(|(ip, owner)| (*ip, topology.namespaces[*owner].name.clone()));
    let nodes = cluster.nodes.iter();
    let of_nodes = nodes.flat_map(|node| node.addresses().map(move |ip| (ip, format!("node/{}", node.name))));
    owned.chain(of_nodes).collect()
}
