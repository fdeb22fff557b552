//! Replacement of chain and set names that contain hashes: `KUBE-SVC-` and 16 letters, or `service-`, 8 letters and the hashed text.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use data_encoding::BASE32;
use svclab_rules::cluster::Protocol;
use svclab_rules::iptables::{ChainHash, ChainKind, Network, RuleSet, TableName, Target};
use svclab_rules::nftables::name_hash;
use svclab_rules::ruleset::Rules;

use super::Text;
use super::key::Key;
use super::token::{Token, Wording, tokens};
use crate::evidence::{Contents, Evidence, node_rules, service_of_hash};

/// Replacement of names and addresses.
pub(super) trait Rename {
    /// Replaces names and addresses in a text.
    fn text(&mut self, text: &str) -> String;
    /// Replaces an address.
    fn address(&mut self, ip: IpAddr) -> IpAddr;
    /// Returns the key that determines replacements.
    fn key(&self) -> &Key;
    /// Returns the ordinary words that are names in this evidence.
    fn names(&self) -> &HashSet<String>;
}

/// The new hashes of chains and sets.
#[derive(Default)]
pub(super) struct Chains(HashMap<String, String>);

/// The text that is hashed in the name of a service's chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ServicePort {
    /// `namespace/name:port`
    name: String,
    protocol: Protocol,
}

/// Returns the hash in the name of an iptables chain: `2CMXP7HKUVJN7L6M` in `KUBE-SVC-2CMXP7HKUVJN7L6M`.
fn hash_of(chain: &str) -> Option<&str> {
    Some(chain.strip_prefix("KUBE-")?.split_once('-')?.1)
}

impl Chains {
    /// Collects the hashes whose origin is in the texts.
    pub(super) fn of(texts: &[Text], evidence: &[Evidence], names: &mut dyn Rename) -> Self {
        let mut chains = Self::default();
        let mut wanted: HashSet<&str> = HashSet::new();
        for text in texts.iter().map(|text| text.text.as_str()) {
            for found in
                tokens(text, names.names(), Wording::Command).into_iter().filter(|found| found.token == Token::Chain)
            {
                let name = &text[found.at];
                match hash_of(name) {
                    Some(hash) => _ = wanted.insert(hash),
                    None => chains.add_named(name, names),
                }
            }
        }
        if wanted.is_empty() {
            return chains;
        }
        let mut origins: HashMap<String, ServicePort> = HashMap::new();
        for name in service_ports(texts, evidence) {
            for protocol in Protocol::ALL {
                let hash = ChainHash::for_service_port(&name, protocol).to_string();
                if wanted.contains(hash.as_str()) {
                    origins.insert(hash, ServicePort { name: name.clone(), protocol });
                }
            }
        }
        // A well-known hash whose service is not named in the texts.
        for hash in wanted.iter().filter(|hash| !origins.contains_key(**hash)).copied().collect::<Vec<_>>() {
            if let Some((name, protocol)) = ChainHash::parse(hash).and_then(service_of_hash) {
                origins.insert(hash.to_owned(), ServicePort { name: name.to_owned(), protocol });
            }
        }
        for (hash, ServicePort { name, protocol }) in &origins {
            let new = ChainHash::for_service_port(&names.text(name), *protocol);
            chains.0.insert(hash.clone(), new.to_string());
        }
        let ports = ports_in(texts);
        for rules in evidence.iter().flat_map(node_rules) {
            if let Rules::Iptables(parsed) = &rules.rules {
                chains.add_endpoints(&parsed.rules, &origins, &ports, names);
            }
        }
        // A hash of unknown origin, or a wrong one, may also stand alone.
        for hash in wanted {
            chains.0.entry(hash.to_owned()).or_insert_with(|| made_up(hash, names));
        }
        chains
    }

