//! The sender of a probe, and how its first packet enters the kernel.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{SockaddrIn, connect, setsockopt, sockopt};
use nix::{libc, setsockopt_impl, sockopt_impl};
use socket2::{Domain, Protocol as SocketProtocol, SockAddr, Socket, Type};
use svclab_rules::cluster::{Family, Protocol};

use crate::lab::{Lab, LabError};
use crate::scenario::RejectKind;
pub(super) use crate::topology::Sender;
use crate::wire::{self, Flow, Packet, Rejection, Tag};

sockopt_impl!(
    /// The queue that repair mode applies to: `TCP_REPAIR_QUEUE` of tcp(7).
    RepairedQueue,
    SetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_REPAIR_QUEUE,
    i32
);
sockopt_impl!(
    /// The sequence number of that queue's next byte: `TCP_QUEUE_SEQ`.
    QueueSequence,
    SetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_QUEUE_SEQ,
    u32
);
/// `TCP_REPAIR_ON` and `TCP_REPAIR_OFF` of linux/tcp.h.
const REPAIR_ON: u32 = 1;
const REPAIR_OFF: u32 = 0;
/// `TCP_SEND_QUEUE` of linux/tcp.h.
const TCP_SEND_QUEUE: i32 = 2;

/// A process's flow that has been started, with the socket that is held open while the flow is followed.
pub(super) struct Started {
    /// The flow as it was sent; the kernel has chosen the source.
    pub flow: Flow,
    /// The reason why the kernel did not send it: there is no route.
    pub unsent: Option<Rejection>,
    socket: Socket,
}

impl Sender {
    /// The address that a process binds to before it connects.
    fn bind_address(self, destination: IpAddr, port: u16) -> SocketAddr {
        match (self, destination) {
            (Self::Loopback(_), IpAddr::V4(_)) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
            (Self::Loopback(_), IpAddr::V6(_)) => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port),
            (_, IpAddr::V4(_)) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
            (_, IpAddr::V6(_)) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
        }
    }

    /// The source address of packets to a destination.
    pub(super) fn source_address(self, lab: &Lab, destination: SocketAddr) -> Result<Option<IpAddr>, LabError> {
        match self {
            Self::Wire(netns) => {
                let own = &lab.topology().namespaces[netns].addresses_on_wire;
                Ok(own.iter().copied().find(|ip| ip.is_ipv4() == destination.is_ipv4()))
            }
            Self::Process(netns) | Self::Loopback(netns) => lab.inside(netns, || {
                let socket = Socket::new(Domain::for_address(destination), Type::DGRAM, None).ok()?;
                socket.bind(&self.bind_address(destination.ip(), 0).into()).ok()?;
                socket.connect(&destination.into()).ok()?;
                Some(socket.local_addr().ok()?.as_socket()?.ip())
            }),
        }
    }

    /// Sends the first packet of a flow as a process does.
    ///
    /// # Errors
    ///
    /// If the port is taken or no socket can be opened. If the kernel does not send the packet (no route, a DROP in OUTPUT), that is not an
    /// error but part of the result.
    pub(super) fn start(
        self,
        lab: &Lab,
        to: SocketAddr,
        protocol: Protocol,
        port: u16,
        tag: Tag,
    ) -> Result<Started, LabError> {
        let netns = self.netns();
        let bind = self.bind_address(to.ip(), port);
        let started = lab.inside(netns, || match protocol {
            Protocol::Tcp => start_tcp(bind, to, tag),
            Protocol::Udp => start_udp(bind, to, tag),
            Protocol::Sctp => start_sctp(bind, to, tag),
        })?;
        started.map_err(LabError::socket(&lab.topology().namespaces[netns].name, "opening a socket for a probe"))
    }
}

