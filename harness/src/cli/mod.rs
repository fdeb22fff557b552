//! The command line: one file a subcommand.

mod ad_hoc;
mod cascade;
mod check;
mod closed_stdout;
mod complete;
mod completions;
mod console;
mod diagnostics;
mod diff;
mod doctor;
mod dump;
mod duration;
mod explain;
mod failure;
mod format;
mod graph;
mod inputs;
mod interrupt;
mod kernels;
mod lab_args;
mod man;
mod matrix;
mod mutate;
mod new;
mod numbers;
mod progress;
mod proxies;
mod release;
mod report;
mod reports;
mod retry_args;
mod rules;
mod run;
mod schema;
mod selection_args;
mod settings;
mod shard;
mod shell;
mod terminal;
mod verify;
mod watch;
mod worker;

use std::io::{self, IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;
use nix::sys::signal::{SigSet, Signal};

pub(crate) use closed_stdout::check_standard_output;
use console::{Console, OutputArgs, has_colours};
use svclab::input::{self, Found};
use svclab::input::{Diagnostics, Reach};
use svclab::scenario::{self, Note, Scenario, Tests};
use svclab::text::{harmless, reason};

/// The exit code of a command. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything held.
    Held,
    /// An expectation failed.
    Failed,
    /// The input is invalid: usage, scenario, rules.
    Input,
    /// The environment lacks something, or the output could not be written.
    Environment,
    /// svclab itself failed.
    Internal,
    /// Standard output was closed early: 128 and the number of SIGPIPE, as shells count it.
    Unread,
    /// The exit code of a program in a lab.
    Program(u8),
}

impl Exit {
    /// Returns the number.
    const fn code(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Failed => 1,
            Self::Input => 2,
            Self::Environment => 3,
            Self::Internal => 4,
            Self::Unread => 141,
            Self::Program(code) => code,
        }
    }

    /// Returns the exit code of a run; if everything held, that of reports that could not be written.
    fn with_reports(self, written: Result<(), Self>) -> Self {
        match self {
            Self::Held => written.err().unwrap_or(Self::Held),
            exit => exit,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Test Kubernetes Service traffic on a real kernel: kube-proxy's rules in network namespaces, without a cluster.
#[derive(Debug, Parser)]
#[command(name = "svclab", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    a test failed (run, report), sources disagree (verify, explain --live), a mutant
       survived (mutate), rules differ (rules --diff), traffic changes (diff), shares have
       a defect or are unknown (cascade), a finding (dump lint), no failure to keep
       (dump minimize), or a result that parses or behaves differently (dump anonymize)
  2    invalid input: usage, scenario, rules, reports that cannot be merged, or a filter
       that selects no test
  3    the environment lacks something (see `svclab doctor`), a test exceeded `--timeout`,
       a lab process was killed or did not respond, or output cannot be written
  4    internal error, or flow counts that disagree with the counters of the rules
  130  interrupted by SIGINT
  141  success, but standard output was closed early
  143  interrupted by SIGTERM";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Shell(shell::Args),
    Attach(shell::AttachArgs),
    Exec(shell::ExecArgs),
    Verify(verify::Args),
    Mutate(mutate::Args),
    New(new::Args),
    Check(check::Args),
    Explain(explain::Args),
    Graph(graph::Args),
    Diff(diff::Args),
    Rules(rules::Args),
    Cascade(cascade::Args),
    Dump(dump::Args),
    Doctor(doctor::Args),
    Report(report::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[command(hide = true)]
    Worker(worker::Args),
}

/// A scenario file with its scenario or its errors.
type Read = (PathBuf, Result<Scenario, Diagnostics>);

/// Reads all scenarios in files and folders; there is at least one. Also returns the folders that were skipped.
fn read(paths: &[PathBuf], reach: Reach, tests: Tests, console: &Console) -> Result<(Vec<Read>, Vec<PathBuf>), Exit> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| named(path)).collect();
    let Found { files, left_out } = input::find(&paths).map_err(|error| {
        console.complain(error);
        Exit::Input
    })?;
    if files.is_empty() {
        console.complain("no scenario found: a scenario is a *.yaml or *.yml file that is not a Kubernetes object");
        return Err(Exit::Input);
    }
    let load = |file: PathBuf| {
        let result = scenario::load_within(&file, reach, tests);
        (file, result)
    };
    Ok((files.into_iter().map(load).collect(), left_out))
}

/// Loads all scenarios in files and folders; if any has an error, prints the errors of all, and nothing is run.
fn load(paths: &[PathBuf], reach: Reach, tests: Tests, console: &Console) -> Result<Vec<Scenario>, Exit> {
    let (read, _) = read(paths, reach, tests, console)?;
    let (sound, broken): (Vec<_>, Vec<_>) = read.into_iter().map(|(_, result)| result).partition(Result::is_ok);
    broken
        .iter()
        .filter_map(|result| result.as_ref().err())
        .for_each(|diagnostics| diagnostics::show(diagnostics, console));
    if !broken.is_empty() {
        return Err(Exit::Input);
    }
    let scenarios: Vec<Scenario> = sound.into_iter().flatten().collect();
    scenarios.iter().for_each(|scenario| warn(&scenario.notes, console));
    Ok(scenarios)
}

