//! `svclab mutate`: mutated rules, and the tests that detect them.

use std::num::NonZeroUsize;

use super::Exit;
use super::console::Console;
use super::format::Format;
use super::kernels::{KernelArgs, environment, head};
use super::lab_args::{SubjectArgs, end};
use super::matrix::{self, Compared, Outcome, Outcomes};
use super::numbers::{count, seed};
use svclab::infer::Connections;
use svclab::mutate::{Detail, Mutant, Mutants, Options, json, mutate, page, summary};
use svclab::scenario::Scenario;
use svclab::text::path_text;
use svclab::worker::Kind;

/// Mutate a scenario's rules, one change at a time, and report whether its tests and `svclab verify` detect it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    #[command(flatten)]
    kernels: KernelArgs,
    /// Try a random sample of N mutants of each scenario.
    #[arg(long, value_name = "N", value_parser = count)]
    sample: Option<NonZeroUsize>,
    /// The seed of the random sample.
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = seed)]
    seed: u64,
    /// List every mutant that `svclab verify` detects and the tests do not, not just one of each kind.
    #[arg(long)]
    missed: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args, console: &Console) -> Exit {
    attempt(args, console).unwrap_or_else(|exit| exit)
}

fn attempt(args: &Args, console: &Console) -> Result<Exit, Exit> {
    let (scenarios, reports) = args.subject.open(Connections::LeftOut, console)?;
    let (backend, format) = (args.subject.backend(), args.subject.format);
    let is_text = format == Format::Text && !args.subject.is_reported();
    let compares = args.kernels.comparing(is_text).map_err(|failure| failure.report(console))?;
    let options = Options {
        jobs: args.subject.labs.jobs,
        backend,
        sample: args.sample.map(NonZeroUsize::get),
        seed: args.seed,
        worker: None,
    };
    if compares {
        return on_kernels(&scenarios, &options, args, console);
    }
    let location = args.kernels.location(Kind::Mutate, backend, console)?;
    let options = Options { worker: Some(location.clone()), ..options };
    if format == Format::Text {
        head(Some(&location), console);
    }
    let finished = |mutants: &Mutants| {
        if format == Format::Text {
            console.text(shown(mutants, args, console));
        }
    };
    let all = mutate(&scenarios, &options, &finished);
    if format == Format::Json {
        console.json("mutate", &environment(Some(&location), backend), json(&all))?;
    } else {
        console.text(summary(&all, console.settings()));
    }
    let written = reports.write("mutate", &environment(Some(&location), backend), json(&all), console);
    Ok(exit(&all).with_reports(written))
}

/// Renders the mutants of a scenario; nothing with `--quiet` if none survived.
fn shown(mutants: &Mutants, args: &Args, console: &Console) -> String {
    if console.quiet && mutants.holds() {
        return String::new();
    }
    let detail = Detail { all_missed: args.missed, sample: args.sample.map(NonZeroUsize::get) };
    page(mutants, detail, console.settings())
}

fn exit(all: &[Mutants]) -> Exit {
    let troubles = all.iter().filter_map(|one| one.result.as_ref().err());
    end(troubles, all.iter().all(Mutants::holds))
}

/// Tries mutants on several kernels, one after the other.
fn on_kernels(scenarios: &[Scenario], options: &Options, args: &Args, console: &Console) -> Result<Exit, Exit> {
    let all = args.kernels.on_each(Kind::Mutate, options.backend, console, |location| {
        Ok(mutate(scenarios, &Options { worker: Some(location), ..options.clone() }, &|_| {}))
    })?;
    let page = |all: &Vec<Mutants>| {
        all.iter().map(|mutants| shown(mutants, args, console)).collect::<String>() + &summary(all, console.settings())
    };
    let compared = Compared { what: "mutants", missing: "not tried" };
    Ok(matrix::show(&all, compared, console, |all| outcomes(all), page, |all| exit(all)))
}

/// Returns the results of mutants, by scenario and change.
fn outcomes(all: &[Mutants]) -> Outcomes<(usize, String, Option<String>)> {
    let of_scenario = |(number, mutants): (usize, &Mutants)| {
        let file = path_text(&mutants.file);
        match &mutants.result {
            Err(_) => {
                vec![((number, String::new(), None), Outcome { of: file, result: "ERROR".to_owned() })]
            }
            Ok(tried) => tried.mutants.iter().map(|mutant| of_mutant(number, &file, mutant)).collect(),
        }
    };
    all.iter().enumerate().flat_map(of_scenario).collect()
}

/// Returns the result of a mutant. Several mutants of a rule may differ only in what replaces it.
fn of_mutant(number: usize, file: &str, mutant: &Mutant) -> ((usize, String, Option<String>), Outcome) {
    let name = mutant.to_string();
    let instead = mutant.after.as_ref().map(|after| format!(": {after}")).unwrap_or_default();
    let outcome = Outcome { of: format!("{file}: {name}{instead}"), result: mutant.words().to_owned() };
    ((number, name, mutant.after.clone()), outcome)
}

#[cfg(test)]
mod tests {
    use svclab::mutate::MutantStatus;

    use super::*;

    /// Mutants that differ only in what replaces a rule have a result each.
    #[test]
    fn mutants_of_one_rule_have_a_result_each() {
        let mutant = |after: &str| Mutant {
            operator: "lost condition".into(),
            netns: "node/a".to_owned(),
            family: "IPv4".to_owned(),
            table: "nat".to_owned(),
            container: "chain".into(),
            name: "KUBE-SVC-X".to_owned(),
            number: 1,
            before: "-s 10.0.0.1/32 -d 10.0.0.2/32 -j ACCEPT".to_owned(),
            after: Some(after.to_owned()),
            flows: 1,
            result: MutantStatus::Survived,
            tests_fail: false,
            example: None,
        };
        let all = ["-s 10.0.0.1/32 -j ACCEPT", "-d 10.0.0.2/32 -j ACCEPT"].map(mutant);
        let outcomes: Outcomes<_> = all.iter().map(|mutant| of_mutant(0, "a.yaml", mutant)).collect();
        assert_eq!(outcomes.len(), 2);
        assert!(outcomes.values().all(|outcome| outcome.of.contains("rule 1: -")), "{outcomes:?}");
    }
}
