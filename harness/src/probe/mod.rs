//! Probes: sends packets in a lab and follows them until none is in flight.

mod arrival_order;
mod batch;
mod count;
mod drain;
mod flow;
mod flow_queue;
mod flow_state;
mod listeners;
mod ports;
mod progress;
mod raw_listeners;
mod receivers;
mod sender;
mod stream;
mod tally;
mod tap;
mod worker;

pub(crate) use flow_queue::FLUSH_EVERY;
pub(crate) use ports::FIRST_PORT;
pub(crate) use progress::Counting;
pub use progress::Progress;
pub(crate) use stream::{ChangeProgress, Stream};

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use svclab_rules::cluster::{Cluster, Protocol};

use crate::lab::{Channel, Lab, LabError, filter};
use crate::observation::{Capture, Disagreement, FlowObservation, Observation};
use crate::scenario::{Flows, Probe, Vantage};
use crate::topology::{Carrier, ETH0, Interface, NetnsId, mac_of};
use crate::wire::{self, FragmentKeys, Frame, Mac, Packet, Reassembly, Tag};
use drain::until_nothing_is_held_by;
use flow::FlowRequest;
use listeners::Listeners;
use ports::Ports;
use raw_listeners::RawListeners;
use sender::Sender;
use tap::Tap;

/// The error of a probe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ProbeError {
    /// The lab failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// More flows start at the same time than there are source ports.
    #[error("no source port is left for a flow")]
    NoPort,
    /// The lab has no such vantage point.
    #[error("the lab has no vantage point {0:?}")]
    NoSender(Vantage),
    /// The sender has no address of the destination's family.
    #[error("the sender has no address of the family of {0}")]
    NoAddress(SocketAddr),
    /// Only packets of outside hosts can be sent to a chosen node.
    #[error("only an outside host can send to a chosen node: remove `@NODE`")]
    NotHanded,
    /// The time limit of the test has passed.
    #[error("the test took longer than {}", crate::text::duration(*.0))]
    TimedOut(Duration),
    /// The user has interrupted it.
    #[error("interrupted")]
    Interrupted,
    /// Packets loop endlessly.
    #[error("packets loop in the lab")]
    Endless,
    /// The rules' counters and the receivers disagree although no flow was lost or duplicated: svclab's count is wrong.
    #[error("the rules' counters contradict what arrived: {}", list(.0))]
    Miscounted(Vec<Disagreement>),
    /// Far fewer flows were sent than requested, or none for a long time, so the gaps between them show nothing.
    #[error(
        "the sender fell behind: {sent} of {planned} flows at {rate}/s, with a pause of {}; nothing was judged",
        crate::text::duration(*.pause)
    )]
    Starved {
        /// Flows sent.
        sent: u64,
        /// Flows requested.
        planned: u64,
        /// The requested rate.
        rate: u32,
        /// The longest pause between two flows.
        pause: Duration,
    },
    /// A receive buffer overflowed, so the result of the probe is unknown.
    #[error("{count} packets at {place} were lost because they arrived faster than svclab reads")]
    Overrun {
        /// The namespace.
        place: String,
        /// The number of packets that were missed.
        count: u32,
    },
}

fn list(all: &[Disagreement]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A sender of probes in a lab.
pub(crate) struct Prober<'lab> {
    lab: &'lab mut Lab,
    taps: Vec<Tap>,
    raw_listeners: HashMap<NetnsId, RawListeners>,
    wires: HashMap<NetnsId, Channel>,
    listeners: Listeners,
    cluster: Cluster,
    record: Option<Vec<Capture>>,
    /// The comment for recorded frames.
    comment: Option<Arc<str>>,
    next_tag: u64,
    /// The fragments that receivers have, and the flows that fragments in transit belong to.
    reassembly: Reassembly,
    fragment_keys: FragmentKeys,
    /// The identification of the packet that was fragmented last.
    identification: u32,
    ports: Ports,
    progress: Arc<Progress>,
    limit: Option<Limit>,
}

/// Tags and source ports that earlier probes in a lab have used. Later probes use others, because nodes may still track the connections of
/// earlier ones.
#[derive(Debug)]
pub(crate) struct Used {
    next_tag: u64,
    ports: Ports,
}

impl Default for Used {
    fn default() -> Self {
        Self { next_tag: 1, ports: Ports::besides([]) }
    }
}

