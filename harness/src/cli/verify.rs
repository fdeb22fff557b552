//! `svclab verify`: compares three sources for every vantage point and every service address.

use std::num::NonZeroUsize;

use super::Exit;
use super::console::Console;
use super::failure::Failure;
use super::format::Format;
use super::inputs::ConnectionArgs;
use super::kernels::{KERNEL, KernelArgs, environment, head};
use super::lab_args::{ClassArgs, SubjectArgs, end};
use super::matrix::{self, Compared, Outcome, Outcomes};
use super::progress::Bars;
use super::proxies::{PROGRAMS, ProxyArgs, fitting};
use super::release::{Proxy, proxy, with_proxy};
use svclab::scenario::Scenario;
use svclab::text::{counted, one_line, path_text};
use svclab::verify::{self, Disagreement, Options, Verified};
use svclab::worker::Kind;

/// Compare what the API promises, what the rules do and what the kernel does, for every Service address.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    kernels: KernelArgs,
    /// Verify the rules of a kube-proxy other than the one that the input names: `1.27:iptables`, `1.27` or `nftables`.
    #[arg(long, value_name = "RELEASE[:MODE]", value_parser = proxy, conflicts_with_all = PROGRAMS)]
    release: Option<Proxy>,
    /// Do not fail on flows that match a rule that svclab does not model.
    #[arg(long)]
    allow_unknown: bool,
    /// Compare what is promised with what the rules do, without sending packets: needs no privileges.
    #[arg(long, conflicts_with_all = PROGRAMS, conflicts_with = KERNEL)]
    no_lab: bool,
    #[command(flatten)]
    connections: ConnectionArgs,
    /// Send the packet of each class N times.
    #[arg(long, value_name = "N", conflicts_with = "no_lab")]
    repeat: Option<NonZeroUsize>,
    /// Verify only packets to a service: `NAMESPACE/NAME` or `NAME`, with or without `:PORT`.
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
    /// Verify only packets from one sender: `pod/NAME`, `node/NAME`, `localhost@NODE` or `host/NAME`.
    #[arg(long, value_name = "SENDER")]
    from: Option<String>,
    /// Verify only packets from a node and its pods.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    #[command(flatten)]
    classes: ClassArgs,
    #[command(flatten)]
    proxies: ProxyArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|exit| exit)
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let (scenarios, reports) = args.subject.open(args.connections.into(), console)?;
    let chosen = |scenario| with_proxy(scenario, args.release, None, "--release", console);
    let scenarios = scenarios.into_iter().map(chosen).collect::<Result<Vec<_>, _>>();
    let scenarios = scenarios.map_err(|failure| failure.report(console))?;
    let programs = args.proxies.programs().map_err(|failure| failure.report(console))?;
    args.kernels.without(programs.as_ref()).map_err(|failure| failure.report(console))?;
    let scenarios = fitting(&scenarios, programs.as_ref(), console)?;
    let backend = args.subject.backend();
    let options = Options {
        jobs: args.subject.labs.jobs,
        backend,
        programs,
        allow_unknown: args.allow_unknown,
        no_lab: args.no_lab,
        repeat: args.repeat,
        service: args.service.clone(),
        from: args.from.clone(),
        node: args.node.clone(),
        max_classes: args.classes.max_classes,
        release: args.release.map(|release| release.to_string()),
        ..Options::default()
    };
    selects_something(&options, &scenarios).map_err(|failure| failure.report(console))?;
    let is_text = args.subject.format == Format::Text;
    let is_page = is_text && !args.subject.is_reported();
    if args.kernels.comparing(is_page).map_err(|failure| failure.report(console))? {
        return on_kernels(&scenarios, &options, args, console);
    }
    let location = if args.no_lab { None } else { Some(args.kernels.location(Kind::Verify, backend, console)?) };
    let options = Options { worker: location.clone(), ..options };
    let settings = console.settings();
    if is_text {
        head(location.as_ref(), console);
    }
    let all = verify_with_progress(&scenarios, &options, console, |verified| {
        if is_text {
            console.text(verify::page(verified, &options, settings));
        }
    });
    if is_text {
        console.text(verify::summary(&all, &options, settings));
    } else {
        console.json("verify", &environment(location.as_ref(), backend), verify::json(&all, &options))?;
    }
    let written =
        reports.write("verify", &environment(location.as_ref(), backend), verify::json(&all, &options), console);
    Ok(exit(&all, &options).with_reports(written))
}

fn verify_with_progress(
    scenarios: &[Scenario],
    options: &Options,
    console: &Console,
    print: impl Fn(&Verified) + Sync,
) -> Vec<Verified> {
    let bars = Bars::new((scenarios.len() > 1).then_some(scenarios.len()), &options.progress, console);
    let finished = |verified: &Verified| {
        bars.suspend(|| print(verified));
        bars.scenario_ended();
    };
    verify::verify(scenarios, options, &finished)
}

fn exit(all: &[Verified], options: &Options) -> Exit {
    let troubles = all.iter().filter_map(|one| one.result.as_ref().err());
    end(troubles, all.iter().all(|verified| verified.holds(options)))
}

/// Verifies scenarios on several kernels, one after the other.
fn on_kernels(scenarios: &[Scenario], options: &Options, args: &Args, console: &Console) -> Result<Exit, Exit> {
    let all = args.kernels.on_each(Kind::Verify, options.backend, console, |location| {
        let options = Options { worker: Some(location), ..options.clone() };
        Ok(verify_with_progress(scenarios, &options, console, |_| {}))
    })?;
    let settings = console.settings();
    let page = |all: &Vec<Verified>| {
        let pages = all.iter().map(|verified| verify::page(verified, options, settings));
        pages.collect::<String>() + &verify::summary(all, options, settings)
    };
    let compared = Compared { what: "scenarios", missing: "no flow" };
    let outcomes = |all: &Vec<Verified>| outcomes(all, options);
    Ok(matrix::show(&all, compared, console, outcomes, page, |all| exit(all, options)))
}

/// Returns the results of scenarios, each with its findings.
fn outcomes(all: &[Verified], options: &Options) -> Outcomes<(usize, Option<Disagreement>, String)> {
    let of_scenario = |(number, verified): (usize, &Verified)| {
        let file = path_text(&verified.file);
        let findings = verified.result.iter().flat_map(|verification| &verification.findings).map(|finding| {
            let what = format!("{}: {}", finding.example.flow, finding.what);
            let outcome = Outcome { of: format!("{file}: {what}"), result: counted(finding.flows, "flow") };
            ((number, Some(finding.disagreement), finding.what.clone()), outcome)
        });
        let result = match &verified.result {
            Err(_) => "ERROR".to_owned(),
            Ok(verification) => {
                let word = if verified.holds(options) { "ok" } else { "FAILED" };
                format!("{word}, {}", counted(verification.flows(), "flow"))
            }
        };
        let whole = ((number, None, String::new()), Outcome { of: file.clone(), result });
        findings.chain([whole]).collect::<Vec<_>>()
    };
    all.iter().enumerate().flat_map(of_scenario).collect()
}

/// Rejects options that select no packets.
pub(super) fn selects_something(options: &Options, scenarios: &[Scenario]) -> Result<(), Failure> {
    let Some((option, value)) = options.selects_nothing(scenarios) else { return Ok(()) };
    let message = format!("`{option} {}` selects no packet of the input", one_line(value));
    Err(Failure::new(message, "Use a name from the output of `svclab verify` without this option."))
}
