//! The programs of all nodes of a lab, and the API server that they watch.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use svclab_rules::cluster::{Cluster, Family, Node, ProxyConfig, ProxyMode};
use svclab_rules::ruleset::{Rules, Unsupported};

use super::configuration::{configuration, kubeconfig};
use super::error::{ProxyError, Running};
use super::objects::objects;
use super::process::{Process, StartError};
use super::programs::{Program, Programs};
use super::signals::Signals;
use super::synced::{Change, LOOK, Look, Wait};
use crate::apiserver::{ApiServer, Settings};
use crate::documents::{self, Document};
use crate::lab::{Lab, programs};
use crate::scenario::{OtherRules, Place, Scenario, pod_label};
use crate::topology::NetnsId;

/// Where the API server listens, in the namespace of each node.
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);
/// The node ports that the API server takes: the scenario has been checked for its own range.
const ALL_PORTS: RangeInclusive<u16> = 1..=u16::MAX;
/// Where the files of programs are, in the lab's own `/run`.
const FILES: &str = "/run/svclab";

/// Running programs, one on each node.
pub(crate) struct Proxies {
    // Programs end before the server that they watch.
    nodes: Vec<OnNode>,
    server: ApiServer,
    mode: ProxyMode,
    limit: Duration,
}

/// The program of a node.
struct OnNode {
    node: String,
    netns: NetnsId,
    families: Vec<Family>,
    /// The program in words.
    program: String,
    has_signals: bool,
    process: Process,
    /// What the generator writes for this node: whether a change of objects is one of rules.
    expected: Vec<Option<Rules>>,
    /// The rules that were read last, by family.
    rules: Vec<Rules>,
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
    /// Starts a program on each node that the lab has, from the lab's thread, waits until each has written its rules, and installs the scenario's other
    /// rules. Returns what is installed then.
    pub(crate) fn install(
        lab: &mut Lab,
        scenario: &Scenario,
        programs: &Programs,
    ) -> Result<(Self, Vec<Document>, Vec<SyncTime>), ProxyError> {
        let (proxies, times) = Self::start(lab, scenario, programs)?;
        let mut documents = proxies.documents(scenario, &scenario.cluster, true)?;
        documents.retain(|document| lab.topology().namespaces.iter().any(|netns| netns.name == document.netns));
        let has_others = |document: &&Document| {
            let place = |rules: &OtherRules| match &rules.place {
                Place::Node(node) => format!("node/{node}"),
                Place::Pod(pod) => pod_label(pod),
            };
            scenario.rules.iter().any(|rules| place(rules) == document.netns)
        };
        lab.install(&documents.iter().filter(has_others).cloned().collect::<Vec<_>>())?;
        // A setting of the scenario counts, also where a program has just made its own.
        lab.write_settings_again()?;
        lab.adopt(&documents);
        Ok((proxies, documents, times))
    }

    /// Starts the programs of all nodes, and waits until each has written the rules of a cluster.
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
            let program = programs.of(scenario, &node.name)?;
            OnNode::start(lab, cluster, (node, netns), program, &search)
        };
        let nodes = places.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let mut proxies = Self { nodes, server, mode: cluster.proxy.mode, limit: programs.limit() };
        let change = Change { version: 0, time, begin, is_of_rules: true };
        let times = proxies.follow(lab, |_| change)?;
        Ok((proxies, times))
    }

    /// Gives the API server the objects of another state, and waits until all programs have written its rules. Returns what is
    /// installed then.
    pub(crate) fn apply(
        &mut self,
        lab: &mut Lab,
        scenario: &Scenario,
        cluster: &Cluster,
    ) -> Result<(Vec<Document>, Vec<SyncTime>), ProxyError> {
        let (begin, time) = (Instant::now(), since_1970());
        let changed: Vec<bool> = self.nodes.iter_mut().map(|on_node| on_node.expects(cluster)).collect();
        let version = self.server.replace(objects(cluster))?;
        let times = self.follow(lab, |index| Change { version, time, begin, is_of_rules: changed[index] })?;
        let documents = self.documents(scenario, cluster, false)?;
        lab.adopt(&documents);
        Ok((documents, times))
    }

    /// The rules that a node's program has written last, of a family.
    pub(crate) fn rules(&self, node: &str, family: Family) -> Option<&Rules> {
        let on_node = self.nodes.iter().find(|on_node| on_node.node == node)?;
        on_node.rules.get(on_node.families.iter().position(|one| *one == family)?)
    }

    /// The rules of all namespaces: those that the programs have written, and others. At first, other rules of nodes are not there yet.
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

    /// Waits until all programs have followed a change.
    fn follow(&mut self, lab: &Lab, change: impl Fn(usize) -> Change) -> Result<Vec<SyncTime>, ProxyError> {
        let deadline = Instant::now() + self.limit;
        let mut waits: Vec<Option<Wait>> = (0..self.nodes.len()).map(|index| Some(Wait::new(change(index)))).collect();
        let mut times = Vec::new();
        loop {
            for (index, (on_node, waiting)) in self.nodes.iter_mut().zip(&mut waits).enumerate() {
                let Some(wait) = waiting else { continue };
                on_node.is_running()?;
                let client = self.server.clients(index);
                let mode = self.mode;
                match wait.look(&client, on_node.signals(lab)?, || on_node.read(lab, mode))? {
                    Look::NotYet => {}
                    Look::Failing(failures) => {
                        return Err(ProxyError::Failing { whose: on_node.named(), failures });
                    }
                    Look::Synced(time, rules) => {
                        on_node.rules = rules;
                        times.push(SyncTime { node: on_node.node.clone(), time });
                        *waiting = None;
                    }
                }
            }
            let late = waits.iter().zip(&self.nodes).find_map(|(wait, on_node)| Some((wait.as_ref()?, on_node)));
            match late {
                None => return Ok(times),
                Some((wait, on_node)) if Instant::now() > deadline => {
                    {
                        let (whose, missing) = (on_node.named(), wait.missing.clone());
                        return Err(ProxyError::NotSynced { whose, waited: self.limit, missing });
                    };
                }
                Some(_) => thread::sleep(LOOK),
            }
        }
    }
}

