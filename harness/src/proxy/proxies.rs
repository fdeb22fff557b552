//! The programs of all nodes of a lab, and the API server that they watch.

use std::ffi::OsString;
use std::net::TcpListener;
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use svclab_rules::cluster::{Cluster, Family, Node, ProxyMode};
use svclab_rules::ruleset::{Rules, Unsupported};

use super::configuration::SERVER;
use super::error::ProxyError;
use super::objects::objects;
use super::on_node::{OnNode, search_path};
use super::process::{Process, StartError};
use super::programs::Programs;
use super::synced::{Change, LOOK, Look, Synced, Wait};
use crate::apiserver::{ApiServer, Settings};
use crate::documents::{self, Document};
use crate::lab::Lab;
use crate::scenario::{Install, OtherRules, Place, Scenario, pod_label};
use crate::topology::NetnsId;

/// The node ports that the API server accepts: the scenario's own range has been checked already.
const ALL_PORTS: RangeInclusive<u16> = 1..=u16::MAX;

/// Running programs, one on each node.
pub(crate) struct Proxies {
    // Programs are dropped before the server that they watch.
    nodes: Vec<OnNode>,
    server: ApiServer,
    /// The `PATH` of programs.
    search: OsString,
    mode: ProxyMode,
    limit: Duration,
}

/// A change that programs are following.
pub(crate) struct Begun {
    /// The change of each node.
    changes: Vec<Change>,
    has_started: bool,
}

impl Begun {
    /// Marks the programs as not watched since the change: sync times are then only those that they report themselves.
    pub(crate) fn unwatched(mut self) -> Self {
        self.changes.iter_mut().for_each(|change| change.is_watched = false);
        self
    }
}

/// How long a program took to follow a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncTime {
    /// The node.
    pub(crate) node: String,
    /// The time.
    pub(crate) time: Duration,
}

impl Proxies {
    /// Starts a program on each node of the lab, from the lab's thread, waits until each has written its rules, and installs the scenario's
    /// other rules. Of chains at the same priority, the kernel evaluates the one created last first, so those that run after the program's
    /// are installed before it starts. Returns the installed documents.
    pub(crate) fn install(
        lab: &mut Lab,
        scenario: &Scenario,
        programs: &Programs,
    ) -> Result<(Self, Vec<Document>, Vec<SyncTime>), ProxyError> {
        let mode = scenario.cluster.proxy.mode;
        let mut older = older(scenario)?;
        older.retain(|document| lab.has_netns(&document.netns));
        lab.install(&older)?;
        let (proxies, times) = Self::start(lab, scenario, programs)?;
        let mut documents = proxies.documents(scenario, &scenario.cluster, true)?;
        documents.retain(|document| lab.has_netns(&document.netns));
        let has_others = |document: &&Document| {
            let place = |rules: &OtherRules| match &rules.place {
                Place::Node(node) => format!("node/{node}"),
                Place::Pod(pod) => pod_label(pod),
            };
            let is_separate =
                document.is_other_tables() || mode == ProxyMode::Iptables || document.rules.mode() != mode;
            is_separate
                && !older.contains(document)
                && scenario.rules.iter().any(|rules| place(rules) == document.netns)
        };
        lab.install(&documents.iter().filter(has_others).cloned().collect::<Vec<_>>())?;
        // The scenario's settings override those that a program has just made.
        lab.write_settings_again()?;
        lab.adopt(&documents);
        Ok((proxies, documents, times))
    }

