//! Followed flows: first packets are sent, receivers answer, and taps are read until nothing is in flight.

use std::collections::HashMap;
use std::net::SocketAddr;

use svclab_rules::cluster::Protocol;

use super::drain::MAX_PACKETS;
use super::flow_state::Watch;
use super::sender::{Sender, Started};
use super::{Limit, ProbeError, Prober};
use crate::observation::{Capture, FlowObservation};
use crate::scenario::Shape;
use crate::topology::NetnsId;
use crate::wire::{self, Packet, TcpFlags};

/// The maximum number of flows in flight at the same time: far fewer than the 1,000 packets that a CPU's backlog holds, even if each is
/// answered and every kernel on the path sends a packet of its own.
const TOGETHER: usize = 64;

/// A flow that is to be followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowRequest {
    pub sender: Sender,
    pub to: SocketAddr,
    pub protocol: Protocol,
    /// The source port, if it matters.
    pub port: Option<u16>,
    /// The node that packets are sent to, regardless of routes.
    pub via: Option<NetnsId>,
    /// The flags of a TCP segment that opens no connection; only senders on a wire send one.
    pub segment: Option<TcpFlags>,
    /// The size of a datagram and whether it may be fragmented; only senders on a wire choose it.
    pub shape: Shape,
}

impl FlowRequest {
    /// Whether the node of its sender answers other packets differently while this flow is in flight: see
    /// [`RawListeners`](super::raw_listeners::RawListeners).
    fn must_be_alone(&self) -> bool {
        self.protocol == Protocol::Sctp && !matches!(self.sender, Sender::Wire(_))
    }
}

/// Flows that are in flight.
#[derive(Default)]
pub(super) struct Followed {
    flows: Vec<One>,
    /// The flow of each key.
    by_key: HashMap<u32, usize>,
    /// Whether the paths of flows are discarded.
    is_without_paths: bool,
}

pub(super) struct One {
    sender: Sender,
    watch: Watch,
    /// The socket that a process holds open until the flow has ended.
    started: Option<Started>,
}

/// The reply of a pod or host to a packet.
struct Answer {
    netns: NetnsId,
    packet: Packet,
    via: Option<NetnsId>,
}

