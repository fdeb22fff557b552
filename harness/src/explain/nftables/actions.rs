//! Describes what an nftables rule does.

use std::net::SocketAddr;

use svclab_rules::nftables::{
    Element, Key, LookupKey, MarkChange, Name, Rule, Side, Statement, Table, Verdict, print_key,
};
use svclab_rules::walk::{Packet, RejectResponse};

use super::super::phrases;
use crate::predict::{MatchedRule, RuleExit};

/// Maximum number of destinations listed.
const MAX_DESTINATIONS: usize = 4;

/// Describes what a rule did with a packet that matched it, as a fragment.
pub(super) fn words(matched: &MatchedRule<'_>, rule: &Rule, table: &Table) -> String {
    let of = |statement: &Statement| match statement {
        Statement::Verdict(verdict) => verdict_words(verdict),
        Statement::Reject(RejectResponse::PortUnreachable) => phrases::CLOSES_PORT.to_owned(),
        Statement::Reject(RejectResponse::TcpReset) => phrases::RESETS.to_owned(),
        Statement::Reject(_) => phrases::REJECTS.to_owned(),
        Statement::Lookup(key, map) => found(matched, key, map, table),
        Statement::Balance(verdicts) => {
            let is_chosen = |verdict: &&Verdict| is_that(verdict, matched.next_hook);
            let chosen = verdicts.iter().find(is_chosen).map(verdict_words).unwrap_or_default();
            if verdicts.len() == 1 { chosen } else { format!("{chosen}, by chance one of {}", verdicts.len()) }
        }
        Statement::BalanceDnat(destinations) => phrases::translates_destination(&one_of(destinations)),
        Statement::Dnat(destination) => phrases::translates_destination(&destination.to_string()),
        Statement::DnatAddress(address) => phrases::translates_destination(&address.to_string()),
        Statement::Snat(address, None) => phrases::translates_source(&address.to_string()),
        Statement::Snat(address, Some(port)) => {
            phrases::translates_source(&SocketAddr::new(*address, *port).to_string())
        }
        Statement::Masquerade { .. } => phrases::MASQUERADES.to_owned(),
        Statement::Mark(MarkChange::Set(bits)) => phrases::marks(&format!("{bits:#x}")),
        Statement::Mark(MarkChange::Flip(bits)) => phrases::flips_mark(*bits),
        Statement::Mark(MarkChange::Write { kept: 0, set }) => format!("gives it the mark {set:#x}"),
        Statement::Mark(MarkChange::Write { kept, set: 0 }) => format!("keeps the mark bits {kept:#x}"),
        Statement::Mark(MarkChange::Write { kept, set }) => {
            format!("keeps the mark bits {kept:#x}, and sets the bits {set:#x}")
        }
        Statement::Remember(Side::Source, set) => format!("adds its source to set {set}"),
        Statement::Remember(Side::Destination, set) => format!("adds its destination to set {set}"),
        Statement::Other(text) => format!("`{text}` (not explained)"),
    };
    let words: Vec<String> = rule.statements.iter().map(of).collect();
    if words.is_empty() { "only counts it".to_owned() } else { words.join(", and ") }
}

fn verdict_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accepts it in this base chain".to_owned(),
        Verdict::Drop => phrases::DROPS.to_owned(),
        Verdict::Return => phrases::RETURNS.to_owned(),
        Verdict::Jump(chain) => phrases::jumps(chain, role(chain)),
        Verdict::Goto(chain) => phrases::goes(chain, role(chain)),
    }
}

/// Returns the map entry for a packet.
fn found(matched: &MatchedRule<'_>, key: &[LookupKey], map: &Name, table: &Table) -> String {
    let elements = table.set(map).map(|map| map.elements.as_slice()).unwrap_or_default();
    let has = |element: &&Element| element.verdict.as_ref().is_some_and(|verdict| is_that(verdict, matched.next_hook));
    let fits =
        |element: &&Element| key.iter().zip(&element.key).all(|(part, value)| is_of(&matched.packet, *part, value));
    // The packet may have been translated since it entered the hook.
    let element = elements.iter().filter(has).find(fits).or_else(|| elements.iter().find(has));
    match element.and_then(|element| Some((element, element.verdict.as_ref()?))) {
        Some((element, verdict)) => format!("{}, found as {}", verdict_words(verdict), print_key(&element.key)),
        None => "finds nothing".to_owned(),
    }
}

/// Returns whether a verdict sends a packet to this exit.
fn is_that(verdict: &Verdict, next_hook: RuleExit<'_>) -> bool {
    match (verdict, next_hook) {
        (Verdict::Jump(name), RuleExit::Jump { chain, .. }) | (Verdict::Goto(name), RuleExit::Goto { chain, .. }) => {
            **name == *chain
        }
        (Verdict::Accept, RuleExit::Accept) | (Verdict::Drop, RuleExit::End) | (Verdict::Return, RuleExit::Return) => {
            true
        }
        _ => false,
    }
}

/// Returns whether a packet has this value in a part of a key.
fn is_of(packet: &Packet, part: LookupKey, value: &Key) -> bool {
    match (part, value) {
        (LookupKey::Address(Side::Source), Key::Address(address)) => packet.source == *address,
        (LookupKey::Address(Side::Destination), Key::Address(address)) => packet.destination == *address,
        (LookupKey::Protocol, Key::Protocol(protocol)) => packet.transport.protocol() == protocol.number(),
        (LookupKey::DestinationPort, Key::Port(port)) => {
            packet.transport.ports().is_some_and(|(_, destination)| destination == *port)
        }
        _ => false,
    }
}

/// Describes the destinations of a random choice.
fn one_of(destinations: &[SocketAddr]) -> String {
    if let [only] = destinations {
        return only.to_string();
    }
    let shown: Vec<String> = destinations.iter().take(MAX_DESTINATIONS).map(ToString::to_string).collect();
    let more = if destinations.len() > MAX_DESTINATIONS { ", ..." } else { "" };
    format!("one of {} by chance: {}{more}", destinations.len(), shown.join(", "))
}

/// Returns the purpose of one of kube-proxy's chains.
fn role(chain: &str) -> Option<&'static str> {
    let roles = [
        ("services", "the addresses and node ports of all services"),
        ("masquerading", "masquerades what is marked for it"),
        ("mark-for-masquerade", "marks packets to be masqueraded in POSTROUTING"),
        ("reject-chain", "rejects what has no endpoint"),
        ("nodeport-endpoints-check", "node ports of services without an endpoint"),
        ("service-endpoints-check", "addresses of services without an endpoint"),
        ("firewall-check", "load balancers' source ranges"),
        ("cluster-ips-check", "ports of cluster IPs that no service has"),
        ("service-", "chooses an endpoint of the service"),
        ("local-", "chooses an endpoint of the service on this node"),
        ("endpoint-", "one endpoint"),
        ("external-", "external traffic of the service"),
        ("firewall-", "source ranges of the service's load balancer"),
    ];
    phrases::role_of(chain, &roles)
}
