//! The lab: a topology plan, built in the kernel.
//!
//! [`with_lab`] builds a [`Lab`] in a thread of its own, passes it to a function and tears it down. Everything in a lab is owned by file
//! descriptors and by the mount namespace of that thread: when the thread ends or the process is killed, the kernel removes all of it.

mod backend;
mod barrier;
mod call;
mod channel;
mod client_lists;
mod conntrack;
mod counters;
mod entrance;
mod error;
pub(crate) mod filter;
mod impairments;
mod install;
mod installed;
mod links;
mod namespaces;
mod neighbour_timeout;
pub(crate) mod netfilter;
mod netlink;
mod nfacct;
pub(crate) mod programs;
mod read_rules;
mod restored;
mod sandbox;
mod settings;
mod silence;
mod state;
mod tracing;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

pub use backend::Backend;
pub(crate) use entrance::Entrance;
pub(crate) use error::{INSTALL, LabError};
pub(crate) use sandbox::become_privileged;
pub(crate) use sandbox::is_privileged;
pub(crate) use state::Listing;

pub(crate) use barrier::{Barrier, allowed_cpus, leave_cpu, stay_on};
pub(crate) use channel::{Channel, Losses, close_all, give_room};
pub(crate) use conntrack::Connections;
pub(crate) use nfacct::{counts, generate_counting, generate_for_lab};
pub(crate) use settings::has_ipv6;
pub(crate) use tracing::TRACING_TABLE;

use crate::documents::Document;
use crate::scenario::Scenario;
use crate::topology::{self, Carrier, Netns, NetnsId, Role, Topology, UNDERLAY};
use namespaces::Namespace;
use netlink::Netlink;
use settings::Stage;
use svclab_rules::cluster::Cluster;
use svclab_rules::conntrack::Cleanup;
use svclab_rules::ruleset::Unsupported;
use tokio::runtime::Runtime;

/// A running lab. It belongs to the thread that it was created in.
pub(crate) struct Lab {
    topology: Topology,
    namespaces: Arc<Vec<Namespace>>,
    backend: Backend,
    /// The installed documents whose rules remember clients.
    remembering: Vec<Document>,
    runtime: Runtime,
    cpu: usize,
    barrier: Option<Barrier>,
    retired: Vec<Channel>,
    _stamping: OwnedFd,
}

/// Builds a lab, lets a function use it, and tears it down.
///
/// # Errors
///
/// If the environment lacks something, or the kernel rejects something, while the lab is built.
pub(crate) fn with_lab<T: Send>(
    topology: &Topology,
    documents: &[Document],
    backend: Backend,
    function: impl FnOnce(&mut Lab) -> T + Send,
) -> Result<T, LabError> {
    let body = || Ok(function(&mut Lab::materialize(topology.clone(), documents, backend)?));
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, body);
        programs::join(thread.map_err(|source| LabError::Thread { source })?)
    })
}

impl Lab {
    /// Builds a topology in the calling thread, which enters a mount namespace of its own.
    fn materialize(topology: Topology, documents: &[Document], backend: Backend) -> Result<Self, LabError> {
        let ipv6 = has_ipv6();
        if topology.has_ipv6() && !ipv6 {
            return Err(LabError::NoIpv6);
        }
        sandbox::leave_host()?;
        let stamping = channel::start_stamping();
        let stamping = stamping.map_err(|source| LabError::Sandbox { what: "enabling time stamps", source })?;
        // The runtime panics if it cannot open its sockets for signals, once for each process.
        let runtime =
            UnixStream::pair().and_then(|_| tokio::runtime::Builder::new_current_thread().enable_all().build());
        let runtime = runtime.map_err(|source| LabError::Sandbox { what: "starting the runtime", source })?;
        // Installing rules takes longest, so it starts as soon as the namespaces and everything that the rules refer to exist.
        let ruled = |netns: &Netns| documents.iter().any(|document| document.netns == netns.name);
        let (first, rest) =
            topology.namespaces.split_at(topology.namespaces.iter().rposition(ruled).map_or(0, |last| last + 1));
        let mut namespaces = make_namespaces(first, ipv6)?;
        let join = || {
            let others = make_namespaces(rest, ipv6)?;
            let all: Vec<&Namespace> = namespaces.iter().chain(&others).collect();
            runtime.block_on(link_up(&topology, &all, ipv6))?;
            for (netns, namespace) in topology.namespaces.iter().zip(all) {
                if netns.sysctls.iter().any(|sysctl| netns.is_about_interface(sysctl)) {
                    namespace.run(|| settings::write(netns, Stage::Up, ipv6))??;
                }
            }
            Ok(others)
        };
        let others = if documents.iter().any(|document| document.rules.needs_interfaces()) {
            let others = join()?;
            install::install_all(&namespaces, documents, &[], backend, || Ok(()))?;
            others
        } else {
            install::install_all(&namespaces, documents, &[], backend, join)?
        };
        namespaces.extend(others);
        let cpu = barrier::stay_on_one_cpu();
        let cpu = cpu.map_err(|errno| LabError::Sandbox { what: "binding to a cpu", source: errno.into() })?;
        let mut barrier = Barrier::open(&namespaces[UNDERLAY], cpu)?;
        barrier.wait_for_stamps()?;
        let (barrier, retired, remembering) = (Some(barrier), Vec::new(), client_lists::remembering(documents));
        let namespaces = Arc::new(namespaces);
        Ok(Self { topology, namespaces, backend, remembering, runtime, cpu, barrier, retired, _stamping: stamping })
    }