impl Prober<'_> {
    /// Sends the first packet of each flow, lets receivers answer, and watches until no packet is in flight.
    ///
    /// A packet that loops until its TTL expires is seen some hundred times. If so many flows loop that the taps overflow, all results are
    /// lost: the flows are sent again, from then on half as many at a time.
    pub(super) fn follow_flows(&mut self, wanted: &[FlowRequest]) -> Result<Vec<FlowObservation>, ProbeError> {
        let mut observed = Vec::with_capacity(wanted.len());
        let mut most = TOGETHER;
        for mut left in wanted.chunk_by(|one, next| !one.must_be_alone() && !next.must_be_alone()) {
            while !left.is_empty() {
                Limit::check(self.limit)?;
                let (together, later) = left.split_at(left.len().min(most));
                match self.restoring_raw_listeners(|prober| prober.follow_together(together)) {
                    Err(ProbeError::Overrun { .. }) if together.len() > 1 => {
                        most = together.len() / 2;
                        // Flows and clients must be new again.
                        self.lab.forget()?;
                    }
                    followed => {
                        observed.extend(followed?.finish());
                        left = later;
                    }
                }
            }
        }
        Ok(observed)
    }

    /// Waits until nothing of earlier flows is in flight.
    pub(super) fn settle(&mut self) -> Result<(), ProbeError> {
        match self.until_quiet(|prober| prober.look(&mut Followed::default())) {
            // Packets missed so far belong to flows that are no longer followed.
            Err(ProbeError::Overrun { .. }) => Ok(()),
            quiet => quiet,
        }
    }

    /// Follows flows that are in flight at the same time.
    fn follow_together(&mut self, wanted: &[FlowRequest]) -> Result<Followed, ProbeError> {
        self.settle()?;
        self.provide_ports(wanted.len())?;
        let mut followed = Followed::default();
        for one in wanted {
            followed.add(self.begin(one)?);
        }
        self.until_quiet(|prober| prober.look(&mut followed))?;
        Ok(followed)
    }

    /// Sends the first packet of a flow.
    pub(super) fn begin(&mut self, wanted: &FlowRequest) -> Result<One, ProbeError> {
        let FlowRequest { sender, to, protocol, via, .. } = *wanted;
        let tag = self.fresh_tag();
        let port = wanted.port.inspect(|port| self.ports.take(*port));
        let port = port.or_else(|| self.ports.next()).ok_or(ProbeError::NoPort)?;
        if let Sender::Wire(netns) = sender {
            let source = sender.source_address(self.lab, to)?.ok_or(ProbeError::NoAddress(to))?;
            let flow = wire::Flow { protocol, source: SocketAddr::new(source, port), destination: to };
            let packet = match wanted.segment {
                Some(flags) => wire::segment(&flow, tag, flags),
                None => Packet {
                    may_fragment: wanted.shape.may_fragment,
                    ..wire::probe(&flow, tag).with_size(wanted.shape.size.unwrap_or(0))
                },
            };
            self.put(netns, &packet, via, wanted.shape.largest_fragment(to.ip()))?;
            let watch = Watch::new(flow, tag, self.lab.name_of(netns), via).with_segment(wanted.segment);
            return Ok(One { sender, watch, started: None });
        }
        self.listen_in(sender.netns(), protocol)?;
        // Even if the kernel did not send, there may be a packet to receive: a REJECT in OUTPUT answers with ICMP.
        let started = sender.start(self.lab, to, protocol, port, tag)?;
        let mut watch = Watch::new(started.flow, tag, self.lab.name_of(sender.netns()), None);
        if let Some(rejection) = &started.unsent {
            watch.unsent(rejection.clone());
        }
        Ok(One { sender, watch, started: Some(started) })
    }

    /// Sends flows, and closes the raw listeners that were opened for them even on errors, so that kernels answer later probes as before.
    pub(super) fn restoring_raw_listeners<T>(&mut self, send: impl FnOnce(&mut Self) -> T) -> T {
        let protocols = self.raw_listeners.iter().map(|(netns, listeners)| (*netns, listeners.protocols()));
        let before: HashMap<NetnsId, Vec<u8>> = protocols.collect();
        let sent = send(self);
        for (netns, listeners) in &mut self.raw_listeners {
            listeners.keep(before.get(netns).map_or(&[], Vec::as_slice));
        }
        sent
    }

    /// Reads everything that was captured and received, and lets receivers and senders react. Returns the number of packets.
    pub(super) fn look(&mut self, followed: &mut Followed) -> Result<usize, ProbeError> {
        let (mut packets, answers) = self.see(followed)?;
        packets += self.receive(followed)?;
        for Answer { netns, packet, via } in answers {
            self.put(netns, &packet, via, None)?;
        }
        Ok(packets)
    }

    /// Reads the taps. Returns the number of packets, and the answers of pods and hosts.
    fn see(&mut self, followed: &mut Followed) -> Result<(usize, Vec<Answer>), ProbeError> {
        let (mut packets, mut answers) = (0, Vec::new());
        let mut buffer = [0; 2048];
        let keeps_paths = !followed.is_without_paths;
        for tap in &self.taps {
            // If packets loop, there is always one more.
            while packets <= MAX_PACKETS
                && let Some(passing) = tap.next(self.lab.topology(), &mut buffer)?
            {
                packets += 1;
                if let Some(record) = &mut self.record {
                    record.push(Capture { comment: self.comment.clone(), ..passing.capture() });
                }
                let key = self.fragment_keys.key(&passing.packet);
                let Some(One { sender, watch, .. }) = key.and_then(|key| followed.of(key)) else { continue };
                if keeps_paths {
                    watch.saw(&passing);
                }
                let Some(netns) = passing.receiver else { continue };
                let Some((packet, fragments)) = self.reassembly.take(netns, &passing.packet) else { continue };
                if *sender == Sender::Wire(netns) && watch.is_for_sender(&packet) {
                    let said = watch.came_back(&packet);
                    answers.extend(said.into_iter().map(|packet| Answer { netns, packet, via: watch.via() }));
                } else {
                    watch.came_out(&self.lab.topology().namespaces[netns].name, &packet, Some(fragments));
                    // To its own address as the source, a machine sends no answer on the wire.
                    let answer = wire::answer(&packet).filter(|answer| answer.source != answer.destination);
                    answers.extend(answer.map(|packet| Answer { netns, packet, via: None }));
                }
            }
        }
        Ok((packets, answers))
    }

    /// Reads what kernels delivered locally; processes answer at once. Returns the number of packets.
    fn receive(&self, followed: &mut Followed) -> Result<usize, ProbeError> {
        let mut packets = 0;
        for (&netns, raw_listeners) in &self.raw_listeners {
            let mut answered = Ok(());
            let received = raw_listeners.receive(|packet| {
                packets += 1;
                let Some(One { sender, watch, .. }) = packet.key().and_then(|key| followed.of(key)) else { return };
                if sender.netns() == netns && watch.is_for_sender(&packet) {
                    // The kernel answers TCP itself, so the process does not need to.
                    watch.came_back(&packet);
                }
                let Some(flow) = packet.flow() else { return };
                if let Some(owner) = self.listeners.owner(netns, flow.protocol, flow.destination) {
                    watch.came_out(owner, &packet, None);
                    let answer = self.listeners.answer(netns, flow.protocol, &packet, flow.destination);
                    answered = std::mem::replace(&mut answered, Ok(())).and(answer);
                }
            });
            received.and(answered).map_err(|source| self.socket_error(netns, "listening for local packets", source))?;
        }
        Ok(packets)
    }
}

impl Followed {
    /// Keeps no paths, for so many flows that paths would take too much memory.
    pub(super) fn without_paths() -> Self {
        Self { is_without_paths: true, ..Self::default() }
    }

