//! Rules that a text does not show, although it would show them if they were on the node.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};

use crate::chains::Kind;
use crate::chains::iptables::{NAMING, probability};
use crate::cluster::Family;
use crate::coverage::Coverage;
use crate::iptables::{Chain, Match, Rule, Table, TableName, Target, UNREAD, print_rule};

/// What a text leaves out of a table that it does not show whole.
pub(super) struct LeftOut<'c> {
    coverage: &'c Coverage,
    table: TableName,
    family: Family,
    /// The last chain that is shown, where the text ends before it shows all that was chosen.
    last_before_cut: Option<String>,
    /// The chains of services whose shown rules lead to endpoints, and those before them whose rules lead on.
    leading: HashSet<String>,
    /// The chains of which rules are shown.
    shown: HashSet<String>,
    /// The chains that shown rules jump to.
    targets: HashSet<String>,
    /// What the shown rules of services and endpoints are like, whichever these are.
    shown_shapes: HashSet<Shape>,
}

impl<'c> LeftOut<'c> {
    /// Of a table that is shown, by what kube-proxy writes into it.
    pub(super) fn of(shown: &Table, coverage: &'c Coverage, written: &Table, family: Family) -> Self {
        let leads = |chain: &&Chain| {
            let is_group = NAMING.service_port_part(&chain.name).is_some();
            let leads = |rule: &Rule| if is_group { is_share(rule) } else { rule.target.is_some() && !marks(rule) };
            chain.rules.iter().any(|rule| is_readable(rule) && leads(rule))
        };
        let leading = shown.chains.iter().filter(leads).map(|chain| chain.name.to_string()).collect();
        let names = shown.chains.iter().filter(|chain| !chain.rules.is_empty()).map(|chain| chain.name.to_string());
        let names = names.collect();
        let rules = shown.chains.iter().flat_map(|chain| &chain.rules);
        let targets = rules.filter_map(Rule::next_chain).map(ToString::to_string).collect();
        let shapes =
            shown.chains.iter().flat_map(|chain| chain.rules.iter().filter_map(|rule| shape(&chain.name, rule)));
        let mut left_out = Self {
            coverage,
            table: shown.name,
            family,
            last_before_cut: None,
            shown: names,
            leading,
            targets,
            shown_shapes: shapes.collect(),
        };
        if coverage.is_filtered(shown.name.as_str()) {
            left_out.last_before_cut = left_out.last_before_cut(shown, written);
        }
        left_out
    }

    /// The last chain that is shown, if several rules of chains after it would be shown: the kernel lists chains by name.
    fn last_before_cut(&self, shown: &Table, written: &Table) -> Option<String> {
        let has_rules = |chain: &&Chain| !chain.rules.is_empty() && !self.is_builtin(&chain.name);
        let last = shown.chains.iter().filter(has_rules).map(|chain| chain.name.to_string()).max()?;
        let behind = written.chains.iter().filter(|chain| *chain.name > *last && !self.is_builtin(&chain.name));
        let mut chosen = behind.flat_map(|chain| chain.rules.iter().filter(|rule| self.is_chosen(&chain.name, rule)));
        chosen.nth(1).map(|_| last)
    }

    fn is_builtin(&self, chain: &str) -> bool {
        self.table.builtin_chains().contains(&chain)
    }

    fn line(&self, chain: &str, rule: &Rule) -> String {
        print_rule(self.family, chain, rule)
    }

    /// Whether what chose the lines would have chosen this rule.
    fn is_chosen(&self, chain: &str, rule: &Rule) -> bool {
        self.coverage.shows(self.table.as_str(), &self.line(chain, rule))
    }

    /// Whether a rule that kube-proxy writes into a chain that is shown, and that is not shown, is not on the node.
    pub(super) fn is_missing(&self, chain: &str, rule: &Rule) -> bool {
        if self.coverage.is_filtered(self.table.as_str()) {
            self.is_missing_by_pattern(chain, rule)
        } else {
            self.is_missing_by_likeness(chain, rule)
        }
    }

    /// By the pattern that chose the lines: what it shows is missing, unless it follows the last line or leads to a placeholder.
    ///
    /// `grep shop/web` shows `-A KUBE-SVC-X --comment "shop/web -> 10.244.1.5:80" -j KUBE-SEP-Y`, so without this line the rule is missing.
    fn is_missing_by_pattern(&self, chain: &str, rule: &Rule) -> bool {
        let is_behind = |last: &String| chain > last.as_str() && !self.is_builtin(chain);
        !self.last_before_cut.as_ref().is_some_and(is_behind)
            && !self.is_placeholder_endpoint(chain, rule)
            && self.is_chosen(chain, rule)
    }

