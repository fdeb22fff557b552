//! `svclab graph`: a cluster as a picture, with the path of a flow.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use svclab_rules::cluster::Cluster;

use super::Exit;
use super::ad_hoc::{ad_hoc, check_path, scenario_of};
use super::complete;
use super::console::Console;
use super::failure::Failure;
use super::inputs::{InputArgs, load_all};
use super::lab_args::report_failure;
use super::numbers::{count, index};
use svclab::explain;
use svclab::graph::{Format, Graph};
use svclab::infer::{Connections, FlowArgs};
use svclab::scenario::{Scenario, step_out_of_range};
use svclab::text::counted;

/// Draw the nodes, pods, services and addresses of a cluster, and the path of a flow.
///
/// Nothing is sent: the path is predicted from the rules. Needs no privileges.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario, Kubernetes objects, or a dump (rules, an issue, a folder or an archive); `-` for standard input.
    input: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    /// Draw the path of a flow from this sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    #[arg(long, value_name = "SENDER", add = complete::senders(), requires = "to")]
    from: Option<String>,
    /// The destination of the flow: `service/NAME:PORT`, `nodeport/NAME:PORT@NODE`, `ADDRESS:PORT`, ...
    #[arg(long, value_name = "DESTINATION", add = complete::destinations(), requires = "from")]
    to: Option<String>,
    #[command(flatten)]
    flow: FlowArgs,
    /// Draw the reply of the Nth path, if rules choose at random
    #[arg(long, value_name = "N", default_value = "1", value_parser = count, requires = "from")]
    path: NonZeroUsize,
    /// The cluster state after the first N changing steps: `apply`, `restart`, `stop`, `start`, `link`, `down`, `up`.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = index)]
    step: usize,
    /// The output format.
    #[arg(long, value_enum, default_value = "svg")]
    format: Format,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    match graph(args, console) {
        Ok(graph) => {
            console.text(args.format.render(&graph));
            Exit::Held
        }
        Err(failure) => failure.report(console),
    }
}

fn graph(args: &Args, console: &Console) -> Result<Graph, Failure> {
    let (Some(from), Some(to)) = (&args.from, &args.to) else {
        let scenario = only(&args.input, args, console)?;
        return Ok(Graph::of(&scenario, state(&scenario, args.step)?, None));
    };
    let probe = args.flow.clone().probe(from, to, args.step);
    let ad_hoc = ad_hoc(&args.input, &probe, args.inputs.reach(), Connections::LeftOut, console)?;
    let number = args.path.get();
    let explanation =
        explain::explain(&ad_hoc, args.step, number).map_err(|failed| report_failure(&failed, console))?;
    check_path(args.path, &explanation, console)?;
    Ok(Graph::of(&ad_hoc.scenario, &ad_hoc.cluster, Some((&explanation, number))))
}

/// Returns the only scenario of an input.
fn only(path: &Path, args: &Args, console: &Console) -> Result<Scenario, Failure> {
    let mut scenarios = load_all(&[scenario_of(path)], args.inputs.reach(), Connections::LeftOut, console)?;
    match (scenarios.pop(), scenarios.len()) {
        (Some(scenario), 0) => Ok(scenario),
        (_, others) => {
            let message = format!("the folder has {}", counted(others + 1, "scenario"));
            Err(Failure::new(message, "Name one file."))
        }
    }
}

/// Returns the cluster after this many changes.
fn state(scenario: &Scenario, step: usize) -> Result<&Cluster, Failure> {
    scenario.states().nth(step).ok_or_else(|| {
        let (message, help) = step_out_of_range(step, scenario.states().count() - 1);
        Failure::new(message, help)
    })
}
