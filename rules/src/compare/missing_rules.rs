//! Rules that a text would contain if they were on the node, but does not.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};

use super::alternatives;
use super::iptables::LISTS;
use super::made_up::MadeUp;
use super::others::is_own_chain;
use crate::chains::Kind;
use crate::chains::iptables::{NAMING, frontend, shared_by};
use crate::cluster::Family;
use crate::coverage::Coverage;
use crate::iptables::{Chain, Match, Network, Rule, Table, TableName, Target, print_rule};

/// What an incomplete text leaves out of a table.
pub(super) struct OmittedRules<'c> {
    coverage: &'c Coverage,
    assumed: &'c MadeUp,
    table: TableName,
    family: Family,
    /// The last chain in the text, if the text is cut before the end of the filter's output.
    last_before_cut: Option<String>,
    /// The service chains whose rules in the text lead to endpoints, and the chains that jump to them.
    leading: HashSet<String>,
    /// The chains with rules in the text.
    shown: HashSet<String>,
    /// The chains that rules of the text jump to.
    targets: HashSet<String>,
    /// The shapes of service and endpoint rules in the text, regardless of the service.
    shown_shapes: HashSet<Shape>,
    /// Whether comments of the text name endpoints, as those of newer releases do.
    names_endpoints: bool,
}

impl<'c> OmittedRules<'c> {
    /// Compares a table of the text with what kube-proxy writes.
    pub(super) fn of(
        shown: &Table,
        (coverage, assumed): (&'c Coverage, &'c MadeUp),
        written: &Table,
        family: Family,
    ) -> Self {
        let leads = |chain: &&Chain| {
            let is_group = NAMING.service_port_part(&chain.name).is_some();
            let leads = |rule: &Rule| if is_group { is_share(rule) } else { rule.target.is_some() && !marks(rule) };
            chain.rules.iter().any(|rule| !rule.is_unread() && leads(rule))
        };
        let leading = shown.chains.iter().filter(leads).map(|chain| chain.name.to_string()).collect();
        let names = shown.chains.iter().filter(|chain| !chain.rules.is_empty()).map(|chain| chain.name.to_string());
        let names = names.collect();
        let rules = shown.chains.iter().flat_map(|chain| &chain.rules);
        let targets = rules.clone().filter_map(Rule::next_chain).map(ToString::to_string).collect();
        let shapes =
            shown.chains.iter().flat_map(|chain| chain.rules.iter().filter_map(|rule| shape(&chain.name, rule)));
        let mut left_out = Self {
            coverage,
            assumed,
            table: shown.name,
            family,
            last_before_cut: None,
            shown: names,
            leading,
            targets,
            shown_shapes: shapes.collect(),
            names_endpoints: rules.clone().any(names_endpoint),
        };
        if coverage.is_filtered(shown.name.as_str()) {
            left_out.last_before_cut = left_out.last_before_cut(shown, written);
        }
        left_out
    }

    /// Returns the last chain in the text, if the text should contain several rules of later chains: the kernel lists chains by name.
    fn last_before_cut(&self, shown: &Table, written: &Table) -> Option<String> {
        let has_rules = |chain: &&Chain| !chain.rules.is_empty() && !self.is_builtin(&chain.name);
        let last = shown.chains.iter().filter(has_rules).map(|chain| chain.name.to_string()).max()?;
        let after = written.chains.iter().filter(|chain| *chain.name > *last && !self.is_builtin(&chain.name));
        let mut chosen = after.flat_map(|chain| chain.rules.iter().filter(|rule| self.is_chosen(&chain.name, rule)));
        chosen.nth(1).map(|_| last)
    }

    fn is_builtin(&self, chain: &str) -> bool {
        self.table.builtin_chains().contains(&chain)
    }

    fn line(&self, chain: &str, rule: &Rule) -> String {
        print_rule(self.family, chain, rule)
    }

    /// Returns whether the filter that selected the lines would select this rule.
    fn is_chosen(&self, chain: &str, rule: &Rule) -> bool {
        self.coverage.shows(self.table.as_str(), &self.line(chain, rule))
    }

    /// Returns whether a rule that kube-proxy writes, and that the text lacks in a chain it contains, is missing on the node.
    pub(super) fn is_missing(&self, chain: &str, rule: &Rule) -> bool {
        if self.is_to_assumed_address(rule) || self.is_of_assumed_sources(rule) {
            false
        } else if self.coverage.is_filtered(self.table.as_str()) {
            self.is_missing_by_pattern(chain, rule)
        } else {
            self.is_missing_by_likeness(chain, rule)
        }
    }

