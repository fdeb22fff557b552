//! Probes: packets are sent in a lab, and followed until none is under way any more.

mod ears;
mod listeners;
mod sender;
mod tally;
mod tap;
mod watch;

pub(crate) use tally::FLUSH_EVERY;

use std::collections::HashMap;
use std::net::SocketAddr;

use svclab_rules::cluster::{Cluster, Protocol};

use crate::lab::{Channel, Lab, LabError};
use crate::observation::{Capture, FlowObservation, Observation, Tally};
use crate::scenario::{Flows, Probe, Vantage};
use crate::topology::{ETH0, SpaceId, mac_of};
use crate::wire::{self, Frame, Mac, Packet, Tag};
use ears::Ears;
use listeners::Listeners;
use sender::Sender;
use tap::Tap;
use watch::Watch;

/// How many markers must pass without a packet being seen. Between two places where packets are seen lie at most three
/// queues: a link, a bridge or tunnel, a link.
const QUIET_MARKERS: u32 = 6;
/// How many markers a flow may take altogether; only packets that circle for ever take more.
const MOST_MARKERS: u32 = 10_000;
/// The first source port that is given out: above all node ports, and where nodes seldom serve anything.
const FIRST_PORT: u16 = 33_000;

/// What can go wrong with a probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The lab failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The lab has no such vantage point.
    #[error("nobody in the lab is {0:?}")]
    NoSender(Vantage),
    /// The sender has no address of the destination's family.
    #[error("the sender has no address to reach {0} from")]
    NoAddress(SocketAddr),
    /// Only packets of outside hosts are handed to a node of one's choice.
    #[error("only an outside host's packet can be handed to a node: leave `@NODE` out")]
    NotHanded,
    /// Packets go on for ever.
    #[error("packets still circle in the lab after {MOST_MARKERS} rounds")]
    Endless,
}

/// Sends probes in a lab.
pub struct Prober<'lab> {
    lab: &'lab mut Lab,
    taps: Vec<Tap>,
    ears: HashMap<SpaceId, Ears>,
    wires: HashMap<SpaceId, Channel>,
    listeners: Listeners,
    cluster: Cluster,
    record: Option<Vec<Capture>>,
    next_tag: u64,
    next_port: u16,
}

impl<'lab> Prober<'lab> {
    /// Opens the lab's eyes: a tap in every namespace that forwards packets.
    ///
    /// # Errors
    ///
    /// Where the kernel gives no sockets.
    pub fn new(lab: &'lab mut Lab, cluster: &Cluster) -> Result<Self, ProbeError> {
        let forwarding = (0..lab.topology().spaces.len()).filter(|id| lab.topology().spaces[*id].forwards());
        let taps = forwarding.map(|space| Tap::open(lab, space)).collect::<Result<_, _>>()?;
        let mut prober = Self {
            lab,
            taps,
            ears: HashMap::new(),
            wires: HashMap::new(),
            listeners: Listeners::default(),
            cluster: Cluster::default(),
            record: None,
            next_tag: 1,
            next_port: FIRST_PORT,
        };
        prober.follow(cluster)?;
        Ok(prober)
    }

    /// Lets host-network pods serve what they serve in this state of the cluster.
    ///
    /// # Errors
    ///
    /// Where a port cannot be listened on.
    pub fn follow(&mut self, cluster: &Cluster) -> Result<(), ProbeError> {
        // Closed before others are opened: a port is listened on once.
        self.listeners = Listeners::default();
        self.listeners = Listeners::open(self.lab, cluster)?;
        for space in self.listeners.spaces().collect::<Vec<_>>() {
            self.listen_in(space)?;
        }
        self.cluster = cluster.clone();
        Ok(())
    }

    /// Keeps every frame that taps see from now on, but for those of flows that are only counted.
    pub fn start_record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// What was kept since [`Self::start_record`].
    pub fn record(&self) -> &[Capture] {
        self.record.as_deref().unwrap_or_default()
    }

    /// The lab that probes are sent in.
    pub fn lab(&mut self) -> &mut Lab {
        self.lab
    }

