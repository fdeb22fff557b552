//! Several rule sets: of both backends of iptables on one node, and of several nodes.

use std::collections::BTreeSet;

use svclab_rules::cluster::ProxyMode;
use svclab_rules::compare::Subject;
use svclab_rules::iptables::{ChainKind, TableName, Target};

use super::finding::{Finding, Place};
use super::surrounding_rules::is_of_older_iptables;
use super::view::{Tables, View};
use crate::evidence::{Contents, Format, NodeRules, OF_IPTABLES_NFT, Piece, Unread, others};
use crate::text::counted;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let sets: Vec<Tables<'_>> = view.tables().filter(Tables::is_whole).collect();
    for (at, one) in sets.iter().enumerate() {
        for other in &sets[at + 1..] {
            if one.parsed.rules.family != other.parsed.rules.family {
                continue;
            }
            match (one.node.backend, other.node.backend) {
                (Some(first), Some(second)) if first != second => found.extend(both(*one, *other, first, second)),
                _ => found.extend(nodes(*one, *other)),
            }
        }
    }
    found.extend(not_read(view));
    found.extend(unread(view));
    found.extend(others(view.nodes).into_iter().map(other));
    found
}

/// Tables of iptables-nft in nft's text, where nothing else shows their rules.
fn not_read(view: &View<'_>) -> Option<Finding> {
    let piece = view.evidence.iptables_nft_piece().filter(|_| view.nodes.is_empty())?;
    let place = Place { file: piece.file.clone(), line: piece.first };
    let effect =
        "unknown: none of these rules is judged, since nft leaves out what it does not know of iptables' matches";
    Some(Finding::new("rules-not-read", place, OF_IPTABLES_NFT[0], effect))
}

/// A rule set that is not judged.
fn other(rules: &NodeRules) -> Finding {
    let place = Place { file: rules.file.clone(), line: rules.first };
    let effect = "unknown: if the node has these rules too, they may take the traffic of Services";
    let message = "another rule set of the same text, without Services";
    Finding::new("rules-not-read", place, message, effect).with_mode(rules.rules.mode())
}

/// The lines of rules that could not be read, once for each reason and format.
fn unread(view: &View<'_>) -> Vec<Finding> {
    let mut groups: Vec<(ProxyMode, Vec<&Unread>)> = Vec::new();
    for line in view.evidence.unread_rules().filter(|line| !is_of_older_iptables(line)) {
        let mode = mode_of(view, line);
        let is_alike = |group: &&mut (ProxyMode, Vec<&Unread>)| {
            group.0 == mode && (&group.1[0].file, &group.1[0].reason) == (&line.file, &line.reason)
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.1.push(line),
            None => groups.push((mode, vec![line])),
        }
    }
    let finding = |(mode, lines): (ProxyMode, Vec<&Unread>)| {
        let first = lines[0];
        let place = Place { file: first.file.clone(), line: first.line };
        let (message, effect) = match lines.as_slice() {
            [_, .., last] => (
                format!("{} not read, last at line {}: {}", counted(lines.len(), "line"), last.line, first.reason),
                "unknown: what these rules do is not judged",
            ),
            _ => (format!("not read: {}", first.reason), "unknown: what the rule does is not judged"),
        };
        Finding::new("rules-not-read", place, message, effect).with_mode(mode)
    };
    groups.into_iter().map(finding).collect()
}

fn shows_rules(contents: &Contents) -> bool {
    contents.rules() > 0 || contents.elements() > 0
}

/// The mode of kube-proxy whose rules a line is of: that of the piece that it is in, or of the nearest one before or after it.
fn mode_of(view: &View<'_>, line: &Unread) -> ProxyMode {
    let of_file = view.evidence.pieces.iter().filter(|piece| piece.file == line.file && shows_rules(&piece.contents));
    let distance = |piece: &&Piece| {
        let after = line.line.saturating_sub(piece.last);
        after.max(piece.first.saturating_sub(line.line))
    };
    match of_file.min_by_key(distance).map(|piece| piece.format) {
        Some(Format::Nft | Format::NftJson) => ProxyMode::Nftables,
        _ => ProxyMode::Iptables,
    }
}

fn both(one: Tables<'_>, other: Tables<'_>, first: &str, second: &str) -> Option<Finding> {
    let has_services =
        |tables: Tables<'_>| tables.chain(TableName::Nat, "KUBE-SERVICES").is_some_and(|chain| !chain.rules.is_empty());
    (has_services(one) && has_services(other)).then(|| {
        let message = format!("both {first} and {second} have rules of Services on the same node");
        let effect = "the kernel runs both: stale rules of one backend take connections, or masquerade them, before the current ones";
        Finding::new("two-backends", other.start(), message, effect)
    })
}

/// Endpoints of services that both rule sets have.
fn nodes(one: Tables<'_>, other: Tables<'_>) -> Vec<Finding> {
    let (first, second) = (endpoints(one), endpoints(other));
    let mut found = Vec::new();
    for (service, own) in &first {
        let Some(others) = second.get(service).filter(|others| *others != own) else { continue };
        let listed = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(", ");
        let message = format!(
            "endpoints of {service} differ: {} at {}, {} at {}",
            listed(own),
            one.start(),
            listed(others),
            other.start()
        );
        let effect = "the same connection goes to different endpoints from different nodes: one kube-proxy is stale, or the dumps were taken at different times";
        let subject = Subject::Service(service.clone());
        found.push(Finding::new("nodes-differ", other.start(), message, effect).about([subject]));
    }
    found
}

/// The endpoints of each service's chain of policy Cluster.
fn endpoints(tables: Tables<'_>) -> std::collections::BTreeMap<String, BTreeSet<String>> {
    let mut all = std::collections::BTreeMap::new();
    let Some(nat) = tables.parsed.rules.table(TableName::Nat) else { return all };
    let chains: std::collections::HashMap<&str, &svclab_rules::iptables::Chain> =
        nat.chains.iter().map(|chain| (&*chain.name, chain)).collect();
    for chain in nat.chains.iter().filter(|chain| ChainKind::Service.is_of(&chain.name) && !chain.rules.is_empty()) {
        let name = chain
            .rules
            .iter()
            .find_map(|rule| rule.comment()?.split(' ').find(|word| word.contains('/')))
            .unwrap_or(&chain.name);
        let targets =
            chain.rules.iter().filter_map(|rule| chains.get(&**rule.next_chain()?)).flat_map(|chain| &chain.rules);
        let addresses = targets.filter_map(|rule| match &rule.target {
            Some(Target::Dnat(nat)) => Some(format!("{}:{}", nat.addresses?.0, nat.ports?.first)),
            _ => None,
        });
        all.insert(name.to_owned(), addresses.collect::<BTreeSet<_>>());
    }
    all
}
