//! The rules that a program under test writes on one node.

use svclab_rules::cluster::Cluster;

use super::{RunError, guarded};
use crate::documents::Document;
use crate::lab::{Backend, with_lab};
use crate::proxy::{Programs, Proxies};
use crate::report::Trouble;
use crate::scenario::Scenario;
use crate::topology;

/// Lets a program write a node's rules for a scenario's initial state, in a lab of this process that has only this node, and returns the
/// installed documents. The scenario must fit the programs: see `Programs::fit`.
///
/// # Errors
///
/// If the lab cannot be built, or the program does not write its rules.
pub fn program_rules(
    scenario: &Scenario,
    node: &str,
    programs: &Programs,
    backend: Backend,
) -> Result<Vec<Document>, Trouble> {
    let documents = || {
        let topology = topology::plan(&alone(scenario, node));
        with_lab(&topology, &[], backend, |lab| {
            let (_proxies, documents, _) = Proxies::install(lab, scenario, programs)?;
            Ok(documents)
        })?
    };
    guarded(documents).map_err(RunError::into_trouble)
}

/// A scenario with only the machines that a node has interfaces to.
fn alone(scenario: &Scenario, node: &str) -> Scenario {
    let cluster = &scenario.cluster;
    let nodes = cluster.nodes.iter().filter(|one| one.name == node).cloned().collect();
    let pods = cluster.pods.iter().filter(|pod| pod.node == node).cloned().collect();
    let cluster = Cluster { nodes, pods, ..cluster.clone() };
    Scenario { cluster, hosts: Vec::new(), rules: Vec::new(), tests: Vec::new(), ..scenario.clone() }
}
