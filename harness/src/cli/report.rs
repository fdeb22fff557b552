//! `svclab report`: reports of finished runs.

mod show;

use std::path::{Path, PathBuf};

use super::Exit;
use super::console::Console;
use super::reports::{ReportArgs, Reports};
use svclab::input::{FILE_BYTES, read_argument};
use svclab::report::Status;
use svclab::results::{Results, merge, summary};
use svclab::text::{json, printable, reason};

/// Merge or print the results of finished runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Merge(MergeArgs),
    Show(show::Args),
}

/// Merge the reports of all shards of a run. Fails if a shard is missing, or if their versions differ; the exit code is otherwise
/// that of the whole run.
#[derive(Debug, clap::Args)]
struct MergeArgs {
    /// Files written by `--report json=FILE`, one for each shard; or a single file of a whole run.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Merge reports from machines with different kernels, iptables or nft; the merged report names those of the first shard.
    #[arg(long)]
    allow_mixed: bool,
    #[command(flatten)]
    reports: ReportArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    match &args.command {
        Command::Merge(args) => merge_all(args, console).unwrap_or_else(|exit| exit),
        Command::Show(args) => show::run(args, console).unwrap_or_else(|exit| exit),
    }
}

fn merge_all(args: &MergeArgs, console: &Console) -> Result<Exit, Exit> {
    let read = |file: &PathBuf| {
        let text = read_argument(file).map_err(|error| complain(file, &reason(&error), console))?;
        Ok((printable(file).to_string(), text))
    };
    let texts = args.files.iter().map(read).collect::<Result<Vec<_>, Exit>>()?;
    let reports = Reports::open(&args.reports.report, args.files.iter().map(PathBuf::as_path), console)?;
    let merged = merge(&texts, args.allow_mixed).map_err(|error| {
        console.complain(format!("{error}\nhelp: {}", error.help()));
        Exit::Input
    })?;
    console.line(summary::line(&merged.results));
    let text = json(&merged.json).map_err(|error| {
        console.complain(error);
        Exit::Internal
    })?;
    let written = reports.write_all(&text, &merged.results, console);
    Ok(exit(&merged.results).with_reports(written))
}

/// Returns the exit code of the whole run.
fn exit(results: &Results) -> Exit {
    let problems = results
        .suites
        .iter()
        .flat_map(|suite| suite.error.iter().chain(suite.cases.iter().filter_map(|case| case.error.as_ref())));
    let most_severe = problems.map(|problem| match problem.cause.as_str() {
        "internal" => Exit::Internal,
        "environment" => Exit::Environment,
        _ => Exit::Input,
    });
    match (results.status(), most_severe.max_by_key(|exit| exit.code())) {
        (Status::Ok, _) => Exit::Held,
        (Status::Failed, _) => Exit::Failed,
        (_, exit) => exit.unwrap_or(Exit::Input),
    }
}

fn complain(file: &Path, why: &str, console: &Console) -> Exit {
    console.complain(format!(
        "{}: cannot read the file: {why}\nhelp: Pass readable files of at most {} MiB.",
        printable(file),
        FILE_BYTES >> 20
    ));
    Exit::Input
}
