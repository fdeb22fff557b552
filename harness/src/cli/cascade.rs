//! `svclab cascade`: the shares of endpoints; needs privileges only with `--sample`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;

use super::Exit;
use super::console::Console;
use super::failure::Failure;
use super::inputs::{Input, InputArgs, input, scenario_from_objects};
use super::kernels::{KernelArgs, environment, goal, head};
use super::lab_args::{BackendArgs, report_failure};
use super::matrix::{self, Compared, Outcome, Outcomes};
use super::numbers::index;
use super::progress::Bars;
use super::rules::{impossible, node};
use svclab::cascade::{self, Report, console, json, svg};
use svclab::evidence::Evidence;
use svclab::input::MAX_FLOWS;
use svclab::sampling;
use svclab::scenario::{self, Flows, Scenario, Tests, step_out_of_range};
use svclab::worker::{Kind, WorkerLocation};

/// Compute the exact share of new connections that each endpoint of a Service gets, and find defects.
///
/// Exits with 1 if shares are unknown or there is a defect: uneven probabilities; rules that are missing, duplicated or
/// unreachable; connections that get no endpoint or are handled differently; an endpoint's chain that translates another
/// protocol or address; session affinity that does not return clients to their endpoint.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A dump (rules, an issue, a folder or an archive), Kubernetes objects or a scenario; `-` for standard input.
    path: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    /// Examine only this service (`default/web:http`, `default/web` or `web`) or chain.
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// With a scenario or objects: the node whose rules are examined [default: the first]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// With a scenario: the cluster state after the first N changing steps: `apply`, `restart`, `stop`, `start`, `link`, `down`, `up`.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = index)]
    step: usize,
    /// With a scenario or objects: send N new flows through each cascade in a lab. `auto` sends as many as it takes to detect a deviation
    /// of 5 % with probability 0.999 and a false-alarm rate below 1e-6, and stops early once the result is clear.
    #[arg(long, value_name = "N|auto", value_parser = flows)]
    sample: Option<Flows>,
    #[command(flatten)]
    kernels: KernelArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for a terminal.
    Text,
    /// One JSON object.
    Json,
    /// A picture.
    Svg,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    report(args, console).unwrap_or_else(|failure| failure.report(console))
}

fn exit(report: &Report) -> Exit {
    if report.is_even() && report.samples_fit() { Exit::Held } else { Exit::Failed }
}

/// Prints the report, with the kernel of its samples; returns what it shows.
fn show(report: &Report, location: Option<&WorkerLocation>, args: &Args, console: &Console) -> Result<Exit, Failure> {
    match args.format {
        Format::Text => {
            head(location, console);
            console.text(console::render(report, console.settings()));
        }
        Format::Json => console.json("cascade", &environment(location, args.backend.into()), json::document(report))?,
        Format::Svg => console.text(svg::render(report)),
    }
    Ok(exit(report))
}

/// Parses the number of flows of a sample.
fn flows(text: &str) -> Result<Flows, String> {
    match text.parse() {
        _ if text == "auto" => Ok(Flows::Auto),
        Ok(number) if (1..=MAX_FLOWS).contains(&number) => Ok(Flows::Exactly(number)),
        _ => Err(format!("expected a number from 1 to {MAX_FLOWS}, or `auto`")),
    }
}

/// Creates the report, and prints it.
fn report(args: &Args, console: &Console) -> Result<Exit, Failure> {
    match input(&args.path)? {
        (file, Input::Scenario(text)) => {
            let scenario = scenario::parse_with(&text, &file, &args.inputs.reach().reader(&file), Tests::Optional)?;
            scenario_report(args, &scenario, console)
        }
        (file, Input::Objects(text)) => scenario_report(args, &scenario_from_objects(&text, &file, console)?, console),
        (file, Input::Evidence(evidence)) => show(&infer(args, &evidence, &file)?, None, args, console),
    }
}

/// Keeps only the requested service.
fn chosen(mut report: Report, args: &Args) -> Result<Report, Failure> {
    if let Some(name) = &args.service {
        report.retain(name).map_err(|error| Failure::new(error.to_string(), error.help))?;
    }
    Ok(report)
}

fn infer(args: &Args, evidence: &Evidence, file: &Path) -> Result<Report, Failure> {
    if args.sample.is_some() {
        let help = "Write a scenario, with the rules in it under `rules:`.";
        return Err(Failure::new("saved rules have no pods to send packets to", help));
    }
    if args.node.is_some() || args.step > 0 {
        let help = "Omit them.";
        return Err(Failure::new("`--node` and `--step` need a scenario", help));
    }
    chosen(cascade::input::read(evidence, file)?, args)
}

fn scenario_report(args: &Args, scenario: &Scenario, console: &Console) -> Result<Exit, Failure> {
    let states = scenario.states().count();
    let state = scenario.states().nth(args.step).ok_or_else(|| {
        let (message, help) = step_out_of_range(args.step, states - 1);
        Failure::new(message, help)
    })?;
    let node = node(args.node.as_deref(), state, console)?;
    let report = cascade::input::scenario_report(scenario, state, node).map_err(|error| impossible(&error))?;
    if report.cascades.is_empty() {
        let message = format!("the rules of node {} have no service with endpoints", node.name);
        return Err(Failure::new(message, "Choose another `--node` or `--step`, or give a service endpoints."));
    }
    let report = chosen(report, args)?;
    let Some(flows) = args.sample else {
        args.kernels.only_with_labs("--sample")?;
        return show(&report, None, args, console);
    };
    let compares = args.kernels.comparing(args.format == Format::Text)?;
    let sample = |location: &WorkerLocation| {
        let mut report = report.clone();
        let progress = Arc::default();
        let bars = Bars::new(None, &progress, console);
        let options = sampling::Options {
            flows,
            backend: args.backend.into(),
            goal: goal(location),
            worker: Some(location.clone()),
            progress,
        };
        let sampled = sampling::sample(scenario, state, node, &mut report, &options);
        drop(bars);
        sampled.map(|()| report).map_err(|failed| report_failure(&failed, console))
    };
    if compares {
        let all = args.kernels.on_each(Kind::Sample, args.backend.into(), console, |location| sample(&location))?;
        let page = |report: &Report| console::render(report, console.settings());
        let compared = Compared { what: "samples", missing: "not sampled" };
        return Ok(matrix::show(&all, compared, console, outcomes, page, exit));
    }
    let location = args.kernels.location(Kind::Sample, args.backend.into(), console)?;
    show(&sample(&location)?, Some(&location), args, console)
}

/// Returns the results of samples, in the order of the rules.
fn outcomes(report: &Report) -> Outcomes<usize> {
    let outcome = |(number, service, fits): (usize, &str, bool)| {
        let result = if fits { "as the rules say" } else { "not as the rules say" };
        (number, Outcome { of: service.to_owned(), result: result.to_owned() })
    };
    report.sampled().map(outcome).collect()
}
