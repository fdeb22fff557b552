//! A text that shows a cluster at two times, or two clusters: a Service has another cluster IP in a later table, or the list of nodes has none of
//! the nodes that were listed before. What it shows of one does not apply to the other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

use super::model::{Contents, Evidence, Format, Piece, Stretch};
use crate::text::list;

/// The most names that are listed.
const MAX_NAMED: usize = 3;

/// What a text shows of one cluster at one time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Snapshot {
    /// The evidence.
    pub(crate) evidence: Evidence,
    /// Its first line, and that with which the text goes on to another cluster or time.
    pub(crate) lines: Vec<(usize, Option<usize>)>,
    /// What contradicts an earlier part of the text, in words; nothing for the first snapshot.
    pub(crate) why: Option<String>,
}

impl Snapshot {
    /// Its lines, in words.
    pub(crate) fn place(&self) -> String {
        let stretches = self.lines.iter().map(|(first, next)| match next {
            Some(next) => format!("lines {first} to {}", next - 1),
            None => format!("the text from line {first} on"),
        });
        stretches.collect::<Vec<_>>().join(" and ")
    }
}

/// What pieces show of one cluster at one time.
#[derive(Debug, Default)]
struct Shown {
    /// The cluster IPs of Services.
    services: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The nodes that a list of all has.
    nodes: BTreeSet<String>,
    /// The cluster, by number.
    cluster: usize,
}

impl Shown {
    fn of(piece: &Piece) -> Self {
        let mut shown = Self::default();
        let (Contents::Objects(objects), Some(command)) = (&piece.contents, &piece.command) else { return shown };
        for object in objects.iter().filter(|object| !is_manifest(piece, object)) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match object["kind"].as_str() {
                Some("Service") => {
                    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
                    let spec = &object["spec"];
                    let all = spec["clusterIPs"].as_array().into_iter().flatten().chain([&spec["clusterIP"]]);
                    let ips = all.filter_map(|ip| ip.as_str()?.parse::<IpAddr>().ok());
                    shown.services.entry(format!("{namespace}/{name}")).or_default().extend(ips);
                }
                Some("Node") if lists_all_nodes(command) => drop(shown.nodes.insert(name.to_owned())),
                _ => {}
            }
        }
        shown
    }

    /// What a piece shows that cannot be true together with this, in words, and whether it is of another cluster.
    fn contradiction(&self, new: &Self) -> Option<(String, bool)> {
        if !self.nodes.is_empty() && !new.nodes.is_empty() && self.nodes.is_disjoint(&new.nodes) {
            let [nodes, others] = [&self.nodes, &new.nodes].map(|all| list(all, MAX_NAMED));
            return Some((format!("the nodes are {others}, and {nodes} before"), true));
        }
        new.services.iter().find_map(|(name, ips)| {
            let known = self.services.get(name)?;
            let other = ips.iter().find(|ip| {
                let mut same_family = known.iter().filter(|own| own.is_ipv4() == ip.is_ipv4()).peekable();
                same_family.peek().is_some() && same_family.all(|own| own != *ip)
            })?;
            let known = list(known, MAX_NAMED);
            Some((format!("{name} has the cluster IP {other}, and {known} before"), false))
        })
    }

    /// Whether both have a Service with the same cluster IP, or a node, in common.
    fn agrees(&self, new: &Self) -> bool {
        let has = |(name, ips): (&String, &BTreeSet<IpAddr>)| {
            self.services.get(name).is_some_and(|known| !known.is_disjoint(ips))
        };
        new.services.iter().any(has) || !self.nodes.is_disjoint(&new.nodes)
    }

    fn add(&mut self, new: Self) {
        for (name, ips) in new.services {
            self.services.entry(name).or_default().extend(ips);
        }
        self.nodes.extend(new.nodes);
    }
}

/// Whether an object is what someone applies, rather than what the API server has.
fn is_manifest(piece: &Piece, object: &Value) -> bool {
    let meta = &object["metadata"];
    let fields = ["uid", "resourceVersion", "creationTimestamp"];
    matches!(piece.format, Format::Yaml | Format::Json) && fields.iter().all(|field| meta[*field].is_null())
}

/// Whether a command lists all nodes: it names none, and selects none by a label or with a filter.
fn lists_all_nodes(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| *word != "get").skip(1);
    let is_of_nodes = words.next().is_some_and(|kind| matches!(kind, "node" | "nodes" | "no"));
    let rest: Vec<&str> = words.collect();
    let is_option = |(at, word): (usize, &&str)| {
        word.starts_with('-') || at > 0 && matches!(rest[at - 1], "-o" | "--output" | "--context" | "--kubeconfig")
    };
    let selects = rest.iter().any(|word| word.starts_with("-l") || word.starts_with("--selector") || *word == "|");
    is_of_nodes && !selects && rest.iter().enumerate().all(is_option)
}

