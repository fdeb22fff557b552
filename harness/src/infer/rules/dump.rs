//! The rules of one node, out of evidence.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use svclab_rules::cascade::complete_typed_probabilities;
use svclab_rules::cluster::{Cluster, Family, ProxyMode};
use svclab_rules::compare::{Finding, MadeUp, compare_own, completed, differing_comments};
use svclab_rules::coverage::nft_table;
use svclab_rules::infer::{Infer, Inferred, InferredPort};
use svclab_rules::iptables::{Nat, Network, Rule, TableName, Target};
use svclab_rules::ruleset::Rules;

use super::hidden_interfaces;
use super::made_up::lead_to;
use crate::evidence::NodeRules;
use crate::infer::names::{Renamed, as_named};
use crate::text::counted;

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
    /// Other programs' rules of iptables alongside those of kube-proxy in nftables.
    pub(in crate::infer) others: Vec<NodeRules>,
    /// The machine that prompts, or else `uname -a`, name.
    pub(in crate::infer) host: Option<String>,
    /// The addresses of the node that the text shows, as `ip addr` lists them.
    pub(in crate::infer) addresses: Vec<IpAddr>,
    /// The ranges of the node's pod bridges, as routes show them.
    pub(in crate::infer) bridged: Vec<IpNet>,
    /// How many rules had a probability that people shortened.
    typed: usize,
}

/// The pod ranges of the cluster and of the node in flannel's rule that leaves connections from outside to the node's pods unmasqueraded:
/// `! -s CLUSTER -d NODE -j RETURN`.
fn flannel_range(rule: &Rule) -> Option<(IpNet, IpNet)> {
    let (source, destination) = (rule.source.as_ref()?, rule.destination.as_ref()?);
    let is_return = rule.target == Some(Target::Return) && source.negated && !destination.negated;
    let (Network::Prefix(cluster), Network::Prefix(node)) = (&source.value, &destination.value) else { return None };
    (is_return && cluster != node && cluster.contains(node)).then_some((*cluster, *node))
}

impl Dump {
    /// The dump of a node. Rules in the language that shows no Service are left out; `None` where none shows any, unless whole tables
    /// without one count as well.
    pub(in crate::infer) fn of(node: String, parts: Vec<NodeRules>, counts_empty: bool) -> Option<Self> {
        let ports = |mode: ProxyMode| {
            let own = parts.iter().filter(|part| part.rules.mode() == mode);
            own.map(|part| part.rules.infer().ports.len()).sum::<usize>()
        };
        let [iptables, nftables] = [ports(ProxyMode::Iptables), ports(ProxyMode::Nftables)];
        let translates =
            |mode: ProxyMode| parts.iter().any(|part| part.rules.mode() == mode && part.has_translations());
        let is_of_nftables = nftables > iptables || iptables + nftables == 0 && !translates(ProxyMode::Iptables);
        let mode = if is_of_nftables { ProxyMode::Nftables } else { ProxyMode::Iptables };
        let shows_some = |part: &NodeRules| {
            let is_empty = part.rules.infer().ports.is_empty();
            part.rules.mode() == mode
                && (!is_empty || counts_empty && iptables + nftables == 0 && part.has_translations())
        };
        let parts = parts.into_iter().filter(shows_some).map(hidden_interfaces::with_those_of_pods);
        let mut parts: Vec<NodeRules> = parts.collect();
        let completed = |part: &mut NodeRules| match &mut part.rules {
            Rules::Iptables(parsed) => complete_typed_probabilities(&mut parsed.rules),
            _ => 0,
        };
        let typed = parts.iter_mut().map(completed).sum();
        if parts.is_empty() {
            return None;
        }
        let inferred = Inferred::joined(parts.iter().map(|part| part.rules.infer_covered(&part.coverage)));
        let (renamed, others, addresses, bridged) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Some(Self { node, parts, inferred, renamed, others, host: None, addresses, bridged, typed })
    }

    /// What was assumed of probabilities that people shortened, in words.
    pub(super) fn typed_words(&self) -> Option<String> {
        (self.typed > 0).then(|| {
            let rules = counted(self.typed, "rule");
            format!(
                "probabilities of {rules} of {} with fewer decimals than iptables prints are even shares",
                self.node
            )
        })
    }

