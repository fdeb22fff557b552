//! Raw sockets on nodes, which receive packets that a node's kernel delivers locally, after all translation.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol as SocketProtocol, Socket, Type};
use svclab_rules::cluster::Protocol;

use super::drain::MAX_PACKETS;
use crate::lab::{Lab, LabError, Losses, give_room};
use crate::topology::NetnsId;
use crate::wire::Packet;

/// The protocol numbers of ICMP, by family: rejections of all other protocols.
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Raw sockets in a namespace: for ICMP, and for the protocols in use there.
///
/// A kernel without SCTP answers an INIT with ICMP protocol unreachable, unless a raw socket receives it. So there is a
/// listener for a protocol only while a process uses it.
#[derive(Default)]
pub(super) struct RawListeners {
    sockets: Vec<RawListener>,
}

struct RawListener {
    socket: Socket,
    protocol: u8,
    /// An IPv6 raw socket receives no IP header: the next header is known only from the socket.
    is_ipv6: bool,
    losses: Losses,
}

impl RawListeners {
    /// Opens listeners for a protocol and its rejections in a namespace.
    pub(super) fn open(&mut self, lab: &Lab, netns: NetnsId, protocol: Protocol) -> Result<(), LabError> {
        let number = protocol.number();
        let wanted = [(Domain::IPV4, ICMP), (Domain::IPV6, ICMPV6), (Domain::IPV4, number), (Domain::IPV6, number)];
        // A kernel may lack IPv6 if no machine has an IPv6 address.
        let spoken = |domain: Domain| domain == Domain::IPV4 || lab.topology().has_ipv6();
        let missing = wanted.into_iter().filter(|(domain, number)| spoken(*domain) && !self.has(*domain, *number));
        let opened = lab.inside(netns, || {
            missing.map(|(domain, number)| RawListener::open(domain, number)).collect::<io::Result<Vec<_>>>()
        })?;
        let place = &lab.topology().namespaces[netns].name;
        self.sockets.extend(opened.map_err(LabError::socket(place, "opening a raw socket"))?);
        Ok(())
    }

    /// The numbers of the protocols with a listener.
    pub(super) fn protocols(&self) -> Vec<u8> {
        self.sockets.iter().map(|listener| listener.protocol).collect()
    }

    /// Closes all other listeners.
    pub(super) fn keep(&mut self, protocols: &[u8]) {
        self.sockets.retain(|listener| protocols.contains(&listener.protocol));
    }

    fn has(&self, domain: Domain, number: u8) -> bool {
        self.sockets.iter().any(|listener| listener.protocol == number && listener.is_ipv6 == (domain == Domain::IPV6))
    }

    /// Packets dropped since the last call because a receive buffer was full.
    pub(super) fn newly_lost(&self) -> io::Result<u32> {
        self.sockets.iter().map(|listener| listener.losses.newly(&listener.socket)).sum()
    }

    /// Hands every packet received since the last call to a function.
    pub(super) fn receive(&self, mut received: impl FnMut(Packet)) -> io::Result<()> {
        for listener in &self.sockets {
            // If packets loop, there is always one more.
            for _ in 0..MAX_PACKETS {
                let Some(packet) = listener.receive()? else { break };
                packet.into_iter().for_each(&mut received);
            }
        }
        Ok(())
    }
}

impl RawListener {
    fn open(domain: Domain, protocol: u8) -> io::Result<Self> {
        let socket = Socket::new(domain, Type::RAW, Some(SocketProtocol::from(i32::from(protocol))))?;
        socket.set_nonblocking(true)?;
        give_room(&socket)?;
        let is_ipv6 = domain == Domain::IPV6;
        if is_ipv6 {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        Ok(Self { socket, protocol, is_ipv6, losses: Losses::default() })
    }

    /// The next packet; `Some(None)` for one that cannot be parsed, `None` if there is none.
    fn receive(&self) -> io::Result<Option<Option<Packet>>> {
        let mut buffer = [0; 2048];
        let mut control = nix::cmsg_space!(nix::libc::in6_pktinfo);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let received =
            recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty());
        let received = match received {
            Ok(received) => received,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let length = received.bytes;
        if !self.is_ipv6 {
            return Ok(Some(Packet::decode(&buffer[..length]).ok()));
        }
        let source = received.address.as_ref().and_then(SockaddrStorage::as_sockaddr_in6).map(|from| from.ip());
        let destination = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::Ipv6PacketInfo(info) => Some(Ipv6Addr::from(info.ipi6_addr.s6_addr)),
            _ => None,
        });
        let addresses = source.zip(destination);
        Ok(Some(addresses.and_then(|(source, destination)| {
            Packet::decode(&with_header(source, destination, self.protocol, &buffer[..length])).ok()
        })))
    }
}

/// Stops receiving before it is closed.
impl Drop for RawListener {
    fn drop(&mut self) {
        // A socket that cannot be bound is closed all the same.
        let _ = silence(&self.socket);
    }
}

/// Makes a raw socket stop receiving, which closing alone may not do.
///
/// A child process that another thread is starting holds copies of all sockets until it executes its program. Until then a closed socket
/// would still receive packets, and the kernel would not reject them.
///
/// # Errors
///
/// If the kernel does not bind it.
pub(super) fn silence(raw: &Socket) -> io::Result<()> {
    /// A multicast group that no packet is sent to.
    const UNUSED_GROUP: Ipv6Addr = Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 0);
    let unused = match raw.domain()? {
        Domain::IPV6 => UNUSED_GROUP.into(),
        _ => Ipv4Addr::BROADCAST.into(),
    };
    raw.bind(&SocketAddr::new(unused, 0).into())
}

/// Restores the IPv6 header that the kernel removed.
fn with_header(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    const HOP_LIMIT: u8 = 64;
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], protocol, HOP_LIMIT];
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(payload);
    packet
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::net::SocketAddr;
    use std::process::Command;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};
    use rstest::rstest;
    use socket2::{Domain, Protocol as SocketProtocol, Socket, Type};

    use super::RawListener;
    use crate::testing::privileged;

    /// A protocol number reserved for experiments (RFC 3692).
    const EXPERIMENT: u8 = 253;

    #[rstest]
    #[case::ipv4(Domain::IPV4, "127.0.0.1:0")]
    #[case::ipv6(Domain::IPV6, "[::1]:0")]
    fn a_closed_listener_receives_nothing_although_a_child_process_holds_its_socket(
        #[case] domain: Domain,
        #[case] to: SocketAddr,
    ) {
        // Its own thread, because it leaves the network namespace of the others.
        let in_a_namespace = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
            let sender = Socket::new(domain, Type::RAW, Some(SocketProtocol::from(i32::from(EXPERIMENT)))).unwrap();
            let listener = RawListener::open(domain, EXPERIMENT).unwrap();
            let of_the_child = listener.socket.try_clone().unwrap();
            let receives = || {
                sender.send_to(b"hello", &to.into()).unwrap();
                of_the_child.recv(&mut [MaybeUninit::uninit(); 64]).is_ok()
            };
            assert!(receives(), "open");
            drop(listener);
            assert!(!receives(), "closed");
        };
        privileged(|| thread::scope(|scope| scope.spawn(in_a_namespace).join().unwrap()));
    }
}
