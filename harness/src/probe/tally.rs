//! Many flows at once: sent from several CPUs, counted where they are delivered.

use std::collections::HashMap;

use socket2::{Domain, Protocol as SocketProtocol, Socket, Type};

use std::net::SocketAddr;
use std::sync::Arc;

use svclab_rules::cluster::Family;

use super::batch::Outgoing;
use super::count::Count;
use super::flow::FlowRequest;
use super::flow_queue::{FLUSH_EVERY, FlowQueue};
use super::listeners::Listeners;
use super::progress::Counting;
use super::raw_listeners::RawListeners;
use super::tap::Tap;
use super::worker::{Outlet, Worker, collisions, run_together};
use super::{ProbeError, Prober, Sender, held};
use crate::lab::{self, LabError, filter};
use crate::observation::Tally;
use crate::scenario::Probe;
use crate::topology::{NetnsId, Topology};
use crate::wire::{Content, Template};

/// The number of flows per worker from which another worker pays off: some 50 ms of work.
const FLOWS_PER_WORKER: u64 = 8_192;
/// The maximum number of workers: more would mostly wait for each other in conntrack.
const MAX_WORKERS: usize = 4;

impl Prober<'_> {
    /// Sends flows to one destination, each with a fresh 5-tuple, and counts where they are delivered. Receivers do not answer.
    pub(super) fn tally(
        &mut self,
        wanted: &FlowRequest,
        flows: u64,
        counting: &Arc<Counting>,
    ) -> Result<Tally, ProbeError> {
        let counted = self.tally_in_workers(wanted, flows, counting);
        // Even after an error, later probes must see everything again.
        let everything = self.taps.iter().try_for_each(|tap| filter::detach(&tap.channel));
        let tally = counted?;
        everything?;
        self.nothing_missed()?;
        Ok(tally)
    }

    fn tally_in_workers(
        &mut self,
        wanted: &FlowRequest,
        flows: u64,
        counting: &Arc<Counting>,
    ) -> Result<Tally, ProbeError> {
        let cpus = self.cpus_for(flows)?;
        let work = self.work(flows, cpus.len())?.reporting_to(counting).within(self.limit);
        let only = cpus.first().copied().filter(|_| cpus.len() > 1);
        self.taps.iter().try_for_each(|tap| tap.count_only(only))?;
        self.until_quiet(|prober| prober.skip())?;
        self.lab.flush_connections()?;
        let mut workers = self.workers(&cpus, wanted, &work)?;
        let taps = std::mem::take(&mut self.taps);
        let (looking, blind) = taps.into_iter().partition(|tap: &Tap| tap.outlets.first().is_some());
        workers[0].taps = looking;
        let mut receive = |count: &mut Count| receive(&self.raw_listeners, &self.listeners, self.lab.topology(), count);
        let tallies = run_together(
            &mut workers,
            &work,
            |own| own.count(&work, &mut receive, &|| held(self.lab, self.limit)),
            |other| other.count(&work, &mut |_| Ok(0), &|| Ok(None)),
        );
        self.taps = std::mem::take(&mut workers[0].taps);
        self.taps.extend::<Vec<Tap>>(blind);
        lab::close_all(workers.into_iter().flat_map(Worker::into_channels));
        self.lab.flush_connections()?;
        Ok(tallies?.into_iter().fold(Tally::default(), Tally::plus))
    }

    /// Counts this many flows of a probe, regardless of the number in the probe.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub(crate) fn count(&mut self, probe: &Probe, flows: u64) -> Result<Tally, ProbeError> {
        let wanted = self.wanted(probe)?;
        let counting = self.progress.begin(flows);
        self.tally(&wanted, flows, &counting)
    }

    /// Counts flows of a probe until the function returns that they are enough, and at most this many. It is called
    /// from time to time with all flows so far.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub(crate) fn count_until(
        &mut self,
        probe: &Probe,
        most: u64,
        mut is_enough: impl FnMut(&Tally) -> bool,
    ) -> Result<Tally, ProbeError> {
        const LOOKS: u64 = 20;
        let wanted = self.wanted(probe)?;
        let every = (most / LOOKS).max(FLUSH_EVERY);
        let counting = self.progress.begin(most);
        let mut all = Tally::default();
        while all.sent < most && (all.sent == 0 || !is_enough(&all)) {
            let some = self.tally(&wanted, every.min(most - all.sent), &counting)?;
            all = all.plus(some);
        }
        Ok(all)
    }

    /// Cross-checks a count with the counters of the family's rules, read before and after. Rules do not count untranslated packets, so the
    /// probe's own destination is not compared.
    ///
    /// # Errors
    ///
    /// Those of counting, if counters cannot be read, and [`ProbeError::Miscounted`] if they contradict what arrived.
    pub(crate) fn cross_checked(
        &mut self,
        probe: &Probe,
        count: impl FnOnce(&mut Self) -> Result<Tally, ProbeError>,
    ) -> Result<Tally, ProbeError> {
        let family = Family::of(probe.to.address);
        // Packets that earlier probes left in flight must arrive before the counters are read: after the flush, rules would count them as
        // new.
        self.settle()?;
        self.lab.flush_connections()?;
        let before = self.lab.translations(family)?;
        let tally = count(self)?;
        let counted = self.lab.translations(family)?.since(&before);
        let own = SocketAddr::new(probe.to.address, probe.to.port);
        let tally = Tally { translated: Some(Box::new(counted.without(own))), ..tally };
        match tally.contradictions() {
            none if none.is_empty() => Ok(tally),
            contradictions => Err(ProbeError::Miscounted(contradictions)),
        }
    }

    /// Sends flows as counting does, but with all taps closed and without counting, to measure the speed of the kernel alone.
    ///
    /// # Errors
    ///
    /// As [`Prober::send`].
    pub(crate) fn send_uncounted(&mut self, probe: &Probe, flows: u64) -> Result<(), ProbeError> {
        let wanted = self.wanted(probe)?;
        let cpus = self.cpus_for(flows)?;
        let work = self.work(flows, cpus.len())?;
        self.lab.flush_connections()?;
        lab::close_all(std::mem::take(&mut self.taps).into_iter().map(|tap| tap.channel));
        let mut workers = self.workers(&cpus, &wanted, &work)?;
        let sent = run_together(&mut workers, &work, |own| own.send_only(&work), |other| other.send_only(&work));
        lab::close_all(workers.into_iter().flat_map(Worker::into_channels));
        self.lab.flush_connections()?;
        self.open_taps()?;
        sent.map(drop)
    }

    /// The CPUs that flows are sent from: first the lab's own, then others if there are enough flows. Raw listeners do not distinguish
    /// CPUs, and a link that holds packets sends them from any CPU, so with these there is only one.
    fn cpus_for(&self, flows: u64) -> Result<Vec<usize>, LabError> {
        let own = self.lab.cpu();
        let worth = usize::try_from(flows / FLOWS_PER_WORKER).unwrap_or(MAX_WORKERS).clamp(1, MAX_WORKERS);
        let most = if self.listeners.places().is_empty() && !self.lab.may_queue() { worth } else { 1 };
        let allowed = lab::allowed_cpus().map_err(|errno| LabError::Thread { source: errno.into() })?;
        let others = allowed.into_iter().filter(|other| *other != own);
        Ok([own].into_iter().chain(others).take(most).collect())
    }

    /// Creates the queue for a number of flows, with fresh tags.
    fn work(&mut self, flows: u64, workers: usize) -> Result<FlowQueue, LabError> {
        let work = FlowQueue::new(self.next_tag, flows, workers, collisions(&self.lab.connections()?)?);
        self.next_tag += flows;
        Ok(work)
    }

    /// Sets up a worker on each CPU; the first uses the prober's own taps. If the prober has no taps, neither has any worker.
    fn workers(&mut self, cpus: &[usize], wanted: &FlowRequest, work: &FlowQueue) -> Result<Vec<Worker>, ProbeError> {
        let places: Vec<NetnsId> =
            self.taps.iter().filter(|tap| tap.outlets.first().is_some()).map(|tap| tap.netns).collect();
        let mut workers = Vec::with_capacity(cpus.len());
        for (number, &cpu) in cpus.iter().enumerate() {
            let places = if number == 0 { &[] } else { places.as_slice() };
            let taps = places.iter().map(|netns| Tap::open(self.lab, *netns)).collect::<Result<Vec<_>, _>>()?;
            taps.iter().try_for_each(|tap| tap.count_only(Some(cpu)))?;
            workers.push(Worker {
                barrier: self.lab.barrier_on(cpu)?,
                taps,
                outlet: self.outlet(wanted)?,
                connections: self.lab.connections()?,
                ports: work.ports(number),
            });
        }
        Ok(workers)
    }

    /// Opens the socket that flows are written to.
    fn outlet(&mut self, wanted: &FlowRequest) -> Result<Outlet, ProbeError> {
        let FlowRequest { sender, to, protocol, via, .. } = *wanted;
        let source = sender.source_address(self.lab, to)?.ok_or(ProbeError::NoAddress(to))?;
        let netns = sender.netns();
        let name = self.lab.topology().namespaces[netns].name.clone();
        if let Sender::Wire(_) = sender {
            let (source_mac, destination_mac) = self.macs(netns, to.ip(), via);
            let template = Template::frame(source_mac, destination_mac, to, protocol);
            let template = template.map_err(|error| self.unencodable(netns, &error))?;
            return Ok(Outlet { netns: name, source, template, socket: Outgoing::Wire(self.wire(netns)?.fd()) });
        }
        let template = Template::packet(to, protocol).map_err(|error| self.unencodable(netns, &error))?;
        let opened = self.lab.inside(netns, || {
            // A raw socket with this protocol number sends whole packets, IP header included.
            const IPPROTO_RAW: i32 = 255;
            let socket = Socket::new(Domain::for_address(to), Type::RAW, Some(SocketProtocol::from(IPPROTO_RAW)))?;
            socket.connect(&SocketAddr::new(to.ip(), 0).into())?;
            Ok(socket)
        })?;
        let socket: Socket = opened.map_err(LabError::socket(&name, "opening a socket for many packets"))?;
        Ok(Outlet { netns: name, source, template, socket: Outgoing::Process(socket) })
    }

    /// Reads and discards packets that earlier probes left in flight. Returns their number.
    fn skip(&self) -> Result<usize, ProbeError> {
        let mut packets = 0;
        for tap in &self.taps {
            packets += tap.read_many(|_, _| ())?;
        }
        for (&netns, raw_listeners) in &self.raw_listeners {
            let received = raw_listeners.receive(|_| packets += 1);
            received.map_err(|source| self.socket_error(netns, "listening for local packets", source))?;
        }
        Ok(packets)
    }
}

/// Counts what raw listeners on nodes have received. Returns the number of packets.
fn receive(
    raw_listeners: &HashMap<NetnsId, RawListeners>,
    listeners: &Listeners,
    topology: &Topology,
    count: &mut Count,
) -> Result<usize, ProbeError> {
    let mut packets = 0;
    for (&netns, raw_listeners) in raw_listeners {
        let received = raw_listeners.receive(|packet| {
            let Some(flow) = packet.flow() else { return };
            if listeners.owner(netns, flow.protocol, flow.destination).is_none() {
                return;
            }
            packets += 1;
            match packet.content() {
                Content::Request(tag) => count.came_out(Some(tag), flow),
                Content::Answer(_) | Content::Other => count.came_out(None, flow),
            }
        });
        received.map_err(LabError::socket(&topology.namespaces[netns].name, "listening for local packets"))?;
    }
    Ok(packets)
}