    /// Returns whether a rule that kube-proxy writes before one in the text is missing on the node, in a chain that the text shows up to its
    /// end. The order in lists of services, in built-in chains and among endpoints is not kube-proxy's alone.
    pub(super) fn is_missing_at_start(&self, chain: &str, rule: &Rule) -> bool {
        self.coverage.is_cut_at_end(self.table.as_str(), chain)
            && is_own_chain(chain)
            && !LISTS.contains(&chain)
            && !is_share(rule)
            && !self.is_to_assumed_address(rule)
            && !self.is_of_assumed_sources(rule)
            && self.coverage.may_show(&self.line(chain, rule))
    }

    /// Decides by the known filter: a rule that it would select is missing on the node, unless it belongs after the last line or leads to a
    /// placeholder.
    ///
    /// `grep shop/web` shows `-A KUBE-SVC-X --comment "shop/web -> 10.244.1.5:80" -j KUBE-SEP-Y`, so without this line the rule is missing.
    fn is_missing_by_pattern(&self, chain: &str, rule: &Rule) -> bool {
        let is_after = |last: &String| chain > last.as_str() && !self.is_builtin(chain);
        !self.last_before_cut.as_ref().is_some_and(is_after)
            && !self.is_placeholder_endpoint(chain, rule)
            && self.is_chosen(chain, rule)
            && self.has_only_chosen_alternatives(chain, rule)
    }

    /// Returns whether a rule is about an address that no text shows.
    fn is_to_assumed_address(&self, rule: &Rule) -> bool {
        let address = frontend(rule).and_then(|frontend| frontend.address);
        address.is_some_and(|address| self.assumed.addresses.contains(&address))
    }

    /// Returns whether a rule is about sources that kube-proxy's configuration may not have.
    fn is_of_assumed_sources(&self, rule: &Rule) -> bool {
        let range = rule.source.as_ref().and_then(|source| match source.value {
            Network::Prefix(range) => Some(range),
            Network::Masked(_) => None,
        });
        range.is_some_and(|range| self.assumed.local_sources.contains(&range.trunc()))
    }

    /// Returns whether a rule is about a node port that no text shows.
    fn is_of_assumed_port(&self, rule: &Rule) -> bool {
        frontend(rule).is_some_and(|own| own.address.is_none() && self.assumed.node_ports.contains(&own.port))
    }

    /// Returns whether the filter would also select each rule that the node may have instead of this one, because what decides between them
    /// may be in lines that the filter hides.
    fn has_only_chosen_alternatives(&self, chain: &str, rule: &Rule) -> bool {
        let (table, line) = (self.table.as_str(), self.line(chain, rule));
        let starts = alternatives::starts(rule);
        starts.iter().all(|start| self.coverage.shows_all(table, start))
            && alternatives::lines(chain, rule, &line).iter().all(|line| self.coverage.shows(table, line))
            && (self.names_endpoints
                || alternatives::without_endpoint(&line).is_none_or(|line| self.coverage.shows(table, &line)))
            && (!self.is_of_assumed_port(rule)
                || alternatives::of_node_ports(&line).all(|line| self.coverage.shows(table, &line)))
    }

    /// Decides by the lines present, if the filter is unknown: a service's chain with a jump is complete, and a rule is missing on the node
    /// if other services or endpoints have a rule like it, unless it lacks what all lines of the text have in common.
    ///
    /// If other endpoints have a rule like `-A KUBE-SEP-Y -s 10.244.1.5/32 -j KUBE-MARK-MASQ`, an endpoint without one lacks it.
    fn is_missing_by_likeness(&self, chain: &str, rule: &Rule) -> bool {
        let is_usual = || shape(chain, rule).is_some_and(|shape| self.shown_shapes.contains(&shape));
        let is_of_group = |kind| matches!(kind, Kind::Group(_) | Kind::Firewall);
        let is_like_others = match NAMING.of(chain) {
            Some((kind, _)) if is_of_group(kind) && !marks(rule) => self.leading.contains(chain),
            Some(_) => is_usual(),
            None => false,
        };
        is_like_others && !self.is_of_assumed_port(rule) && self.coverage.may_show(&self.line(chain, rule))
    }

