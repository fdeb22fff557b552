//! `svclab diff`: the traffic that changes from one cluster or kube-proxy to another; needs privileges only with `--live`.

use std::path::PathBuf;

use clap::ValueEnum;

use super::console::Console;
use super::failure::Failure;
use super::inputs::{InputArgs, load_all, scenarios_from_rules};
use super::kernels::{KERNEL, KernelArgs, environment};
use super::lab_args::{BackendArgs, ClassArgs, prepare, report_failure};
use super::release::{Proxy, proxy, with_proxy};
use super::reports::{ReportArgs, Reports};
use super::{Exit, text_of};
use svclab::diff::{self, Accepted, Options};
use svclab::environment::Environment;
use svclab::infer::Connections;
use svclab::input::unreadable;
use svclab::scenario::Scenario;
use svclab::text::printable;
use svclab::worker::{Kind, WorkerLocation};

/// List all Service traffic that changes between two clusters, or between two kube-proxies for one cluster.
///
/// Compares all first packets from all vantage points, in classes that each side handles in the same way; then later connections of the
/// same clients, and open connections whose rules are replaced.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The cluster before: a scenario, Kubernetes objects, or saved rules as for `svclab verify`.
    before_path: PathBuf,
    /// The cluster after [default: the one before]
    after_path: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    /// kube-proxy's release and mode before: `1.27:iptables`, `1.27` or `nftables`.
    #[arg(long, value_name = "RELEASE[:MODE]", value_parser = proxy)]
    before: Option<Proxy>,
    /// kube-proxy's release and mode after.
    #[arg(long, value_name = "RELEASE[:MODE]", value_parser = proxy)]
    after: Option<Proxy>,
    /// A file with the KubeProxyConfiguration before.
    #[arg(long, value_name = "FILE", conflicts_with = KERNEL)]
    before_config: Option<PathBuf>,
    /// A file with the KubeProxyConfiguration after.
    #[arg(long, value_name = "FILE", conflicts_with = KERNEL)]
    after_config: Option<PathBuf>,
    /// A YAML file of accepted changes: `accepted:` with a list of `change: ID`, optionally with `services:` and `reason:`.
    #[arg(long, value_name = "FILE")]
    accept: Option<PathBuf>,
    /// Compare each release with the next, from --before to --after, for one cluster.
    #[arg(long, conflicts_with_all = ["after_path", "live", "accept", "report"])]
    each_release: bool,
    /// Do not fail on rules whose effect is unknown: those that svclab does not model or cannot parse.
    #[arg(long)]
    allow_unknown: bool,
    /// Send one packet of each change in labs of both sides, and show what the kernel does with it: needs the privileges of `svclab run`.
    ///
    /// With one --kernel, the labs of both sides have that kernel; with two, the first is used before and the second after.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    kernels: KernelArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    classes: ClassArgs,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    reports: ReportArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for a terminal.
    Text,
    /// One JSON object.
    Json,
    /// A table, for a pull request comment.
    Markdown,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|failure| failure.report(console))
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Failure> {
    let is_alone = args.after_path.is_none() && args.after.is_none() && args.after_config.is_none();
    if is_alone && args.before.is_none() && !args.kernels.has_several() {
        let help = "Name a second input, or choose kube-proxies with `--before 1.27:iptables --after 1.33:nftables`.";
        return Err(Failure::new("there is nothing to compare with", help));
    }
    let options =
        Options { accepted: accepted(args)?, max_classes: args.classes.max_classes, allow_unknown: args.allow_unknown };
    if !args.live {
        args.kernels.only_with_labs("--live")?;
    }
    let (before, after) = load_both(args, console)?;
    let before = with_proxy(before, args.before, args.before_config.as_ref(), "--before", console)?;
    // Without a second input, settings not given for the kube-proxy after are the same as before.
    let after = after.unwrap_or_else(|| before.clone());
    let after = with_proxy(after, args.after, args.after_config.as_ref(), "--after", console)?;
    let backend = args.backend.into();
    let mut both = [before, after];
    let locations = match args.kernels.sides(Kind::Diff, backend, console) {
        Ok(locations) => locations,
        Err(exit) => return Ok(exit),
    };
    judged_in(locations.as_ref(), &mut both);
    let [before, after] = both;
    if args.each_release {
        return each_release(&before, &after, &options, args, console);
    }
    let inputs = [&before, &after].into_iter().flat_map(|scenario| scenario.inputs.keys()).map(PathBuf::as_path);
    let reports = Reports::open(&args.reports.report, inputs, console)?;
    let mut found =
        diff::diff(&before, &after, &options).map_err(|error| Failure::new(error.to_string(), error.help()))?;
    if args.live {
        if locations.is_none() {
            prepare(console)?;
        }
        diff::live(&mut found, [&before, &after], backend, locations.as_ref())
            .map_err(|failed| report_failure(&failed, console))?;
    }
    let judging = environment(locations.as_ref().map(|[_, after]| after), backend);
    match args.format {
        Format::Text => console.text(diff::page(&found, console.settings())),
        Format::Markdown => console.text(diff::markdown(&found)),
        Format::Json => console.json("diff", &judging, diff::json(&found))?,
    }
    reports.write("diff", &judging, diff::json(&found), console)?;
    Ok(if found.holds() && found.is_as_predicted() { Exit::Held } else { Exit::Failed })
}

