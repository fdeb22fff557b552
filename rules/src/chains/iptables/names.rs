//! Names of services and endpoints, learned from rules.

use std::collections::{BTreeMap, HashMap};

use super::{NODE_PORTS, destination, frontend, kind_of, service_in, service_of, transport};
use crate::chains::{Frontend, Kind};
use crate::digits;
use crate::iptables::{self, ChainHash, Rule, RuleSet, Target};

/// The names in a rule set: of services, and the addresses of endpoints' chains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names<'a> {
    /// Service names by the hash in their chains' names.
    services: BTreeMap<ChainHash, &'a str>,
    /// Hashes by service name.
    hashes: HashMap<&'a str, ChainHash>,
    /// DNAT destinations by endpoint chain.
    endpoints: HashMap<&'a str, String>,
    /// Owning services by endpoint chain.
    owners: HashMap<&'a str, ChainHash>,
    /// By addresses and ports of services, for rules without comments.
    frontends: HashMap<Frontend, ChainHash>,
    /// Whether a rule accepts health checks without a comment.
    has_unnamed_checks: bool,
}

impl<'a> Names<'a> {
    /// Collects service names, and the owners and addresses of endpoints.
    pub(crate) fn of(rules: &'a RuleSet) -> Self {
        let mut names = Self::default();
        let chains = || rules.tables.iter().flat_map(|table| &table.chains);
        chains().for_each(|chain| names.learn(chain));
        chains().for_each(|chain| names.learn_from_endpoints(chain));
        names
    }

    fn learn(&mut self, chain: &'a iptables::Chain) {
        let here = kind_of(&chain.name);
        for rule in &chain.rules {
            self.has_unnamed_checks |= is_check(chain, rule) && rule.comment().is_none();
            let target = rule.next_chain().and_then(|next| kind_of(next).map(|(kind, hash)| (next, kind, hash)));
            match (here, target) {
                (Some((Kind::Endpoint, _)), _) => {
                    if let Some(to) = destination(rule) {
                        self.endpoints.entry(&chain.name).or_insert_with(|| digits::socket(to).to_string());
                    }
                }
                (Some((_, hash)), Some((endpoint, Kind::Endpoint, _))) => {
                    self.owners.insert(endpoint, hash);
                }
                (Some((_, hash)), _) => self.name(hash, rule),
                (None, Some((_, _, hash))) => {
                    self.name(hash, rule);
                    self.addressed(hash, rule);
                }
                (None, None) if matches!(rule.target, Some(Target::Reject(_) | Target::Drop)) => {
                    let of_name = service_in(rule).zip(transport(rule));
                    if let Some((name, protocol)) = of_name {
                        self.addressed(ChainHash::for_service_port(name, protocol), rule);
                    }
                }
                _ => {}
            }
        }
    }

    /// Names a service by the comments of its endpoints' chains, if an excerpt contains nothing else.
    fn learn_from_endpoints(&mut self, chain: &'a iptables::Chain) {
        let owner = match kind_of(&chain.name) {
            Some((Kind::Endpoint, _)) => self.owners.get(&*chain.name).copied(),
            kind => kind.map(|(_, hash)| hash),
        };
        if let Some(hash) = owner {
            chain.rules.iter().for_each(|rule| self.name(hash, rule));
        }
    }

    fn addressed(&mut self, hash: ChainHash, rule: &Rule) {
        if let Some(frontend) = frontend(rule) {
            self.frontends.entry(frontend).or_insert(hash);
        }
    }

    fn name(&mut self, hash: ChainHash, rule: &'a Rule) {
        if let Some(name) = service_in(rule).filter(|_| !self.services.contains_key(&hash)) {
            self.services.insert(hash, name);
            self.hashes.insert(name, hash);
        }
    }
}

/// Returns whether a rule accepts health checks.
fn is_check(chain: &iptables::Chain, rule: &Rule) -> bool {
    *chain.name == *NODE_PORTS && rule.target == Some(Target::Accept)
}

/// The names of a rule set and of the one it is compared with, so a chain is named even if the rule with its name is missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a>(pub(crate) [&'a Names<'a>; 2]);

impl Known<'_> {
    /// Returns whether both have the same names.
    pub(crate) fn are_same(&self) -> bool {
        self.0[0] == self.0[1]
    }

    fn first<T>(&self, find: impl Fn(&Names<'_>) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(|names| find(names))
    }

    /// Returns the names of services.
    pub(crate) fn services(&self) -> BTreeMap<ChainHash, String> {
        let all = self.0.iter().rev().flat_map(|names| &names.services);
        all.map(|(hash, name)| (*hash, (*name).to_owned())).collect()
    }

    /// Returns the DNAT destination of an endpoint's chain; its name if no rule translates.
    pub(crate) fn endpoint(&self, chain: &str) -> String {
        self.first(|names| names.endpoints.get(chain).cloned()).unwrap_or_else(|| chain.to_owned())
    }

    /// Returns the service whose chain leads to an endpoint; without such a chain, the one in the comment.
    pub(crate) fn owner_of_endpoint(&self, chain: &iptables::Chain) -> Option<ChainHash> {
        let name = || chain.rules.iter().find_map(service_in);
        let by_name = || name().and_then(|name| self.first(|names| names.hashes.get(name).copied()));
        self.first(|names| names.owners.get(&*chain.name).copied()).or_else(by_name)
    }

    /// Returns the service that a rule belongs to, and its name if the rule contains it: by the chain it jumps to, otherwise by its
    /// comment, or by its address if it has no comment.
    pub(crate) fn owner<'r>(&self, rule: &'r Rule) -> Option<(ChainHash, Option<&'r str>)> {
        let name = service_in(rule);
        // Nothing but its comment says whose health check a rule accepts: where one has none, they are compared as they are.
        if rule.target == Some(Target::Accept) && self.0.iter().any(|names| names.has_unnamed_checks) {
            return None;
        }
        if let Some(hash) = rule.next_chain().and_then(|chain| service_of(chain)) {
            return Some((hash, name));
        }
        let known = self.first(|names| names.hashes.get(name?).copied());
        let by_name = || Some(ChainHash::for_service_port(name?, transport(rule)?));
        let by_address = || {
            let frontend = frontend(rule).filter(|_| name.is_none())?;
            self.first(|names| names.frontends.get(&frontend).copied())
        };
        let hash = known.or_else(by_name).or_else(by_address)?;
        transport(rule).map(|_| (hash, name))
    }
}
