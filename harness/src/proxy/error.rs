//! What can go wrong with a program under test.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use svclab_rules::cluster::ProxyMode;
use svclab_rules::ruleset::Unsupported;

use crate::apiserver::ApiError;
use crate::lab::LabError;
use crate::text::{duration, printable, reason};

/// A program that cannot be put on nodes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The kernel does not execute it.
    #[error("{} cannot be executed: {}", printable(file), reason(source))]
    NotExecutable {
        /// The file.
        file: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// It does not say which release it is.
    #[error("{} --version: {why}", printable(file))]
    NoRelease {
        /// The file.
        file: PathBuf,
        /// How it failed.
        why: String,
    },
    /// It has not printed its release in time.
    #[error("{} --version did not exit within {}", printable(file), duration(*limit))]
    Slow {
        /// The file.
        file: PathBuf,
        /// The time that it had.
        limit: Duration,
    },
    /// It prints a release that is unknown, or something else.
    #[error("{} --version prints no known release of kube-proxy: {said}", printable(file))]
    UnknownRelease {
        /// The file.
        file: PathBuf,
        /// The first line that it prints.
        said: String,
    },
    /// A command line without a program.
    #[error("the command line has no program")]
    NoCommand,
    /// A word in braces that stands for nothing.
    #[error("`{0}` is not a placeholder")]
    UnknownPlaceholder(String),
}

impl ProgramError {
    /// The fix, as a sentence.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NotExecutable { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    "Name an executable file; a script also needs the interpreter of its first line."
                }
                io::ErrorKind::PermissionDenied => "Make the file executable: `chmod +x PATH`.",
                io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => "Name the program's file.",
                _ => "Name an executable file for this machine's architecture: `file PATH` and `uname -m` print both.",
            },
            Self::Slow { .. } => {
                "Give it more time with --sync-timeout; for a program other than kube-proxy, use --proxy-command."
            }
            Self::NoRelease { .. } | Self::UnknownRelease { .. } => {
                "Name a kube-proxy of a known release; for another program, use --proxy-command."
            }
            Self::UnknownPlaceholder(_) => "There are {kubeconfig}, {config} and {node}.",
            Self::NoCommand => "Write the program and its arguments: `prog {kubeconfig} {config} {node}`.",
        }
    }
}

/// Why a scenario's rules cannot be those of a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotApplicable {
    /// It is about another release.
    #[error("the scenario is for kube-proxy {wanted}, and the program is {release}")]
    Release {
        /// The scenario's release.
        wanted: String,
        /// The program's.
        release: String,
    },
    /// The release has no such mode, or none that is modelled.
    #[error("svclab does not model {mode} mode for kube-proxy {release}")]
    Mode {
        /// The scenario's mode.
        mode: ProxyMode,
        /// The program's release.
        release: String,
    },
    /// A node's rules are the scenario's own.
    #[error("the rules of node {0} are the scenario's own (`install: instead`)")]
    OwnRules(String),
    /// Other rules are in a chain that a program writes anew when objects change.
    #[error("the scenario adds rules to {0}, and the program rewrites this chain when objects change")]
    OwnChain(String),
    /// A node's configuration changes, which a running program does not read again.
    #[error("the scenario changes `hostnameOverride` of node {0}, which the program reads only at startup")]
    Reconfigured(String),
    /// The scenario decides which connections are deleted.
    #[error("the scenario sets `conntrack.cleanup`, which the program decides")]
    Cleanup,
    /// A node has no program.
    #[error("there is no program for node {node}: {}", missing(name.as_deref()))]
    NoProgram {
        /// The node.
        node: String,
        /// The name that the scenario has for it.
        name: Option<String>,
    },
}

