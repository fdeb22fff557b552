//! `svclab rules --kube-proxy`: the rules that a program writes.

use std::collections::BTreeMap;

use svclab_rules::cluster::Family;

use super::diff::Found;
use super::{Args, Input, document_rules, show_all, warn_without_nfacct};
use crate::cli::Exit;
use crate::cli::console::Console;
use crate::cli::failure::Failure;
use crate::cli::lab_args::{prepare, report_failure};
use crate::cli::proxies::not_applicable;
use svclab::proxy::{Programs, fit};
use svclab::run::program_rules;
use svclab::scenario::Scenario;

/// Prints the rules that a program writes on a node, or their differences from the generated ones for its release.
pub(super) fn rules(
    args: &Args,
    programs: &Programs,
    input: Input,
    (node, families): (&str, &[Family]),
    console: &Console,
) -> Result<Exit, Failure> {
    let (whole, of_scenario) = match input {
        Input::Objects(cluster) => (Scenario { cluster: *cluster, ..Scenario::default() }, false),
        Input::Scenario(scenario) => (*scenario, true),
    };
    // Other nodes may have programs of other releases.
    let program = programs.for_node(&whole, node).map_err(|why| not_applicable(&why))?;
    let alone = Scenario { programs: BTreeMap::new(), ..whole };
    let scenario = fit(Some(&program), &alone).map_err(|why| not_applicable(&why))?.into_owned();
    let Some(machine) = scenario.cluster.node(node) else { return Ok(Exit::Held) };
    if args.diff.is_some() && args.release.is_none() && !program.have_releases() && !console.quiet {
        let release = &scenario.cluster.proxy.version;
        console.complain(format!("note: compared with kube-proxy {release}; --release chooses another release"));
    }
    warn_without_nfacct(args, &scenario.cluster.proxy, console);
    prepare(console)?;
    let documents = program_rules(&scenario, node, &program, args.backend.into());
    let documents = documents.map_err(|failed| Failure::from(report_failure(&failed, console)))?;
    let read = |family: Family| document_rules(&documents, machine, family, scenario.cluster.proxy.mode);
    if args.diff.is_none() {
        families.iter().for_each(|family| console.data(read(*family).print().as_bytes()));
        return Ok(Exit::Held);
    }
    let input = match of_scenario {
        true => Input::Scenario(Box::new(scenario.clone())),
        false => Input::Objects(Box::new(scenario.cluster.clone())),
    };
    let compare = |family: &Family| {
        let written = input.write(node, *family)?;
        Ok(Found::from_program(&program.to_string(), read(*family)).diff(&written))
    };
    let diffs = families.iter().map(compare).collect::<Result<Vec<_>, Failure>>()?;
    Ok(show_all(&diffs, console))
}
