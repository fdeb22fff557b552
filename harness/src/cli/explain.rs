//! `svclab explain`: the path of one packet, rule by rule.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;

use super::Exit;
use super::ad_hoc::{ad_hoc, check_path};
use super::complete;
use super::console::Console;
use super::inputs::{ConnectionArgs, InputArgs};
use super::kernels::{KernelArgs, environment, head};
use super::lab_args::{BackendArgs, prepare, report_failure};
use super::matrix;
use super::numbers::{count, index};
use super::proxies::{PROGRAMS, ProxyArgs, not_applicable};
use super::release::{Proxy, proxy, with_proxy};
use svclab::explain::{self, Explanation};
use svclab::infer::{AdHocScenario, FlowArgs};
use svclab::proxy::fit;
use svclab::worker::{Kind, WorkerLocation};

/// Explain the path of one packet and its reply through the rules of a scenario's cluster.
///
/// The rules are evaluated without sending anything, unless --live is given; those of --kube-proxy are read in a lab. Each outcome of random choices has its exact share.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A scenario, Kubernetes objects, a dump (rules, an issue, a folder or an archive), or a folder of a failed test (`svclab run
    /// --artifacts`); `-` for standard input.
    scenario: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    /// The sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    #[arg(long, value_name = "SENDER", add = complete::senders())]
    from: String,
    /// The destination, as in a scenario's probe: `service/NAME:PORT`, `nodeport/NAME:PORT@NODE`, `ADDRESS:PORT`, ...
    #[arg(long, value_name = "DESTINATION", add = complete::destinations())]
    to: String,
    #[command(flatten)]
    flow: FlowArgs,
    #[command(flatten)]
    connections: ConnectionArgs,
    /// Explain the rules of a kube-proxy other than the one that the input names, in the initial state: `1.27:iptables`, `1.27` or
    /// `nftables`.
    #[arg(long, value_name = "RELEASE[:MODE]", value_parser = proxy, conflicts_with = "step", conflicts_with_all = PROGRAMS)]
    release: Option<Proxy>,
    /// The cluster state after the first N changing steps: `apply`, `restart`, `stop`, `start`, `link`, `down`, `up`.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = index)]
    step: usize,
    /// Explain the Nth path, if rules choose at random; with --live, the path that the packet took
    #[arg(long, value_name = "N", default_value = "1", value_parser = count, conflicts_with = "live")]
    path: NonZeroUsize,
    /// Also send a packet in a lab, trace the rules that the kernel matches, and mark where they diverge from the prediction.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    kernels: KernelArgs,
    #[command(flatten)]
    proxies: ProxyArgs,
    #[command(flatten)]
    backend: BackendArgs,
    /// The output format.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for a terminal; --quiet omits the glossary.
    Text,
    /// All paths; if there are thousands, only the outcome of most.
    Json,
    /// A flowchart of all paths, for Markdown on GitHub.
    Mermaid,
    /// A picture of one path.
    Svg,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|exit| exit)
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let probe = args.flow.clone().probe(&args.from, &args.to, args.step);
    let ad_hoc = ad_hoc(&args.scenario, &probe, args.inputs.reach(), args.connections.into(), console)?;
    let chosen = with_proxy(ad_hoc.scenario, args.release, None, "--release", console);
    let scenario = chosen.map_err(|failure| failure.report(console))?;
    let cluster = if args.release.is_some() { scenario.cluster.clone() } else { ad_hoc.cluster };
    let mut ad_hoc = AdHocScenario { scenario, cluster, ..ad_hoc };
    let programs = args.proxies.programs().map_err(|failure| failure.report(console))?;
    args.kernels.without(programs.as_ref()).map_err(|failure| failure.report(console))?;
    if !args.live {
        args.kernels.only_with_labs("--live").map_err(|failure| failure.report(console))?;
    }
    if args.kernels.comparing(args.format == Format::Text).map_err(|failure| failure.report(console))? {
        return on_kernels(&ad_hoc, args, console);
    }
    let location = match &programs {
        Some(_) => prepare(console).map(|()| None)?,
        None if args.live => Some(args.kernels.location(Kind::Explain, args.backend.into(), console)?),
        None => None,
    };
    judged_in(location.as_ref(), &mut ad_hoc);
    let (step, path, backend) = (args.step, args.path.get(), args.backend.into());
    let explained = match &programs {
        Some(programs) => explain::explain_with_programs(ad_hoc, programs, (step, path), backend, args.live),
        None => match fit(None, &ad_hoc.scenario) {
            Err(why) => return Err(not_applicable(&why).report(console)),
            Ok(_) if args.live => explain::explain_live(&ad_hoc, step, backend, location.as_ref()),
            Ok(_) => explain::explain(&ad_hoc, step, path),
        },
    };
    let explanation = explained.map_err(|failed| report_failure(&failed, console))?;
    check_path(args.path, &explanation, console)?;
    match args.format {
        Format::Text => {
            head(location.as_ref(), console);
            console.text(explain::page(&explanation, console.settings(), args.path.get()));
        }
        Format::Mermaid => console.text(explain::mermaid(&explanation)),
        Format::Svg => console.text(explain::svg(&explanation, args.path.get())),
        Format::Json => console.json("explain", &environment(location.as_ref(), backend), &explanation)?,
    }
    Ok(if explanation.kernel.is_none_or(|kernel| kernel.agrees()) { Exit::Held } else { Exit::Failed })
}

/// Makes the prediction follow the kernel that the packet is sent on.
fn judged_in(location: Option<&WorkerLocation>, ad_hoc: &mut AdHocScenario) {
    if let Some(kernel) = location.and_then(WorkerLocation::kernel) {
        (ad_hoc.scenario.cluster.kernel, ad_hoc.cluster.kernel) = (kernel, kernel);
    }
}

/// Explains the packet on several kernels, one after the other.
fn on_kernels(ad_hoc: &AdHocScenario, args: &Args, console: &Console) -> Result<Exit, Exit> {
    fit(None, &ad_hoc.scenario).map_err(|why| not_applicable(&why).report(console))?;
    let backend = args.backend.into();
    let all = args.kernels.on_each(Kind::Explain, backend, console, |location| {
        let mut ad_hoc = ad_hoc.clone();
        judged_in(Some(&location), &mut ad_hoc);
        explain::explain_live(&ad_hoc, args.step, backend, Some(&location))
            .map_err(|failed| report_failure(&failed, console))
    })?;
    let explained: Vec<(&str, &Explanation)> =
        all.iter().filter_map(|one| Some((one.name.as_str(), one.result.as_ref().ok()?))).collect();
    console.text(matrix::explained(&explained));
    for one in &all {
        console.text(format!("\nkernel {}\n", one.name));
        console.text(match &one.result {
            Ok(explanation) => explain::page(explanation, console.settings(), args.path.get()),
            Err(_) => "no result\n".to_owned(),
        });
    }
    let agrees = |explanation: &Explanation| explanation.kernel.as_ref().is_none_or(|kernel| kernel.agrees());
    Ok(matrix::most_severe(&all, |explanation| if agrees(explanation) { Exit::Held } else { Exit::Failed }))
}
