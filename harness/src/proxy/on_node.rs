//! The program of one node: its files, its process, and the rules that it writes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use svclab_rules::cluster::{Cluster, Family, Node, ProxyConfig, ProxyMode};
use svclab_rules::ruleset::Rules;

use super::configuration::{SERVER, configuration, kubeconfig};
use super::error::{ProxyError, Running};
use super::process::Process;
use super::program::{Files, Program};
use super::signals::Signals;
use crate::apiserver::ClientActivity;
use crate::lab::{Lab, programs};
use crate::topology::NetnsId;

/// The folder for files of programs, in the lab's own `/run`.
const FILES: &str = "/run/svclab";

/// The program of a node.
pub(super) struct OnNode {
    pub(super) node: String,
    pub(super) families: Vec<Family>,
    netns: NetnsId,
    program: Program,
    /// `None` while it is stopped.
    pub(super) process: Option<Process>,
    /// The API requests of earlier processes of this node.
    pub(super) before: ClientActivity,
    /// Its signals after it had followed the last change.
    pub(super) settled: Signals,
    /// The generated rules for this node, which show whether a change of objects changes rules.
    expected: Vec<Option<Rules>>,
    /// The rules that were read last, by family.
    pub(super) rules: Vec<Rules>,
}

impl OnNode {
    /// A program that is not running yet.
    pub(super) fn new(node: &Node, netns: NetnsId, program: Program) -> Self {
        Self {
            node: node.name.clone(),
            netns,
            families: Family::ALL.into_iter().filter(|family| node.internal_ip(*family).is_some()).collect(),
            program,
            process: None,
            before: ClientActivity::default(),
            settled: Signals::default(),
            expected: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// Starts the program; `search` is its `PATH`.
    pub(super) fn start(&mut self, lab: &Lab, cluster: &Cluster, search: &OsStr) -> Result<(), ProxyError> {
        let Some(node) = cluster.node(&self.node) else { return Ok(()) };
        let words = self.program.words(&files(node, cluster)?);
        let process = Process::start(lab, self.netns, &words, search);
        self.settled = Signals::default();
        self.process = Some(process.map_err(|error| error.of(&self.program, &node.name))?);
        self.expects(cluster);
        Ok(())
    }

    /// Whether rules are expected to change with the objects of a cluster.
    pub(super) fn expects(&mut self, cluster: &Cluster) -> bool {
        let Some(node) = cluster.node(&self.node) else { return false };
        // Rules that the generator does not support are left to the program.
        let written = self.families.iter().map(|family| Rules::generate(cluster, node, *family).ok()).collect();
        let before = std::mem::replace(&mut self.expected, written);
        before != self.expected
    }

    /// Fails if the program has exited.
    pub(super) fn is_running(&mut self) -> Result<(), ProxyError> {
        match self.process.as_mut().map_or(Ok(None), Process::exited) {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(ProxyError::Exited { program: self.named(), how: status.to_string() }),
            Err(source) => Err(ProxyError::Wait { program: self.named(), source }),
        }
    }

    /// The program, as errors name it.
    pub(super) fn named(&self) -> Box<Running> {
        let log = self.process.as_ref().map(Process::last_lines).unwrap_or_default();
        let (program, node) = (self.program.to_string(), self.node.clone());
        Box::new(Running { program, node, log })
    }

    /// The program's signals, if it has any.
    pub(super) fn signals(&self, lab: &Lab) -> Result<Option<io::Result<Signals>>, ProxyError> {
        Ok(if self.program.has_signals() { Some(lab.inside(self.netns, Signals::ask)?) } else { None })
    }

    /// Reads the node's rules of each of its families.
    pub(super) fn read(&self, lab: &Lab, mode: ProxyMode) -> Result<Vec<Rules>, ProxyError> {
        let read = |family: &Family| {
            let parsed = Rules::parse(mode, *family, &lab.saved(self.netns, mode, *family)?);
            parsed.map(|rules| rules.for_family(*family).without_runtime_state()).map_err(|errors| {
                let ((line, _), message) = errors.first().map(|error| error.in_text()).unwrap_or_default();
                ProxyError::Unreadable { program: self.named(), line, message }
            })
        };
        self.families.iter().map(read).collect()
    }
}

/// Writes the kubeconfig and the configuration of a node's program.
fn files(node: &Node, cluster: &Cluster) -> Result<Files, ProxyError> {
    let folder = folder(&node.name)?;
    let name = |file: &str| folder.join(file).to_string_lossy().into_owned();
    let files = Files {
        kubeconfig: name("kubeconfig"),
        configuration: name("config"),
        node: node.hostname_override.as_ref().unwrap_or(&node.name).clone(),
    };
    let version = cluster.release_on(node).to_owned();
    let proxy = ProxyConfig { version, ..cluster.proxy.clone() };
    let contents = [
        (&files.kubeconfig, kubeconfig(SERVER)),
        (&files.configuration, configuration(&proxy, node, &files.kubeconfig)),
    ];
    for (name, content) in contents {
        fs::write(name, content.to_string()).map_err(|source| ProxyError::File { path: name.into(), source })?;
    }
    Ok(files)
}

/// The `PATH` of programs: the first folder has the iptables programs of the lab's backend.
pub(super) fn search_path(lab: &Lab) -> Result<OsString, ProxyError> {
    let folder = folder("bin")?;
    for (name, file) in lab.backend().implementations() {
        let path = folder.join(name);
        symlink(file, &path).map_err(|source| ProxyError::File { path, source })?;
    }
    Ok(programs::search_path(&folder))
}

/// Creates a folder for files of programs.
fn folder(name: &str) -> Result<PathBuf, ProxyError> {
    let path = PathBuf::from(FILES).join(name);
    match fs::create_dir_all(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(ProxyError::File { path, source }),
    }
}
