//! `svclab run`: scenarios become labs, packets become verdicts.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::console::Console;
use super::{Exit, mistakes};
use crate::lab::{self, Backend};
use crate::run::{self, Options, RunError, ScenarioOutcome};
use crate::scenario::{self, Scenario};

/// Build scenarios as network namespaces, send packets, and judge what comes of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario files, or folders to look for them in.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// How many labs run at the same time [default: one a processor]
    #[arg(short, long)]
    jobs: Option<NonZeroUsize>,
    /// Carry out only tests whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// What installs iptables rules.
    #[arg(long, value_enum, default_value = "system")]
    backend: Backend,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    let scenarios: Vec<Scenario> = scenario::find(&args.paths)
        .unwrap()
        .iter()
        .map(|f| scenario::load(f))
        .filter_map(|r| match r {
            Ok(s) => Some(s),
            Err(d) => {
                mistakes::show(&d, console);
                None
            }
        })
        .collect();
    lab::become_privileged().unwrap();
    let options = Options { jobs: args.jobs, filter: args.filter.clone(), backend: args.backend, ..Options::default() };
    let outcomes = run::run(&scenarios, &options, &|index, outcome: &ScenarioOutcome| {
        console.line(format!("{} {} {:?}", scenarios[index].file.display(), outcome.held(), outcome.duration));
        if let Some(e) = &outcome.error {
            console.line(format!("   {e}"));
        }
        for t in &outcome.tests {
            console.line(format!("  {} {} {:?}", t.held(), t.name, t.duration));
            for p in &t.probes {
                if !p.verdict.held || console.verbose > 0 {
                    for d in &p.verdict.differences {
                        console.line(format!("     {d}"));
                    }
                    if let crate::observation::Observation::Flow(f) = &p.observation {
                        for s in &f.path {
                            console.line(format!(
                                "        {:<14} {:<10} {:?} {}",
                                s.place, s.interface, s.direction, s.packet
                            ));
                        }
                    } else {
                        console.line(format!("   {:?}", p.observation));
                    }
                    for (n, r) in &p.rules {
                        console.line(format!("       {n}"));
                        for r in r {
                            console.line(format!("         {r}"));
                        }
                    }
                }
            }
        }
    });
    if outcomes.iter().any(|o| matches!(o.error, Some(RunError::Lab(_)))) {
        Exit::Environment
    } else if outcomes.iter().all(ScenarioOutcome::held) {
        Exit::Held
    } else {
        Exit::Failed
    }
}
