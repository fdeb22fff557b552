//! Verification of the result by parsing it again.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use svclab_rules::ruleset::Rules;

use super::Text;
use super::addresses::Addresses;
use super::scan::Scan;
use super::token::ordinary_words;
use super::wording::wordings;
use crate::diff::image;
use crate::evidence::{Evidence, Format, NodeRules, Piece, node_rules, read};
use crate::infer::{Connections, from_evidence};
use crate::scenario::{Cni, CniKind, Scenario};

/// How the result was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The number of pieces parsed as before: the same format, lines, rules and objects.
    pub pieces: usize,
    /// The starts of pieces that differ: `rules.txt:12`, `line 12`.
    pub differing: Vec<String>,
    /// Words and addresses of the original that are left in the result. Empty unless svclab has a bug.
    pub left: Vec<String>,
    /// The number of chain hashes that did not change, because no hashed name or address identifies anyone.
    pub kept_hashes: usize,
    /// The comparison of the rules' behaviour.
    pub behaviour: Behaviour,
}

/// Whether rules handle every class of packets as before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Behaviour {
    /// They do, for all compared classes of packets.
    Same {
        /// The number of compared classes, of both texts.
        classes: usize,
        /// Whether there are more.
        is_cut: bool,
    },
    /// This packet is handled differently.
    Differs(String),
    /// Nothing was compared, for the given reason.
    NotCompared(String),
}

/// Maximum number of compared classes of a sender.
const MAX_CLASSES: usize = 20_000;

/// Compares the texts as they were, without the breaks of a terminal, and anonymized.
pub(super) fn prove([original, before, after]: [&[Evidence]; 3], texts: &[Text], scan: &mut Scan) -> Proof {
    let (mut pieces, mut differing) = (0, Vec::new());
    for (((original, one), other), text) in original.iter().zip(before).zip(after).zip(texts) {
        let place = |line: usize| match &text.name {
            Some(name) => format!("{name}:{line}"),
            None => format!("line {line}"),
        };
        let reported = differing.len();
        for at in 0..one.pieces.len().max(other.pieces.len()) {
            let [piece, new] = [one, other].map(|evidence| evidence.pieces.get(at));
            if piece.map(shape) == new.map(shape) {
                pieces += 1;
            } else {
                differing.push(place(piece.or(new).map_or(1, |piece| piece.first)));
            }
        }
        if differing.len() == reported && shows_less(other, original) {
            differing.push(place(original.pieces.first().map_or(1, |piece| piece.first)));
        }
    }
    let (left, kept_hashes) = (left(texts, after, scan), scan.chains.kept());
    Proof { pieces, differing, left, kept_hashes, behaviour: behaviour(before, after, &mut scan.addresses) }
}

/// The numbers of rules, objects and entries of a piece.
fn counts(piece: &Piece) -> [usize; 3] {
    [piece.contents.rules(), piece.contents.objects(), piece.contents.entries()]
}

/// The format, lines and [`counts`] of a piece.
fn shape(piece: &Piece) -> (Format, usize, usize, [usize; 3]) {
    (piece.format, piece.first, piece.last, counts(piece))
}

/// Whether evidence has fewer rules, objects or entries than other evidence of the same text, in a piece or in all.
pub(super) fn shows_less(evidence: &Evidence, other: &Evidence) -> bool {
    let is_less = |[one, other]: [[usize; 3]; 2]| one.iter().zip(other).any(|(one, other)| *one < other);
    if evidence.pieces.len() == other.pieces.len() {
        return evidence.pieces.iter().zip(&other.pieces).any(|(one, other)| is_less([one, other].map(counts)));
    }
    let all = |evidence: &Evidence| {
        evidence.pieces.iter().map(counts).fold([0; 3], |all, own| std::array::from_fn(|at| all[at] + own[at]))
    };
    is_less([all(evidence), all(other)])
}