/// The interval at which a pause checks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(20);

/// Whether running probes should stop.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes the running probe and all later ones stop early, or lets them run again.
pub(crate) fn interrupt(on: bool) {
    INTERRUPTED.store(on, Ordering::Relaxed);
}

/// Whether running probes should stop early.
pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The interruption flag, for code that polls it.
pub(crate) fn interruption() -> &'static AtomicBool {
    &INTERRUPTED
}

/// A time limit for probes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    time: Duration,
    end: Instant,
}

impl Limit {
    /// Fails when the time limit has passed, or the user has interrupted the probe.
    pub(super) fn check(limit: Option<Self>) -> Result<(), ProbeError> {
        if is_interrupted() {
            return Err(ProbeError::Interrupted);
        }
        match limit {
            Some(limit) if Instant::now() >= limit.end => Err(ProbeError::TimedOut(limit.time)),
            _ => Ok(()),
        }
    }
}

impl<'lab> Prober<'lab> {
    /// Creates a prober whose taps see every packet of a lab, with the listeners of this state of the cluster.
    ///
    /// # Errors
    ///
    /// If the kernel provides no sockets.
    pub(crate) fn new(lab: &'lab mut Lab, cluster: &Cluster) -> Result<Self, ProbeError> {
        Self::resume(lab, cluster, Used::default())
    }

