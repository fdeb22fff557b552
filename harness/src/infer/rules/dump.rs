//! The rules of one node, out of evidence.

use svclab_rules::cascade::Extent;
use svclab_rules::cluster::{Cluster, Family, ProxyMode};
use svclab_rules::compare::{Finding, compare_machines};
use svclab_rules::infer::{Inferred, Show};
use svclab_rules::ruleset::Rules;

use super::excerpt::completed;
use crate::evidence::{Format, NodeRules};
use crate::infer::names::{Renamed, as_named};

/// The rules of a node, as far as they are shown.
#[derive(Debug, Clone)]
pub(in crate::infer) struct Dump {
    /// The node.
    pub(in crate::infer) node: String,
    /// Rules in the language of its kube-proxy, of a family each where it is iptables.
    pub(in crate::infer) parts: Vec<NodeRules>,
    /// What they show.
    pub(in crate::infer) inferred: Inferred,
    /// The service ports of which they have another name or hash.
    pub(in crate::infer) renamed: Vec<Renamed>,
}

impl Dump {
    /// The dump of a node. Rules in the language that shows no Service are left out; `None` where none shows any, unless whole tables
    /// without one count as well.
    pub(in crate::infer) fn of(node: String, parts: Vec<NodeRules>, counts_empty: bool) -> Option<Self> {
        let ports = |mode: ProxyMode| {
            let own = parts.iter().filter(|part| part.rules.mode() == mode);
            own.map(|part| part.rules.show().ports.len()).sum::<usize>()
        };
        let [iptables, nftables] = [ports(ProxyMode::Iptables), ports(ProxyMode::Nftables)];
        let mode = if nftables > iptables { ProxyMode::Nftables } else { ProxyMode::Iptables };
        let shows_some = |part: &NodeRules| {
            let is_empty = part.rules.show().ports.is_empty();
            part.rules.mode() == mode && (!is_empty || counts_empty && iptables + nftables == 0 && is_whole(part))
        };
        let parts: Vec<NodeRules> = parts.into_iter().filter(shows_some).collect();
        if parts.is_empty() {
            return None;
        }
        let inferred = Inferred::joined(parts.iter().map(|part| part.rules.show()));
        Some(Self { node, parts, inferred, renamed: Vec::new() })
    }

    /// The proxy mode.
    pub(in crate::infer) fn mode(&self) -> ProxyMode {
        self.parts.first().map_or(ProxyMode::Iptables, |part| part.rules.mode())
    }

    /// Whether these are all rules of the node, and not an excerpt or a listing, which leaves things out.
    pub(in crate::infer) fn is_whole(&self) -> bool {
        self.parts.iter().all(is_whole)
    }

    /// The families that have services, each with the part that it is in.
    pub(in crate::infer) fn families(&self) -> impl Iterator<Item = (Family, &NodeRules)> {
        self.parts.iter().flat_map(|part| {
            let families: Vec<Family> = match part.rules.iptables() {
                Some(rules) => vec![rules.family],
                None => {
                    let has_some = |family: &Family| {
                        self.inferred.ports.is_empty() || !part.rules.clone().of_family(*family).show().ports.is_empty()
                    };
                    Family::ALL.into_iter().filter(has_some).collect()
                }
            };
            families.into_iter().map(move |family| (family, part))
        })
    }

    /// The rules that kube-proxy writes for the node, for each part that shows a service; `None` where it cannot write any.
    pub(in crate::infer) fn expected(&self, cluster: &Cluster) -> Option<Vec<Option<Rules>>> {
        let node = cluster.node(&self.node)?;
        let of_part = |part: &NodeRules| {
            let families = self.families().filter(|(_, of)| std::ptr::eq(*of, part)).map(|(family, _)| family);
            let written: Option<Vec<Rules>> =
                families.map(|family| Rules::generate(cluster, node, family).ok()).collect();
            Some(written?.into_iter().reduce(Rules::joined))
        };
        self.parts.iter().map(of_part).collect()
    }

    /// The differences from the rules that are expected. What an excerpt does not show is no difference.
    pub(in crate::infer) fn differences(&self, expected: &[Option<Rules>]) -> Vec<Finding> {
        let of_part = |(part, expected): (&NodeRules, &Option<Rules>)| {
            let Some(expected) = expected else { return Vec::new() };
            let expected = as_named(expected.clone(), &self.renamed);
            let found = match is_whole(part) {
                true => compare_machines(&expected, &part.rules),
                false => compare_machines(&expected, &completed(&part.rules, expected.clone())),
            };
            found.own
        };
        self.parts.iter().zip(expected).flat_map(of_part).collect()
    }
}

/// Whether these are all rules in their language and family.
pub(in crate::infer) fn is_whole(part: &NodeRules) -> bool {
    let has_nat =
        part.rules.iptables().is_none_or(|rules| rules.table(svclab_rules::iptables::TableName::Nat).is_some());
    part.extent == Extent::Whole && part.format != Format::IptablesList && has_nat
}
