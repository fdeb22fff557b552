//! Errors of programs under test.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use svclab_rules::cluster::ProxyMode;
use svclab_rules::ruleset::Unsupported;

use crate::apiserver::ApiError;
use crate::lab::LabError;
use crate::text::{duration, printable, reason};

/// The error of a program that cannot be run on nodes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The kernel cannot execute it.
    #[error("{} cannot be executed: {}", printable(file), reason(source))]
    NotExecutable {
        /// The file.
        file: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// It does not print its release.
    #[error("{} --version: {why}", printable(file))]
    NoRelease {
        /// The file.
        file: PathBuf,
        /// How it failed.
        why: String,
    },
    /// It did not print its release in time.
    #[error("{} --version did not exit within {}", printable(file), duration(*limit))]
    Slow {
        /// The file.
        file: PathBuf,
        /// The time that it had.
        limit: Duration,
    },
    /// It prints an unknown release, or something else.
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
    /// A word in braces that is not a placeholder.
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
            Self::UnknownPlaceholder(_) => "Use {kubeconfig}, {config} and {node}.",
            Self::NoCommand => "Write the program and its arguments: `prog {kubeconfig} {config} {node}`.",
        }
    }
}

/// The reason why a program cannot be used for a scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotApplicable {
    /// The scenario is for another release.
    #[error("the scenario is for kube-proxy {wanted}, but the program is {release}")]
    Release {
        /// The scenario's release.
        wanted: String,
        /// The program's.
        release: String,
    },
    /// The release does not have this mode, or svclab does not model it.
    #[error("svclab does not model {mode} mode for kube-proxy {release}")]
    Mode {
        /// The scenario's mode.
        mode: ProxyMode,
        /// The program's release.
        release: String,
    },
    /// The scenario provides a node's rules itself.
    #[error("the rules of node {0} are the scenario's own (`install: instead`)")]
    OwnRules(String),
    /// The scenario adds rules to a chain that a program rewrites when objects change.
    #[error("the scenario adds rules to {0}, but the program rewrites this chain when objects change")]
    OwnChain(String),
    /// A node's configuration changes, but a running program does not reload it.
    #[error("the scenario changes `hostnameOverride` of node {0}, which the program reads only at startup")]
    Reconfigured(String),
    /// The scenario determines which connections are deleted.
    #[error("the scenario sets `conntrack.cleanup`, but the program decides which connections to delete")]
    Cleanup,
    /// A node has no program.
    #[error("there is no program for node {node}: {}", missing(name.as_deref()))]
    NoProgram {
        /// The node.
        node: String,
        /// The name of its program in the scenario.
        name: Option<String>,
    },
}

impl NotApplicable {
    /// The fix, as a sentence.
    pub fn help(&self) -> String {
        match self {
            Self::Release { wanted, .. } => {
                format!(
                    "Name a kube-proxy {wanted}, or remove `version` if the scenario also applies to other releases."
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
    /// The rules cannot be combined.
    #[error(transparent)]
    Documents(#[from] Unsupported),
    /// The scenario cannot be run with the programs.
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
    /// Its exit status cannot be determined.
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
    /// It repeatedly fails to install its rules.
    #[error("{program} failed to install its rules {failures} times{}", program.log())]
    Failing {
        /// The program.
        program: Box<Running>,
        /// The number of failures.
        failures: u64,
    },
    /// It did not write the rules for the newest objects in time.
    #[error("{program} is not synced after {}: {missing}{}", duration(*waited), program.log())]
    NotSynced {
        /// The program.
        program: Box<Running>,
        /// The time that it had.
        waited: Duration,
        /// What is missing, in words.
        missing: String,
    },
    /// Its rules cannot be parsed.
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

/// A program that runs or ran on a node.
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
    /// The end of its log, as the end of a message.
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
            Self::Exited { .. } => "`svclab rules SCENARIO` prints the expected rules.",
            Self::Failing { .. } => "iptables or nft rejects its rules: see their messages in its log.",
            Self::NotSynced { .. } => {
                "Give it more time with --sync-timeout, which --timeout limits, or run fewer labs in parallel (`--jobs`)."
            }
            Self::Unreadable { .. } => "This is a bug in svclab: please report it with the rules.",
        }
    }
}

/// The reason why a node has no program, given the program's name in the scenario.
fn missing(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("no --kube-proxy or --proxy-command has the name `{name}`"),
        None => "the scenario names none, and all programs on the command line have names".to_owned(),
    }
}
