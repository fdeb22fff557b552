//! `svclab dump import`: a scenario from a dump.

use std::path::PathBuf;

use super::evidence;
use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::inputs::ConnectionArgs;
use svclab::evidence::is_archive;
use svclab::infer::{NodeFile, from_evidence, tests};
use svclab::scenario::print;
use svclab::text::{one_line, printable};

/// Create a self-contained scenario from a dump: nodes with their own rules, Services, endpoints, pods, and a test of each
/// service port.
///
/// Missing information is assumed; assumptions are listed at the top of the scenario and on standard error. `svclab verify` then
/// lists all broken traffic, `svclab run` runs the tests, and `svclab explain` shows the rule at fault.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files, folders or archives (tar, tar.gz, zip); `-` for standard input [default: the files of --node]
    #[arg(required_unless_present = "node", value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// The scenario to write; `-` for standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The node that rules in a file, or in a folder of files, come from; repeat it for several. For a single input, NAME is enough.
    #[arg(long, value_name = "NAME[=FILE]")]
    node: Vec<NodeFile>,
    #[command(flatten)]
    connections: ConnectionArgs,
}

/// Returns the inputs, and the files of nodes that are not among them.
fn inputs(args: &Args) -> Result<Vec<PathBuf>, Failure> {
    let mut inputs = args.inputs.clone();
    let named = args.node.iter().filter(|node| !node.file.is_empty()).map(|node| PathBuf::from(&node.file));
    // A file in a given folder or archive is already included.
    let is_there = |file: &PathBuf, inputs: &[PathBuf]| {
        inputs.iter().any(|input| input == file || input.is_dir() || is_archive(input))
    };
    for file in named {
        if !is_there(&file, &inputs) && file.exists() {
            inputs.push(file);
        }
    }
    let is_unclear = args.node.iter().any(|node| node.file.is_empty()) && (inputs.len() != 1 || args.node.len() > 1);
    if is_unclear {
        let help = "Write `--node NAME=FILE` for each file of rules.";
        return Err(Failure::new("`--node NAME` without a file is for one input with the rules of one node", help));
    }
    Ok(inputs)
}

/// Returns the node of a file, with the file's name filled in for a single input.
fn node_of_input(node: &NodeFile, inputs: &[PathBuf]) -> NodeFile {
    let is_only =
        matches!(inputs, [only] if only.is_file() && !is_archive(only) && only.as_os_str() == node.file.as_str());
    NodeFile { file: if is_only { String::new() } else { node.file.clone() }, ..node.clone() }
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let inputs = inputs(args)?;
    super::keeps_inputs(&args.output, &inputs)?;
    let (path, evidence) = evidence(&inputs)?;
    let nodes: Vec<NodeFile> = args.node.iter().map(|node| node_of_input(node, &inputs)).collect();
    if evidence.pieces.is_empty() {
        return Err(super::unrecognised(&evidence));
    }
    let assumed = from_evidence(&evidence, &path, &nodes, args.connections.into())?;
    let (tests, left_out) = tests(&assumed.scenario, &assumed.nodes);
    let mut comments = vec![format!("Made by `svclab dump import` of {}.", printable(&path))];
    comments.extend(assumed.assumptions.iter().map(|words| format!("assumed: {words}")));
    if left_out > 0 {
        comments.push(format!("{left_out} more service-port tests were omitted; `svclab verify` covers them all"));
    }
    for words in assumed.assumptions.iter().filter(|_| !console.quiet) {
        console.complain(format!("{}: assumed: {}", printable(&path), one_line(&words.to_string())));
    }
    let text = print(&assumed.scenario, &comments, &tests);
    super::write(&args.output, &text, console)?;
    Ok(Exit::Held)
}