    /// Sends a probe: one flow is followed, where the probe says that it has exactly one; else as many as `flows` says are
    /// counted.
    ///
    /// # Errors
    ///
    /// Where the lab fails or has no such sender. A packet that is refused or lost is an observation, not an error.
    pub fn send(&mut self, probe: &Probe, flows: u64) -> Result<Observation, ProbeError> {
        let topology = self.lab.topology();
        let sender = Sender::find(&probe.from, topology, &self.cluster);
        let sender = sender.ok_or_else(|| ProbeError::NoSender(probe.from.clone()))?;
        let to = SocketAddr::new(probe.to.address, probe.to.port);
        let via = probe.to.via.as_ref().and_then(|node| topology.find(&format!("node/{node}")));
        if via.is_some() && !matches!(probe.from, Vantage::Host(_)) {
            return Err(ProbeError::NotHanded);
        }
        if probe.flows == Flows::Exactly(1) {
            let flow = self.flow(sender, to, probe.protocol, probe.source_port, via)?;
            Ok(Observation::Flow(Box::new(flow)))
        } else {
            Ok(Observation::Tally(self.tally(sender, to, probe.protocol, via, flows)?))
        }
    }

    /// Sends the first packet of a flow, lets receivers answer, and watches until nothing moves.
    fn flow(
        &mut self,
        sender: Sender,
        to: SocketAddr,
        protocol: Protocol,
        port: Option<u16>,
        via: Option<SpaceId>,
    ) -> Result<FlowObservation, ProbeError> {
        self.settle(None)?;
        let tag = self.fresh_tag();
        let port = port.unwrap_or_else(|| self.fresh_port());
        let Sender::Wire(space) = sender else {
            self.listen_in(sender.space())?;
            let started = sender.start(self.lab, to, protocol, port, tag)?;
            let mut watch = Watch::new(started.flow, tag, None);
            // Also where the kernel would not send: a REJECT in OUTPUT says so by ICMP as well.
            self.settle(Some((sender, &mut watch)))?;
            started.end();
            return Ok(watch.finish());
        };
        let source = sender.source_address(self.lab, to)?.ok_or(ProbeError::NoAddress(to))?;
        let flow = wire::Flow { protocol, source: SocketAddr::new(source, port), destination: to };
        let mut watch = Watch::new(flow, tag, via);
        self.put(space, &wire::probe(&flow, tag), via)?;
        self.settle(Some((sender, &mut watch)))?;
        Ok(watch.finish())
    }

    /// Passes markers until nothing has been seen for as long as a packet can go unseen.
    fn settle(&mut self, mut watched: Option<(Sender, &mut Watch)>) -> Result<(), ProbeError> {
        let mut quiet = 0;
        for _ in 0..MOST_MARKERS {
            self.lab.pass_fence()?;
            let seen = self.look(&mut watched)?;
            quiet = if seen { 0 } else { quiet + 1 };
            if quiet == QUIET_MARKERS {
                return Ok(());
            }
        }
        Err(ProbeError::Endless)
    }

    /// Reads everything that was seen and heard, and lets receivers and the sender react. True where there was anything.
    fn look(&mut self, watched: &mut Option<(Sender, &mut Watch)>) -> Result<bool, ProbeError> {
        let mut seen = false;
        let mut answers: Vec<(SpaceId, Packet, Option<SpaceId>)> = Vec::new();
        for tap in &self.taps {
            while let Some(sighting) = tap.next(self.lab.topology())? {
                seen = true;
                if let Some(record) = &mut self.record {
                    record.push(sighting.capture());
                }
                let Some((sender, watch)) = watched else { continue };
                watch.saw(&sighting);
                let Some(receiver) = sighting.receiver else { continue };
                if *sender == Sender::Wire(receiver) && watch.is_for_sender(&sighting.packet) {
                    let said = watch.came_back(&sighting.packet);
                    answers.extend(said.into_iter().map(|packet| (receiver, packet, watch.via())));
                } else {
                    watch.came_out(&self.lab.topology().spaces[receiver].name, &sighting.packet);
                    answers.extend(wire::answer(&sighting.packet).map(|packet| (receiver, packet, None)));
                }
            }
        }
        seen |= self.hear(watched)?;
        for (space, packet, via) in answers {
            self.put(space, &packet, via)?;
        }
        Ok(seen)
    }

