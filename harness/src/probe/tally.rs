//! Many flows at once: sent in batches, counted where they come out.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use socket2::{Domain, Protocol as SocketProtocol, SockFilter, SockRef, Socket, Type};
use svclab_rules::cluster::Protocol;

use super::{ProbeError, Prober, QUIET_MARKERS, Sender, Tally};
use crate::lab::LabError;
use crate::topology::{Role, SpaceId, Topology};
use crate::wire::{self, Content, Tag, Template};

/// Packets that are sent by one call, before what came out is read.
const BATCH: usize = 64;
/// Flows between two flushes of the nodes' connection tables: far below the default limit of 262,144 entries, and below the
/// number of ports that a masquerade to one endpoint can choose from.
pub(crate) const FLUSH_EVERY: u64 = 16_384;
/// The bytes of a frame that counting needs.
const SNAP: usize = 128;
/// Source ports that are used in turn.
const PORTS: std::ops::Range<u16> = 1024..u16::MAX;

/// What has been counted so far. Flows are told apart within a window of [`FLUSH_EVERY`], so that memory stays bounded.
struct Count {
    tally: Tally,
    /// The tag of the window's first flow.
    first_tag: u64,
    /// How often the flow of each tag of the window came out.
    seen: Vec<u8>,
    came_out: Vec<(SocketAddr, IpAddr)>,
}