    /// Adds the chains of endpoints: the hash covers the service whose chain jumps there, or that a comment names, and the destination.
    /// `ports` are numbers of ports in the texts.
    fn add_endpoints(
        &mut self,
        rules: &RuleSet,
        origins: &HashMap<String, ServicePort>,
        ports: &BTreeSet<u16>,
        names: &mut dyn Rename,
    ) {
        for (hash, Hashed { services, targets, sources }) in endpoint_chains(rules, origins) {
            let of_sources = || sources.iter().flat_map(|ip| ports.iter().map(|port| SocketAddr::new(*ip, *port)));
            let is_hashed = |service: &ServicePort, target: &SocketAddr| {
                ChainHash::for_endpoint(&service.name, service.protocol, &target.to_string()).to_string() == hash
            };
            let of_target =
                |target: SocketAddr| Some((services.iter().find(|service| is_hashed(service, &target))?, target));
            let mut found = targets.iter().copied().find_map(of_target);
            if targets.is_empty() {
                found = of_sources().find_map(of_target);
            }
            if let Some((ServicePort { name, protocol }, target)) = found {
                let new = SocketAddr::new(names.address(target.ip()), target.port());
                let new = ChainHash::for_endpoint(&names.text(name), *protocol, &new.to_string());
                self.0.insert(hash.to_owned(), new.to_string());
            }
        }
    }

    /// Adds an nftables chain or set, whose name contains the hashed text.
    fn add_named(&mut self, name: &str, names: &mut dyn Rename) {
        let new = self.replace(name, names);
        let (Some((old, _)), Some((new, _))) = (name.split_once('-'), new.split_once('-')) else { return };
        // If nothing that was hashed is identifying in one name, the hash stays there, whatever it stands before elsewhere.
        if self.0.get(old).is_none_or(|known| known != old) {
            self.0.insert(old.to_owned(), new.to_owned());
        }
    }

    /// Returns the hashes that changed.
    pub(super) fn replaced(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(old, new)| old != new).map(|(old, _)| old.as_str())
    }

    /// Returns the number of hashes that did not change, because no name that was hashed identifies anyone.
    pub(super) fn kept(&self) -> usize {
        self.0.iter().filter(|(old, new)| old == new).count()
    }

    /// Returns the replacement of a hash that stands alone. It may be unchanged, if nothing that was hashed is identifying.
    pub(super) fn hash(&self, word: &str) -> Option<String> {
        let new = self.0.get(&word.to_ascii_uppercase())?;
        Some(if word.contains(|letter: char| letter.is_ascii_lowercase()) { new.to_lowercase() } else { new.clone() })
    }

    /// Returns another name for a chain or set. A hash of unknown origin, or a wrong one, is replaced with a made-up one.
    pub(super) fn replace(&self, name: &str, names: &mut dyn Rename) -> String {
        if let Some(hash) = hash_of(name) {
            let prefix = &name[..name.len() - hash.len()];
            let new = self.0.get(hash).cloned().unwrap_or_else(|| made_up(hash, names));
            return format!("{prefix}{new}");
        }
        let Some((hash, hashed)) = name.split_once('-') else { return name.to_owned() };
        let (of_service, endpoint) = hashed.split_once("__").map_or((hashed, None), |(one, other)| (one, Some(other)));
        let mut new = names.text(of_service);
        if let Some(endpoint) = endpoint {
            let (address, rest) = endpoint.split_once('/').unwrap_or((endpoint, ""));
            let parsed = address.parse().ok().or_else(|| address.replace('.', ":").parse().ok());
            let address = match parsed {
                Some(ip @ IpAddr::V4(_)) => names.address(ip).to_string(),
                Some(ip) => names.address(ip).to_string().replace(':', "."),
                None => names.text(address),
            };
            new += &format!("__{address}/{rest}");
        }
        let new_hash = if name_hash(hashed) == hash { name_hash(&new) } else { made_up(hash, names) };
        format!("{new_hash}-{new}")
    }
}

/// What the hash in the name of an endpoint's chain may cover.
#[derive(Default)]
struct Hashed {
    services: BTreeSet<ServicePort>,
    /// The destinations that rules translate to, or that comments name.
    targets: BTreeSet<SocketAddr>,
    /// The addresses whose packets are masqueraded: those of an endpoint whose port may not be shown.
    sources: BTreeSet<IpAddr>,
}