/// Warns about probable mistakes in an input.
fn warn(notes: &[Note], console: &Console) {
    for note in notes.iter().filter(|note| note.is_warning && !console.quiet) {
        console.complain(format!("{}: warning: {}", note.span, note.message));
    }
}

/// Returns a path to search for scenarios: for `-`, the file that stands for standard input.
fn named(path: &Path) -> PathBuf {
    PathBuf::from(if path.as_os_str() == "-" { Path::new("/dev/stdin") } else { path })
}

/// Returns the text of a file, or of standard input for `-`, and its name in messages.
fn text_of(path: &Path) -> (PathBuf, io::Result<String>) {
    if path.as_os_str() == "-" {
        return (PathBuf::from(input::STANDARD_INPUT), input::read_limited(io::stdin().lock()));
    }
    (path.to_owned(), input::read_argument(path))
}

/// Runs the command of the process's command line.
pub(crate) fn main() -> ExitCode {
    // Exceeding the file size limit (`ulimit -f`) is an error like any other, not a reason to exit without a message.
    let _ = SigSet::from(Signal::SIGXFSZ).thread_block();
    // A shell that requests completions runs no command.
    let asked = CompleteEnv::with_factory(Cli::command).var(complete::VARIABLE);
    match asked.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(false) => {}
        Ok(true) => return Exit::Held.into(),
        Err(error) => return show_usage(&error).into(),
    }
    let cli = match command_line() {
        Ok(cli) => cli,
        Err(exit) => return exit.into(),
    };
    let console = Console::new(&cli.output);
    let carried_out = catch_unwind(AssertUnwindSafe(|| carry_out(&cli.command, &console)));
    written(carried_out.unwrap_or(Exit::Internal), console.finish()).into()
}

/// Parses the command line, with defaults from the environment and from the repository's file.
fn command_line() -> Result<Cli, Exit> {
    let mut command = settings::with_defaults(Cli::command()).map_err(|failure| {
        // The output options are not known yet.
        let _ = writeln!(io::stderr(), "{}", harmless(&failure.to_string(), false));
        Exit::Input
    })?;
    let matches = command.try_get_matches_from_mut(std::env::args_os()).map_err(|error| show_usage(&error))?;
    Cli::from_arg_matches(&matches).map_err(|error| show_usage(&error.format(&mut command)))
}

fn carry_out(command: &Command, console: &Console) -> Exit {
    match command {
        Command::Run(args) => run::run(args, console),
        Command::Shell(args) => shell::run(args, console),
        Command::Attach(args) => shell::attach(args, console),
        Command::Exec(args) => shell::exec(args, console),
        Command::Verify(args) => verify::run(args, console),
        Command::Mutate(args) => mutate::run(args, console),
        Command::New(args) => new::run(args, console),
        Command::Check(args) => check::run(args, console),
        Command::Explain(args) => explain::run(args, console),
        Command::Graph(args) => graph::run(args, console),
        Command::Diff(args) => diff::run(args, console),
        Command::Rules(args) => rules::run(args, console),
        Command::Cascade(args) => cascade::run(args, console),
        Command::Dump(args) => dump::run(args, console),
        Command::Doctor(args) => doctor::run(args, console),
        Command::Report(args) => report::run(args, console),
        Command::Schema(args) => schema::run(args, console),
        Command::Completions(args) => completions::run(args, console),
        Command::Man(args) => man::run(args, console),
        Command::Worker(args) => worker::run(args, console),
    }
}

/// Prints help, the version, or the error in the command line.
fn show_usage(error: &clap::Error) -> Exit {
    let rendered = error.render();
    // Arguments may be untrusted file names.
    let of = |is_terminal: bool| {
        let colours = has_colours(is_terminal);
        harmless(&if colours { rendered.ansi().to_string() } else { rendered.to_string() }, colours)
    };
    let shown = if error.use_stderr() {
        io::stderr().lock().write_all(of(io::stderr().is_terminal()).as_bytes())
    } else {
        let mut stdout = io::stdout().lock();
        closed_stdout::checked(
            stdout.write_all(of(io::stdout().is_terminal()).as_bytes()).and_then(|()| stdout.flush()),
        )
    };
    if error.use_stderr() { Exit::Input } else { written(Exit::Held, shown) }
}

/// Returns the exit code of a command whose output may not have been written; a more severe exit code takes precedence.
fn written(exit: Exit, written: io::Result<()>) -> Exit {
    match written {
        Err(error) if exit == Exit::Held && error.kind() == io::ErrorKind::BrokenPipe => Exit::Unread,
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "standard output cannot be written: {}", reason(&error));
            if exit == Exit::Held { Exit::Environment } else { exit }
        }
        _ => exit,
    }
}