impl Prober<'_> {
    /// Sends flows to one destination, each a fresh 5-tuple, and counts where they come out. Nobody answers.
    pub(super) fn tally(
        &mut self,
        sender: Sender,
        to: SocketAddr,
        protocol: Protocol,
        via: Option<SpaceId>,
        flows: u64,
    ) -> Result<Tally, ProbeError> {
        self.settle(None)?;
        let source = sender.source_address(self.lab, to)?.ok_or(ProbeError::NoAddress(to))?;
        let first_tag = self.next_tag;
        self.next_tag += flows;
        let mut count = Count::new(first_tag);
        let (fd, template, _socket) = self.outlet(sender, to, protocol, via)?;
        self.count_only(true)?;
        let counted = self.send_and_count(flows, source, fd, &template, &mut count, sender);
        // Whatever came of it, later probes must see everything again.
        self.count_only(false)?;
        counted?;
        self.lab.flush_connections()?;
        Ok(Tally { sender: Some(source), ..count.finish() })
    }

    /// Sends batches and counts them, window by window.
    fn send_and_count(
        &mut self,
        flows: u64,
        source: IpAddr,
        fd: RawFd,
        template: &Template,
        count: &mut Count,
        sender: Sender,
    ) -> Result<(), ProbeError> {
        let first_tag = count.first_tag;
        let mut port = PORTS;
        let mut sent = 0;
        while sent < flows {
            let size = BATCH.min(usize::try_from(flows - sent).unwrap_or(BATCH));
            let mut frames = [[0; Template::MAX_LEN]; BATCH];
            for (frame, offset) in frames[..size].iter_mut().zip(0..) {
                let port = port.next().unwrap_or_else(|| {
                    port = PORTS;
                    PORTS.start
                });
                let tag = Tag::new(first_tag + sent + offset).unwrap_or(Tag::MAX);
                template.fill(SocketAddr::new(source, port), tag, frame);
            }
            send_all(fd, &frames[..size], template.len()).map_err(|source| self.send_error(sender, source))?;
            sent += size as u64;
            // The backlog of a processor holds 1,000 packets. With a marker after every batch there are never more under
            // way than a batch for each hop, however late the kernel gets to work them off.
            self.lab.pass_fence()?;
            self.count(count)?;
            if sent % FLUSH_EVERY == 0 || sent == flows {
                self.drain(count)?;
                count.close_window(sent);
                if sent < flows {
                    self.lab.flush_connections()?;
                }
            }
        }
        Ok(())
    }

    /// The socket that flows are written to, and what is written. The socket of a process lives as long as the last part.
    fn outlet(
        &mut self,
        sender: Sender,
        to: SocketAddr,
        protocol: Protocol,
        via: Option<SpaceId>,
    ) -> Result<(RawFd, Template, Option<Socket>), ProbeError> {
        let space = sender.space();
        if let Sender::Wire(_) = sender {
            let (source_mac, destination_mac) = self.macs(space, to.ip(), via);
            let template = Template::frame(source_mac, destination_mac, to, protocol);
            let template = template.map_err(|error| self.unencodable(space, &error))?;
            return Ok((self.wire(space)?.fd(), template, None));
        }
        let template = Template::packet(to, protocol).map_err(|error| self.unencodable(space, &error))?;
        let opened = self.lab.inside(space, || {
            // A raw socket of this protocol number takes whole packets, IP header included.
            const IPPROTO_RAW: i32 = 255;
            let socket = Socket::new(Domain::for_address(to), Type::RAW, Some(SocketProtocol::from(IPPROTO_RAW)))?;
            socket.connect(&SocketAddr::new(to.ip(), 0).into())?;
            Ok(socket)
        })?;
        let socket: Socket = opened.map_err(|source| self.send_error(sender, source))?;
        Ok((socket.as_raw_fd(), template, Some(socket)))
    }

    fn send_error(&self, sender: Sender, source: io::Error) -> LabError {
        let space = self.lab.topology().spaces[sender.space()].name.clone();
        LabError::Socket { space, what: "sending many packets", source }
    }

    /// Lets the taps see only packets that go out to a pod or an outside host, or everything again.
    fn count_only(&self, only: bool) -> Result<(), LabError> {
        for tap in &self.taps {
            let socket = tap.channel.socket();
            let socket = SockRef::from(&socket);
            let set = match (only, first_outlet(self.lab.topology(), tap.space)) {
                (true, Some(first)) => socket.attach_filter(&outgoing_from(first)),
                (true, None) => socket.attach_filter(&[return_bytes(0)]),
                (false, _) => socket.detach_filter(),
            };
            set.map_err(|source| tap.channel.error("filtering a packet socket", source))?;
        }
        Ok(())
    }

    /// Reads what came out until nothing comes any more.
    fn drain(&mut self, count: &mut Count) -> Result<(), ProbeError> {
        let mut quiet = 0;
        while quiet < QUIET_MARKERS {
            self.lab.pass_fence()?;
            quiet = if self.count(count)? { 0 } else { quiet + 1 };
        }
        Ok(())
    }

    /// Reads what came out by now. True where that was anything.
    fn count(&self, count: &mut Count) -> Result<bool, LabError> {
        let mut any = false;
        for tap in &self.taps {
            loop {
                let received = receive_many(tap.channel.fd(), |frame| count.frame(frame));
                let received = received.map_err(|source| tap.channel.error("receiving many frames", source))?;
                any |= received > 0;
                if received < BATCH {
                    break;
                }
            }
        }
        for (&space, ears) in &self.ears {
            let heard = ears.hear(|packet| {
                let Some(flow) = packet.flow() else { return };
                if self.listeners.owner(space, flow.protocol, flow.destination).is_some() {
                    any = true;
                    count.came_out(packet.tag(), flow);
                }
            });
            let place = &self.lab.topology().spaces[space].name;
            heard.map_err(|source| LabError::Socket {
                space: place.clone(),
                what: "listening for local packets",
                source,
            })?;
        }
        Ok(any)
    }
}

impl Count {
    fn new(first_tag: u64) -> Self {
        let room = usize::try_from(FLUSH_EVERY).unwrap_or_default();
        Self { tally: Tally::default(), first_tag, seen: vec![0; room], came_out: vec![NOWHERE; room] }
    }

    /// A frame went out to a pod or host.
    fn frame(&mut self, frame: &[u8]) {
        if let Some(key) = wire::peek(frame) {
            match key.content {
                Content::Request(tag) => self.came_out(Some(tag), key.flow),
                Content::Answer(_) | Content::Other => {}
            }
        }
    }

    fn came_out(&mut self, tag: Option<Tag>, flow: wire::Flow) {
        let index =
            tag.and_then(|tag| tag.get().checked_sub(self.first_tag)).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index.filter(|index| *index < self.seen.len()) else {
            self.tally.unattributed += 1;
            return;
        };
        self.seen[index] = self.seen[index].saturating_add(1);
        self.came_out[index] = (flow.destination, flow.source.ip());
    }