    /// The plan that this lab was built from.
    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Plans another state of the scenario that this lab was planned for.
    pub(crate) fn plan_at(&self, scenario: &Scenario, state: &Cluster) -> Topology {
        let plan = topology::plan_at(scenario, state);
        if self.topology.has_stacks { topology::with_stacks(plan) } else { plan }
    }

    /// Generates this lab's documents for a state of a scenario's cluster: see [`generate_for_lab`].
    pub(crate) fn generate(&self, scenario: &Scenario, state: &Cluster) -> Result<Vec<Document>, Unsupported> {
        generate_for_lab(scenario, state, self.backend)
    }

    /// Installs documents, each replacing the content of its tables.
    ///
    /// # Errors
    ///
    /// [`LabError::Rules`]; the other documents are installed all the same. [`LabError::Unknown`] if a document is for a namespace that
    /// this lab does not have; then none is installed.
    pub(crate) fn install(&mut self, documents: &[Document]) -> Result<(), LabError> {
        self.installer(documents).install(documents)
    }

    /// Returns an installer for these documents, for use in another thread while this one continues with the lab.
    pub(crate) fn installer(&mut self, documents: &[Document]) -> Installer {
        let before = self.remembering.clone();
        self.remembering.retain(|old| !documents.iter().any(|new| new.replaces(old)));
        self.remembering.extend(client_lists::remembering(documents));
        Installer { namespaces: Arc::clone(&self.namespaces), before, backend: self.backend }
    }

    /// Whether the lab has a namespace of this name.
    pub(crate) fn has_netns(&self, name: &str) -> bool {
        self.topology.namespaces.iter().any(|netns| netns.name == name)
    }

    /// The implementation of iptables that installs rules.
    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    /// Writes the scenario's settings again, in case a program has changed them.
    ///
    /// # Errors
    ///
    /// If the kernel rejects one.
    pub(crate) fn write_settings_again(&self) -> Result<(), LabError> {
        let ipv6 = has_ipv6();
        for (netns, namespace) in self.topology.namespaces.iter().zip(self.namespaces.iter()) {
            if netns.sysctls.iter().any(|sysctl| sysctl.asked_for.is_some()) {
                for stage in [Stage::Empty, Stage::Up] {
                    namespace.run(|| settings::write(netns, stage, ipv6))??;
                }
            }
        }
        Ok(())
    }

    /// Registers documents that another program has installed.
    pub(crate) fn adopt(&mut self, documents: &[Document]) {
        self.remembering = client_lists::remembering(documents);
    }

    /// Changes links and routes to those of another state's plan: see [`crate::topology::plan_at`]. A machine that is switched on again has
    /// lost its connections and client lists.
    ///
    /// # Errors
    ///
    /// If the kernel rejects a change.
    pub(crate) fn rewire(&mut self, plan: Topology) -> Result<(), LabError> {
        self.change_links(&plan)?;
        let changed = self.topology.namespaces.iter().zip(&plan.namespaces).zip(self.namespaces.iter());
        for ((old, new), namespace) in changed.filter(|((old, new), _)| old.routes().ne(new.routes())) {
            let change = async { links::reroute(&mut Netlink::connect(namespace)?, old, new).await };
            self.runtime.block_on(change)?;
        }
        let on = self.topology.namespaces.iter().zip(&plan.namespaces).zip(self.namespaces.iter());
        on.filter(|((old, new), _)| old.is_off && !new.is_off).try_for_each(|(_, machine)| self.forget_in(machine))?;
        self.topology = plan;
        Ok(())
    }

