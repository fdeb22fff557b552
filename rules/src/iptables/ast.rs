//! Rule sets as values: tables, chains, rules.

use std::collections::HashSet;
use std::net::SocketAddr;

use smallvec::SmallVec;

use super::matches::Match;
use super::table_name::TableName;
use super::targets::Target;
use super::values::{ChainName, Negatable, Network};
use crate::cluster::{Family, ProtocolNumber};

/// All tables of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    /// The family; iptables and ip6tables are separate.
    pub family: Family,
    /// The tables, each at most once.
    pub tables: Vec<Table>,
}

impl RuleSet {
    /// Creates a rule set without tables.
    pub fn new(family: Family) -> Self {
        Self { family, tables: Vec::new() }
    }

    /// The table of this name.
    pub fn table(&self, name: TableName) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Returns the table of this name, and creates it if it does not exist.
    pub fn table_mut(&mut self, name: TableName) -> &mut Table {
        let index = self.tables.iter().position(|table| table.name == name).unwrap_or_else(|| {
            self.tables.push(Table { name, chains: Vec::new() });
            self.tables.len() - 1
        });
        &mut self.tables[index]
    }

    /// Returns the matches of all rules.
    pub fn matches(&self) -> impl Iterator<Item = &Match> {
        let rules = self.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
        rules.flat_map(|rule| &rule.matches)
    }

    /// Returns the rules of a chain; empty if there is no such chain.
    pub fn rules(&self, table: TableName, chain: &str) -> &[Rule] {
        let chain = self.table(table).and_then(|table| table.chain(chain));
        chain.map(|chain| chain.rules.as_slice()).unwrap_or_default()
    }
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The name.
    pub name: TableName,
    /// Its chains in the order of their declarations, each name once.
    pub chains: Vec<Chain>,
}

impl Table {
    /// The chain of this name.
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|chain| &*chain.name == name)
    }

    /// Removes unreferenced chains until every remaining one is referenced or `is_kept`.
    pub fn remove_unused(&mut self, is_kept: impl Fn(&Chain) -> bool) {
        loop {
            let rules = self.chains.iter().flat_map(|chain| &chain.rules);
            let used: HashSet<String> = rules.filter_map(|rule| rule.next_chain()).map(ToString::to_string).collect();
            let before = self.chains.len();
            self.chains.retain(|chain| used.contains(&*chain.name) || is_kept(chain));
            if self.chains.len() == before {
                return;
            }
        }
    }
}

/// A named list of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The name.
    pub name: ChainName,
    /// The policy at the end of a built-in chain; `None` for user-defined chains, which return.
    pub policy: Option<Policy>,
    /// How often the policy was applied.
    pub counters: Counters,
    /// The rules, in order.
    pub rules: Vec<Rule>,
}

impl Chain {
    /// Creates an empty user-defined chain.
    pub fn user(name: impl Into<ChainName>) -> Self {
        Self { name: name.into(), policy: None, counters: Counters::default(), rules: Vec::new() }
    }

    /// Creates an empty built-in chain with policy ACCEPT.
    pub fn builtin(name: impl Into<ChainName>) -> Self {
        Self { policy: Some(Policy::Accept), ..Self::user(name) }
    }

    /// Returns whether the rule at a position only counts packets: it has an `nfacct`, and the next rule has the same matches and target
    /// for any destination.
    pub(crate) fn only_counts(&self, at: usize) -> bool {
        let [rule, next, ..] = self.rules.get(at..).unwrap_or_default() else { return false };
        let counts = rule.matches.iter().any(|condition| matches!(condition, Match::Nfacct(_)));
        let canonical_key = |rule: &Rule| {
            let mut matches = rule.matches.clone();
            matches.retain(|condition| !condition.always_holds());
            Rule { counters: None, destination: None, matches, ..rule.clone() }
        };
        counts && next.destination.is_none() && canonical_key(rule) == canonical_key(next)
    }
}

/// The policy of a built-in chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The packet is accepted.
    Accept,
    /// The packet is dropped.
    Drop,
}

/// Packets and bytes that a rule or policy was applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The matches (`-m`) of a rule. Most rules have at most two, which need no allocation.
pub type Matches = SmallVec<[Match; 2]>;

