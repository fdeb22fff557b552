//! `svclab dump minimize`: the smallest scenario that still shows a failure.

use std::path::PathBuf;

use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::inputs::{InputArgs, load_all};
use crate::cli::lab_args::{LabArgs, own_processes, prepare};
use crate::cli::verify::selects_something;
use svclab::infer::Connections;
use svclab::minimize::{Choice, LabResult, MinimizeError, Minimized, Size, minimize};
use svclab::text::{counted, grouped, printable};
use svclab::verify::Options;

/// Reduce an input to the smallest scenario that still fails.
///
/// Keeps the first kind of flow on which `svclab verify --no-lab` reports that promise and prediction disagree: services,
/// endpoints, nodes, hosts, rules, settings and fields are removed as long as the same flow still fails in the same way, by the same cause, and
/// nothing fails in a new way. The result is then verified in a lab. Exits with 1 if no flow fails, or if the lab does not show the failure.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A scenario, Kubernetes objects, or saved rules as for `svclab verify`; `-` for standard input.
    input: PathBuf,
    /// The scenario to write; `-` for standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    labs: LabArgs,
    /// Only predict: do not verify the result in a lab.
    #[arg(long)]
    no_lab: bool,
    /// Keep a failure of this service: `NAMESPACE/NAME` or `NAME`, with or without `:PORT`.
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
    /// Keep a failure of this sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    #[arg(long, value_name = "SENDER")]
    from: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &Console) -> Result<Exit, Failure> {
    if !args.no_lab {
        prepare(console)?;
    }
    super::keeps_inputs(&args.output, std::slice::from_ref(&args.input))?;
    let scenarios = load_all(std::slice::from_ref(&args.input), args.inputs.reach(), Connections::LeftOut, console)?;
    let [scenario] = scenarios.as_slice() else {
        let message = format!("the input has {}", counted(scenarios.len(), "scenario"));
        return Err(Failure::new(message, "Name one scenario, or a file with one cluster."));
    };
    let verify = Options {
        jobs: args.labs.jobs,
        backend: args.labs.backend.into(),
        no_lab: args.no_lab,
        service: args.service.clone(),
        from: args.from.clone(),
        worker: Some(own_processes()),
        ..Options::default()
    };
    selects_something(&verify, &scenarios)?;
    let minimized = match minimize(scenario, &Choice { verify }) {
        Ok(minimized) => minimized,
        Err(error) => return failed(error, console),
    };
    super::write(&args.output, minimized.text.as_bytes(), console)?;
    let Minimized { class, sizes, tried, lab, has_others, .. } = minimized;
    let [before, after] = sizes.map(words);
    if !console.quiet {
        console.complain(format!("kept: {class}"));
        console.complain(format!("{before}\n  reduced to {after} after {} trials", grouped(tried as u64)));
        if !super::is_standard_output(&args.output) {
            let only = if has_others { class.selection() + " " } else { String::new() };
            console.complain(format!("see it with `svclab verify {only}{}`", printable(&args.output)));
        }
    }
    Ok(match lab {
        LabResult::NotReproduced => {
            console.complain("the failure does not occur on the kernel: see `svclab verify` of the written scenario");
            Exit::Failed
        }
        LabResult::NotSendable => {
            console.complain("only predicted: no machine of the lab can send such a packet");
            Exit::Held
        }
        LabResult::NotRun | LabResult::Reproduced => Exit::Held,
    })
}

fn words(size: Size) -> String {
    let Size { services, endpoints, nodes, rules } = size;
    let all = [(services, "service"), (endpoints, "endpoint"), (nodes, "node"), (rules, "rule")];
    all.map(|(number, thing)| counted(number, thing)).join(", ")
}

fn failed(error: MinimizeError, console: &Console) -> Result<Exit, Failure> {
    let message = error.to_string();
    match error {
        MinimizeError::NothingFails => {
            console.complain(format!(
                "{message}\nhelp: See with `svclab verify` whether the kernel does; `svclab dump lint` finds what is wrong without a failing flow."
            ));
            Ok(Exit::Failed)
        }
        MinimizeError::Trouble(trouble) => {
            console.complain(format!("{message}: {trouble}"));
            Ok(trouble.cause.into())
        }
        MinimizeError::Unwritten(errors) => {
            console.complain(message);
            Err((*errors).into())
        }
        _ => {
            console.complain(format!("{message}\nhelp: Report this with the input: it is a defect of svclab."));
            Ok(Exit::Internal)
        }
    }
}