/// Makes each side's prediction follow the kernel that its packets are sent on.
fn judged_in(locations: Option<&[WorkerLocation; 2]>, both: &mut [Scenario; 2]) {
    for (location, scenario) in locations.into_iter().flatten().zip(both) {
        if let Some(kernel) = location.kernel() {
            scenario.cluster.kernel = kernel;
        }
    }
}

/// Compares each release with the next.
fn each_release(
    before: &Scenario,
    after: &Scenario,
    options: &Options,
    args: &Args,
    console: &Console,
) -> Result<Exit, Failure> {
    let steps = diff::steps(before, &after.cluster.proxy, options);
    let steps = steps.map_err(|error| Failure::new(error.to_string(), error.help()))?;
    match args.format {
        Format::Markdown => console.text(diff::matrix(&steps)),
        Format::Json => console.json("diff", &Environment::of(args.backend.into()), diff::steps_json(&steps))?,
        Format::Text => {
            let mut pages = steps.iter().map(|step| diff::page(&step.diff, console.settings()));
            console.text(pages.by_ref().filter(|page| !page.is_empty()).collect::<Vec<_>>().join("\n"));
        }
    }
    Ok(if steps.iter().all(|step| step.diff.holds()) { Exit::Held } else { Exit::Failed })
}

/// Loads the clusters of the inputs. Two inputs with rules are treated as one cluster.
fn load_both(args: &Args, console: &Console) -> Result<(Scenario, Option<Scenario>), Failure> {
    let Some(after) = &args.after_path else { return Ok((load(&args.before_path, args, console)?, None)) };
    if let Some(both) = scenarios_from_rules([&args.before_path, after], console) {
        args.kernels.only_with_scenarios()?;
        let [before, after] = both?;
        return Ok((before, Some(after)));
    }
    Ok((load(&args.before_path, args, console)?, Some(load(after, args, console)?)))
}

/// Loads the only scenario of a path.
fn load(path: &PathBuf, args: &Args, console: &Console) -> Result<Scenario, Failure> {
    let mut all = load_all(std::slice::from_ref(path), args.inputs.reach(), Connections::LeftOut, console)?;
    match (all.pop(), all.len()) {
        (Some(scenario), 0) => Ok(scenario),
        (_, more) => {
            let message = format!("{} has {} scenarios", printable(path), more + 1);
            Err(Failure::new(message, "Name one file for each side."))
        }
    }
}

fn accepted(args: &Args) -> Result<Accepted, Failure> {
    let Some(file) = &args.accept else { return Ok(Accepted::default()) };
    let (name, text) = text_of(file);
    let text = text.map_err(|error| unreadable(&name, &error))?;
    diff::read_accepted(&text).map_err(|message| {
        let help = "Write `accepted:` with a list of `change: ID`; `svclab diff` prints the ID of each change.";
        Failure::new(format!("{}: {message}", printable(&name)), help)
    })
}
