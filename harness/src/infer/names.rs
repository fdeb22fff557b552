//! Names of Services: from comments, from the hashes of chains, and such as the API accepts.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use svclab_rules::cluster::{ObjectName, Protocol, ProxyMode};
use svclab_rules::compare::with_shown_hashes;
use svclab_rules::infer::{Inferred, InferredPort};
use svclab_rules::iptables::{ChainHash, ChainKind, Nat, Rule, TableName, Target};
use svclab_rules::ruleset::Rules;

use super::service_ports::ServicePort;
use super::unshown::Unshown;
use crate::evidence::{NodeRules, service_of_hash};

/// Whether the hash in the names of a port's chains is that of its name.
fn is_verified(port: &InferredPort) -> bool {
    let names = port.hashed_names();
    port.hash.is_none_or(|hash| names.iter().any(|name| ChainHash::for_service_port(name, port.protocol) == hash))
}

/// Names the Services of ports: as the object with their cluster IP; without a name, as the one with the hash, node port or
/// address; else by the hash of their chains where it is that of a comment in the rules, or a usual one and not that of the comment; and as the
/// API accepts it. Returns what was changed.
pub(super) fn adopt_names(
    inferred: &mut Inferred,
    parts: &[NodeRules],
    objects: &[(ObjectName, Vec<IpAddr>)],
    service_ports: &[ServicePort],
) -> (Vec<String>, Vec<Renamed>) {
    let mut notes = Vec::new();
    let commented = LazyCell::new(|| commented_names(parts));
    let befores: Vec<(String, bool)> =
        inferred.ports.iter().map(|port| (port.full_name(), port.is_unnamed())).collect();
    for port in &mut inferred.ports {
        let is_unnamed = port.is_unnamed();
        let of_ip = objects.iter().find(|(_, ips)| ips.iter().any(|ip| port.cluster_ips.contains(ip)));
        if let Some((name, _)) = of_ip {
            if port.service != *name {
                notes.push(format!("service {} of the rules is {name}, which has its cluster IP", port.service));
                port.service = name.clone();
            }
            continue;
        }
        if is_unnamed && let Some(known) = service_ports.iter().find(|known| known.is_of_rules(port)) {
            notes.push(format!(
                "service {} of the rules is {}, which has its hash, node port or address",
                port.service, known.service
            ));
            port.service = known.service.clone();
            continue;
        }
        let is_known = objects.iter().any(|(name, _)| *name == port.service);
        let hash = port.hash.filter(|_| !is_verified(port) && !is_known);
        let usual = hash.and_then(|hash| commented.get(&hash).copied().or_else(|| service_of_hash(hash)));
        if let Some((name, protocol)) = usual {
            port.protocol = protocol;
            let (service, own) =
                (name.split(':').next().unwrap_or(name), name.split_once(':').map_or("", |(_, own)| own));
            let (namespace, service) = service.split_once('/').unwrap_or(("default", service));
            let before = if is_unnamed { "without a name".to_owned() } else { format!("named {}", port.full_name()) };
            notes.push(format!("a service port {before} is {name} by the hash of its chains"));
            port.service = ObjectName::new(namespace, service);
            own.clone_into(&mut port.name);
            continue;
        }
        let valid = ObjectName::new(valid(&port.service.namespace), valid_service(&port.service.name));
        if valid != port.service {
            notes.push(format!("service {} is called {valid}: the API accepts no such name", port.service));
            port.service = valid;
        }
    }
    for port in &mut inferred.ports {
        let valid = valid_port(&port.name);
        if valid != port.name {
            notes.push(format!(
                "port {} of service {} is called {valid}: the API accepts no such name",
                port.name, port.service
            ));
            port.name = valid;
        }
    }
    notes.extend(group_unnamed(&mut inferred.ports));
    let renamed = inferred.ports.iter().zip(befores).filter_map(|(port, before)| Renamed::of(port, before));
    let renamed = renamed.chain(of_other_form(&inferred.ports)).collect();
    inferred.ports.sort();
    (notes, renamed)
}

