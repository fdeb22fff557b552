//! `svclab dump import`: a scenario out of what was sent.

use std::path::PathBuf;

use super::evidence;
use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use svclab::infer::{NodeFile, from_evidence, tests};
use svclab::scenario::print;
use svclab::text::{one_line, printable};

/// Make a self-contained scenario of what was sent: nodes with their own rules, Services, endpoints, pods, and a test of each
/// service port.
///
/// What the input does not say is assumed, and written at the top of the scenario and on standard error. `svclab run` then shows which traffic is
/// broken, and `svclab explain` by which rule.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files, folders or archives (tar, tar.gz, zip); `-` for standard input.
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The scenario that is written; `-` for standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The node that rules in a file, or in a folder of files, come from; repeat it for several.
    #[arg(long, value_name = "NAME=FILE")]
    node: Vec<NodeFile>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let (path, evidence) = evidence(&args.inputs)?;
    if evidence.pieces.is_empty() {
        return Err(super::unrecognised());
    }
    let assumed = from_evidence(&evidence, &path, &args.node)?;
    let (tests, left_out) = tests(&assumed.scenario, &assumed.nodes);
    let mut comments = vec![format!("Made by `svclab dump import` of {}.", printable(&path))];
    comments.extend(assumed.assumptions.iter().map(|words| format!("assumed: {words}")));
    if left_out > 0 {
        comments
            .push(format!("{left_out} more tests of service ports are left out; `svclab verify` asks all questions"));
    }
    for words in assumed.assumptions.iter().filter(|_| !console.quiet) {
        console.complain(format!("{}: assumed: {}", printable(&path), one_line(words)));
    }
    let text = print(&assumed.scenario, &comments, &tests);
    super::write(&args.output, &text, console)?;
    Ok(Exit::Held)
}
