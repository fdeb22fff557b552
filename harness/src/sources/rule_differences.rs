//! Rules that differ from those that kube-proxy writes, where a promise is not kept.

use std::collections::BTreeSet;

use svclab_rules::cluster::Cluster;
use svclab_rules::compare::{Difference, Subject, compare_own};

use crate::documents::Document;

/// The maximum number of differences that are listed.
const MAX: usize = 10;

/// How the rules of documents differ from those that the cluster's release writes: `node/worker, IPv4: ...`. First come missing rules of no
/// service, which all traffic may depend on, then the rules of these services (`namespace/name:port`).
pub(crate) fn rule_differences(
    [documents, released]: [&[Document]; 2],
    cluster: &Cluster,
    services: &BTreeSet<String>,
) -> Vec<String> {
    let (mut of_none, mut of_services) = (Vec::new(), Vec::new());
    for document in documents.iter().filter(|document| !document.is_other_tables()) {
        let is_same = |other: &&Document| {
            other.netns == document.netns
                && other.family == document.family
                && other.rules.mode() == document.rules.mode()
                && !other.is_other_tables()
        };
        let Some(written) = released.iter().find(is_same) else { continue };
        for finding in compare_own(&*written.rules, &*document.rules, usize::MAX) {
            let words = format!("{}, {}: {finding}", document.netns, document.family);
            match &finding.subject {
                Subject::Service(port) if !services.iter().any(|service| is_of(port, service)) => {}
                Subject::Service(_) => of_services.push(words),
                _ if matches!(finding.difference, Difference::Missing(_)) => of_none.push(words),
                _ => {}
            }
        }
    }
    let mut all: Vec<String> = of_none.into_iter().chain(of_services).collect();
    let more = all.len().saturating_sub(MAX);
    all.truncate(MAX);
    if more > 0 {
        let release = cluster.releases().join(" or ");
        all.push(format!(
            "{more} more differences from the rules of kube-proxy {release}: `svclab rules --diff` lists them"
        ));
    }
    all
}

/// Whether a port is that of a failing flow, or of the whole Service.
fn is_of(port: &str, service: &str) -> bool {
    port.strip_prefix(service).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}
