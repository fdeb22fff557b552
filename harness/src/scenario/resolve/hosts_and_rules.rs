//! Outside hosts and other rules.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use svclab_rules::cluster::{Cluster, Family};

use super::addresses::Pool;
use super::endpoints::object_name;
use super::findings::Findings;
use super::located::Located;
use super::network::Network;
use super::nodes::{defaults, one_of, only_one};
use super::objects::Objects;
use super::other_rules::{self, Written};
use super::pods;
use crate::input::{Span, language};
use crate::scenario::model::{Host, Install, OtherRules, Place as Namespace};
use crate::scenario::schema::{OneOrMany, RawFamily, RawHost, RawInstall, RawRules};
use crate::yaml::At;

/// Documentation ranges (RFC 5737, RFC 3849), which no real machine uses: the first range of a family that does not overlap with pods is
/// used.
const OUTSIDE: [&str; 4] = ["203.0.113.0/24", "198.51.100.0/24", "2001:db8:113::/64", "2001:db8:100::/64"];

/// Resolves the hosts, with default addresses of the given families.
pub(crate) fn hosts<'a>(
    raw: &[RawHost],
    at: At<'a>,
    network: &Network,
    pool: &mut Pool,
    findings: &mut Findings,
) -> Vec<Located<'a, Host>> {
    let mut hosts: Vec<Located<'a, Host>> = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        let at = at.item(index);
        only_one(at, ["ip", "ips"], findings);
        let mut ips: Vec<IpAddr> = Vec::new();
        let place = at.first_of(&["ip", "ips"]);
        for (index, text) in one_of([&raw.ips, &raw.ip]).iter().enumerate() {
            let Some(ip) =
                findings.parsed(place.item(index), text, "IP address", "an address, for example 203.0.113.10")
            else {
                continue;
            };
            if ips.iter().any(|other| Family::of(*other) == Family::of(ip)) {
                let message = format!("a second {} address", Family::of(ip));
                findings.wrong(place.item(index), message, "Use at most one address of each family.");
            } else {
                ips.push(ip);
            }
        }
        if raw.name.is_empty() || !raw.name.chars().all(|letter| letter.is_alphanumeric() || "-_.".contains(letter)) {
            let help = "Use only letters, digits, `-`, `_` and `.`.";
            findings.wrong(at.field("name"), format!("invalid host name `{}`", raw.name), help);
        } else if hosts.iter().any(|other| other.value.name == raw.name) {
            findings.wrong(at.field("name"), format!("duplicate host `{}`", raw.name), "Rename one of them.");
        } else {
            hosts.push(Located::short(Host { name: raw.name.clone(), ips }, at));
        }
    }
    pool.take(hosts.iter().flat_map(|host| host.value.ips.clone()));
    for host in hosts.iter_mut().filter(|host| host.value.ips.is_empty()) {
        host.value.ips = defaults(&network.free(&OUTSIDE), &network.families(), 10, pool);
    }
    hosts
}

/// The texts of files with rules, by path.
pub(crate) type RuleFiles = BTreeMap<PathBuf, String>;

/// Resolves the other rules. Lines may end in CRLF.
pub(crate) fn rules(
    raw: &BTreeMap<String, OneOrMany<RawRules>>,
    at: At<'_>,
    folder: &Path,
    files: &RuleFiles,
    objects: &Objects<'_>,
    cluster: &Cluster,
    findings: &mut Findings,
) -> Vec<OtherRules> {
    let mut all: Vec<Written<'_>> = Vec::new();
    for (owner, list) in raw {
        let at = at.field(owner);
        let Some(place) = namespace(owner, at, objects, findings) else { continue };
        for (index, raw) in list.0.iter().enumerate() {
            let at = at.item(index);
            let (text, (origin, start)) = match (&raw.file, &raw.text) {
                (Some(file), None) => {
                    let file = folder.join(file);
                    // A file that could not be read has been reported already.
                    let Some(text) = files.get(&file) else { continue };
                    (text.clone(), (Span::start_of(&file), Some(1)))
                }
                (None, Some(text)) => (text.clone(), at.field("text").text_span()),
                _ => {
                    findings.wrong(at, "rules need either `file` or `text`", "Set exactly one of them.");
                    continue;
                }
            };
            let install = match raw.install {
                RawInstall::Instead => Install::Instead,
                RawInstall::Before => Install::Before,
                RawInstall::After => Install::After,
            };
            let text = text.replace("\r\n", "\n");
            let (family, mode) = (family(raw.family), language(&text));
            let parsed = other_rules::parse(&text, mode, family, install);
            let written = Written { place: place.clone(), family, mode, text, origin, install, parsed, at, start };
            other_rules::check(&written, &all, findings);
            all.push(written);
        }
    }
    if findings.errors.is_empty() {
        other_rules::programs(&all, cluster, findings);
    }
    all.into_iter().map(Written::into_rules).collect()
}

/// Returns the family of a keyword.
pub(crate) fn family(raw: RawFamily) -> Family {
    match raw {
        RawFamily::Ipv4 => Family::Ipv4,
        RawFamily::Ipv6 => Family::Ipv6,
    }
}

fn namespace(owner: &str, at: At<'_>, objects: &Objects<'_>, findings: &mut Findings) -> Option<Namespace> {
    if let Some(pod) = owner.strip_prefix("pod/") {
        let name = object_name(pod);
        let pods = pods::named(&objects.pods, &name);
        match pods.as_slice() {
            [] => objects.missing_pod(&name, at, findings),
            [pod] if pod.value.pod.host_network => {
                let node = &pod.value.pod.node;
                let message = format!("pod `{name}` has no network namespace of its own: it uses that of node {node}");
                findings.wrong(at.key(), message, format!("Use `{node}` instead."));
            }
            [pod] => return Some(Namespace::Pod(pod.value.pod.name.clone())),
            [first, ..] => {
                let message = format!("`{owner}` matches {} pods", pods.len());
                findings.wrong(
                    at.key(),
                    message,
                    format!("Name one of them, for example `pod/{}`.", first.value.pod.name.name),
                );
            }
        }
        return None;
    }
    let node = owner.strip_prefix("node/").unwrap_or(owner);
    match objects.node(node) {
        Some(node) => Some(Namespace::Node(node.name.clone())),
        None => {
            objects.missing_node(node, at, findings);
            None
        }
    }
}