    /// All dumps of each node as one.
    pub(in crate::infer) fn merged<'d>(dumps: impl Iterator<Item = &'d Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for dump in dumps {
            match merged.iter_mut().find(|known| known.node == dump.node) {
                None => merged.push(dump.clone()),
                Some(known) => {
                    known.parts.extend(dump.parts.iter().cloned());
                    known.inferred = Inferred::joined([known.inferred.clone(), dump.inferred.clone()]);
                    let new = dump.renamed.iter().filter(|one| !known.renamed.contains(one)).cloned();
                    let new: Vec<Renamed> = new.collect();
                    known.renamed.extend(new);
                    known.others.extend(dump.others.iter().cloned());
                    known.typed += dump.typed;
                    known.addresses.extend(&dump.addresses);
                    known.bridged.extend(&dump.bridged);
                }
            }
        }
        merged
    }

    /// Keeps Services of which an excerpt shows the names of chains alone, behind which it was cut: they have endpoints that it does not show. In
    /// whole rules, such chains are left over.
    pub(in crate::infer) fn keep_cut_services(&mut self) {
        let cut = self.parts.iter().filter(|part| !part.has_translations());
        let families: BTreeSet<Family> = cut.filter_map(|part| Some(part.rules.iptables()?.family)).collect();
        for port in self.inferred.ports.iter_mut().filter(|port| port.is_name_alone()) {
            port.unshown_endpoints.extend(port.families.intersection(&families).copied().collect::<Vec<_>>());
        }
    }

    /// The pod ranges of the node, first what rules or routes say: flannel's rule, the route of a pod bridge, else the range of local pods.
    pub(super) fn own_ranges(&self, pods: &BTreeSet<IpAddr>, node_range: Option<IpNet>) -> Vec<IpNet> {
        let has_pods = |range: &IpNet| pods.iter().any(|ip| range.contains(ip));
        let sets = self.parts.iter().chain(&self.others).filter_map(|part| part.rules.iptables());
        let chains = sets.filter_map(|rules| rules.table(TableName::Nat)).flat_map(|table| &table.chains);
        let of_flannel = chains.flat_map(|chain| &chain.rules).filter_map(flannel_range);
        let of_flannel = of_flannel.filter(|(cluster, _)| has_pods(cluster)).map(|(_, range)| range);
        of_flannel.chain(self.bridged.iter().copied()).chain(node_range).collect()
    }

    /// The addresses that other programs' rules translate to, such as those of pods with a host port.
    pub(super) fn translated_to(&self) -> impl Iterator<Item = IpAddr> {
        let sets = self.parts.iter().chain(&self.others).filter_map(|part| part.rules.iptables());
        let chains = sets.flat_map(|rules| &rules.tables).flat_map(|table| &table.chains);
        let rules = chains.filter(|chain| !chain.name.starts_with("KUBE-")).flat_map(|chain| &chain.rules);
        rules.filter_map(|rule| match &rule.target {
            Some(Target::Dnat(Nat { addresses: Some((first, last)), .. })) if first == last => Some(*first),
            _ => None,
        })
    }

    /// The proxy mode.
    pub(in crate::infer) fn mode(&self) -> ProxyMode {
        self.parts.first().map_or(ProxyMode::Iptables, |part| part.rules.mode())
    }

    /// Whether the tables in which kube-proxy translates are shown whole.
    pub(in crate::infer) fn is_whole(&self) -> bool {
        self.parts.iter().all(NodeRules::has_translations)
    }

    /// Whether the list of all Services is shown whole, so that one that is not in it is not on the node.
    pub(in crate::infer) fn lists_services(&self) -> bool {
        self.shows_list(TableName::Nat, "service-ips")
    }

    /// Whether the list of Services without endpoints is shown whole as well: all other Services are rejected or not on the node.
    pub(in crate::infer) fn lists_rejections(&self) -> bool {
        self.shows_list(TableName::Filter, "no-endpoint-services")
    }

    /// Whether KUBE-SERVICES of a table of iptables, or a map of nftables, is shown whole.
    fn shows_list(&self, table: TableName, map: &str) -> bool {
        let shows = |part: &NodeRules| match &part.rules {
            Rules::Iptables(_) => part.coverage.has_chain(table.as_str(), "KUBE-SERVICES"),
            Rules::Nftables(parsed) => {
                let tables = &parsed.rules.tables;
                tables.iter().all(|table| part.coverage.has_chain(nft_table(table.family), map))
            }
            Rules::OtherTables(_) => false,
        };
        self.parts.iter().all(shows)
    }

    /// Whether rules that would name the range of local pods are shown, so that there is none if they do not: those of a service's cluster IP or
    /// of its external traffic with policy Local.
    pub(in crate::infer) fn shows_local_sources(&self) -> bool {
        let shows = |part: &NodeRules| match &part.rules {
            Rules::Iptables(_) => {
                let has = |chain: &str| part.coverage.has_chain(TableName::Nat.as_str(), chain);
                let has_group = |port: &InferredPort| {
                    // Up to 1.21 the rule was in KUBE-SERVICES.
                    !port.cluster_ips.is_empty()
                        && port.hash.is_some_and(|hash| has(&format!("KUBE-SVC-{hash}")))
                        && has("KUBE-SERVICES")
                };
                let has_external = |port: &InferredPort| {
                    let names = |hash| ["KUBE-EXT-", "KUBE-XLB-"].map(|prefix| format!("{prefix}{hash}"));
                    port.is_external_local
                        && port.hash.is_some_and(|hash| {
                            names(hash).iter().any(|name| {
                                part.rules.iptables().is_some_and(|rules| !rules.rules(TableName::Nat, name).is_empty())
                                    && has(name)
                            })
                        })
                };
                let would_show = |port: &InferredPort| {
                    lines_of_local_sources(port).is_some_and(|lines| {
                        lines.iter().all(|line| part.coverage.shows(TableName::Nat.as_str(), line))
                    })
                };
                let is_shown = |port: &InferredPort| has_group(port) || has_external(port) || would_show(port);
                self.inferred.ports.iter().any(is_shown)
            }
            Rules::Nftables(parsed) => parsed.rules.tables.iter().any(|table| {
                let has = |name: &str| part.coverage.has_chain(nft_table(table.family), name);
                table.chains.iter().any(|chain| chain.name.starts_with("service-") && has(&chain.name))
            }),
            Rules::OtherTables(_) => false,
        };
        self.parts.iter().any(shows)
    }

    /// The families that have services, each with the part that it is in.
    pub(in crate::infer) fn families(&self) -> impl Iterator<Item = (Family, &NodeRules)> {
        self.parts.iter().flat_map(|part| {
            let families: Vec<Family> = match part.rules.iptables() {
                Some(rules) => vec![rules.family],
                None => {
                    let has_some = |family: &Family| {
                        self.inferred.ports.is_empty()
                            || !part.rules.clone().for_family(*family).infer().ports.is_empty()
                    };
                    Family::ALL.into_iter().filter(has_some).collect()
                }
            };
            families.into_iter().map(move |family| (family, part))
        })
    }

    /// The rules that kube-proxy writes for the node, for each part that shows a service of these families; `None` where it cannot write any.
    pub(in crate::infer) fn expected(
        &self,
        families: &[(Family, &NodeRules)],
        cluster: &Cluster,
    ) -> Option<Vec<Option<Rules>>> {
        let node = cluster.node(&self.node)?;
        let of_part = |part: &NodeRules| {
            let families = families.iter().filter(|(_, of)| std::ptr::eq(*of, part));
            let written: Option<Vec<Rules>> =
                families.map(|(family, _)| Rules::generate(cluster, node, *family).ok()).collect();
            Some(written?.into_iter().reduce(Rules::joined))
        };
        self.parts.iter().map(of_part).collect()
    }

    /// The differences from the rules that are expected, `most` at most. What the text does not show is not a difference.
    pub(in crate::infer) fn differences(
        &self,
        expected: &[Option<Rules>],
        made_up: &MadeUp,
        most: usize,
    ) -> Vec<Finding> {
        let of_part = |(part, expected): (&NodeRules, &Option<Rules>)| {
            let Some(expected) = expected else { return Vec::new() };
            let expected = as_named(expected.clone(), &self.renamed, &part.rules);
            let shown = completed(&part.rules, &part.coverage, expected.clone(), made_up).rules;
            compare_own(&expected, &lead_to(made_up, shown, &expected), most)
        };
        self.parts.iter().zip(expected).flat_map(of_part).collect()
    }

    /// How many rules differ from those that are expected in their comments alone.
    pub(in crate::infer) fn differing_comments(&self, expected: &[Option<Rules>]) -> usize {
        let of_part = |(part, expected): (&NodeRules, &Option<Rules>)| {
            let expected = as_named(expected.clone()?, &self.renamed, &part.rules);
            Some(differing_comments(&expected, &part.rules))
        };
        self.parts.iter().zip(expected).filter_map(of_part).sum()
    }
}

/// The rules in which releases name the range of local pods for a cluster IP, with any range: from 1.22 on, and before.
fn lines_of_local_sources(port: &InferredPort) -> Option<[String; 2]> {
    let (ip, hash, number) = (port.cluster_ips.first()?, port.hash?, port.port?);
    let (range, bits) = if ip.is_ipv4() { ("10.0.0.0/8", 32) } else { ("fd00::/8", 128) };
    let (protocol, name) = (port.protocol, port.full_name());
    let line = |chain: String| {
        format!(
            "-A {chain} ! -s {range} -d {ip}/{bits} -p {protocol} -m comment --comment \"{name} cluster IP\" -m {protocol} \
             --dport {number} -j KUBE-MARK-MASQ"
        )
    };
    Some([line(format!("KUBE-SVC-{hash}")), line("KUBE-SERVICES".to_owned())])
}