    /// Changes links to those of another plan, and waits until both ends have noticed which are up.
    fn change_links(&self, plan: &Topology) -> Result<(), LabError> {
        let links = |netns: &Netns| {
            netns.interfaces.iter().map(|one| (one.carrier, one.mtu, one.impairment)).collect::<Vec<_>>()
        };
        let all = self.topology.namespaces.iter().zip(&plan.namespaces).zip(self.namespaces.iter());
        let changed: Vec<_> = all.filter(|((old, new), _)| links(old) != links(new)).collect();
        for ((old, new), namespace) in &changed {
            self.runtime.block_on(async { links::change_links(&mut Netlink::connect(namespace)?, old, new).await })?;
        }
        for ((_, new), namespace) in &changed {
            let lost = new.interfaces.iter().filter(|interface| interface.carrier == Carrier::Lost);
            let lost: Vec<u32> = lost.map(|interface| interface.index).collect();
            let wait = async {
                let mut netlink = Netlink::connect(namespace)?;
                links::wait_until_lost(&mut netlink, &lost).await?;
                links::wait_until_ready(&mut netlink, &new.linked()).await
            };
            self.runtime.block_on(wait)?;
        }
        Ok(())
    }

    /// The name of a namespace, such as `node/worker`.
    pub(crate) fn name_of(&self, netns: NetnsId) -> &str {
        &self.topology.namespaces[netns].name
    }

    /// Runs a function with the calling thread inside a namespace of the lab.
    pub(crate) fn inside<T>(&self, netns: NetnsId, function: impl FnOnce() -> T) -> Result<T, LabError> {
        self.namespaces[netns].run(function)
    }

    /// Opens a packet socket on an interface of a namespace, or with index 0 on all of them. If the interface's link is up, it first waits
    /// until it can send.
    pub(crate) fn channel(&self, netns: NetnsId, interface: u32) -> Result<Channel, LabError> {
        let namespace = &self.namespaces[netns];
        let planned = self.topology.namespaces[netns].interface(interface);
        if planned.is_some_and(|planned| planned.carrier == Carrier::Up) {
            self.runtime
                .block_on(async { links::wait_until_ready(&mut Netlink::connect(namespace)?, &[interface]).await })?;
        }
        Channel::open(namespace, interface)
    }

    /// Waits until everything queued in the kernel so far has been processed: see [`barrier`].
    pub(crate) fn pass_barrier(&mut self) -> Result<(), LabError> {
        self.barrier.as_mut().map_or(Ok(()), Barrier::pass)
    }

    /// The number of packets that wait on links which delay them. All others are in the backlog of a CPU, which barriers cover.
    pub(crate) fn queued_packets(&self) -> Result<u64, LabError> {
        let mut queued = 0;
        for (netns, namespace) in self.topology.namespaces.iter().zip(self.namespaces.iter()) {
            let waiting: Vec<u32> = netns.waiting().collect();
            if !waiting.is_empty() {
                queued += self.runtime.block_on(async { Netlink::connect(namespace)?.count_queued(&waiting).await })?;
            }
        }
        Ok(queued)
    }

    /// Whether packets may wait on a link of this lab.
    pub(crate) fn may_queue(&self) -> bool {
        self.topology.namespaces.iter().any(|netns| netns.waiting().next().is_some())
    }

    /// The CPU that the lab's thread is bound to.
    pub(crate) fn cpu(&self) -> usize {
        self.cpu
    }

    /// Opens a barrier for a thread that is bound to another CPU: see [`stay_on`].
    pub(crate) fn barrier_on(&self, cpu: usize) -> Result<Barrier, LabError> {
        Barrier::open(&self.namespaces[UNDERLAY], cpu)
    }

    /// Flushes the conntrack tables of all namespaces that forward.
    pub(crate) fn flush_connections(&self) -> Result<(), LabError> {
        self.connections()?.iter().try_for_each(Connections::flush)
    }