impl NotApplicable {
    /// The fix, as a sentence.
    pub fn help(&self) -> String {
        match self {
            Self::Release { wanted, .. } => {
                format!(
                    "Name a kube-proxy {wanted}, or remove `version` from a scenario that is true of other releases."
                )
            }
            Self::Mode { .. } => "Name a newer kube-proxy, or set `mode: iptables` in the scenario.".to_owned(),
            Self::OwnRules(_) | Self::OwnChain(_) | Self::Reconfigured(_) | Self::Cleanup => {
                "Run it without --kube-proxy and --proxy-command.".to_owned()
            }
            Self::NoProgram { name: Some(name), .. } => format!("Add --kube-proxy {name}=PATH."),
            Self::NoProgram { name: None, .. } => {
                "Add --kube-proxy PATH, without a name, for nodes whose scenario names no program.".to_owned()
            }
        }
    }
}

/// A failure of a program on a node of a lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ProxyError {
    /// The lab failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Rules cannot be put together.
    #[error(transparent)]
    Documents(#[from] Unsupported),
    /// A scenario is not for the programs.
    #[error(transparent)]
    NotApplicable(#[from] NotApplicable),
    /// The API server failed.
    #[error("the API server of the lab: {0}")]
    Api(#[from] ApiError),
    /// It could not be started.
    #[error("starting {program} on node {node}: {}", reason(source))]
    Start {
        /// The program.
        program: String,
        /// The node.
        node: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A file for the programs could not be written.
    #[error("writing {}: {}", printable(path), reason(source))]
    File {
        /// The file, folder or link.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The kernel does not say whether it has exited.
    #[error("waiting for {program}: {}{}", reason(source), program.log())]
    Wait {
        /// The program.
        program: Box<Running>,
        /// The kernel's reason.
        source: io::Error,
    },
    /// It has exited.
    #[error("{program} {how}{}", program.log())]
    Exited {
        /// The program.
        program: Box<Running>,
        /// How: `exited with exit status: 1`.
        how: String,
    },
    /// It fails to install its rules, again and again.
    #[error("{program} failed to install its rules {failures} times{}", program.log())]
    Failing {
        /// The program.
        program: Box<Running>,
        /// How often.
        failures: u64,
    },
    /// It has not written the rules of the newest objects in time.
    #[error("{program} is not synced after {}: {missing}{}", duration(*waited), program.log())]
    NotSynced {
        /// The program.
        program: Box<Running>,
        /// The time that it had.
        waited: Duration,
        /// The signal that is missing.
        missing: String,
    },
    /// Its rules cannot be read.
    #[error("reading the rules of {program}: line {line}: {message}")]
    Unreadable {
        /// The program.
        program: Box<Running>,
        /// The line of the listing.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

/// A program that runs on a node, or has run there.
#[derive(Debug)]
pub(crate) struct Running {
    /// The program in words.
    pub(super) program: String,
    /// The node.
    pub(super) node: String,
    /// The end of its log.
    pub(super) log: String,
}

impl fmt::Display for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on node {}", self.program, self.node)
    }
}

impl Running {
    /// The end of its log, as messages end with it.
    fn log(&self) -> String {
        match self.log.as_str() {
            "" => "; it printed nothing".to_owned(),
            log => format!("; the end of its log:\n{log}"),
        }
    }
}

impl ProxyError {
    /// The fix, as a sentence.
    pub(crate) fn help(&self) -> &'static str {
        match self {
            Self::Lab(error) => error.help(),
            Self::Api(_) => "This is a bug in svclab: please report it with the scenario.",
            Self::Documents(_) | Self::NotApplicable(_) => "Choose another program with --kube-proxy.",
            Self::Start { .. } | Self::File { .. } | Self::Wait { .. } => {
                "Run `svclab doctor` to see what the environment lacks."
            }
            Self::Exited { .. } => "`svclab rules SCENARIO` prints the rules that were expected of it.",
            Self::Failing { .. } => "iptables or nft rejects what it writes: its log has their messages.",
            Self::NotSynced { .. } => {
                "Give it more time with --sync-timeout, which --timeout limits, or run fewer labs in parallel (`--jobs`)."
            }
            Self::Unreadable { .. } => "This is a bug in svclab: please report it with the rules.",
        }
    }
}

/// Why a node has no program, of the name that the scenario has for it.
fn missing(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("the command line has none with the name `{name}`"),
        None => "the scenario names none, and all programs of the command line have names".to_owned(),
    }
}
