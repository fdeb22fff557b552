//! The kernel's accounting objects, which count for rules with `-m nfacct`.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use nix::errno::Errno;
use svclab_rules::cluster::{Cluster, Family, ProxyConfig, ProxyMode};
use svclab_rules::iptables::{Chain, Match, Rule, RuleSet, TableName};
use svclab_rules::profile::Profile;
use svclab_rules::ruleset::{Rules, Unsupported};

use super::namespaces::Namespace;
use super::netfilter::{Socket, encode};
use super::{Backend, LabError, with_lab};
use crate::documents::{self, Document};
use crate::scenario::Scenario;
use crate::topology::{Netns, Role, Topology};

/// `NFNL_SUBSYS_ACCT` with `NFNL_MSG_ACCT_NEW` (`linux/netfilter/nfnetlink_acct.h`).
const NEW: u16 = 7 << 8;
/// `NFACCT_NAME`.
const NAME: u16 = 1;
/// `AF_UNSPEC`.
const ALL_FAMILIES: u8 = 0;

/// Creates the objects that rules refer to, as kube-proxy does before it writes such rules. Existing objects are kept.
///
/// # Errors
///
/// If the kernel rejects it.
pub(super) fn create(namespace: &Namespace, rules: &Rules) -> Result<(), LabError> {
    let names = named(rules);
    if names.is_empty() {
        return Ok(());
    }
    let error = || LabError::socket(namespace.name(), "creating nfacct objects");
    let socket = namespace.run(|| Socket::open(0))?.map_err(error())?;
    for name in names {
        let text = [name.as_bytes(), &[0]].concat();
        match socket.request(NEW, ALL_FAMILIES, 0, &encode(NAME, &text)) {
            Err(busy) if busy.raw_os_error() == Some(Errno::EBUSY as i32) => {}
            made => made.map_err(error())?,
        }
    }
    Ok(())
}

/// The objects that rules refer to.
fn named(rules: &Rules) -> BTreeSet<&str> {
    let matches = rules.iptables().into_iter().flat_map(RuleSet::matches);
    let names = matches.filter_map(|one| match one {
        Match::Nfacct(name) => Some(&**name),
        _ => None,
    });
    names.collect()
}

/// Generates a lab's documents for a state of a scenario's cluster, with the rules that kube-proxy writes on this kernel: they use nfacct
/// if both the release and the kernel support it. Every lab for a scenario gets its documents from here, or from [`super::Lab::generate`]
/// once it is built.
///
/// # Errors
///
/// As [`documents::generate`].
pub(crate) fn generate_for_lab(
    scenario: &Scenario,
    state: &Cluster,
    backend: Backend,
) -> Result<Vec<Document>, Unsupported> {
    generate_counting(scenario, state, counts(&state.proxy, backend))
}

/// Whether kube-proxy counts with nfacct on this kernel.
pub(crate) fn counts(proxy: &ProxyConfig, backend: Backend) -> bool {
    would_count(proxy) && is_there(backend)
}

/// Generates the documents of [`generate_for_lab`] if it is known whether kube-proxy counts on the lab's kernel: see [`counts`].
///
/// # Errors
///
/// As [`documents::generate`].
pub(crate) fn generate_counting(
    scenario: &Scenario,
    state: &Cluster,
    counts: bool,
) -> Result<Vec<Document>, Unsupported> {
    if !counts {
        return documents::generate(scenario, state);
    }
    let proxy = ProxyConfig { nfacct: true, ..state.proxy.clone() };
    documents::generate(scenario, &Cluster { proxy, ..state.clone() })
}

/// Whether a kube-proxy would count on a kernel with nfacct.
fn would_count(proxy: &ProxyConfig) -> bool {
    let with_nfacct = ProxyConfig { nfacct: true, ..proxy.clone() };
    let release = proxy.version.parse::<Profile>();
    proxy.mode == ProxyMode::Iptables && release.is_ok_and(|release| release.counts_with_nfacct(&with_nfacct))
}

/// Whether rules that count with nfacct can be installed here. It is tried once for each implementation of iptables.
fn is_there(backend: Backend) -> bool {
    static TRIED: [OnceLock<bool>; 3] = [const { OnceLock::new() }; 3];
    let tried = match backend {
        Backend::System => &TRIED[0],
        Backend::Nft => &TRIED[1],
        Backend::Legacy => &TRIED[2],
    };
    *tried.get_or_init(|| {
        let mut topology = Topology::default();
        topology.add(Netns::new("alone".to_owned(), Role::Underlay));
        let mut rules = RuleSet::new(Family::Ipv4);
        let counts = Rule { matches: [Match::Nfacct("svclab".into())].into_iter().collect(), ..Rule::default() };
        rules.table_mut(TableName::Filter).chains.push(Chain { rules: vec![counts], ..Chain::builtin("INPUT") });
        let document = Document { netns: "alone".to_owned(), family: Family::Ipv4, rules: Arc::new(rules.into()) };
        with_lab(&topology, &[document], backend, |_| ()).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::scenario;

    #[rstest]
    #[case::of_a_release_that_counts("1.33-node-hints", true)]
    #[case::of_one_that_does_not("1.24-source-ranges", false)]
    fn a_lab_counts_where_release_and_kernel_do(#[case] name: &str, #[case] would: bool) {
        let path = format!("../scenarios/releases/{name}.yaml");
        let scenario = scenario::load(Path::new(&path)).unwrap_or_else(|errors| panic!("{errors}"));
        for backend in [Backend::Nft, Backend::Legacy] {
            let documents = generate_for_lab(&scenario, &scenario.cluster, backend).unwrap();
            let counts = documents.iter().any(|document| !named(&document.rules).is_empty());
            assert_eq!(counts, would && is_there(backend), "{backend:?}");
        }
    }

    #[test]
    fn objects_are_named_by_rules() {
        let text = "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -m nfacct --nfacct-name  b -j DROP\n\
                    -A A -m nfacct --nfacct-name a\n-A B -m nfacct --nfacct-name b\nCOMMIT\n";
        let rules = Rules::parse(ProxyMode::Iptables, Family::Ipv4, text).unwrap();
        assert_eq!(Vec::from_iter(named(&rules)), ["a", "b"]);
    }
}