    /// Creates a prober after another one in this lab.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub(crate) fn resume(lab: &'lab mut Lab, cluster: &Cluster, used: Used) -> Result<Self, ProbeError> {
        let mut prober = Self {
            lab,
            taps: Vec::new(),
            raw_listeners: HashMap::new(),
            wires: HashMap::new(),
            listeners: Listeners::default(),
            cluster: Cluster::default(),
            record: None,
            comment: None,
            next_tag: used.next_tag,
            reassembly: Reassembly::default(),
            fragment_keys: FragmentKeys::default(),
            identification: 0,
            ports: used.ports,
            progress: Arc::default(),
            limit: None,
        };
        prober.open_taps()?;
        prober.follow(cluster)?;
        Ok(prober)
    }

    /// Closes the prober, and returns its used tags and ports, with which the next one in this lab [resumes](Self::resume).
    pub(crate) fn close(mut self) -> Used {
        Used { next_tag: self.next_tag, ports: std::mem::replace(&mut self.ports, Ports::besides([])) }
    }

    /// Opens a tap in every namespace that forwards packets.
    fn open_taps(&mut self) -> Result<(), LabError> {
        let namespaces = &self.lab.topology().namespaces;
        let forwarding = (0..namespaces.len()).filter(|id| namespaces[*id].forwards());
        self.taps = forwarding.map(|netns| Tap::open(self.lab, netns)).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Reports progress of counting to a shared counter.
    pub(crate) fn report_to(&mut self, progress: &Arc<Progress>) {
        self.progress = Arc::clone(progress);
    }

    /// Sets a time limit from now, after which no flow is sent; `None` for no limit.
    pub(crate) fn limit(&mut self, time: Option<Duration>) {
        let now = Instant::now();
        self.limit = time.and_then(|time| Some(Limit { time, end: now.checked_add(time)? }));
    }

    /// Waits, at most as long as the limit allows and until the user interrupts it.
    ///
    /// # Errors
    ///
    /// If it could not wait the whole time.
    pub(crate) fn wait(&self, time: Duration) -> Result<(), ProbeError> {
        let begin = Instant::now();
        loop {
            Limit::check(self.limit)?;
            let left = time.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// Changes the listeners of host-network pods to those of this state of the cluster.
    ///
    /// # Errors
    ///
    /// If a listener cannot be opened.
    pub(crate) fn follow(&mut self, cluster: &Cluster) -> Result<(), ProbeError> {
        // Close before opening others: a port can have only one listener.
        self.listeners = Listeners::default();
        self.listeners = Listeners::open(self.lab, cluster)?;
        self.listeners.ports().for_each(|port| self.ports.take(port));
        self.raw_listeners.clear();
        for (netns, protocol) in self.listeners.places() {
            self.listen_in(netns, protocol)?;
        }
        self.wires.values().try_for_each(Channel::forget_error)?;
        self.cluster = cluster.clone();
        Ok(())
    }

    /// Records every frame that taps see from now on, except those of flows that are only counted.
    pub(crate) fn start_record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// Sets the comment of frames recorded from now on: the test and probe that they belong to.
    pub(crate) fn comment(&mut self, text: &str) {
        self.comment = self.record.is_some().then(|| text.into());
    }

    /// The frames recorded since [`Self::start_record`].
    pub(crate) fn record(&self) -> &[Capture] {
        self.record.as_deref().unwrap_or_default()
    }

    /// The lab that probes are sent in.
    pub(crate) fn lab(&mut self) -> &mut Lab {
        self.lab
    }

    /// Sends a probe. A probe with exactly one flow is followed; otherwise `flows` flows are counted. Counting flushes
    /// the conntrack tables of all nodes before and after.
    ///
    /// # Errors
    ///
    /// If the lab fails or has no such sender. A packet that is rejected or lost is an observation, not an error.
    pub(crate) fn send(&mut self, probe: &Probe, flows: u64) -> Result<Observation, ProbeError> {
        if probe.flows == Flows::Exactly(1) {
            let flow = self.send_all(std::slice::from_ref(probe))?.swap_remove(0);
            return Ok(Observation::Flow(Box::new(flow)));
        }
        self.count(probe, flows).map(Observation::Tally)
    }

    /// Follows one flow of each probe, many at the same time, for flows that do not depend on each other. Results are in the order of the
    /// probes. If packets arrive faster than they can be read, conntrack tables are flushed and the flows are sent again, fewer at a time.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub(crate) fn send_all(&mut self, probes: &[Probe]) -> Result<Vec<FlowObservation>, ProbeError> {
        let wanted = probes.iter().map(|probe| self.wanted(probe)).collect::<Result<Vec<_>, _>>()?;
        self.follow_flows(&wanted)
    }

    /// Flushes all state about earlier packets (connections, and clients that rules remember), and then follows one flow of a probe.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub(crate) fn send_alone(&mut self, probe: &Probe) -> Result<FlowObservation, ProbeError> {
        self.settle()?;
        self.lab.forget()?;
        Ok(self.send_all(std::slice::from_ref(probe))?.swap_remove(0))
    }

    /// A probe's flow in terms of the lab.
    fn wanted(&self, probe: &Probe) -> Result<FlowRequest, ProbeError> {
        let topology = self.lab.topology();
        let sender = Sender::find(&probe.from, topology, &self.cluster);
        let sender = sender.ok_or_else(|| ProbeError::NoSender(probe.from.clone()))?;
        let to = SocketAddr::new(probe.to.address, probe.to.port);
        let via = probe.to.via.as_ref().and_then(|node| topology.find(&format!("node/{node}")));
        if via.is_some() && !matches!(probe.from, Vantage::Host(_)) {
            return Err(ProbeError::NotHanded);
        }
        Ok(FlowRequest {
            sender,
            to,
            protocol: probe.protocol,
            port: probe.source_port,
            via,
            segment: probe.tcp_flags,
            shape: probe.shape,
        })
    }

    /// Calls a function after each barrier frame until it has seen no packet for the longest time that a packet can stay invisible. The
    /// function returns the number of packets it saw.
    fn until_quiet(&mut self, mut look: impl FnMut(&mut Self) -> Result<usize, ProbeError>) -> Result<(), ProbeError> {
        let limit = self.limit;
        until_nothing_is_held_by(
            self,
            |prober| held(prober.lab, limit),
            |prober| {
                prober.lab.pass_barrier()?;
                look(prober)
            },
        )?;
        self.nothing_missed()
    }

    /// Checks that no receive buffer has overflowed since the last check.
    fn nothing_missed(&self) -> Result<(), ProbeError> {
        // All sockets are checked, even after one that lost packets, so that later probes are not blamed for these losses.
        let mut losses = Vec::with_capacity(self.taps.len() + self.raw_listeners.len());
        for tap in &self.taps {
            losses.push((tap.netns, tap.channel.newly_lost()?));
        }
        for (&netns, raw_listeners) in &self.raw_listeners {
            let lost = raw_listeners.newly_lost();
            losses.push((netns, lost.map_err(|source| self.socket_error(netns, "reading drop counters", source))?));
        }
        match losses.into_iter().max_by_key(|(_, count)| *count) {
            Some((netns, count)) if count > 0 => {
                Err(ProbeError::Overrun { place: self.lab.topology().namespaces[netns].name.clone(), count })
            }
            _ => Ok(()),
        }
    }

    /// Sends a packet on the wire of a pod or an outside host; `via` sends it to that node regardless of routes. It is fragmented for the
    /// MTU of the link, as a kernel fragments a datagram, or into fragments of at most this many bytes. If the link is down, nothing is
    /// sent.
    fn put(
        &mut self,
        netns: NetnsId,
        packet: &Packet,
        via: Option<NetnsId>,
        largest: Option<u16>,
    ) -> Result<(), ProbeError> {
        let eth0 = self.lab.topology().namespaces[netns].interface(ETH0);
        let Some(Interface { mtu, .. }) = eth0.filter(|eth0| eth0.carrier == Carrier::Up) else { return Ok(()) };
        let mtu = largest.map_or(*mtu, |largest| largest.min(*mtu));
        let (source, destination) = self.macs(netns, packet.destination, via);
        let frame = Frame { source, destination, packet: packet.clone() };
        let mut bytes = frame.encode().map_err(|error| self.unencodable(netns, &error))?;
        if bytes.len() <= Frame::HEADER + usize::from(mtu) {
            return Ok(self.wire(netns)?.send(&bytes)?);
        }
        self.identification = self.identification.wrapping_add(1);
        let packet = bytes.split_off(Frame::HEADER);
        for fragment in wire::split(packet, mtu, self.identification) {
            self.wire(netns)?.send(&[bytes.as_slice(), &fragment].concat())?;
        }
        Ok(())
    }

    /// The MAC addresses of a frame from a pod or host.
    fn macs(&self, netns: NetnsId, destination: IpAddr, via: Option<NetnsId>) -> (Mac, Mac) {
        let first_hop = self.lab.topology().first_hop(netns, destination, via);
        (mac_of(netns, ETH0), first_hop.unwrap_or_default())
    }

    fn unencodable(&self, netns: NetnsId, error: &dyn std::fmt::Display) -> LabError {
        LabError::Unwritable { netns: self.lab.topology().namespaces[netns].name.clone(), why: error.to_string() }
    }

    fn socket_error(&self, netns: NetnsId, what: &'static str, source: std::io::Error) -> LabError {
        LabError::socket(&self.lab.topology().namespaces[netns].name, what)(source)
    }

    /// The channel into the wire of a pod or host, opened when it is first needed.
    fn wire(&mut self, netns: NetnsId) -> Result<&mut Channel, LabError> {
        match self.wires.entry(netns) {
            std::collections::hash_map::Entry::Occupied(open) => Ok(open.into_mut()),
            std::collections::hash_map::Entry::Vacant(vacant) => {
                let channel = self.lab.channel(netns, ETH0)?;
                // Packets that arrive here are seen by the tap at the other end.
                filter::attach(&channel, &filter::nothing())?;
                Ok(vacant.insert(channel))
            }
        }
    }

    /// Opens raw listeners for a protocol in a namespace.
    fn listen_in(&mut self, netns: NetnsId, protocol: Protocol) -> Result<(), LabError> {
        self.raw_listeners.entry(netns).or_default().open(self.lab, netns, protocol)
    }

    fn fresh_tag(&mut self) -> Tag {
        let tag = Tag::new(self.next_tag);
        self.next_tag += 1;
        tag
    }

    /// Ensures that flows which start together get source ports that no tracked flow has: if too few are left, conntrack tables are
    /// flushed. Call it only while nothing is in flight, because replies depend on the connections.
    fn provide_ports(&mut self, flows: usize) -> Result<(), LabError> {
        if !self.ports.has(flows) {
            self.lab.flush_connections()?;
            self.ports = Ports::besides(self.listeners.ports());
        }
        Ok(())
    }
}

/// The number of packets that links hold; `None` if no link can hold packets.
///
/// # Errors
///
/// If the kernel does not report it, or the time limit of the test has passed.
fn held(lab: &Lab, limit: Option<Limit>) -> Result<Option<u64>, ProbeError> {
    if !lab.may_queue() {
        return Ok(None);
    }
    Limit::check(limit)?;
    Ok(Some(lab.queued_packets()?))
}

impl Drop for Prober<'_> {
    fn drop(&mut self) {
        let taps = std::mem::take(&mut self.taps).into_iter().map(|tap| tap.channel);
        let wires = std::mem::take(&mut self.wires).into_values();
        self.lab.retire(taps.chain(wires));
    }
}