/// Finds replaced words, hashes and addresses that are left in the result, by a search that does not depend on the recognition of tokens.
fn left(texts: &[Text], evidence: &[Evidence], scan: &Scan) -> Vec<String> {
    let hashes = scan.chains.replaced().map(str::to_lowercase);
    let words: HashSet<String> = scan.words.replaced().map(str::to_owned).chain(hashes).collect();
    let addresses: HashSet<&IpAddr> = scan.addresses.replaced().map(|(old, _)| old).collect();
    let mut left = Vec::new();
    let names = texts.iter().filter_map(|text| text.name.as_ref()).map(|name| (name, None));
    let contents = texts.iter().zip(evidence).map(|(text, evidence)| (&text.text, Some(evidence)));
    for (text, evidence) in names.chain(contents) {
        let is_part = |letter: char| letter.is_ascii_hexdigit() || ":.".contains(letter);
        let runs = || text.split(|letter| !is_part(letter));
        let place = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        let old_address = |run: &&str| {
            let after = &text[place(run) + run.len()..];
            addresses_in(run).any(|ip| addresses.contains(&ip) && !is_well_known(ip, after, &scan.addresses))
        };
        left.extend(runs().filter(old_address).take(MAX_LEFT).map(str::to_owned));
        for mark in ['-', '_'] {
            let in_parts = text.split(|letter: char| !letter.is_ascii_digit() && letter != mark).filter(|run| {
                let groups: Vec<&str> = run.split(mark).collect();
                groups.windows(4).any(|four| four.join(".").parse().is_ok_and(|ip| addresses.contains(&IpAddr::V4(ip))))
            });
            left.extend(in_parts.take(MAX_LEFT).map(str::to_owned));
        }
        let identifiers: Vec<&str> = text
            .split(|letter: char| !letter.is_ascii_hexdigit() && !"-:".contains(letter))
            .filter(|run| (MIN_DIGITS..MAX_DIGITS).contains(&run.len()))
            .collect();
        let is_old = |run: &&&str| scan.digits.contains(&run.replace(['-', ':'], "").to_lowercase());
        left.extend(identifiers.iter().filter(is_old).take(MAX_LEFT).map(|run| (*run).to_owned()));
        // Groups of new addresses and identifiers are not words: `db8` of the documentation range, which is kept, or any two digits.
        let ipv6: Vec<&str> = runs().filter(|run| addresses_in(run).any(|ip| ip.is_ipv6())).collect();
        let is_in = |all: &[&str], word: &str| {
            let after = all.partition_point(|run| place(run) <= place(word));
            after.checked_sub(1).is_some_and(|at| place(word) < place(all[at]) + all[at].len())
        };
        let is_group = |word: &str| is_in(&ipv6, word) || is_in(&identifiers, word);
        let old_word = |word: &&str| words.contains(word.to_lowercase().as_str()) && !is_group(word);
        let nothing = Evidence::default();
        let lines = wordings(text, evidence.unwrap_or(&nothing));
        let words_of = lines.flat_map(|(line, wording)| ordinary_words(line, &scan.names, wording));
        left.extend(words_of.filter(old_word).take(MAX_LEFT).map(str::to_owned));
    }
    left
}

/// Returns whether an address does not change, or is that of a network that does not, whose prefix length follows.
fn is_well_known(ip: IpAddr, after: &str, addresses: &Addresses) -> bool {
    let digits = after.strip_prefix('/').unwrap_or_default();
    let digits = &digits[..digits.bytes().take(3).take_while(u8::is_ascii_digit).count()];
    let network = digits.parse().ok().and_then(|length| IpNet::new(ip, length).ok());
    addresses.is_well_known(ip) || network.is_some_and(|network| addresses.is_well_known_network(network))
}

/// Returns the addresses that a run of hexadecimal digits, colons and dots may contain. A port may follow an address, as in `10.0.0.1:80`,
/// or tcpdump's `10.0.0.1.80`.
fn addresses_in(run: &str) -> impl Iterator<Item = IpAddr> {
    let (whole, bare) = (run.trim_end_matches('.'), run.trim_end_matches(['.', ':']));
    let shorter = [':', '.'].map(|mark| bare.rsplit_once(mark).map_or(bare, |(address, _)| address));
    [whole, bare, shorter[0], shorter[1]].into_iter().filter_map(|part| part.parse().ok())
}

