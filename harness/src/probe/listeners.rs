//! Processes that listen on nodes: the ports of pods with `hostNetwork`.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{Shutdown, SocketAddr};

use socket2::{Domain, Protocol as SocketProtocol, SockAddr, Socket, Type};
use svclab_rules::cluster::{Cluster, Protocol};

use super::raw_listeners::silence;
use super::sender::{reset, transport_bytes};
use crate::lab::{Lab, LabError};
use crate::scenario::served_on;
use crate::topology::NetnsId;
use crate::wire::{self, Packet};

/// The number of connections that may wait for a listener.
const BACKLOG: i32 = 4096;

/// All listeners of a lab.
#[derive(Default)]
pub(super) struct Listeners {
    open: HashMap<(NetnsId, Protocol, SocketAddr), Listener>,
}

struct Listener {
    socket: Socket,
    /// Its owner, as a scenario names it.
    owner: String,
}

impl Listeners {
    /// Opens listeners for a cluster's host-network pods: their container ports, and the endpoints at their nodes' addresses.
    ///
    /// A listener that was open before remains only if it is still needed.
    pub(super) fn open(lab: &Lab, cluster: &Cluster) -> Result<Self, LabError> {
        let mut listeners = Self::default();
        for node in &cluster.nodes {
            let Some(netns) = lab.topology().find(&format!("node/{}", node.name)) else { continue };
            for (protocol, at, owner) in served_on(cluster, node) {
                listeners.listen(lab, netns, protocol, at, owner)?;
            }
        }
        Ok(listeners)
    }

    fn listen(
        &mut self,
        lab: &Lab,
        netns: NetnsId,
        protocol: Protocol,
        at: SocketAddr,
        owner: String,
    ) -> Result<(), LabError> {
        let place = &lab.topology().namespaces[netns].name;
        let socket = lab.inside(netns, || bind(protocol, at))?;
        let socket = socket.map_err(LabError::socket(place, format!("listening on {at} {protocol} for {owner}")))?;
        self.open.insert((netns, protocol, at), Listener { socket, owner });
        Ok(())
    }

    /// The namespaces that have a listener, with its protocol.
    pub(super) fn places(&self) -> BTreeSet<(NetnsId, Protocol)> {
        self.open.keys().map(|(netns, protocol, _)| (*netns, *protocol)).collect()
    }

    /// The ports with a listener.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.open.keys().map(|(_, _, at)| at.port())
    }

    /// The owner of the listener for a packet that a node received.
    pub(super) fn owner(&self, netns: NetnsId, protocol: Protocol, at: SocketAddr) -> Option<&str> {
        self.open.get(&(netns, protocol, at)).map(|listener| listener.owner.as_str())
    }

    /// Answers a packet that is for a listener. TCP is answered by the kernel; the connection is accepted and reset.
    pub(super) fn answer(&self, netns: NetnsId, protocol: Protocol, packet: &Packet, at: SocketAddr) -> io::Result<()> {
        let Some(listener) = self.open.get(&(netns, protocol, at)) else { return Ok(()) };
        match protocol {
            Protocol::Tcp => {
                while let Ok((connection, _)) = listener.socket.accept() {
                    reset(&connection)?;
                }
            }
            Protocol::Udp => {
                if let Some(answer) = wire::answer(packet)
                    && let (wire::Transport::Udp(udp), Some(flow)) = (&answer.transport, answer.flow())
                {
                    ignore_refusal(listener.socket.send_to(&udp.payload, &flow.destination.into()))?;
                }
            }
            Protocol::Sctp => {
                if let Some(answer) = wire::answer(packet) {
                    let to = SockAddr::from(SocketAddr::new(answer.destination, 0));
                    ignore_refusal(listener.socket.send_to(&transport_bytes(&answer)?, &to))?;
                }
            }
        }
        Ok(())
    }
}

/// Stops serving before the socket is closed: a child process that another thread is starting may hold a copy of it, which would keep the
/// port and continue to receive packets. See [`silence`] for raw sockets.
impl Drop for Listener {
    fn drop(&mut self) {
        /// The discard protocol (RFC 863): a datagram socket that is connected to it receives nothing from other peers.
        const DISCARD: u16 = 9;
        // A socket that cannot be silenced is closed all the same.
        let _ = match self.socket.r#type() {
            Ok(Type::STREAM) => self.socket.shutdown(Shutdown::Both),
            Ok(Type::DGRAM) => self.socket.local_addr().and_then(|own| {
                let peer = own.as_socket().map(|own| SocketAddr::new(own.ip(), DISCARD));
                peer.map_or(Ok(()), |peer| self.socket.connect(&peer.into()))
            }),
            _ => silence(&self.socket),
        };
    }
}

/// An answer that the kernel does not send (a DROP in OUTPUT) is a finding of the probe, not a failure of the lab.
fn ignore_refusal(sent: io::Result<usize>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other.map(drop),
    }
}

fn bind(protocol: Protocol, at: SocketAddr) -> io::Result<Socket> {
    let (kind, number) = match protocol {
        Protocol::Tcp => (Type::STREAM, SocketProtocol::TCP),
        Protocol::Udp => (Type::DGRAM, SocketProtocol::UDP),
        Protocol::Sctp => (Type::RAW, SocketProtocol::from(i32::from(protocol.number()))),
    };
    let socket = Socket::new(Domain::for_address(at), kind, Some(number))?;
    socket.set_nonblocking(true)?;
    let port = if protocol == Protocol::Sctp { 0 } else { at.port() };
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::new(at.ip(), port).into())?;
    if protocol == Protocol::Tcp {
        socket.listen(BACKLOG)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{SocketAddr, TcpStream, UdpSocket};
    use std::process::Command;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};
    use rstest::rstest;
    use svclab_rules::cluster::Protocol;

    use super::{Listener, bind};
    use crate::testing::privileged;

    fn is_refused(protocol: Protocol, at: SocketAddr) -> bool {
        let refused = match protocol {
            Protocol::Tcp => TcpStream::connect(at).map(drop),
            Protocol::Udp | Protocol::Sctp => {
                let socket = UdpSocket::bind(SocketAddr::new(at.ip(), 0)).unwrap();
                socket.connect(at).unwrap();
                socket.send(b"hello").unwrap();
                // On the loopback, the rejection arrives before the next call.
                socket.send(b"hello").map(drop)
            }
        };
        refused.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }

    #[rstest]
    #[case::tcp(Protocol::Tcp, "127.0.0.1:8080")]
    #[case::tcp_by_ipv6(Protocol::Tcp, "[::1]:8080")]
    #[case::udp(Protocol::Udp, "127.0.0.1:8080")]
    #[case::udp_by_ipv6(Protocol::Udp, "[::1]:8080")]
    fn a_closed_listener_accepts_no_client_although_a_child_process_holds_its_socket(
        #[case] protocol: Protocol,
        #[case] at: SocketAddr,
    ) {
        // A separate thread, because it leaves the network namespace of the others.
        let in_a_namespace = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
            let listener = Listener { socket: bind(protocol, at).unwrap(), owner: "pod/web".to_owned() };
            let of_the_child = listener.socket.try_clone().unwrap();
            assert!(!is_refused(protocol, at), "open");
            drop(listener);
            assert!(is_refused(protocol, at), "closed");
            bind(protocol, at).expect("the port is free again");
            drop(of_the_child);
        };
        privileged(|| thread::scope(|scope| scope.spawn(in_a_namespace).join().unwrap()));
    }
}
