//! What a process on a node hears: packets that the node's kernel delivers locally, after all translation.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol as SocketProtocol, Socket, Type};

use crate::lab::{Lab, LabError};
use crate::topology::SpaceId;
use crate::wire::Packet;

/// Protocol numbers that are listened to: TCP, UDP, SCTP, and the ICMP of the family.
const IPV4: [u8; 4] = [6, 17, 132, 1];
const IPV6: [u8; 4] = [6, 17, 132, 58];

/// Raw sockets in a namespace, one a protocol and family.
pub(super) struct Ears {
    sockets: Vec<Ear>,
}

struct Ear {
    socket: Socket,
    /// In IPv6 a raw socket gets no IP header: the next header's number is known from the socket alone.
    ipv6_protocol: Option<u8>,
}

impl Ears {
    /// Opens the sockets of a namespace.
    pub(super) fn open(lab: &Lab, space: SpaceId) -> Result<Self, LabError> {
        let opened = lab.inside(space, || {
            let ipv4 = IPV4.iter().map(|number| Ear::open(Domain::IPV4, *number));
            let ipv6 = IPV6.iter().map(|number| Ear::open(Domain::IPV6, *number));
            ipv4.chain(ipv6).collect::<io::Result<Vec<_>>>()
        })?;
        let sockets = opened.map_err(|source| LabError::Socket {
            space: lab.topology().spaces[space].name.clone(),
            what: "opening a raw socket",
            source,
        })?;
        Ok(Self { sockets })
    }

    /// Hands every packet that was heard since the last call to a function.
    pub(super) fn hear(&self, mut heard: impl FnMut(Packet)) -> io::Result<()> {
        for ear in &self.sockets {
            while let Some(packet) = ear.hear()? {
                packet.into_iter().for_each(&mut heard);
            }
        }
        Ok(())
    }
}

impl Ear {
    fn open(domain: Domain, protocol: u8) -> io::Result<Self> {
        let socket = Socket::new(domain, Type::RAW, Some(SocketProtocol::from(i32::from(protocol))))?;
        socket.set_nonblocking(true)?;
        let ipv6_protocol = (domain == Domain::IPV6).then_some(protocol);
        if ipv6_protocol.is_some() {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        Ok(Self { socket, ipv6_protocol })
    }

    /// The next packet; `Some(None)` for one that cannot be read, `None` where there is none.
    fn hear(&self) -> io::Result<Option<Option<Packet>>> {
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
        let Some(protocol) = self.ipv6_protocol else { return Ok(Some(Packet::decode(&buffer[..length]).ok())) };
        let source = received.address.as_ref().and_then(SockaddrStorage::as_sockaddr_in6).map(|from| from.ip());
        let destination = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::Ipv6PacketInfo(info) => Some(Ipv6Addr::from(info.ipi6_addr.s6_addr)),
            _ => None,
        });
        let addresses = source.zip(destination);
        Ok(Some(addresses.and_then(|(source, destination)| {
            Packet::decode(&with_header(source, destination, protocol, &buffer[..length])).ok()
        })))
    }
}

/// Puts the IPv6 header back that the kernel took off.
fn with_header(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    const HOP_LIMIT: u8 = 64;
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], protocol, HOP_LIMIT];
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(payload);
    packet
}

/// The unspecified address of a destination's family, with a port.
pub(super) fn any_address(like: IpAddr, port: u16) -> SocketAddr {
    match like {
        IpAddr::V4(_) => SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), port),
        IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
    }
}
