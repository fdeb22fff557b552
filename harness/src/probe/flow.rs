//! One flow: its first packet is sent, receivers answer, and everything is watched until nothing moves.

use std::net::SocketAddr;

use svclab_rules::cluster::Protocol;

use super::sender::Sender;
use super::watch::Watch;
use super::{ProbeError, Prober};
use crate::observation::FlowObservation;
use crate::topology::SpaceId;
use crate::wire::{self, Packet};

/// A flow that is under way.
struct Followed {
    sender: Sender,
    watch: Watch,
}

impl Prober<'_> {
    /// Sends the first packet of a flow, lets receivers answer, and watches until nothing moves.
    pub(super) fn flow(
        &mut self,
        sender: Sender,
        to: SocketAddr,
        protocol: Protocol,
        port: Option<u16>,
        via: Option<SpaceId>,
    ) -> Result<FlowObservation, ProbeError> {
        self.until_quiet(|prober| prober.look(None))?;
        let port = port.unwrap_or_else(|| self.fresh_port());
        match sender {
            Sender::Wire(space) => self.flow_of_wire(space, to, protocol, port, via),
            Sender::Process(_) | Sender::Loopback(_) => self.flow_of_process(sender, to, protocol, port),
        }
    }

    /// The packet of a pod or outside host is put on its wire.
    fn flow_of_wire(
        &mut self,
        space: SpaceId,
        to: SocketAddr,
        protocol: Protocol,
        port: u16,
        via: Option<SpaceId>,
    ) -> Result<FlowObservation, ProbeError> {
        let sender = Sender::Wire(space);
        let source = sender.source_address(self.lab, to)?.ok_or(ProbeError::NoAddress(to))?;
        let flow = wire::Flow { protocol, source: SocketAddr::new(source, port), destination: to };
        let tag = self.fresh_tag();
        self.put(space, &wire::probe(&flow, tag), via)?;
        self.watch(Followed { sender, watch: Watch::new(flow, tag, via) })
    }

    /// A process' packet is sent by its kernel.
    fn flow_of_process(
        &mut self,
        sender: Sender,
        to: SocketAddr,
        protocol: Protocol,
        port: u16,
    ) -> Result<FlowObservation, ProbeError> {
        let heard_before = self.hears(sender.space(), protocol);
        self.listen_in(sender.space(), protocol)?;
        let tag = self.fresh_tag();
        let started = sender.start(self.lab, to, protocol, port, tag)?;
        // Also where the kernel would not send: a REJECT in OUTPUT says so by ICMP as well.
        let observed = self.watch(Followed { sender, watch: Watch::new(started.flow, tag, None) });
        started.end();
        if !heard_before && let Some(ears) = self.ears.get_mut(&sender.space()) {
            ears.drop(protocol);
        }
        observed
    }

    /// Watches a flow whose first packet was sent until nothing moves.
    fn watch(&mut self, mut followed: Followed) -> Result<FlowObservation, ProbeError> {
        self.until_quiet(|prober| prober.look(Some(&mut followed)))?;
        Ok(followed.watch.finish())
    }

    fn hears(&self, space: SpaceId, protocol: Protocol) -> bool {
        self.ears.get(&space).is_some_and(|ears| ears.hears(protocol))
    }

    /// Reads everything that was seen and heard, and lets receivers and the sender react. True where there was anything.
    fn look(&mut self, mut followed: Option<&mut Followed>) -> Result<bool, ProbeError> {
        let (mut seen, answers) = self.see(&mut followed)?;
        seen |= self.hear(&mut followed)?;
        for Answer { space, packet, via } in answers {
            self.put(space, &packet, via)?;
        }
        Ok(seen)
    }

    /// What taps saw, and what pods and hosts say to what they got.
    fn see(&mut self, followed: &mut Option<&mut Followed>) -> Result<(bool, Vec<Answer>), ProbeError> {
        let (mut seen, mut answers) = (false, Vec::new());
        let mut buffer = [0; 2048];
        for tap in &self.taps {
            while let Some(passing) = tap.next(self.lab.topology(), &mut buffer)? {
                seen = true;
                if let Some(record) = &mut self.record {
                    record.push(passing.capture());
                }
                let Some(Followed { sender, watch }) = followed else { continue };
                watch.saw(&passing);
                let Some(space) = passing.receiver else { continue };
                if *sender == Sender::Wire(space) && watch.is_for_sender(&passing.packet) {
                    let said = watch.came_back(&passing.packet);
                    answers.extend(said.into_iter().map(|packet| Answer { space, packet, via: watch.via() }));
                } else {
                    watch.came_out(&self.lab.topology().spaces[space].name, &passing.packet);
                    answers.extend(wire::answer(&passing.packet).map(|packet| Answer { space, packet, via: None }));
                }
            }
        }
        Ok((seen, answers))
    }

    /// What kernels delivered locally; processes answer at once. True where there was anything.
    fn hear(&self, followed: &mut Option<&mut Followed>) -> Result<bool, ProbeError> {
        let mut any = false;
        for (&space, ears) in &self.ears {
            let mut answered = Ok(());
            let heard = ears.hear(|packet| {
                any = true;
                let Some(Followed { sender, watch }) = followed else { return };
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
            heard.and(answered).map_err(|source| self.socket_error(space, "listening for local packets", source))?;
        }
        Ok(any)
    }
}

/// What a pod or host says to a packet that it got.
struct Answer {
    space: SpaceId,
    packet: Packet,
    /// The node that it is handed to, whatever routes say.
    via: Option<SpaceId>,
}
