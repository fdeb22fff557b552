//! Shared parts of commands that build labs: options, privileges, exit codes.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;

use super::console::Console;
use super::format::Format;
use super::inputs::{InputArgs, load_all};
use super::numbers::count;
use super::reports::{ReportArgs, Reports};
use super::{Exit, interrupt};
use svclab::Backend;
use svclab::infer::Connections;
use svclab::report::{Cause, Trouble};
use svclab::scenario::Scenario;
use svclab::testing::become_privileged;
use svclab::verify;
use svclab::worker::WorkerLocation;

/// Options of commands that build a lab for each scenario.
#[derive(Debug, clap::Args)]
pub(super) struct LabArgs {
    /// Run N labs at the same time [default: one per CPU]
    #[arg(short, long, value_name = "N", value_parser = count)]
    pub(super) jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(super) backend: BackendArgs,
}

/// Options of commands that install rules.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct BackendArgs {
    /// The iptables implementation that installs rules in labs.
    #[arg(long, value_enum, default_value = "system")]
    backend: BackendName,
}

impl From<BackendArgs> for Backend {
    fn from(args: BackendArgs) -> Self {
        args.backend.into()
    }
}

/// Options of commands that examine all classes of packets.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct ClassArgs {
    /// Examine at most N classes of packets, to limit time and memory. If there are more, the result is a failure.
    #[arg(long, value_name = "N", default_value_t = verify::MAX_CLASSES, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_classes: u32,
}

/// Options of commands that examine whole scenarios, or inputs made into scenarios.
#[derive(Debug, clap::Args)]
pub(super) struct SubjectArgs {
    /// Scenario files or folders of them, files with Kubernetes objects, or dumps: rules of a node, an issue, a folder or an archive.
    /// Only the initial state of the cluster is examined.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    pub(super) labs: LabArgs,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    pub(super) format: Format,
    #[command(flatten)]
    reports: ReportArgs,
}

impl SubjectArgs {
    /// Reads the inputs, and opens the reports, which must not overwrite any input.
    pub(super) fn open(&self, connections: Connections, console: &Console) -> Result<(Vec<Scenario>, Reports), Exit> {
        let scenarios = load_all(&self.paths, self.inputs.reach(), connections, console)?;
        let reports = Reports::of(&self.reports, &scenarios, console)?;
        Ok((scenarios, reports))
    }

    /// Returns whether reports are written.
    pub(super) fn is_reported(&self) -> bool {
        self.reports.is_asked()
    }

    /// Returns the iptables implementation that installs rules.
    pub(super) fn backend(&self) -> Backend {
        self.labs.backend.into()
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum BackendName {
    /// The implementation behind the system's `iptables-restore`.
    System,
    /// iptables-nft.
    Nft,
    /// iptables-legacy.
    Legacy,
}

impl From<BackendName> for Backend {
    fn from(name: BackendName) -> Self {
        match name {
            BackendName::System => Self::System,
            BackendName::Nft => Self::Nft,
            BackendName::Legacy => Self::Legacy,
        }
    }
}

/// The executable of this process, even if its file has been replaced since.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Returns the default place of labs: processes of this program.
pub(super) fn own_processes() -> WorkerLocation {
    WorkerLocation::Process(PathBuf::from(OWN_PROGRAM))
}

/// Prepares for labs: acquires privileges, and makes Ctrl-C end the process with all labs. Must be called while there is only one thread,
/// because only then a user namespace can be entered. Reports what is missing.
pub(super) fn prepare(console: &Console) -> Result<(), Exit> {
    become_privileged().map_err(|failed| report_failure(&failed, console))?;
    wait_for_signals(console)
}

/// Makes Ctrl-C end the process with everything that it started. Must be called while there is only one thread.
pub(super) fn wait_for_signals(console: &Console) -> Result<(), Exit> {
    interrupt::exit_on_signals().map_err(|failed| report_failure(&failed, console))
}

/// Reports why a packet could not be sent or explained.
pub(super) fn report_failure(trouble: &Trouble, console: &Console) -> Exit {
    console.complain(trouble);
    trouble.cause.into()
}

/// Returns the exit code of a command: by the most severe error, else by whether everything held.
pub(super) fn end<'a>(troubles: impl Iterator<Item = &'a Trouble>, all_held: bool) -> Exit {
    match troubles.map(|trouble| trouble.cause).max() {
        Some(cause) => cause.into(),
        None if all_held => Exit::Held,
        None => Exit::Failed,
    }
}

impl From<Cause> for Exit {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Input => Self::Input,
            Cause::Environment => Self::Environment,
            _ => Self::Internal,
        }
    }
}