/// The service ports that comments of rules name, by the hashes of their chains: a chain may be shown without a rule that has a comment.
fn commented_names(parts: &[NodeRules]) -> HashMap<ChainHash, (&str, Protocol)> {
    let tables = parts.iter().filter_map(|part| part.rules.iptables()).flat_map(|rules| &rules.tables);
    let rules = tables.flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
    let names = rules.filter_map(|rule| rule.comment()?.split(' ').next());
    let names: BTreeSet<&str> = names.filter(|name| name.contains('/')).collect();
    let hashed = |name| Protocol::ALL.map(|protocol| (ChainHash::for_service_port(name, protocol), (name, protocol)));
    names.into_iter().flat_map(hashed).collect()
}

/// Makes ports without a name that have a cluster IP together with others ports of one Service, as the API has them. Returns what was changed.
fn group_unnamed(ports: &mut [InferredPort]) -> Vec<String> {
    let mut of_ip: HashMap<IpAddr, (ObjectName, Vec<usize>)> = HashMap::new();
    // A port that rules name says what the others with its address are ports of.
    let named = (0..ports.len()).filter(|at| !ports[*at].is_unnamed());
    let order: Vec<usize> = named.chain((0..ports.len()).filter(|at| ports[*at].is_unnamed())).collect();
    for at in order {
        let Some(ip) = ports[at].cluster_ips.first() else { continue };
        let known = of_ip.entry(*ip).or_insert_with(|| (ports[at].service.clone(), Vec::new()));
        known.1.push(at);
    }
    let mut notes = Vec::new();
    for (ip, (service, all)) in of_ip {
        let unnamed: Vec<usize> = all.iter().copied().filter(|at| ports[*at].is_unnamed()).collect();
        if all.len() < 2 || unnamed.is_empty() {
            continue;
        }
        for at in &unnamed {
            let port = &mut ports[*at];
            let number = port.port.map_or_else(|| at.to_string(), |number| number.to_string());
            (port.service, port.name) = (service.clone(), format!("{}-{number}", port.protocol.as_str()));
        }
        notes.push(format!(
            "{} service ports without a name have the cluster IP {ip}: they are those of {service}",
            unnamed.len()
        ));
    }
    notes.sort();
    notes
}

/// A service port of which rules have another name or hash than kube-proxy writes for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Renamed {
    /// What kube-proxy calls it, and what it is called in the rules.
    names: Option<(String, String)>,
    /// The hashes that kube-proxy writes, by release, and that of the rules.
    hashes: Vec<(ChainHash, ChainHash)>,
}

/// The names of unnamed ports in the other of their two forms, with a colon at the end or without, if the rules have both: whatever the release
/// writes, each rule has its own.
fn of_other_form(ports: &[InferredPort]) -> Vec<Renamed> {
    let names = |port: &InferredPort| {
        let [name, older] = <[String; 2]>::try_from(port.hashed_names()).ok()?;
        let is_own = |name: &str| port.hash == Some(ChainHash::for_service_port(name, port.protocol));
        match (is_own(&name), is_own(&older)) {
            (true, false) => Some((older, name)),
            (false, true) => Some((name, older)),
            _ => None,
        }
    };
    let named: Vec<(&InferredPort, (String, String))> =
        ports.iter().filter_map(|port| Some((port, names(port)?))).collect();
    let are_mixed = [true, false].into_iter().all(|ends| named.iter().any(|(_, (_, own))| own.ends_with(':') == ends));
    if !are_mixed {
        return Vec::new();
    }
    let of_port = |(port, (other, own)): (&InferredPort, (String, String))| {
        let hash = |name: &str| ChainHash::for_service_port(name, port.protocol);
        let endpoints: BTreeSet<&SocketAddr> = port.endpoints.iter().chain(&port.local).collect();
        let of_endpoint = |endpoint: &SocketAddr| {
            let to = endpoint.to_string();
            [&other, &own].map(|name| ChainHash::for_endpoint(name, port.protocol, &to)).into()
        };
        let hashes = std::iter::once((hash(&other), hash(&own))).chain(endpoints.into_iter().map(of_endpoint));
        Renamed { hashes: hashes.collect(), names: Some((other.clone(), own.clone())) }
    };
    named.into_iter().map(of_port).collect()
}