    /// Starts the programs of all nodes, and waits until each has written the rules for a cluster.
    fn start(lab: &Lab, scenario: &Scenario, programs: &Programs) -> Result<(Self, Vec<SyncTime>), ProxyError> {
        let cluster = &scenario.cluster;
        let begin = Instant::now();
        let time = since_1970();
        let places = cluster.nodes.iter().filter_map(|node| Some((node, netns_of(lab, &node.name)?)));
        let places: Vec<(&Node, NetnsId)> = places.collect();
        let listen = |(node, netns): &(&Node, NetnsId)| {
            let listener = lab.inside(*netns, || TcpListener::bind(SERVER))?;
            listener.map_err(|source| StartError::Io(source).of(&"the API server", &node.name))
        };
        let listeners = places.iter().map(listen).collect::<Result<Vec<_>, _>>()?;
        let settings = Settings { node_ports: ALL_PORTS, ..Settings::default() };
        let server = ApiServer::start(settings, objects(cluster), listeners)?;
        let search = search_path(lab)?;
        let start = |(node, netns): (&Node, NetnsId)| {
            let mut on_node = OnNode::new(node, netns, programs.of(scenario, &node.name)?.clone());
            on_node.start(lab, cluster, &search)?;
            Ok(on_node)
        };
        let nodes = places.into_iter().map(start).collect::<Result<Vec<_>, ProxyError>>()?;
        let mut proxies = Self { nodes, server, search, mode: cluster.proxy.mode, limit: programs.limit() };
        let change = Change { version: 0, time, begin, changes_rules: true, is_watched: true };
        let times = proxies.follow(lab, |_| change)?;
        Ok((proxies, times))
    }

    /// Gives the API server the objects of another state, stops and starts programs as the new state requires, restarts those listed, and
    /// waits until all running programs have written their rules. Returns the installed documents.
    pub(crate) fn apply(
        &mut self,
        lab: &mut Lab,
        scenario: &Scenario,
        cluster: &Cluster,
        restarted: &[String],
    ) -> Result<(Vec<Document>, Vec<SyncTime>), ProxyError> {
        self.ending(cluster, restarted)?.into_iter().for_each(Process::stop);
        let begun = self.begin(lab, cluster)?;
        self.finish(lab, scenario, cluster, &begun)
    }

    /// The programs to stop before a change: those that do not run in the new state, and those that are restarted.
    pub(crate) fn ending(&mut self, cluster: &Cluster, restarted: &[String]) -> Result<Vec<Process>, ProxyError> {
        let is_ending =
            |on_node: &&mut OnNode| cluster.stopped.contains_key(&on_node.node) || restarted.contains(&on_node.node);
        let end = |on_node: &mut OnNode| {
            on_node.is_running()?;
            Ok(on_node.process.take())
        };
        let ended = self.nodes.iter_mut().filter(is_ending).map(end).collect::<Result<Vec<_>, ProxyError>>();
        Ok(ended?.into_iter().flatten().collect())
    }

    /// Gives the API server the objects of another state, and starts the programs that run in it but not yet. Must be called from the lab's
    /// thread.
    pub(crate) fn begin(&mut self, lab: &Lab, cluster: &Cluster) -> Result<Begun, ProxyError> {
        let (begin, time) = (Instant::now(), since_1970());
        let mut changed: Vec<bool> = self.nodes.iter_mut().map(|on_node| on_node.expects(cluster)).collect();
        let version = self.server.replace(objects(cluster))?;
        let is_to_run = |on_node: &OnNode| !cluster.stopped.contains_key(&on_node.node);
        let mut has_started = false;
        for (index, (on_node, changes_rules)) in self.nodes.iter_mut().zip(&mut changed).enumerate() {
            if on_node.process.is_none() && is_to_run(on_node) {
                on_node.before = self.server.clients(index);
                on_node.start(lab, cluster, &self.search)?;
                (*changes_rules, has_started) = (true, true);
            }
        }
        let change = |changes_rules| Change { version, time, begin, changes_rules, is_watched: true };
        Ok(Begun { changes: changed.into_iter().map(change).collect(), has_started })
    }

    /// Waits until all running programs have written the rules for a change. Returns the installed documents.
    pub(crate) fn finish(
        &mut self,
        lab: &mut Lab,
        scenario: &Scenario,
        cluster: &Cluster,
        begun: &Begun,
    ) -> Result<(Vec<Document>, Vec<SyncTime>), ProxyError> {
        let times = self.follow(lab, |index| begun.changes[index])?;
        if begun.has_started {
            lab.write_settings_again()?;
        }
        let documents = self.documents(scenario, cluster, false)?;
        lab.adopt(&documents);
        Ok((documents, times))
    }