    pub(super) fn add(&mut self, one: One) {
        self.by_key.insert(one.watch.key(), self.flows.len());
        self.flows.push(one);
    }

    /// The flow with the key of a packet.
    fn of(&mut self, key: u32) -> Option<&mut One> {
        self.flows.get_mut(*self.by_key.get(&key)?)
    }

    /// Whether the sender of the flow with this number has received a reply or a rejection.
    pub(super) fn is_decided(&self, flow: usize) -> bool {
        self.flows.get(flow).is_some_and(|one| one.watch.is_decided())
    }

    /// Ends a flow of a process, which no longer receives replies.
    pub(super) fn close(&mut self, flow: usize) {
        if let Some(one) = self.flows.get_mut(flow) {
            one.started = None;
        }
    }

    /// The observations, in the order of the flows.
    pub(super) fn finish(self) -> impl Iterator<Item = FlowObservation> {
        self.flows.into_iter().map(|One { watch, .. }| watch.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use nix::sys::socket::{setsockopt, sockopt};

    use crate::lab::{Backend, with_lab};
    use crate::observation::{FlowObservation, ObservedOutcome};
    use crate::probe::flow::TOGETHER;
    use crate::probe::{ProbeError, Prober};
    use crate::scenario::{self, Probe, Scenario, Step};
    use crate::{documents, testing, topology};

    /// The number of flows that loop at the same time.
    const FLOWS: usize = 32;

    /// Follows many flows that loop between router and node, with taps that have a receive buffer of this many bytes.
    fn loops(room: usize) -> Result<Vec<ObservedOutcome>, ProbeError> {
        let path = Path::new("../scenarios/bugs/felix-2690-unserved-port.yaml");
        let scenario = scenario::load(path).unwrap_or_else(|errors| panic!("{errors}"));
        let documents = documents::generate(&scenario, &scenario.cluster).unwrap();
        let probes = vec![circling(&scenario); FLOWS];
        with_lab(&topology::plan(&scenario), &documents, Backend::System, |lab| {
            let mut prober = Prober::new(lab, &scenario.cluster)?;
            for tap in &prober.taps {
                setsockopt(&tap.channel.socket(), sockopt::RcvBuf, &room).unwrap();
            }
            let flows = prober.send_all(&probes)?;
            Ok(flows.into_iter().map(|flow| flow.outcome).collect())
        })
        .unwrap()
    }

    fn circling(scenario: &Scenario) -> Probe {
        let test = scenario.tests.iter().find(|test| test.name.contains("circles")).unwrap();
        match &test.steps[0] {
            Step::Probe(probe, _) => (**probe).clone(),
            Step::Change(_) | Step::During(_) | Step::Wait(_) => panic!("{} begins with a probe", test.name),
        }
    }

    #[test]
    fn flows_that_overrun_a_tap_together_are_followed_fewer_at_a_time() {
        testing::privileged(|| {
            // Enough for the few hundred sightings of one looping packet, but not for those of all.
            let outcomes = loops(512 << 10).unwrap();
            assert_eq!(outcomes.len(), FLOWS);
            assert!(outcomes.iter().all(|outcome| matches!(outcome, ObservedOutcome::Dropped { .. })), "{outcomes:?}");
        });
    }

    /// Conntrack tables are flushed before flows start, and never while replies are in flight that need them.
    #[test]
    fn flows_are_answered_when_source_ports_run_out() {
        let path = Path::new("../scenarios/seeds/001-kind-clusterip.yaml");
        let scenario = scenario::load(path).unwrap_or_else(|errors| panic!("{errors}"));
        let documents = documents::generate(&scenario, &scenario.cluster).unwrap();
        let Step::Probe(probe, _) = &scenario.tests[0].steps[0] else { panic!("it begins with a probe") };
        let probes = vec![Probe { source_port: None, ..(**probe).clone() }; 3 * TOGETHER];
        testing::privileged(|| {
            let sent = with_lab(&topology::plan(&scenario), &documents, Backend::System, |lab| {
                let mut prober = Prober::new(lab, &scenario.cluster)?;
                // Too few ports are left for the second 64 flows.
                while prober.ports.has(TOGETHER + 10) {
                    prober.ports.next();
                }
                prober.send_all(&probes)
            });
            let flows = sent.unwrap().unwrap();
            assert!(flows.iter().all(|flow| flow.reply == Some(flow.destination)), "{flows:#?}");
            let ports = |flows: &[FlowObservation]| flows.iter().map(|flow| flow.source.port()).collect::<HashSet<_>>();
            assert_eq!(ports(&flows[TOGETHER..]).len(), 2 * TOGETHER);
        });
    }

    #[test]
    fn a_flow_that_overruns_a_tap_alone_is_an_error() {
        testing::privileged(|| {
            let result = loops(1);
            assert!(matches!(result, Err(ProbeError::Overrun { .. })), "{result:?}");
        });
    }
}
