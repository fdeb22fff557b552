//! Cascades from rules.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::Cascade;
use super::affinity::affinity;
use super::assessment::{About, judge};
use super::defect::{Defect, Kind};
use super::group::Walk;
use super::group_walk::walk;
use super::outcome::Unknown;
use crate::chains::iptables::{MASQUERADE, NAMING, destination, is_large, service_in};
use crate::chains::{Endpoint, Group, Kind as Role, Lead, Policy, Reading, StructureDefect};
use crate::cluster::{Family, Protocol};
use crate::coverage::{Coverage, nft_table};
use crate::iptables::{Chain, Rule, RuleSet, Table, TableName};
use crate::ruleset::Rules;
use crate::walk::{Inspect, Program};
use crate::{chains, iptables, nftables};

/// Chains that only set a mark: their effect is known even if the text does not contain them.
const MARKING: [&str; 2] = [MASQUERADE, "KUBE-MARK-DROP"];

/// Returns every chain that balances connections among endpoints, in the rule set's order: kube-proxy's service chains, and other chains
/// whose own rules translate at random.
pub fn cascades(rules: &RuleSet) -> Vec<Cascade> {
    cascades_with_coverage(rules, &Coverage::all())
}

/// Reads rules that may be an excerpt.
pub fn cascades_with_coverage(rules: &RuleSet, coverage: &Coverage) -> Vec<Cascade> {
    let Some(nat) = rules.table(TableName::Nat) else { return Vec::new() };
    let is_whole = |chain: &str| coverage.has_chain(TableName::Nat.as_str(), chain);
    let nat = completed(nat, &is_whole);
    let program = iptables::evaluate::Program::compile_chains(&nat, rules.family);
    let mut cascades = all(&chains::iptables::Table::new(&nat, rules.family), (&program, rules.family), &is_whole);
    orphans(nat.chains.as_slice(), coverage, &mut cascades);
    cascades
}

/// How rules distribute connections, and defects of the rules as a whole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shares {
    /// The chains that balance connections among endpoints, in the order of the rules.
    pub cascades: Vec<Cascade>,
    /// Missing jumps from base chains, and duplicate rules.
    pub structure_defects: Vec<StructureDefect>,
}

/// Computes the shares of iptables or nftables rules. Of nftables, only kube-proxy's tables are read. If the kernel rejects the rules, the
/// only defect is the reason, because everything else would follow from it.
pub fn shares(rules: &Rules, coverage: &Coverage) -> Shares {
    let rejected = rejections(rules);
    if !rejected.is_empty() {
        return Shares { cascades: Vec::new(), structure_defects: rejected };
    }
    let cascades = match rules {
        Rules::Iptables(parsed) => cascades_with_coverage(&parsed.rules, coverage),
        Rules::Nftables(parsed) => parsed.rules.tables.iter().flat_map(|table| numgens_of(table, coverage)).collect(),
        Rules::OtherTables(_) => Vec::new(),
    };
    Shares { cascades, structure_defects: structure_defects(rules, coverage) }
}

/// Returns the defects of rules as a whole, if the kernel accepts them: missing jumps from base chains, and duplicate rules.
pub fn structure_defects(rules: &Rules, coverage: &Coverage) -> Vec<StructureDefect> {
    match rules {
        Rules::Iptables(parsed) => chains::iptables::structure_defects(&parsed.rules, coverage),
        Rules::Nftables(parsed) => {
            parsed.rules.tables.iter().flat_map(|table| chains::nftables::structure_defects(table, coverage)).collect()
        }
        Rules::OtherTables(_) => Vec::new(),
    }
}

/// Returns why the kernel rejects rules, also for an excerpt.
fn rejections(rules: &Rules) -> Vec<StructureDefect> {
    match rules {
        Rules::Iptables(parsed) => iptables::evaluate::rejections(&parsed.rules)
            .into_iter()
            .map(|error| StructureDefect::Rejected {
                table: error.table.as_str(),
                chain: error.chain.as_ref().map(ToString::to_string),
                rule: error.rule,
                is_loop: matches!(error.kind, iptables::evaluate::CompileErrorKind::Loop(_)),
                why: error.to_string(),
            })
            .collect(),
        Rules::Nftables(parsed) => {
            parsed.rules.tables.iter().flat_map(nftables::evaluate::rejections).map(rejected_by_nft).collect()
        }
        Rules::OtherTables(_) => Vec::new(),
    }
}

fn rejected_by_nft(error: nftables::evaluate::CompileError) -> StructureDefect {
    use nftables::evaluate::{CompileErrorKind, Part};
    let (chain, rule) = match &error.part {
        Part::Chain(chain) => (Some(chain), None),
        Part::Rule(chain, rule) => (Some(chain), Some(*rule)),
        Part::Table | Part::Set(_) => (None, None),
    };
    StructureDefect::Rejected {
        table: nft_table(error.family),
        chain: chain.map(ToString::to_string),
        rule,
        is_loop: matches!(error.kind, CompileErrorKind::Loop(_)),
        why: error.to_string(),
    }
}

