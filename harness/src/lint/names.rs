//! Chain names whose hash does not match what the chain is for.

use std::collections::HashSet;

use svclab_rules::cluster::Protocol;
use svclab_rules::compare::Subject;
use svclab_rules::iptables::{ChainHash, ChainKind, Rule, Target};

use super::finding::Finding;
use super::view::{Tables, View};
use crate::evidence::service_of_hash;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    view.tables().flat_map(find_in_iptables).collect()
}

fn find_in_iptables(tables: Tables<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut known: HashSet<(&str, &str)> = HashSet::new();
    for placed in tables.rules() {
        // The rule that leads to a service's chain, or is in it, names the service.
        let next = placed.rule.next_chain().map(|next| &**next).unwrap_or_default();
        let (chain, hash) = match (hash_of(next), hash_of(&placed.chain.name)) {
            (Some(hash), _) => (next, hash),
            (None, Some(hash)) => (&*placed.chain.name, hash),
            (None, None) => continue,
        };
        let Some(service) = service_of(placed.rule) else { continue };
        if is_verified(service, hash) || !known.insert((chain, service)) {
            continue;
        }
        let real = service_of_hash(hash).map(|(name, _)| name);
        let is = real.map(|name| format!("; it is that of {name}")).unwrap_or_default();
        let message = format!("the hash in {chain} does not match {service}, which the comment names{is}");
        let effect = "no effect on packets; kube-proxy cannot have written both: the text was edited, or a rule is left over from another Service";
        let subjects = [service.to_owned(), hash.to_string()].map(Subject::Service);
        found.push(Finding::new("hash-comment", tables.place(placed.line), message, effect).about(subjects));
    }
    found.extend(endpoints(tables));
    found
}

/// Endpoint chains whose hash does not match their DNAT, for services whose name is confirmed by a hash.
fn endpoints(tables: Tables<'_>) -> Vec<Finding> {
    let rules: Vec<_> = tables.rules().collect();
    let mut found = Vec::new();
    // The service of an endpoint's chain is that of the chain that leads to it.
    let mut owners: std::collections::HashMap<&str, &str> = std::collections::HashMap::new();
    for placed in &rules {
        if let (Some(next), true) = (placed.rule.next_chain(), ChainKind::Service.is_of(&placed.chain.name))
            && ChainKind::Endpoint.is_of(next)
        {
            owners.insert(next, &placed.chain.name);
        }
    }
    let service_names: std::collections::HashMap<&str, Option<&str>> = rules
        .iter()
        .filter_map(|placed| {
            let next = placed.rule.next_chain()?;
            ChainKind::Service.is_of(next).then(|| (&**next, service_of(placed.rule)))
        })
        .collect();
    for placed in &rules {
        let Some(Target::Dnat(nat)) = &placed.rule.target else { continue };
        let (Some((address, _)), Some(ports)) = (nat.addresses, nat.ports) else { continue };
        // A name that is not a hash comes from whoever edited the text.
        let Some((ChainKind::Endpoint, hash)) = ChainKind::of(&placed.chain.name) else { continue };
        let Some(hash) = ChainHash::parse(hash) else { continue };
        let owner = owners.get(&*placed.chain.name).copied();
        let owner_hash = owner.and_then(hash_of);
        let named =
            service_of(placed.rule).or_else(|| owner.and_then(|owner| service_names.get(owner).copied().flatten()));
        // An endpoint's hash can only be checked against a service name that is certain.
        let by_dictionary = || owner_hash.and_then(|hash| Some(service_of_hash(hash)?.0));
        let verified =
            named.filter(|name| owner_hash.is_some_and(|hash| is_verified(name, hash))).or_else(by_dictionary);
        let Some(service) = verified else { continue };
        let to = std::net::SocketAddr::new(address, ports.first).to_string();
        let of =
            |name: &str| Protocol::ALL.into_iter().any(|protocol| ChainHash::for_endpoint(name, protocol, &to) == hash);
        if of(service) || of(&format!("{service}:")) {
            continue;
        }
        let message = format!("the hash in {} does not match endpoint {to} of {service}", placed.chain.name);
        let effect = "connections go to a different endpoint than the chain's name indicates, or the text was edited";
        let subject = Subject::Service(service.to_owned());
        found.push(Finding::new("hash-endpoint", tables.place(placed.line), message, effect).about([subject]));
    }
    found
}

fn service_of(rule: &Rule) -> Option<&str> {
    let word = rule.comment()?.split(' ').next()?;
    word.contains('/').then_some(word)
}

fn hash_of(chain: &str) -> Option<ChainHash> {
    ChainKind::of(chain).filter(|(kind, _)| *kind != ChainKind::Endpoint).and_then(|(_, hash)| ChainHash::parse(hash))
}

/// Whether a hash is that of a service port. Up to 1.18 an unnamed port's name ended in a colon.
fn is_verified(service: &str, hash: ChainHash) -> bool {
    let of = |name: &str| Protocol::ALL.into_iter().any(|protocol| ChainHash::for_service_port(name, protocol) == hash);
    of(service) || of(&format!("{service}:"))
}