    /// The rules of a family that a node's program has written last.
    pub(crate) fn rules(&self, node: &str, family: Family) -> Option<&Rules> {
        let on_node = self.nodes.iter().find(|on_node| on_node.node == node)?;
        on_node.rules.get(on_node.families.iter().position(|one| *one == family)?)
    }

    /// The rules of all namespaces: those of the programs, and others. At first, the nodes' other rules are not included.
    fn documents(&self, scenario: &Scenario, cluster: &Cluster, first: bool) -> Result<Vec<Document>, Unsupported> {
        let is_read = |rules: &OtherRules| {
            !first
                && matches!(rules.place, Place::Node(_))
                && rules.rules.iptables().is_some()
                && self.mode == ProxyMode::Iptables
        };
        let rules = scenario.rules.iter().filter(|rules| !is_read(rules)).cloned().collect();
        let scenario = Scenario { rules, ..scenario.clone() };
        documents::assemble(&scenario, cluster, |node, family| {
            self.rules(&node.name, family)
                .map_or_else(|| Rules::generate(cluster, node, family), |rules| Ok(rules.clone()))
        })
    }

    /// Waits until all running programs have followed a change.
    fn follow(&mut self, lab: &Lab, change: impl Fn(usize) -> Change) -> Result<Vec<SyncTime>, ProxyError> {
        let deadline = Instant::now() + self.limit;
        let wait = |(index, on_node): (usize, &OnNode)| {
            on_node.process.is_some().then(|| Wait::new(change(index), on_node.settled.clone()))
        };
        let mut waits: Vec<Option<Wait>> = self.nodes.iter().enumerate().map(wait).collect();
        let mut times = Vec::new();
        loop {
            for (index, (on_node, waiting)) in self.nodes.iter_mut().zip(&mut waits).enumerate() {
                let Some(wait) = waiting else { continue };
                on_node.is_running()?;
                let client = self.server.clients(index).since(&on_node.before);
                let mode = self.mode;
                match wait.look(&client, on_node.signals(lab)?, || on_node.read(lab, mode))? {
                    Look::NotYet => {}
                    Look::Failing(failures) => {
                        return Err(ProxyError::Failing { program: on_node.named(), failures });
                    }
                    Look::Synced(Synced { time, signals, rules }) => {
                        (on_node.rules, on_node.settled) = (rules, signals);
                        times.extend(time.map(|time| SyncTime { node: on_node.node.clone(), time }));
                        *waiting = None;
                    }
                }
            }
            let late = waits.iter().zip(&self.nodes).find_map(|(wait, on_node)| Some((wait.as_ref()?, on_node)));
            match late {
                None => return Ok(times),
                Some((wait, on_node)) if Instant::now() > deadline => {
                    let (program, missing) = (on_node.named(), wait.missing.clone());
                    return Err(ProxyError::NotSynced { program, waited: self.limit, missing });
                }
                Some(_) => thread::sleep(LOOK),
            }
        }
    }
}

/// Other rules of nodes that are not merged with a program's rules and run after them.
fn older(scenario: &Scenario) -> Result<Vec<Document>, Unsupported> {
    let mode = scenario.cluster.proxy.mode;
    let is_older = |rules: &&OtherRules| {
        rules.install == Install::After
            && matches!(rules.place, Place::Node(_))
            && (rules.is_other_tables() || mode == ProxyMode::Nftables)
    };
    let rules: Vec<OtherRules> = scenario.rules.iter().filter(is_older).cloned().collect();
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let scenario = Scenario { rules, ..scenario.clone() };
    let cluster = &scenario.cluster;
    let documents = documents::assemble(&scenario, cluster, |node, family| Rules::generate(cluster, node, family))?;
    Ok(documents.into_iter().filter(|document| document.is_other_tables() || document.rules.mode() != mode).collect())
}

/// The namespace of a node, if the lab has it.
fn netns_of(lab: &Lab, node: &str) -> Option<NetnsId> {
    lab.topology().namespaces.iter().position(|netns| netns.node_name() == Some(node))
}

fn since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