impl Started {
    fn new(
        protocol: Protocol,
        socket: Socket,
        bind: SocketAddr,
        to: SocketAddr,
        sent: io::Result<()>,
    ) -> io::Result<Self> {
        let source = socket.local_addr().ok().and_then(|local| local.as_socket()).unwrap_or(bind);
        let source = SocketAddr::new(source.ip(), bind.port());
        let rejection = |what| Rejection { kind: RejectKind::Unsent, what, by: source.ip() };
        let unsent = why_unsent(sent)?.map(rejection);
        Ok(Self { flow: Flow { protocol, source, destination: to }, unsent, socket })
    }
}

impl Drop for Started {
    /// Ends the flow: a TCP connection is reset, so that conntrack considers it closed.
    fn drop(&mut self) {
        if self.flow.protocol == Protocol::Tcp {
            // A socket that is not even connecting only needs to be closed.
            let _ = reset(&self.socket);
        }
    }
}

/// Resets a TCP connection, or aborts the attempt to open one, at once.
///
/// A child process that another thread is starting holds copies of all sockets until it executes its program, so closing a
/// socket may end nothing: the kernel would retransmit an unanswered SYN while a later probe is counted.
///
/// # Errors
///
/// If the kernel rejects it.
pub(super) fn reset(socket: &Socket) -> io::Result<()> {
    // The protocol-independent address of connect(2), which dissolves the association for all holders of the socket.
    let unspecified = libc::sockaddr_in {
        sin_family: libc::sa_family_t::try_from(libc::AF_UNSPEC).unwrap_or_default(),
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: 0 },
        sin_zero: [0; 8],
    };
    Ok(connect(socket.as_raw_fd(), &SockaddrIn::from(unspecified))?)
}

/// The kernel's SYN carries the tag's key as its sequence number: TCP repair mode lets a process choose it; repair mode is used for nothing
/// else.
fn start_tcp(bind: SocketAddr, to: SocketAddr, tag: Tag) -> io::Result<Started> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(SocketProtocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&bind.into())?;
    setsockopt(&socket, sockopt::TcpRepair, &REPAIR_ON)?;
    setsockopt(&socket, RepairedQueue, &TCP_SEND_QUEUE)?;
    setsockopt(&socket, QueueSequence, &tag.key())?;
    setsockopt(&socket, sockopt::TcpRepair, &REPAIR_OFF)?;
    let sent = socket.connect(&to.into());
    Started::new(Protocol::Tcp, socket, bind, to, sent)
}

fn start_udp(bind: SocketAddr, to: SocketAddr, tag: Tag) -> io::Result<Started> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(SocketProtocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.bind(&bind.into())?;
    let packet = wire::probe(&Flow::udp(bind, to), tag);
    let payload = match packet.transport {
        wire::Transport::Udp(udp) => udp.payload,
        _ => Vec::new(),
    };
    let sent = socket.connect(&to.into()).and_then(|()| socket.send(&payload).map(drop));
    Started::new(Protocol::Udp, socket, bind, to, sent)
}

/// SCTP goes through a raw IP socket: kernels without SCTP can send it too.
fn start_sctp(bind: SocketAddr, to: SocketAddr, tag: Tag) -> io::Result<Started> {
    let protocol = SocketProtocol::from(i32::from(Protocol::Sctp.number()));
    let socket = Socket::new(Domain::for_address(to), Type::RAW, Some(protocol))?;
    socket.set_nonblocking(true)?;
    let portless = |address: SocketAddr| SockAddr::from(SocketAddr::new(address.ip(), 0));
    socket.bind(&portless(bind))?;
    let sent = socket
        .connect(&portless(to))
        .and_then(|()| transport_bytes(&wire::probe(&Flow::sctp(bind, to), tag)))
        .and_then(|bytes| socket.send(&bytes).map(drop));
    Started::new(Protocol::Sctp, socket, bind, to, sent)
}