    /// Adds up the flows since the last window was closed; `sent` is how many were sent in all.
    fn close_window(&mut self, sent: u64) {
        let size = usize::try_from(sent - self.tally.sent).unwrap_or(usize::MAX).min(self.seen.len());
        for (times, (destination, source)) in self.seen.iter().zip(&self.came_out).take(size) {
            match times {
                0 => self.tally.lost += 1,
                1 => {
                    *self.tally.delivered.entry(*destination).or_default() += 1;
                    *self.tally.sources.entry(*source).or_default() += 1;
                }
                _ => self.tally.doubled += 1,
            }
        }
        self.seen.fill(0);
        self.first_tag += sent - self.tally.sent;
        self.tally.sent = sent;
    }

    fn finish(self) -> Tally {
        self.tally
    }
}

/// Stands for a flow that has not come out.
const NOWHERE: (SocketAddr, IpAddr) = {
    let unspecified = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
    (SocketAddr::new(unspecified, 0), unspecified)
};

/// Sends packets over a bound or connected socket.
fn send_all(fd: RawFd, frames: &[[u8; Template::MAX_LEN]], length: usize) -> io::Result<()> {
    let mut left = frames;
    while !left.is_empty() {
        let slices: Vec<[IoSlice<'_>; 1]> = left.iter().map(|frame| [IoSlice::new(&frame[..length])]).collect();
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(slices.len(), None);
        let nobody = vec![None; slices.len()];
        match sendmmsg(fd, &mut headers, &slices, nobody, [], MsgFlags::empty()) {
            Ok(sent) => left = &left[sent.count().max(1)..],
            // A DROP in OUTPUT: the packet is lost, which the count will say.
            Err(Errno::EPERM) => left = &left[1..],
            Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR) => std::thread::yield_now(),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Reads up to a batch of frames that are there now; returns how many.
fn receive_many(fd: RawFd, mut each: impl FnMut(&[u8])) -> io::Result<usize> {
    let mut buffers = [[0; SNAP]; BATCH];
    let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(BATCH, None);
    let lengths: Vec<usize> = match recvmmsg(fd, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
        Ok(received) => received.map(|message| message.bytes).collect(),
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
        Err(errno) => return Err(errno.into()),
    };
    for (buffer, length) in buffers.iter().zip(&lengths) {
        each(&buffer[..(*length).min(SNAP)]);
    }
    Ok(lengths.len())
}

/// The least index of the interfaces of a namespace that lead to pods or hosts. All of them come after those that lead
/// elsewhere, because nodes are linked before pods and hosts are.
fn first_outlet(topology: &Topology, space: SpaceId) -> Option<u32> {
    let leads_out = |index: &u32| {
        let behind = topology.behind(space, *index).map(|behind| topology.spaces[behind].role);
        matches!(behind, Some(Role::Pod | Role::Host))
    };
    topology.spaces[space].interfaces.iter().map(|interface| interface.index).find(leads_out)
}

/// A filter that passes the first bytes of packets which go out by an interface with at least this index.
///
/// Classic BPF with Linux' ancillary data (linux/filter.h).
fn outgoing_from(first: u32) -> [SockFilter; 6] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_EQUAL: u16 = 0x15;
    const JUMP_GREATER_EQUAL: u16 = 0x35;
    const ANCILLARY: u32 = 0xffff_f000;
    const PACKET_TYPE: u32 = ANCILLARY + 4;
    const INTERFACE: u32 = ANCILLARY + 8;
    const OUTGOING: u32 = 4;
    [
        SockFilter::new(LOAD_WORD, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_EQUAL, 0, 3, OUTGOING),
        SockFilter::new(LOAD_WORD, 0, 0, INTERFACE),
        SockFilter::new(JUMP_GREATER_EQUAL, 0, 1, first),
        return_bytes(SNAP as u32),
        return_bytes(0),
    ]
}

/// The instruction that ends a filter: so many bytes of the packet are passed.
fn return_bytes(count: u32) -> SockFilter {
    const RETURN: u16 = 0x06;
    SockFilter::new(RETURN, 0, 0, count)
}
