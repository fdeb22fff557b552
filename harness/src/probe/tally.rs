//! Many flows at once: sent in batches, counted where they come out.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{LinkAddr, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use socket2::{Domain, Protocol as SocketProtocol, Socket, Type};

use super::count::{Count, FLUSH_EVERY};
use super::flow::Wanted;
use super::{MOST_PACKETS, ProbeError, Prober, Sender, filter};
use crate::lab::LabError;
use crate::observation::Tally;
use crate::topology::SpaceId;
use crate::wire::{Content, Template};

/// Packets that are sent by one call, before what came out is read.
const BATCH: usize = 64;
/// The bytes of a frame that counting needs.
const SNAP: usize = 128;
/// Source ports that are used in turn.
const PORTS: std::ops::Range<u16> = 1024..u16::MAX;
/// After how long a socket that takes no packet is taken to be stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where flows are written to, and what is written.
struct Outlet {
    sender: SpaceId,
    source: IpAddr,
    template: Template,
    fd: RawFd,
    /// The socket of a process; that of a wire is the prober's.
    _socket: Option<Socket>,
}

impl Prober<'_> {
    /// Sends flows to one destination, each a fresh 5-tuple, and counts where they come out. Nobody answers.
    pub(super) fn tally(&mut self, wanted: &Wanted, flows: u64) -> Result<Tally, ProbeError> {
        let mut count = Count::new(self.next_tag);
        self.next_tag += flows;
        let outlet = self.outlet(wanted)?;
        let counted =
            self.count_only(true).map_err(Into::into).and_then(|()| self.send_and_count(flows, &outlet, &mut count));
        // Whatever came of it, later probes must see everything again.
        let everything = self.count_only(false);
        counted?;
        everything?;
        Ok(count.finish(outlet.source))
    }

    /// Sends batches and counts them, window by window. Before each window and after the last, nodes forget connections:
    /// their tables never fill, and every flow is new.
    fn send_and_count(&mut self, flows: u64, outlet: &Outlet, count: &mut Count) -> Result<(), ProbeError> {
        self.until_quiet(|prober| prober.skip())?;
        self.lab.flush_connections()?;
        let mut ports = PORTS.cycle();
        let mut sent = 0;
        while sent < flows {
            let size = BATCH.min(usize::try_from(flows - sent).unwrap_or(BATCH));
            let mut frames = [[0; Template::MAX_LEN]; BATCH];
            for (frame, (port, number)) in frames[..size].iter_mut().zip(ports.by_ref().zip(sent..)) {
                outlet.template.fill(SocketAddr::new(outlet.source, port), count.tag(number), frame);
            }
            count.send(size);
            let sending = send_all(outlet.fd, &frames[..size], outlet.template.len());
            sending.map_err(|source| self.socket_error(outlet.sender, "sending many packets", source))?;
            sent += size as u64;
            // The backlog of a processor holds 1,000 packets. With a marker after every batch there are never more under
            // way than a batch for each hop, however late the kernel gets to work them off.
            self.lab.pass_fence()?;
            self.count(count)?;
            if sent % FLUSH_EVERY == 0 || sent == flows {
                self.until_quiet(|prober| Ok(prober.count(count)?))?;
                count.close_window(sent);
                self.lab.flush_connections()?;
            }
        }
        Ok(())
    }

    /// Opens what flows are written to.
    fn outlet(&mut self, wanted: &Wanted) -> Result<Outlet, ProbeError> {
        let Wanted { sender, to, protocol, via, .. } = *wanted;
        let source = sender.source_address(self.lab, to)?.ok_or(ProbeError::NoAddress(to))?;
        let space = sender.space();
        if let Sender::Wire(_) = sender {
            let (source_mac, destination_mac) = self.macs(space, to.ip(), via);
            let template = Template::frame(source_mac, destination_mac, to, protocol);
            let template = template.map_err(|error| self.unencodable(space, &error))?;
            return Ok(Outlet { sender: space, source, template, fd: self.wire(space)?.fd(), _socket: None });
        }
        let template = Template::packet(to, protocol).map_err(|error| self.unencodable(space, &error))?;
        let opened = self.lab.inside(space, || {
            // A raw socket of this protocol number takes whole packets, IP header included.
            const IPPROTO_RAW: i32 = 255;
            let socket = Socket::new(Domain::for_address(to), Type::RAW, Some(SocketProtocol::from(IPPROTO_RAW)))?;
            socket.connect(&SocketAddr::new(to.ip(), 0).into())?;
            Ok(socket)
        })?;
        let socket: Socket =
            opened.map_err(|source| self.socket_error(space, "opening a socket for many packets", source))?;
        Ok(Outlet { sender: space, source, template, fd: socket.as_raw_fd(), _socket: Some(socket) })
    }

    /// Lets the taps see only packets that may go out to a pod or an outside host, or everything again.
    fn count_only(&self, only: bool) -> Result<(), LabError> {
        self.taps.iter().try_for_each(|tap| match (only, tap.outlets.first()) {
            (true, Some(first)) => filter::attach(&tap.channel, &filter::outgoing_from(first, SNAP as u32)),
            (true, None) => filter::attach(&tap.channel, &filter::nothing()),
            (false, _) => filter::detach(&tap.channel),
        })
    }

    /// Reads what came out by now. Returns how many packets that were.
    fn count(&self, count: &mut Count) -> Result<usize, LabError> {
        let mut packets =
            self.receive(|frame, interface, tap| count.frame(frame, interface, &self.taps[tap].outlets))?;
        for (&space, ears) in &self.ears {
            let heard = ears.hear(|packet| {
                let Some(flow) = packet.flow() else { return };
                if self.listeners.owner(space, flow.protocol, flow.destination).is_none() {
                    return;
                }
                packets += 1;
                match packet.content() {
                    Content::Request(tag) => count.came_out(Some(tag), flow),
                    Content::Answer(_) | Content::Other => count.came_out(None, flow),
                }
            });
            heard.map_err(|source| self.socket_error(space, "listening for local packets", source))?;
        }
        Ok(packets)
    }

    /// Reads what earlier probes left under way. Returns how many packets that were.
    fn skip(&self) -> Result<usize, ProbeError> {
        let mut packets = self.receive(|_, _, _| ())?;
        for (&space, ears) in &self.ears {
            let heard = ears.hear(|_| packets += 1);
            heard.map_err(|source| self.socket_error(space, "listening for local packets", source))?;
        }
        Ok(packets)
    }

    /// Hands over every frame that taps have by now, with the interface that it left by and the tap's number. Returns how
    /// many there were.
    fn receive(&self, mut each: impl FnMut(&[u8], u32, usize)) -> Result<usize, LabError> {
        let mut packets = 0;
        for (number, tap) in self.taps.iter().enumerate() {
            // Where packets circle, there is always one more.
            while packets <= MOST_PACKETS {
                let received = receive_many(tap.channel.fd(), |frame, interface| each(frame, interface, number));
                let received = received.map_err(|source| tap.channel.error("receiving many frames", source))?;
                packets += received;
                if received < BATCH {
                    break;
                }
            }
        }
        Ok(packets)
    }
}