    /// By what is shown, where nothing says what chose the lines: a service's chain that leads somewhere is complete, and rules are there that are
    /// like those of other services and endpoints, unless it lacks what all lines that are shown have in common.
    ///
    /// Without `-A KUBE-SEP-Y -s 10.244.1.5/32 -j KUBE-MARK-MASQ` this rule is missing where other endpoints have theirs.
    fn is_missing_by_likeness(&self, chain: &str, rule: &Rule) -> bool {
        let is_usual = || shape(chain, rule).is_some_and(|shape| self.shown_shapes.contains(&shape));
        let is_of_group = |kind| matches!(kind, Kind::Group(_) | Kind::Firewall);
        let is_like_others = match NAMING.of(chain) {
            Some((kind, _)) if is_of_group(kind) && !marks(rule) => self.leading.contains(chain),
            Some(_) => is_usual(),
            None => false,
        };
        is_like_others && self.coverage.may_show(&self.line(chain, rule))
    }

    /// Whether a rule leads to an endpoint that stands for those that the text does not show: nothing names it, and no rule of the chain leads
    /// to another.
    fn is_placeholder_endpoint(&self, chain: &str, rule: &Rule) -> bool {
        let is_endpoint = |next: &str| NAMING.is_endpoint(next) && !self.targets.contains(next);
        !self.leading.contains(chain)
            && rule.next_chain().is_some_and(|next| is_endpoint(next) && !self.shown.contains(&**next))
    }

    /// Whether a chain's shares do not add up because rules of endpoints that nothing names may be hidden: the shares are some of those of more
    /// endpoints than are known, and a rule of one of these would not be shown.
    ///
    /// `grep 10.244.0` shows `--comment "shop/web -> 10.244.0.5:80" --probability 0.5 -j KUBE-SEP-Y`, and no endpoint in 10.244.1.0/24.
    /// Of a chain that is known to be cut, any may be hidden.
    pub(super) fn hides_shares(&self, written: &Chain, shown: &[Rule], is_cut: bool) -> bool {
        let shares: Vec<&Rule> = shown.iter().filter(|rule| is_share(rule)).collect();
        let known = written.rules.iter().filter(|rule| is_share(rule)).count();
        let Some(last) = shares.last().filter(|_| shared_by(&shares).is_some_and(|count| count > known)) else {
            return false;
        };
        is_cut || !self.coverage.shows_all(self.table.as_str(), &start(&self.line(&written.name, last)))
    }

    /// A chain of which the text shows no rule, without the rules that are missing; `None` where nothing is left of it.
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

/// What a rule of a service's or endpoint's chain is like: what it asks and does, apart from addresses and names.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shape {
    /// The kind of the chain, and of the one that the rule leads to.
    kinds: (Kind, Option<Kind>),
    /// A chain of another kind that it leads to.
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

pub(super) fn is_readable(rule: &Rule) -> bool {
    !rule.matches.iter().any(|one| matches!(one, Match::Other(other) if &*other.name == UNREAD))
}

/// Whether a rule only marks packets, as the first one of an endpoint's chain does.
fn marks(rule: &Rule) -> bool {
    rule.next_chain().is_some_and(|next| next.starts_with("KUBE-MARK-"))
}

/// Whether a rule leads a share of connections, or the rest of them, to an endpoint.
pub(super) fn is_share(rule: &Rule) -> bool {
    let recalls = rule.matches.iter().any(|one| matches!(one, Match::Recent(_)));
    !recalls && rule.next_chain().is_some_and(|next| NAMING.is_endpoint(next))
}

/// The start of the line of a rule that leads to an endpoint, up to what names this one.
fn start(line: &str) -> String {
    let rest = line.split_once(" --comment \"").map_or("", |(_, rest)| rest);
    let name = rest.split(['"', ' ']).next().unwrap_or_default();
    let end = if name.is_empty() { line.find(" -m ") } else { line.find(name).map(|at| at + name.len()) };
    line[..end.or(line.find(" -j ")).unwrap_or(line.len())].to_owned()
}

/// Among how many endpoints connections are shared out, by rules of which some may be hidden; `None` where these are not shares that kube-proxy
/// writes: 1/n, 1/(n-1) and so on, at last all.
fn shared_by(shares: &[&Rule]) -> Option<usize> {
    let count = |rule: &&Rule| match probability(rule) {
        None => Some(1),
        Some(share) => {
            let count = (1.0 / share).round();
            ((share * count - 1.0).abs() < ROUNDED && count >= 2.0).then_some(count as usize)
        }
    };
    let counts: Option<Vec<usize>> = shares.iter().map(count).collect();
    let counts = counts.filter(|counts| counts.windows(2).all(|pair| pair[0] > pair[1]))?;
    counts.first().copied()
}

/// How far shares of old releases, which have five digits, are off: 0.33333 is not 1/3.
const ROUNDED: f64 = 0.001;