impl OnNode {
    fn start(
        lab: &Lab,
        cluster: &Cluster,
        (node, netns): (&Node, NetnsId),
        program: &Program,
        search: &OsString,
    ) -> Result<Self, ProxyError> {
        let files = files(node, cluster, program)?;
        let words = program.words(&files[0], &files[1], node.hostname_override.as_deref().unwrap_or(&node.name));
        let process = Process::start(lab, netns, &words, search).map_err(|error| error.of(program, &node.name))?;
        let mut on_node = Self {
            node: node.name.clone(),
            netns,
            families: Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()).collect(),
            program: program.to_string(),
            has_signals: program.has_signals(),
            process,
            expected: Vec::new(),
            rules: Vec::new(),
        };
        on_node.expects(cluster);
        Ok(on_node)
    }

    /// Whether rules are expected to change with the objects of a cluster.
    fn expects(&mut self, cluster: &Cluster) -> bool {
        let Some(node) = cluster.node(&self.node) else { return false };
        // Rules that the generator rejects are the program's own matter.
        let written = self.families.iter().map(|family| Rules::generate(cluster, node, *family).ok()).collect();
        let before = std::mem::replace(&mut self.expected, written);
        before != self.expected
    }

    fn is_running(&mut self) -> Result<(), ProxyError> {
        match self.process.exited() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(ProxyError::Exited { whose: self.named(), status: status.to_string() }),
            Err(source) => Err(ProxyError::Wait { whose: self.named(), source }),
        }
    }

    /// The program in errors.
    fn named(&self) -> Box<Running> {
        let (program, node, log) = (self.program.clone(), self.node.clone(), self.process.last_lines());
        Box::new(Running { program, node, log })
    }

    fn signals(&self, lab: &Lab) -> Result<Option<io::Result<Signals>>, ProxyError> {
        Ok(if self.has_signals { Some(lab.inside(self.netns, Signals::ask)?) } else { None })
    }

    /// Reads the node's rules of each of its families.
    fn read(&self, lab: &Lab, mode: ProxyMode) -> Result<Vec<Rules>, ProxyError> {
        let read = |family: &Family| {
            let parsed = Rules::parse(mode, *family, &lab.saved(self.netns, mode, *family)?);
            parsed.map(|rules| rules.of_family(*family).at_rest()).map_err(|errors| {
                let ((line, _), message) = errors.first().map(|error| error.in_text()).unwrap_or_default();
                ProxyError::Unreadable { whose: self.named(), line, message }
            })
        };
        self.families.iter().map(read).collect()
    }
}

/// The namespace of a node, if the lab has it.
fn netns_of(lab: &Lab, node: &str) -> Option<NetnsId> {
    lab.topology().namespaces.iter().position(|netns| netns.node_name() == Some(node))
}

/// Writes the kubeconfig and the configuration of a node's program; returns their names.
fn files(node: &Node, cluster: &Cluster, program: &Program) -> Result<[String; 2], ProxyError> {
    let folder = folder(&node.name)?;
    let name = |file: &str| folder.join(file).to_string_lossy().into_owned();
    let names = [name("kubeconfig"), name("config")];
    let version = program.release().unwrap_or(&cluster.proxy.version).to_owned();
    let proxy = ProxyConfig { version, ..cluster.proxy.clone() };
    let contents = [kubeconfig(SERVER), configuration(&proxy, node, &names[0])];
    for (name, content) in names.iter().zip(contents) {
        fs::write(name, content.to_string()).map_err(|source| ProxyError::File { path: name.into(), source })?;
    }
    Ok(names)
}

/// The `PATH` of programs: in its first folder, `iptables` and its relatives are those of the lab's backend.
fn search_path(lab: &Lab) -> Result<OsString, ProxyError> {
    let folder = folder("bin")?;
    for (name, file) in lab.backend().implementations() {
        let path = folder.join(name);
        symlink(file, &path).map_err(|source| ProxyError::File { path, source })?;
    }
    Ok(programs::search_path(&folder))
}

/// Makes a folder for files of programs.
fn folder(name: &str) -> Result<PathBuf, ProxyError> {
    let path = PathBuf::from(FILES).join(name);
    match fs::create_dir_all(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(ProxyError::File { path, source }),
    }
}

fn since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