/// Returns every chain of a table that balances connections among endpoints, in the table's order.
pub fn numgens(table: &nftables::Table) -> Vec<Cascade> {
    numgens_of(table, &Coverage::all())
}

/// Reads a table that may be an excerpt.
pub(crate) fn numgens_of(table: &nftables::Table, coverage: &Coverage) -> Vec<Cascade> {
    let is_whole = |chain: &str| coverage.has_chain(nft_table(table.family), chain);
    let translates =
        |rule: &nftables::Rule| rule.statements.iter().any(|one| matches!(one, nftables::Statement::Dnat(_)));
    let is_cut = |chain: &nftables::Chain| {
        let is_part = chains::nftables::NAMING.is_endpoint(&chain.name) && !is_whole(&chain.name);
        is_part && !chain.rules.iter().any(translates)
    };
    let mut known = Cow::Borrowed(table);
    if table.chains.iter().any(is_cut) {
        known.to_mut().chains.retain(|chain| !is_cut(chain));
    }
    let shown = known.chains.len();
    let table = chains::nftables::completed(&known);
    let program = nftables::evaluate::Program::compile_chains(&table);
    all(&chains::nftables::Table::new(&table, shown), (&program, table.family), &is_whole)
}

/// Adds missing marking chains to a table, and removes endpoint chains that are known only in part, without the rule that translates.
fn completed<'t>(table: &'t Table, is_whole: IsWhole<'_>) -> Cow<'t, Table> {
    let jumps = || table.chains.iter().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain);
    let is_lacking = |name: &&str| table.chain(name).is_none() && jumps().any(|next| **next == **name);
    let lacking: Vec<&str> = MARKING.into_iter().filter(is_lacking).collect();
    let is_cut = |chain: &Chain| {
        let is_part = NAMING.is_endpoint(&chain.name) && !is_whole(&chain.name);
        is_part && !chain.rules.iter().any(|rule| destination(rule).is_some())
    };
    if lacking.is_empty() && !table.chains.iter().any(is_cut) {
        return Cow::Borrowed(table);
    }
    let shown = table.chains.iter().filter(|chain| !is_cut(chain)).cloned();
    let chains = shown.chain(lacking.into_iter().map(Chain::user)).collect();
    Cow::Owned(Table { name: table.name, chains })
}

/// A function that says whether all rules of a chain are known.
type IsWhole<'f> = &'f dyn Fn(&str) -> bool;

fn all<'a, C: Inspect>(
    reading: &impl Reading<'a>,
    (program, family): (&Program<C>, Family),
    is_whole: IsWhole<'_>,
) -> Vec<Cascade> {
    let positions: HashMap<&str, u32> = program.names.iter().zip(0..).map(|(names, at)| (&*names.chain, at)).collect();
    let cascade = |name: &str| {
        let group = reading.group(name)?;
        let walked = walk(&Walk { program, chain: *positions.get(name)?, reading, group: &group })?;
        let mut defects = affinity(reading, &group);
        defects.extend(endpoints(reading, &group));
        let has_affinity = group.leads.iter().any(|lead| lead.recall.is_some());
        let (service, chain) = (group.service.into_owned(), group.chain.to_owned());
        let (protocol, frontends, is_whole) = (group.protocol, group.frontends, is_whole(&chain));
        let about = About { service, protocol, frontends, family, chain, has_affinity, defects, is_whole };
        Some(judge(about, walked))
    };
    reading.groups().into_iter().filter_map(cascade).collect()
}