    /// Returns whether a rule leads to a placeholder for endpoints outside the text: nothing names the endpoint, and no rule of the chain
    /// leads to another one.
    fn is_placeholder_endpoint(&self, chain: &str, rule: &Rule) -> bool {
        let is_endpoint = |next: &str| NAMING.is_endpoint(next) && !self.targets.contains(next);
        !self.leading.contains(chain)
            && rule.next_chain().is_some_and(|next| is_endpoint(next) && !self.shown.contains(&**next))
    }

    /// Returns whether a chain's shares may fail to add up because rules of unknown endpoints are hidden: the shares fit a larger number of
    /// endpoints, and the filter would not select the rule of an unknown one.
    ///
    /// `grep 10.244.0` shows `--comment "shop/web -> 10.244.0.5:80" --probability 0.5 -j KUBE-SEP-Y`, but no endpoint in 10.244.1.0/24. In
    /// a chain that is known to be truncated, any rule may be hidden.
    pub(super) fn hides_shares(&self, written: &Chain, shown: &[Rule], is_cut: bool) -> bool {
        let shares: Vec<&Rule> = shown.iter().filter(|rule| is_share(rule)).collect();
        let known = written.rules.iter().filter(|rule| is_share(rule)).count();
        let Some(last) = shares.last().filter(|_| shared_by(&shares).is_some_and(|count| count > known)) else {
            return false;
        };
        is_cut || !self.coverage.shows_all(self.table.as_str(), &start(&self.line(&written.name, last)))
    }

    /// Removes the rules missing on the node from a chain that has no rule in the text; returns `None` if no rule is left.
    pub(super) fn rest_of(&self, mut chain: Chain) -> Option<Chain> {
        let is_unknown = NAMING.is_endpoint(&chain.name) && !self.targets.contains(&*chain.name);
        let is_cut = self.coverage.is_cut(self.table.as_str(), &chain.name);
        if !self.coverage.is_filtered(self.table.as_str()) || chain.rules.is_empty() || is_unknown || is_cut {
            return Some(chain);
        }
        let name = chain.name.clone();
        chain.rules.retain(|rule| !self.is_missing(&name, rule));
        (!chain.rules.is_empty()).then_some(chain)
    }
}

/// The shape of a rule in a service's or endpoint's chain: its matches and target, without addresses and names.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shape {
    /// The kind of the chain and of the target chain.
    kinds: (Kind, Option<Kind>),
    /// A target chain of no such kind.
    next: Option<String>,
    target: Option<Discriminant<Target>>,
    has_source: bool,
    has_comment: bool,
    matches: Vec<Discriminant<Match>>,
}

fn shape(chain: &str, rule: &Rule) -> Option<Shape> {
    let kind_of = |name: &str| NAMING.of(name).map(|(kind, _)| kind);
    let next = rule.next_chain().map(ToString::to_string);
    let next_kind = next.as_deref().and_then(kind_of);
    Some(Shape {
        kinds: (kind_of(chain)?, next_kind),
        next: next.filter(|_| next_kind.is_none()),
        target: rule.target.as_ref().map(discriminant),
        has_source: rule.source.is_some(),
        has_comment: rule.comment().is_some(),
        matches: rule.matches.iter().map(discriminant).collect(),
    })
}

/// Returns whether the comment of a rule names the endpoint it leads to.
fn names_endpoint(rule: &Rule) -> bool {
    rule.comment().is_some_and(|comment| comment.contains(" -> "))
}

/// Returns whether a rule only marks packets, as the first rule of an endpoint's chain does.
fn marks(rule: &Rule) -> bool {
    rule.next_chain().is_some_and(|next| next.starts_with("KUBE-MARK-"))
}

/// Returns whether a rule sends a share of connections, or the rest, to an endpoint.
pub(super) fn is_share(rule: &Rule) -> bool {
    let recalls = rule.matches.iter().any(|one| matches!(one, Match::Recent(_)));
    !recalls && rule.next_chain().is_some_and(|next| NAMING.is_endpoint(next))
}

/// Returns the line of a rule up to the name of the endpoint it leads to.
fn start(line: &str) -> String {
    let rest = line.split_once(" --comment \"").map_or("", |(_, rest)| rest);
    let name = rest.split(['"', ' ']).next().unwrap_or_default();
    let end = if name.is_empty() { line.find(" -m ") } else { line.find(name).map(|at| at + name.len()) };
    line[..end.or(line.find(" -j ")).unwrap_or(line.len())].to_owned()
}