/// Sends packets over a bound or connected socket.
fn send_all(fd: RawFd, frames: &[[u8; Template::MAX_LEN]], length: usize) -> io::Result<()> {
    let begin = Instant::now();
    let mut left = frames;
    while !left.is_empty() {
        let slices: Vec<[IoSlice<'_>; 1]> = left.iter().map(|frame| [IoSlice::new(&frame[..length])]).collect();
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(slices.len(), None);
        let nobody = vec![None; slices.len()];
        match sendmmsg(fd, &mut headers, &slices, nobody, [], MsgFlags::empty()) {
            Ok(sent) => left = &left[sent.count().max(1)..],
            // A DROP in OUTPUT: the packet is lost, which the count will say.
            Err(Errno::EPERM) => left = &left[1..],
            Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR) if begin.elapsed() < PATIENCE => {
                std::thread::yield_now();
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Reads up to a batch of frames that are there now, each with its interface; returns how many.
fn receive_many(fd: RawFd, mut each: impl FnMut(&[u8], u32)) -> io::Result<usize> {
    let mut buffers = [[0; SNAP]; BATCH];
    let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
    let mut headers = MultiHeaders::<LinkAddr>::preallocate(BATCH, None);
    let received: Vec<(usize, u32)> = match recvmmsg(fd, &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)
    {
        Ok(received) => received
            .map(|message| {
                let interface = message.address.and_then(|from| u32::try_from(from.ifindex()).ok());
                (message.bytes, interface.unwrap_or_default())
            })
            .collect(),
        Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
        Err(errno) => return Err(errno.into()),
    };
    for (buffer, (length, interface)) in buffers.iter().zip(&received) {
        each(&buffer[..(*length).min(SNAP)], *interface);
    }
    Ok(received.len())
}