/// The reason why a kernel did not send a packet: no route.
///
/// A connection in progress counts as sent, and so does one that was refused at once. `EPERM` means that a rule in OUTPUT dropped the
/// packet; a rejection is received separately.
///
/// # Errors
///
/// Any other error is a failure of the probe.
fn why_unsent(sent: io::Result<()>) -> io::Result<Option<String>> {
    const SENT: [Errno; 3] = [Errno::EINPROGRESS, Errno::EPERM, Errno::ECONNREFUSED];
    /// `EINVAL`: the source is a martian, such as a loopback address; or the route is a blackhole.
    const NO_WAY: [Errno; 5] = [Errno::ENETUNREACH, Errno::EHOSTUNREACH, Errno::ENETDOWN, Errno::EACCES, Errno::EINVAL];
    let Err(error) = sent else { return Ok(None) };
    match error.raw_os_error().map(Errno::from_raw) {
        Some(errno) if SENT.contains(&errno) => Ok(None),
        Some(errno) if NO_WAY.contains(&errno) => Ok(Some(format!("not sent, {}", errno.desc().to_lowercase()))),
        _ => Err(error),
    }
}

/// A packet without its IP header, as a raw socket sends it.
pub(super) fn transport_bytes(packet: &Packet) -> io::Result<Vec<u8>> {
    let header = match Family::of(packet.source) {
        Family::Ipv4 => 20,
        Family::Ipv6 => 40,
    };
    let mut bytes = packet.encode().map_err(io::Error::other)?;
    Ok(bytes.split_off(header.min(bytes.len())))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{ErrorKind, Read};
    use std::net::{SocketAddr, TcpListener};
    use std::path::Path;
    use std::process::Command;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};
    use rstest::rstest;
    use svclab_rules::cluster::Protocol;

    use super::{Sender, start_tcp};
    use crate::lab::{Backend, Lab, with_lab};
    use crate::topology::NetnsId;
    use crate::wire::Tag;
    use crate::{documents, scenario, testing, topology};

    /// Whether a namespace has a TCP socket in state SYN_SENT.
    fn is_connecting(lab: &Lab, netns: NetnsId) -> bool {
        const SYN_SENT: &str = "02";
        let sockets = lab.inside(netns, || fs::read_to_string("/proc/thread-self/net/tcp")).unwrap().unwrap();
        sockets.lines().any(|socket| socket.split_whitespace().nth(3) == Some(SYN_SENT))
    }

    /// Its SYN, retransmitted a second later, would be a new connection to nodes that have forgotten the flow, and their rules
    /// would count it.
    #[test]
    fn an_ended_flow_is_not_retransmitted_although_a_child_process_holds_its_socket() {
        let path = Path::new("../scenarios/seeds/001-kind-clusterip.yaml");
        let scenario = scenario::load(path).unwrap_or_else(|errors| panic!("{errors}"));
        let documents = documents::generate(&scenario, &scenario.cluster).unwrap();
        testing::privileged(|| {
            with_lab(&topology::plan(&scenario), &documents, Backend::System, |lab| {
                let node = lab.topology().find("node/cluster-control-plane").unwrap();
                let to = "10.96.34.82:80".parse().unwrap();
                // No pod answers, because no prober reads the taps.
                let started = Sender::Process(node).start(lab, to, Protocol::Tcp, 40_000, Tag::new(1)).unwrap();
                let of_the_child = started.socket.try_clone().unwrap();
                assert!(is_connecting(lab, node), "under way");
                drop(started);
                assert!(!is_connecting(lab, node), "ended");
                drop(of_the_child);
            })
            .unwrap();
        });
    }

    #[rstest]
    #[case::ipv4("127.0.0.1:0")]
    #[case::ipv6("[::1]:0")]
    fn an_ended_connection_is_reset_although_a_child_process_holds_its_socket(#[case] any: SocketAddr) {
        // Its own thread, because it leaves the network namespace of the others.
        let in_a_namespace = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
            let server = TcpListener::bind(any).unwrap();
            let started = start_tcp(any, server.local_addr().unwrap(), Tag::new(1)).unwrap();
            let of_the_child = started.socket.try_clone().unwrap();
            let (mut accepted, _) = server.accept().unwrap();
            drop(started);
            accepted.set_nonblocking(true).unwrap();
            assert_eq!(accepted.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
            drop(of_the_child);
        };
        testing::privileged(|| thread::scope(|scope| scope.spawn(in_a_namespace).join().unwrap()));
    }
}