impl Renamed {
    fn of(port: &InferredPort, (before, was_unnamed): (String, bool)) -> Option<Self> {
        let now = port.full_name();
        let hash = port.hash.filter(|_| !is_verified(port));
        let written = port.hashed_names().into_iter().map(|name| ChainHash::for_service_port(&name, port.protocol));
        let hashes = hash.map(|own| written.map(|hash| (hash, own)).collect()).unwrap_or_default();
        // A name that was made up is in no rule.
        let names = (now != before && !was_unnamed).then_some((now, before));
        (names.is_some() || hash.is_some()).then_some(Self { names, hashes })
    }

    /// The chain of an endpoint whose address is made up, so that its name is not the hash of it.
    pub(super) fn for_endpoint(inferred: &Inferred, endpoint: &Unshown) -> Option<Self> {
        let port = inferred.ports.iter().find(|port| port.hash == Some(endpoint.service))?;
        let to = endpoint.address.to_string();
        let written = port.hashed_names().into_iter().map(|name| ChainHash::for_endpoint(&name, port.protocol, &to));
        Some(Self { names: None, hashes: written.map(|hash| (hash, endpoint.own)).collect() })
    }
}

/// The chains of endpoints that have other names than kube-proxy writes: of ports whose name is not that of their chains' hashes, and those
/// that only rules of Services name, as where names were replaced.
pub(super) fn endpoint_chains(inferred: &Inferred, parts: &[NodeRules]) -> Vec<Renamed> {
    let tables = parts.iter().filter_map(|part| part.rules.iptables()?.table(TableName::Nat));
    let chains: HashMap<&str, &[Rule]> = tables
        .flat_map(|table| &table.chains)
        .filter(|chain| !chain.rules.is_empty())
        .map(|chain| (&*chain.name, chain.rules.as_slice()))
        .collect();
    let shows_destination =
        |name: &&str| chains.get(name).is_some_and(|rules| rules.iter().any(|rule| destination(rule).is_some()));
    let mut found = Vec::new();
    for port in &inferred.ports {
        let groups =
            port.hash.into_iter().flat_map(|hash| ChainKind::ALL.map(|kind| format!("{}{hash}", kind.prefix())));
        let rules = groups.filter_map(|group| chains.get(group.as_str())).flat_map(|rules| rules.iter());
        let leads = rules.filter_map(|rule| Some((&**rule.next_chain()?, rule.named_endpoint())));
        let is_verified = is_verified(port);
        let leads: HashMap<&str, Option<SocketAddr>> =
            leads.filter(|(name, _)| !is_verified || !shows_destination(name) || agree(chains[name])).collect();
        for (name, named) in leads {
            let Some((ChainKind::Endpoint, hash)) = ChainKind::of(name) else { continue };
            let rules = || chains.get(name).into_iter().flat_map(|rules| rules.iter());
            let shown = rules().find_map(destination);
            let to = shown.or(named).or_else(|| only_endpoint(port, rules().find_map(source)?));
            let to = to.map(|to| to.to_string());
            let Some((own, to)) = ChainHash::parse_edited(hash).zip(to) else { continue };
            let names = port.hashed_names().into_iter();
            let written: Vec<ChainHash> =
                names.map(|name| ChainHash::for_endpoint(&name, port.protocol, &to)).collect();
            let is_shown = |hash: &ChainHash| chains.contains_key(&*format!("{}{hash}", ChainKind::Endpoint.prefix()));
            if is_verified && shown.is_some() && written.iter().any(is_shown) {
                continue;
            }
            found.push(Renamed { names: None, hashes: written.into_iter().map(|hash| (hash, own)).collect() });
        }
    }
    found
}