    /// As [`Self::look`], for what kernels delivered locally.
    fn hear(&self, watched: &mut Option<(Sender, &mut Watch)>) -> Result<bool, ProbeError> {
        let mut any = false;
        for (&space, ears) in &self.ears {
            let mut answered = Ok(());
            let heard = ears.hear(|packet| {
                any = true;
                let Some((sender, watch)) = watched else { return };
                if sender.space() == space && watch.is_for_sender(&packet) {
                    // A kernel answers for itself, so a process has nothing to add.
                    watch.came_back(&packet);
                }
                let Some(flow) = packet.flow() else { return };
                if let Some(owner) = self.listeners.owner(space, flow.protocol, flow.destination) {
                    watch.came_out(owner, &packet);
                    let answer = self.listeners.answer(space, flow.protocol, &packet, flow.destination);
                    answered = std::mem::replace(&mut answered, Ok(())).and(answer);
                }
            });
            let place = &self.lab.topology().spaces[space].name;
            heard.and(answered).map_err(|source| LabError::Socket {
                space: place.clone(),
                what: "listening for local packets",
                source,
            })?;
        }
        Ok(any)
    }

    /// Puts a packet on the wire of a pod or an outside host; `via` hands it to that node whatever routes say.
    fn put(&mut self, space: SpaceId, packet: &Packet, via: Option<SpaceId>) -> Result<(), ProbeError> {
        let (source, destination) = self.macs(space, packet.destination, via);
        let frame = Frame { source, destination, packet: packet.clone() };
        let bytes = frame.encode().map_err(|error| self.unencodable(space, &error))?;
        Ok(self.wire(space)?.send(&bytes)?)
    }

    /// The hardware addresses of a frame from a pod or host.
    fn macs(&self, space: SpaceId, destination: std::net::IpAddr, via: Option<SpaceId>) -> (Mac, Mac) {
        let topology = self.lab.topology();
        let next_hop = via.map(|node| mac_of(node, ETH0)).or_else(|| topology.next_hop(space, destination));
        (mac_of(space, ETH0), next_hop.unwrap_or_default())
    }

    fn unencodable(&self, space: SpaceId, error: &dyn std::fmt::Display) -> LabError {
        LabError::Socket {
            space: self.lab.topology().spaces[space].name.clone(),
            what: "encoding a packet",
            source: std::io::Error::other(error.to_string()),
        }
    }

    /// The channel into the wire of a pod or host, opened when it is first needed.
    fn wire(&mut self, space: SpaceId) -> Result<&mut Channel, LabError> {
        match self.wires.entry(space) {
            std::collections::hash_map::Entry::Occupied(open) => Ok(open.into_mut()),
            std::collections::hash_map::Entry::Vacant(vacant) => Ok(vacant.insert(self.lab.channel(space, ETH0)?)),
        }
    }

    /// Opens ears in a namespace, once.
    fn listen_in(&mut self, space: SpaceId) -> Result<(), LabError> {
        if !self.ears.contains_key(&space) {
            self.ears.insert(space, Ears::open(self.lab, space)?);
        }
        Ok(())
    }

    fn fresh_tag(&mut self) -> Tag {
        let tag = Tag::new(self.next_tag).unwrap_or(Tag::MAX);
        self.next_tag += 1;
        tag
    }

    fn fresh_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = if port == u16::MAX { FIRST_PORT } else { port + 1 };
        port
    }
}

impl Drop for Prober<'_> {
    fn drop(&mut self) {
        let taps = std::mem::take(&mut self.taps).into_iter().map(|tap| tap.channel);
        let wires = std::mem::take(&mut self.wires).into_values();
        self.lab.retire(taps.chain(wires));
    }
}