    /// Opens the conntrack tables of all namespaces that forward.
    pub(crate) fn connections(&self) -> Result<Vec<Connections>, LabError> {
        let namespaces = self.namespaces.iter().zip(&self.topology.namespaces);
        namespaces.filter(|(_, netns)| netns.forwards()).map(|(namespace, _)| Connections::open(namespace)).collect()
    }

    #[cfg(test)]
    /// Runs `conntrack` in a namespace once for each list of arguments.
    ///
    /// # Errors
    ///
    /// If the program is missing or rejects its arguments, or the lab has no such namespace. Finding nothing to delete
    /// is not an error.
    pub(crate) fn conntrack(&self, netns: &str, calls: &[Vec<String>]) -> Result<(), LabError> {
        conntrack::call_each(namespaces::find(&self.namespaces, netns)?, calls)
    }

    #[cfg(test)]
    /// The TCP, UDP and SCTP flows of a namespace's connection table.
    ///
    /// # Errors
    ///
    /// If the kernel fails to list them, or the lab has no such namespace.
    pub(crate) fn flows(&self, netns: &str) -> Result<Vec<svclab_rules::conntrack::Flow>, LabError> {
        conntrack::flows(namespaces::find(&self.namespaces, netns)?)
    }

    /// Keeps channels that are no longer used; they are closed with the lab.
    pub(crate) fn retire(&mut self, channels: impl IntoIterator<Item = Channel>) {
        self.retired.extend(channels);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let channels = std::mem::take(&mut self.retired).into_iter();
        close_all(channels.chain(self.barrier.take().map(Barrier::into_channel)));
    }
}

/// An installer of documents in a lab's namespaces, usable from any thread.
pub(crate) struct Installer {
    namespaces: Arc<Vec<Namespace>>,
    /// The documents that remembered clients before this installation.
    before: Vec<Document>,
    backend: Backend,
}

impl Installer {
    /// Installs documents, each replacing the content of its tables.
    ///
    /// # Errors
    ///
    /// As [`Lab::install`].
    pub(crate) fn install(&self, documents: &[Document]) -> Result<(), LabError> {
        install::install_all(&self.namespaces, documents, &self.before, self.backend, || Ok(()))
    }

    /// Deletes from a namespace's conntrack table the entries that kube-proxy deletes after a change.
    ///
    /// # Errors
    ///
    /// If the program is missing or rejects its arguments, the lab has no such namespace, or the kernel fails to list or delete entries.
    pub(crate) fn clean_up(&self, netns: &str, cleanup: &Cleanup) -> Result<(), LabError> {
        conntrack::clean_up(namespaces::find(&self.namespaces, netns)?, cleanup)
    }
}

/// Creates namespaces with their settings, except those of interfaces.
fn make_namespaces(namespaces: &[Netns], ipv6: bool) -> Result<Vec<Namespace>, LabError> {
    let make = |netns: &Netns| {
        let namespace = Namespace::new(&netns.name)?;
        namespace.run(|| settings::write(netns, Stage::Empty, ipv6))??;
        Ok(namespace)
    };
    namespaces.iter().map(make).collect()
}

/// Creates and configures all interfaces: first the underlay's, which owns the links to nodes, then the nodes', then those of pods and
/// hosts. The interfaces of pods and hosts may need a moment longer until they can send: see [`Lab::channel`].
async fn link_up(topology: &Topology, namespaces: &[&Namespace], ipv6: bool) -> Result<(), LabError> {
    let rank = |netns: &Netns| match netns.role {
        Role::Underlay => 0,
        Role::Node => 1,
        Role::Pod | Role::RoutingPod | Role::Host => 2,
    };
    let mut connections: Vec<(&Netns, Netlink)> = Vec::new();
    for stage in 0..=2 {
        let due = topology.namespaces.iter().zip(namespaces).filter(|(netns, _)| rank(netns) == stage);
        for (netns, namespace) in due {
            let mut netlink = Netlink::connect(namespace)?;
            links::make_interfaces(&mut netlink, topology, netns, namespaces).await?;
            netlink.finish().await?;
            // The others have only their interface.
            if netns.has_stack() {
                connections.push((netns, netlink));
            }
        }
    }
    for (netns, netlink) in &mut connections {
        if netns.forwards() {
            neighbour_timeout::persist(netlink, netns, ipv6).await?;
        }
        links::configure(netlink, netns).await?;
        netlink.finish().await?;
    }
    for (netns, netlink) in &mut connections {
        links::wait_until_ready(netlink, &netns.linked()).await?;
    }
    Ok(())
}