/// A rule: matches, all of which must hold, and a target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The counters that `iptables-save -c` prints before the rule.
    pub counters: Option<Counters>,
    /// `-s`.
    pub source: Option<Negatable<Network>>,
    /// `-d`.
    pub destination: Option<Negatable<Network>>,
    /// `-i`; a trailing `+` matches any suffix.
    pub in_interface: Option<Negatable<Box<str>>>,
    /// `-o`.
    pub out_interface: Option<Negatable<Box<str>>>,
    /// `-p`.
    pub protocol: Option<Negatable<ProtocolNumber>>,
    /// `-f`: IPv4 fragments except the first; negated for `! -f`.
    pub fragment: Option<Negatable<()>>,
    /// `-m`, in order.
    pub matches: Matches,
    /// `-j` or `-g`. Without one, a rule only counts packets.
    pub target: Option<Target>,
}

impl Rule {
    /// Returns the rule without its counters, which do nothing.
    #[doc(hidden)]
    pub fn without_counters(&self) -> Self {
        Self { counters: None, ..self.clone() }
    }

    /// Returns whether rules are the same apart from counters and from matches that are left out.
    #[doc(hidden)]
    pub fn is_same_without(&self, other: &Self, is_left_out: impl Fn(&Match) -> bool) -> bool {
        let Self { counters: _, source, destination, in_interface, out_interface, protocol, fragment, matches, target } =
            self;
        fn compared<'m>(all: &'m Matches, is_left_out: &impl Fn(&Match) -> bool) -> impl Iterator<Item = &'m Match> {
            all.iter().filter(move |one| !is_left_out(one))
        }
        target == &other.target
            && (source, destination) == (&other.source, &other.destination)
            && (in_interface, out_interface) == (&other.in_interface, &other.out_interface)
            && (protocol, fragment) == (&other.protocol, &other.fragment)
            && compared(matches, &is_left_out).eq(compared(&other.matches, &is_left_out))
    }

    /// Returns the text of the first `-m comment`.
    pub fn comment(&self) -> Option<&str> {
        self.matches.iter().find_map(|m| match m {
            Match::Comment(text) => Some(&**text),
            _ => None,
        })
    }

    /// Returns the endpoint in a comment as `default/web:http -> 10.244.1.2:8080`.
    pub fn named_endpoint(&self) -> Option<SocketAddr> {
        self.comment()?.rsplit_once(" -> ")?.1.trim().parse().ok()
    }

    /// Returns the chain that the rule jumps or goes to.
    pub fn next_chain(&self) -> Option<&ChainName> {
        match &self.target {
            Some(Target::Jump(chain) | Target::Goto(chain)) => Some(chain),
            _ => None,
        }
    }

    /// Marks the rule as one that may have interfaces which the text does not show.
    #[doc(hidden)]
    pub fn hide_interfaces(&mut self) {
        self.matches.push(Match::unshown_interfaces());
    }

    /// Returns whether the rule may have interfaces which the text does not show.
    #[doc(hidden)]
    pub fn hides_interfaces(&self) -> bool {
        self.matches.iter().any(Match::hides_interfaces)
    }

    /// Returns the names of the sets of ipset that it looks up or changes.
    pub fn ip_sets(&self) -> Vec<String> {
        let matched = self.matches.iter().filter_map(|one| match one {
            Match::Set(set) => Some(set.value.name.to_string()),
            _ => None,
        });
        let changed = match &self.target {
            Some(Target::Other(other)) if &*other.name == "SET" => other.text.split_whitespace().nth(1),
            _ => None,
        };
        matched.chain(changed.map(str::to_owned)).collect()
    }

    /// Returns whether the text did not show enough of the rule to read it: one of its matches stands for the rest.
    #[doc(hidden)]
    pub fn is_unread(&self) -> bool {
        self.unread_words().is_some()
    }

    /// Returns the first words of it that could not be read, if there are any.
    pub fn unread_words(&self) -> Option<&str> {
        self.matches.iter().find_map(|one| match one {
            Match::Other(other) if other.is_unread() => Some(&*other.text),
            _ => None,
        })
    }
}