impl Evidence {
    /// What a text shows of each cluster at each time; nothing if it shows one, as far as is known.
    pub(crate) fn snapshots(&self) -> Vec<Snapshot> {
        let mut all: Vec<Shown> = vec![Shown::default()];
        let mut why: Vec<Option<String>> = vec![None];
        let (mut now, mut clusters) = (0, 1);
        // Where the text goes on to another snapshot.
        let mut starts: Vec<(usize, usize)> = vec![(0, 0)];
        // Files are of machines, or of times that their names say.
        if self.pieces.iter().any(|piece| piece.file != self.pieces[0].file) {
            return Vec::new();
        }
        for piece in &self.pieces {
            let new = Shown::of(piece);
            if let Some((words, is_other_cluster)) = all[now].contradiction(&new) {
                let known = all.iter().position(|one| one.agrees(&new) && one.contradiction(&new).is_none());
                now = known.unwrap_or_else(|| {
                    clusters += usize::from(is_other_cluster);
                    let cluster = if is_other_cluster { clusters - 1 } else { all[now].cluster };
                    all.push(Shown { cluster, ..Shown::default() });
                    why.push(Some(words));
                    all.len() - 1
                });
                starts.push((piece.first, now));
            }
            all[now].add(new);
        }
        if all.len() == 1 {
            return Vec::new();
        }
        let clusters: Vec<usize> = all.iter().map(|one| one.cluster).collect();
        let of = |(at, why): (usize, Option<String>)| Snapshot {
            evidence: self.part(at, &starts, &clusters),
            lines: stretches(at, &starts),
            why,
        };
        why.into_iter().enumerate().map(of).collect()
    }

    /// The evidence of one snapshot: its lines; what someone applies; and, of another time of the same cluster, machines, nodes and pods where it
    /// shows none itself.
    fn part(&self, at: usize, starts: &[(usize, usize)], clusters: &[usize]) -> Self {
        let snapshot = |line: usize| starts.iter().rev().find(|(first, _)| *first <= line).map_or(0, |(_, of)| *of);
        let is_own = |line: usize| snapshot(line) == at;
        let is_of_cluster = |line: usize| clusters[snapshot(line)] == clusters[at];
        let shows = |kind: &str| self.pieces.iter().any(|piece| is_own(piece.first) && has_only(piece, &[kind]));
        let lacking: Vec<&str> = ["Node", "Pod"].into_iter().filter(|kind| !shows(kind)).collect();
        let is_part = |piece: &&Piece| {
            let stays = match &piece.contents {
                Contents::Objects(objects) => {
                    objects.iter().all(|object| is_manifest(piece, object))
                        || is_of_cluster(piece.first) && has_only(piece, &lacking)
                }
                Contents::Addresses(..) | Contents::Routes(_) | Contents::Settings(_) => is_of_cluster(piece.first),
                _ => false,
            };
            is_own(piece.first) || stays
        };
        let own = |all: &[Stretch]| all.iter().filter(|one| is_own(one.first)).cloned().collect::<Vec<_>>();
        let of_cluster = |all: &[Stretch]| all.iter().filter(|one| is_of_cluster(one.first)).cloned().collect();
        Self {
            pieces: self.pieces.iter().filter(is_part).cloned().collect(),
            prose: own(&self.prose),
            commands: own(&self.commands),
            unread: self.unread.iter().filter(|one| is_own(one.line)).cloned().collect(),
            legacy_warnings: of_cluster(&self.legacy_warnings),
            ipvs: of_cluster(&self.ipvs),
            releases: self.releases.iter().filter(|one| is_of_cluster(one.line)).cloned().collect(),
            hosts: self.hosts.iter().filter(|one| is_of_cluster(one.line)).cloned().collect(),
        }
    }
}

/// Whether a piece has objects of these kinds alone.
fn has_only(piece: &Piece, kinds: &[&str]) -> bool {
    let Contents::Objects(objects) = &piece.contents else { return false };
    objects.iter().all(|object| object["kind"].as_str().is_some_and(|kind| kinds.contains(&kind)))
}

/// The stretches of lines of a snapshot, each with the first line after it.
fn stretches(at: usize, starts: &[(usize, usize)]) -> Vec<(usize, Option<usize>)> {
    let end = |place: usize| starts.get(place + 1).map(|(next, _)| *next);
    let own = starts.iter().enumerate().filter(|(_, (_, of))| *of == at);
    own.map(|(place, (first, _))| ((*first).max(1), end(place))).collect()
}