/// Whether the rules of an endpoint's chain have one address, which people may have replaced in all of them: then the chain's name is not its hash.
fn agree(rules: &[Rule]) -> bool {
    let mut sources = rules.iter().filter_map(source);
    let mut destinations = rules.iter().filter_map(destination).map(|to| to.ip());
    sources.next().is_some_and(|ip| destinations.next() == Some(ip)) && sources.chain(destinations).next().is_none()
}

/// The only endpoint of a port at an address, where the text does not show to which port the rules translate.
fn only_endpoint(port: &InferredPort, ip: IpAddr) -> Option<SocketAddr> {
    let all: BTreeSet<&SocketAddr> = port.endpoints.iter().chain(&port.local).filter(|own| own.ip() == ip).collect();
    all.first().filter(|_| all.len() == 1).map(|own| **own)
}

fn source(rule: &Rule) -> Option<IpAddr> {
    rule.source.as_ref().filter(|source| !source.negated)?.value.single()
}

fn destination(rule: &Rule) -> Option<SocketAddr> {
    match &rule.target {
        Some(Target::Dnat(Nat { addresses: Some((address, _)), ports: Some(ports), .. })) => {
            Some(SocketAddr::new(*address, ports.first))
        }
        _ => None,
    }
}

/// Rules that kube-proxy writes, with the names and hashes that the rules of a dump have, of which the part is shown.
pub(super) fn as_named(written: Rules, renamed: &[Renamed], shown: &Rules) -> Rules {
    let written = with_shown_hashes(written, shown);
    let Some(rules) = written.iptables().filter(|_| !renamed.is_empty()) else { return written };
    let (mut hashes, mut names) = (HashMap::new(), HashMap::new());
    for one in renamed {
        one.hashes.iter().for_each(|(hash, own)| _ = hashes.entry(hash.to_string()).or_insert_with(|| own.to_string()));
        one.names.iter().for_each(|(now, before)| _ = names.entry(now.as_str()).or_insert(before.as_str()));
    }
    let (family, printed) = (rules.family, written.print());
    let mut text = String::with_capacity(printed.len());
    for word in printed.split_inclusive([' ', '\n']) {
        let plain = word.trim_end();
        let name = plain.trim_start_matches([':', '"']);
        let start = &plain[..plain.len() - name.len()];
        let bare = name.trim_end_matches('"');
        let of_chain = || ChainKind::of(name).and_then(|(kind, hash)| Some((kind.prefix(), hashes.get(hash)?)));
        text += start;
        match (names.get(bare), of_chain()) {
            (Some(before), _) => {
                text += before;
                text += &name[bare.len()..];
            }
            (None, Some((prefix, own))) => {
                text += prefix;
                text += own;
            }
            (None, None) => text += name,
        }
        text += &word[plain.len()..];
    }
    Rules::parse(ProxyMode::Iptables, family, &text).unwrap_or(written)
}

/// A name in lower case that the API accepts as a subdomain.
pub(super) fn valid(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_lowercase(),
        '.' => '.',
        _ => '-',
    });
    let name: String = letters.take(MAX_LETTERS).collect();
    let parts: Vec<&str> = name.split('.').map(|part| part.trim_matches('-')).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "unnamed".to_owned() } else { parts.join(".") }
}

/// A name that the API accepts for a Service: one label that starts with a letter.
pub(super) fn valid_service(name: &str) -> String {
    let name = valid(name).replace('.', "-");
    let name = if name.starts_with(|first: char| first.is_ascii_digit()) { format!("s-{name}") } else { name };
    let name: String = name.chars().take(MAX_OF_LABEL).collect();
    name.trim_end_matches('-').to_owned()
}

/// A name that the API accepts for a port of a Service: one label. A port that is alone has none.
fn valid_port(name: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    let name: String = valid(name).replace('.', "-").chars().take(MAX_OF_LABEL).collect();
    name.trim_end_matches('-').to_owned()
}

/// The longest subdomain and the longest label, in characters.
const MAX_LETTERS: usize = 253;
const MAX_OF_LABEL: usize = 63;
