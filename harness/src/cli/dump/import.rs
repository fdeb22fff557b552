//! `svclab dump import`: a scenario from a dump.

use std::path::{Path, PathBuf};

use super::evidence;
use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::inputs::ConnectionArgs;
use svclab::evidence::Source;
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
    /// Files, folders or archives (tar, tar.gz, zip); `-` for standard input. Not needed with `--node NAME=FILE`.
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
    let is_archive = |path: &PathBuf| Source::Path(path.clone()).is_archive();
    // A file in a given folder or archive is already included. Archives in archives are not read.
    let has = |input: &PathBuf, file: &PathBuf| match () {
        () if input == file => true,
        () if input.is_dir() => file.starts_with(input) || input.join(file).exists(),
        () => is_archive(input) && !is_archive(file) && !file.is_dir(),
    };
    for file in named {
        let is_given = args.inputs.iter().any(|input| has(input, &file));
        if !is_given && !inputs.contains(&file) {
            // It may be the name of a file in one of the inputs, which only reading them shows.
            if !file.exists() && !args.inputs.is_empty() {
                continue;
            }
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
    let is_only = matches!(inputs, [only] if only == Path::new(&node.file));
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
    let has_files =
        |node: &NodeFile| evidence.pieces.iter().any(|piece| node.has(piece.file.as_deref().unwrap_or_default()));
    if let Some(node) = nodes.iter().find(|node| !has_files(node)) {
        let message =
            format!("`--node {}={}` names no file of the input that has a known format", node.node, node.file);
        return Err(Failure::new(message, "Name a file as `svclab dump show` prints it."));
    }
    let assumed = from_evidence(&evidence, &path, &nodes, args.connections.into())?;
    let (tests, left_out) = tests(&assumed.scenario, &assumed.nodes);
    let mut comments = vec![format!("Made by `svclab dump import` of {}.", printable(&path))];
    comments.extend(assumed.assumptions.iter().map(|words| format!("assumed: {words}")));
    // Without them, the scenario may behave as the node does not.
    let ignored = assumed.scenario.ignored_rules.iter().map(|words| format!("not imported: {words}"));
    comments.extend(ignored.clone());
    if left_out > 0 {
        comments.push(format!("{left_out} more service-port tests were omitted; `svclab verify` covers them all"));
    }
    for words in assumed.assumptions.iter().filter(|_| !console.quiet) {
        console.complain(format!("{}: assumed: {}", printable(&path), one_line(&words.to_string())));
    }
    for words in ignored.filter(|_| !console.quiet) {
        console.complain(format!("{}: {}", printable(&path), one_line(&words)));
    }
    let text = print(&assumed.scenario, &comments, &tests);
    super::write(&args.output, text.as_bytes(), console)?;
    if !console.quiet && !super::is_standard_output(&args.output) {
        let output = printable(&args.output);
        console.complain(format!(
            "the tests check one connection of each service port; `svclab verify {output}` judges all"
        ));
    }
    Ok(Exit::Held)
}
