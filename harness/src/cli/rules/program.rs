//! `svclab rules --kube-proxy`: what a program writes.

use svclab_rules::cluster::Family;

use super::diff::Found;
use super::{Args, Input, Written, of_documents, show_diff};
use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::labs::{prepare, trouble};
use svclab::proxy::Programs;
use svclab::run::rules_of_program;
use svclab::scenario::Scenario;

/// Prints the rules that a program writes on a node, or how they differ from those that svclab writes for its release.
pub(super) fn rules(
    args: &Args,
    programs: &Programs,
    input: Input,
    (node, family): (&str, Family),
    console: &Console,
) -> Result<Exit, Failure> {
    let fit = |scenario: &Scenario| {
        let fitted = programs.fit(scenario);
        fitted.map_err(|why| Failure::new(why.to_string(), "Choose another program, or another scenario."))
    };
    let (input, scenario) = match input {
        Input::Objects(cluster) => {
            let fitted = fit(&Scenario { cluster: *cluster, ..Scenario::default() })?;
            (Input::Objects(Box::new(fitted.cluster.clone())), fitted)
        }
        Input::Scenario(scenario) => {
            let fitted = fit(&scenario)?;
            (Input::Scenario(Box::new(fitted.clone())), fitted)
        }
    };
    let Some(machine) = scenario.cluster.node(node) else { return Ok(Exit::Held) };
    prepare(console)?;
    let documents = rules_of_program(&scenario, node, programs, args.backend.into());
    let documents = documents.map_err(|failed| Failure::from(trouble(&failed, console)))?;
    let rules = of_documents(documents, machine, family, scenario.cluster.proxy.mode);
    if args.diff.is_none() {
        console.text(rules.print());
        return Ok(Exit::Held);
    }
    let written: Written = input.write(node, family)?;
    Ok(show_diff(&Found::of_program(&programs.to_string(), rules).diff(&written), console))
}