/// Returns what rules show of the chains of endpoints, by the hash in their names.
fn endpoint_chains<'r>(rules: &'r RuleSet, origins: &HashMap<String, ServicePort>) -> HashMap<&'r str, Hashed> {
    let mut all: HashMap<&str, Hashed> = HashMap::new();
    let endpoint = |chain: &'r str| chain.strip_prefix(ChainKind::Endpoint.prefix());
    for chain in rules.table(TableName::Nat).into_iter().flat_map(|table| &table.chains) {
        let origin = hash_of(&chain.name).and_then(|hash| origins.get(hash));
        for rule in &chain.rules {
            let mut words = rule.comment().unwrap_or_default().split_whitespace();
            let named = words
                .next()
                .into_iter()
                .flat_map(|name| Protocol::ALL.map(|protocol| ServicePort { name: name.to_owned(), protocol }));
            let target = match &rule.target {
                Some(Target::Dnat(nat)) => nat.addresses.zip(nat.ports.as_ref()),
                _ => None,
            };
            if let Some(own) = endpoint(&chain.name) {
                let hashed = all.entry(own).or_default();
                hashed.services.extend(named);
                hashed.targets.extend(target.map(|((ip, _), ports)| SocketAddr::new(ip, ports.first)));
                hashed.sources.extend(rule.source.as_ref().and_then(|source| match source.value {
                    Network::Prefix(range) if range.prefix_len() == range.max_prefix_len() => Some(range.addr()),
                    _ => None,
                }));
            } else if let Some(next) = rule.next_chain().and_then(|next| endpoint(next)) {
                let hashed = all.entry(next).or_default();
                hashed.services.extend(named.chain(origin.cloned()));
                // `-> 10.244.1.15:8080`
                hashed.targets.extend(words.filter_map(|word| word.parse::<SocketAddr>().ok()));
            }
        }
    }
    all
}

/// Usual ports of pods, which a text may not show.
const USUAL_PORTS: [u16; 12] = [80, 443, 53, 3000, 3306, 5000, 5432, 6379, 8080, 8443, 9090, 9153];

/// Maximum number of ports of a text that are tried.
const MAX_PORTS: usize = 200;

/// Returns usual ports, and numbers in the texts that may be ports.
fn ports_in(texts: &[Text]) -> BTreeSet<u16> {
    let mut ports = BTreeSet::from(USUAL_PORTS);
    // With dots, so that the parts of addresses are not taken for ports.
    let is_apart = |letter: char| !letter.is_ascii_digit() && letter != '.';
    let numbers = texts.iter().flat_map(|text| text.text.split(is_apart));
    for port in numbers.filter_map(|number| number.trim_matches('.').parse().ok()).filter(|port| *port > 0) {
        if ports.len() >= MAX_PORTS {
            break;
        }
        ports.insert(port);
    }
    ports
}

/// Returns a made-up hash for one of unknown origin.
fn made_up(hash: &str, names: &dyn Rename) -> String {
    BASE32.encode(&names.key().bytes("chain", hash.as_bytes())[..20])[..hash.len()].to_owned()
}

/// Returns words in the texts that look like the name of a service port, and those of the objects. Up to 1.18 a name without a port ends in
/// a colon.
fn service_ports(texts: &[Text], evidence: &[Evidence]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for text in texts {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-._/:".contains(letter);
        let words = text.text.split(|letter| !is_part(letter)).map(|word| word.trim_end_matches(['.', ':']));
        names.extend(words.filter(|word| word.len() < 200 && word.matches('/').count() == 1).map(str::to_owned));
    }
    let objects = evidence.iter().flat_map(|evidence| &evidence.pieces).filter_map(|piece| match &piece.contents {
        Contents::Objects(objects) => Some(objects),
        _ => None,
    });
    for object in objects.flatten().filter(|object| object["kind"] == "Service") {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let namespace = if namespace.is_empty() { "default".to_owned() } else { namespace };
        names.insert(format!("{namespace}/{name}"));
        for port in object["spec"]["ports"].as_array().into_iter().flatten() {
            names.insert(format!("{namespace}/{name}:{}", text(&port["name"])));
        }
    }
    let with_colon: Vec<String> =
        names.iter().filter(|name| !name.contains(':')).map(|name| format!("{name}:")).collect();
    names.extend(with_colon);
    names
}
