//! Names of service ports, and the owners of addresses and endpoints.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use super::NAMING;
use crate::chains::Kind;
use crate::digits;
use crate::nftables::{
    Chain, Element, Key, LONGEST_COMMENT, Statement, Table, Verdict, base_of_comment, base_of_endpoint, comment_of_base,
};

/// The key of a service port: the part after the prefix in the names of their chains.
pub(crate) type ServiceKey = String;

/// Returns the kind of a chain, and its name after the prefix. Kube-proxy's other chains have no hash there.
pub(crate) fn kind_of(chain: &str) -> Option<(Kind, &str)> {
    let (kind, base) = NAMING.of(chain)?;
    is_base(base).then_some((kind, base))
}

/// Returns whether a name continues with a hash: eight letters and digits, followed by a namespace.
pub(crate) fn is_base(base: &str) -> bool {
    let is_hash =
        |hash: &str| hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    base.split_once('-').is_some_and(|(hash, rest)| is_hash(hash) && rest.contains('/'))
}

/// The names in the rules of a table.
#[derive(Debug, Default)]
pub(crate) struct Names<'a> {
    /// DNAT destinations by endpoint chain.
    endpoints: HashMap<&'a str, String>,
    /// Owning service ports by endpoint chain.
    owners: HashMap<&'a str, &'a str>,
    /// The services that have chains.
    services: BTreeSet<&'a str>,
    /// Services by frontend address.
    at_address: BTreeMap<IpAddr, BTreeSet<ServiceKey>>,
    /// Services by endpoint.
    with_endpoint: BTreeMap<String, BTreeSet<ServiceKey>>,
}

impl<'a> Names<'a> {
    /// Collects the owners of chains, addresses and endpoints.
    pub(crate) fn of(table: &'a Table) -> Self {
        let mut names = Self::default();
        table.chains.iter().for_each(|chain| names.learn(chain));
        for element in table.sets.iter().flat_map(|set| &set.elements) {
            if let (Some(Key::Address(ip)), Some(service)) = (element.key.first(), names.service_of(element)) {
                names.at_address.entry(*ip).or_default().insert(service);
            }
        }
        for (chain, base) in &names.owners {
            if let Some(endpoint) = names.endpoints.get(chain) {
                names.with_endpoint.entry(endpoint.clone()).or_default().insert((*base).to_owned());
            }
        }
        names
    }

    fn learn(&mut self, chain: &'a Chain) {
        let Some((kind, base)) = kind_of(&chain.name) else { return };
        if kind != Kind::Endpoint {
            self.services.insert(base);
        }
        for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
            match (kind, statement) {
                (Kind::Endpoint, Statement::Dnat(address)) => {
                    self.endpoints.entry(&chain.name).or_insert_with(|| digits::socket(*address).to_string());
                }
                (Kind::Group(_), Statement::Balance(_) | Statement::Verdict(_)) => {
                    let endpoints = statement.chains().filter(|chain| NAMING.is_endpoint(chain));
                    self.owners.extend(endpoints.map(|chain| (&**chain, base)));
                }
                (Kind::Group(_), Statement::Dnat(address)) => self.serve(base, &[*address]),
                (Kind::Group(_), Statement::BalanceDnat(addresses)) => self.serve(base, addresses),
                _ => {}
            }
        }
    }

    /// Returns the service port of a map element: by the chain it jumps to, otherwise by its comment.
    fn service_of(&self, element: &Element) -> Option<ServiceKey> {
        if let Verdict::Goto(chain) | Verdict::Jump(chain) = element.verdict.as_ref()?
            && let Some((kind, base)) = kind_of(chain)
        {
            return (kind != Kind::Endpoint).then(|| base.to_owned());
        }
        let protocol = element.key.iter().find_map(|part| match part {
            Key::Protocol(protocol) => Some(*protocol),
            Key::Address(_) | Key::Addresses(_) | Key::Port(_) => None,
        });
        let comment = element.comment.as_deref().filter(|comment| comment.contains('/'))?;
        let cut_off = || {
            let goes_on = |base: &&&str| comment_of_base(base).is_some_and(|name| name.starts_with(comment));
            self.services.iter().find(goes_on).filter(|_| comment.len() == LONGEST_COMMENT)
        };
        match cut_off() {
            Some(base) => Some((*base).to_owned()),
            None => protocol.map(|protocol| base_of_comment(comment, protocol)),
        }
    }

    fn serve(&mut self, base: &str, addresses: &[SocketAddr]) {
        for address in addresses {
            let endpoint = digits::socket(*address).to_string();
            self.with_endpoint.entry(endpoint).or_default().insert(base.to_owned());
        }
    }
}

/// Returns the usual name of a service port.
pub(crate) fn name_of(service: &str) -> String {
    comment_of_base(service).unwrap_or_else(|| service.to_owned())
}

/// The protocol of a service port.
pub(crate) fn protocol_of(service: &str) -> &str {
    service.split('/').nth(2).unwrap_or_default()
}

/// The names of a table and of the one it is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a>(pub(crate) [&'a Names<'a>; 2]);

impl Known<'_> {
    /// Returns the DNAT destination of an endpoint's chain; its name if no rule translates.
    pub(crate) fn endpoint(&self, chain: &str) -> String {
        let known = self.0.iter().find_map(|names| names.endpoints.get(chain).cloned());
        known.unwrap_or_else(|| chain.to_owned())
    }

    /// Returns the service of an endpoint's chain: the one that jumps to it, otherwise the one in its name.
    pub(crate) fn owner_of_endpoint(&self, chain: &str) -> Option<ServiceKey> {
        let leads = self.0.iter().find_map(|names| names.owners.get(chain).map(|base| (*base).to_owned()));
        leads.or_else(|| base_of_endpoint(kind_of(chain)?.1))
    }

    /// Returns the service port of a map element.
    pub(crate) fn service_of(&self, element: &Element) -> Option<ServiceKey> {
        self.0.iter().find_map(|names| names.service_of(element))
    }

    /// The services that are reached at an address.
    pub(crate) fn at_address(&self, ip: IpAddr) -> BTreeSet<ServiceKey> {
        self.0.iter().filter_map(|names| names.at_address.get(&ip)).flatten().cloned().collect()
    }

    /// The services that have an endpoint.
    pub(crate) fn with_endpoint(&self, endpoint: &str) -> BTreeSet<ServiceKey> {
        self.0.iter().filter_map(|names| names.with_endpoint.get(endpoint)).flatten().cloned().collect()
    }
}