/// Maximum number of reported tokens of a text.
const MAX_LEFT: usize = 20;

/// Numbers of digits of hardware addresses and identifiers, with separators.
const MIN_DIGITS: usize = 12;
const MAX_DIGITS: usize = 40;

/// Compares the behaviour of the first complete rule set, before and after.
fn behaviour(before: &[Evidence], after: &[Evidence], addresses: &mut Addresses) -> Behaviour {
    let whole = |evidence: &[Evidence]| -> Option<NodeRules> {
        let all: Vec<NodeRules> = evidence.iter().flat_map(node_rules).collect();
        all.into_iter().find(|rules| rules.is_whole() && !rules.rules.print().is_empty())
    };
    let (Some(old), Some(new)) = (whole(before), whole(after)) else {
        return Behaviour::NotCompared("the input has no complete rule set".to_owned());
    };
    let Ok(assumed) = from_evidence(&read(&old.rules.print()), Path::new("rules"), &[], Connections::LeftOut) else {
        return Behaviour::NotCompared("no cluster can be inferred from the rules".to_owned());
    };
    // The default address of a bridge is the first free one, which differs among other addresses.
    let cni = Cni { kind: CniKind::Ptp, ..assumed.scenario.cni };
    // What the text does not show is not compared: it was assumed for these addresses.
    let scenario = with_rules(Scenario { cni, ..assumed.scenario }, &old.rules);
    let after = with_rules(renumbered(&scenario, addresses), &new.rules);
    let (there, back) = addresses.both_ways();
    match image([&scenario, &after], [&there, &back], MAX_CLASSES) {
        Ok(found) => match found.differing {
            Some(packet) => Behaviour::Differs(packet),
            None => Behaviour::Same { classes: found.classes, is_cut: found.is_cut },
        },
        Err(error) => Behaviour::NotCompared(error.to_string()),
    }
}

/// Returns the scenario with these rules instead of its own.
fn with_rules(mut scenario: Scenario, rules: &Rules) -> Scenario {
    for own in &mut scenario.rules {
        own.rules = Arc::new(rules.clone().for_family(own.family));
    }
    scenario
}

/// Returns the scenario with replaced addresses.
fn renumbered(scenario: &Scenario, addresses: &mut Addresses) -> Scenario {
    let mut new = scenario.clone();
    let mut all: Vec<&mut IpAddr> = Vec::new();
    let mut networks: Vec<&mut IpNet> = Vec::new();
    let cluster = &mut new.cluster;
    for node in &mut cluster.nodes {
        all.extend(node.internal_ips.iter_mut().chain(&mut node.external_ips));
        networks.extend(&mut node.pod_cidrs);
    }
    all.extend(cluster.pods.iter_mut().flat_map(|pod| &mut pod.ips));
    for service in &mut cluster.services {
        all.extend(service.cluster_ips.iter_mut().chain(&mut service.external_ips));
        all.extend(service.load_balancer.iter_mut().map(|ingress| &mut ingress.ip));
        networks.extend(&mut service.source_ranges);
    }
    let endpoints = cluster.slices.iter_mut().flat_map(|slice| &mut slice.endpoints);
    all.extend(endpoints.flat_map(|endpoint| &mut endpoint.addresses));
    networks.extend(cluster.service_cidrs.iter_mut().chain(&mut cluster.proxy.cluster_cidrs));
    networks.extend(&mut cluster.proxy.node_port_addresses);
    all.extend(new.hosts.iter_mut().flat_map(|host| &mut host.ips));
    all.into_iter().for_each(|ip| *ip = addresses.replace(*ip));
    networks.into_iter().for_each(|network| *network = addresses.replace_network(*network));
    new
}