/// Checks the destinations of a group's endpoint chains, and finds rules with a port but no protocol.
///
/// kube-proxy states the endpoint of a chain up to three times: in its name, in the masquerade rule for the endpoint's connections to
/// itself, and, in iptables mode from 1.24 on, in the comment of the rule that jumps there. In correct rules all of them agree with the
/// DNAT destination.
fn endpoints<'a>(reading: &impl Reading<'a>, group: &Group<'a>) -> Vec<Defect> {
    let new = group.leads.iter().filter(|lead| lead.recall.is_none());
    let endpoints: Vec<(&Lead<'a>, Endpoint<'a>)> =
        new.filter_map(|lead| Some((lead, reading.endpoint(lead.chain()?)?))).collect();
    let misnamed = reading.misnamed(group, &endpoints);
    let service = group.protocol.unwrap_or(Protocol::Tcp);
    let mut known = HashSet::new();
    let gaps = group.gaps.iter().map(|&(rule, (lacking, of))| Defect { rule, kind: Kind::Gap { lacking, of } });
    let mut found: Vec<Defect> = gaps.collect();
    found.extend(group.without_protocol.iter().map(|rule| port_without_protocol(*rule, None)));
    for ((lead, endpoint), misnamed) in endpoints.iter().zip(misnamed) {
        if endpoint.lacks_protocol && known.insert(endpoint.chain) {
            found.push(port_without_protocol(lead.rule, Some(endpoint.chain)));
        }
        let mut defect = |kind| found.push(Defect { rule: lead.rule, kind });
        let chain = || endpoint.chain.to_owned();
        if let Some(destination) = &endpoint.no_endpoint {
            defect(Kind::NoEndpoint { chain: chain(), destination: destination.clone() });
        }
        let Some(to) = endpoint.destination else { continue };
        if let Some(translates) = other_protocol(endpoint, service) {
            defect(Kind::Protocol { chain: chain(), translates, service });
        }
        let masqueraded = endpoint.masqueraded.filter(|source| source.only() != Some(to.ip()));
        let named = masqueraded.map(|source| (source.to_string(), "its masquerade rule"));
        if let Some((named, by)) = named.or_else(|| misnamed.map(|other| (other.named, other.by))) {
            defect(Kind::Address { chain: chain(), destination: to.to_string(), named, by });
        }
    }
    found
}

fn port_without_protocol(rule: usize, chain: Option<&str>) -> Defect {
    Defect { rule, kind: Kind::PortWithoutProtocol { chain: chain.map(str::to_owned) } }
}

/// Returns the protocol that an endpoint's chain translates if it is not the service's.
fn other_protocol(endpoint: &Endpoint<'_>, service: Protocol) -> Option<Protocol> {
    let fits = |protocol: &Option<Protocol>| protocol.is_none_or(|protocol| protocol == service);
    if endpoint.protocols.iter().any(fits) { None } else { endpoint.protocols.iter().find_map(|protocol| *protocol) }
}

/// Finds endpoint chains of a service that no rule jumps to. In an excerpt, that rule may be among the missing ones, unless a known filter
/// selects it; then the group's chain is incomplete.
fn orphans(chains: &[Chain], coverage: &Coverage, cascades: &mut [Cascade]) {
    let nat = TableName::Nat.as_str();
    let jumps = chains.iter().flat_map(|chain| &chain.rules).filter_map(Rule::next_chain);
    let led: HashSet<&str> = jumps.map(|next| &**next).filter(|next| NAMING.is_endpoint(next)).collect();
    let alone = chains.iter().filter(|chain| NAMING.is_endpoint(&chain.name) && !led.contains(&*chain.name));
    let is_large = is_large(chains);
    for chain in alone {
        let Some((address, service)) =
            chain.rules.iter().find_map(destination).zip(chain.rules.iter().find_map(service_in))
        else {
            continue;
        };
        let (endpoint, chain) = (address.to_string(), chain.name.to_string());
        let is_of_all =
            |cascade: &Cascade| NAMING.of(&cascade.chain).is_some_and(|(kind, _)| kind == Role::Group(Policy::Cluster));
        let mut own: Vec<&mut Cascade> = cascades.iter_mut().filter(|cascade| cascade.service == service).collect();
        // The excerpt may cut the group's chain so that it is no longer a cascade.
        let of_all = |cascade: &Cascade| NAMING.of(&cascade.chain).map(|(_, base)| format!("KUBE-SVC-{base}"));
        // With and without the endpoint in its comment.
        let jump = |group: &str, comment: String| {
            let comment = format!("-m comment --comment \"{comment}\"");
            format!("-A {group} {comment} -m statistic --mode random --probability 0.50000000000 -j {chain}")
        };
        let would_show = |group: &str| {
            let comments = [service.to_owned(), format!("{service} -> {endpoint}")];
            comments.into_iter().all(|comment| coverage.shows(nat, &jump(group, comment)))
        };
        let is_whole =
            |group: &str| coverage.has_chain(nat, group) || would_show(group) && !coverage.is_cut(nat, group);
        let is_known =
            |cascade: &Cascade| is_whole(&cascade.chain) && of_all(cascade).is_none_or(|chain| is_whole(&chain));
        let is_left_over = || is_large && own.iter().all(|cascade| cascade.defects.is_empty());
        let are_known = own.iter().all(|cascade| is_known(cascade));
        if are_known && is_left_over() {
            continue;
        }
        if are_known {
            if let Some(own) = own.first_mut() {
                own.defects.push(Defect { rule: 0, kind: Kind::Orphan { endpoint, chain } });
            }
        } else if let Some(own) = own.iter_mut().find(|cascade| is_of_all(cascade)) {
            let why = format!("{endpoint} has a chain, {chain}, but the rule that leads there is not among these");
            own.unknown.push(Unknown { rule: 0, share: None, why });
        }
    }
}
