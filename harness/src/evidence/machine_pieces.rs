//! The addresses, routes and settings of machines in evidence.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use super::listings::Listing;
use super::machine_files::{folder, machine_name};
use super::model::{Contents, Evidence, Piece};
use super::node_rules::{NodeRules, backend};

/// The leading bits that an address and the router of its network have in common, at least.
const LEAST_COMMON_BITS: u32 = 16;

/// The pieces that say something of a machine, by prompt, file and folder.
pub(crate) struct MachinePieces<'e> {
    all: Vec<&'e Piece>,
    by_host: HashMap<&'e str, Vec<usize>>,
    by_file: HashMap<&'e str, Vec<usize>>,
    /// Those of folders with the files of one machine, as `svclab dump collect` writes them.
    by_folder: HashMap<&'e str, Vec<usize>>,
}

impl<'e> MachinePieces<'e> {
    pub(crate) fn of(evidence: &'e Evidence) -> Self {
        let mut found =
            Self { all: Vec::new(), by_host: HashMap::new(), by_file: HashMap::new(), by_folder: HashMap::new() };
        let of_several = folders_of_several(evidence);
        let says_some = |piece: &&Piece| {
            matches!(piece.contents, Contents::Addresses(..) | Contents::Routes(_))
                || !piece.contents.settings().is_empty()
        };
        for (at, piece) in evidence.pieces.iter().filter(says_some).enumerate() {
            found.all.push(piece);
            let Piece { host, file, .. } = piece;
            host.iter().for_each(|host| found.by_host.entry(host).or_default().push(at));
            if let Some(file) = file {
                found.by_file.entry(file).or_default().push(at);
                if !of_several.contains(folder(file)) {
                    found.by_folder.entry(folder(file)).or_default().push(at);
                }
            }
        }
        found
    }

    /// The pieces of the machine with some rules: those with its host, file or folder; all if it is the only machine. Those after the prompt of another
    /// machine are not.
    pub(crate) fn of_machine(&self, rules: &[NodeRules], is_alone: bool) -> Vec<&'e Piece> {
        let of_set = |set: &NodeRules| {
            let of_host = set.host.as_deref().and_then(|host| self.by_host.get(host));
            let of_file = set.file().and_then(|file| self.by_file.get(file));
            let of_folder = set.folder().and_then(|folder| self.by_folder.get(folder));
            [of_host, of_file, of_folder].into_iter().flatten().flatten().copied().collect::<Vec<usize>>()
        };
        let places: BTreeSet<usize> =
            if is_alone { (0..self.all.len()).collect() } else { rules.iter().flat_map(of_set).collect() };
        let may_be_own = |piece: &&Piece| rules.iter().all(|set| set.may_be_of_host(piece.host.as_ref()));
        places.into_iter().map(|at| self.all[at]).filter(may_be_own).collect()
    }

    /// The addresses of the machine with some rules. The one of each family that its default route uses comes first, as for the kubelet.
    pub(crate) fn addresses(&self, rules: &[NodeRules], is_alone: bool) -> Vec<IpAddr> {
        let of_piece = |piece: &'e Piece| match &piece.contents {
            Contents::Addresses(addresses, _) => addresses.as_slice(),
            _ => &[],
        };
        let pieces = self.of_machine(rules, is_alone);
        let mut addresses: Vec<IpAddr> = pieces.iter().copied().flat_map(of_piece).copied().collect();
        let sources = default_sources(&pieces, &addresses);
        addresses.sort_by_key(|ip| !sources.contains(ip));
        addresses
    }
}

/// The addresses that the first default route of each family uses: its source, else the address nearest to its router.
fn default_sources(pieces: &[&Piece], addresses: &[IpAddr]) -> Vec<IpAddr> {
    let of_piece = |piece: &&Piece| match &piece.contents {
        Contents::Routes(routes) => routes.clone(),
        _ => Vec::new(),
    };
    let defaults = pieces.iter().flat_map(of_piece).filter(|route| route.to.is_none());
    let near = |via: IpAddr| {
        let common = |ip: &IpAddr| match (via, *ip) {
            (IpAddr::V4(via), IpAddr::V4(ip)) => (via.to_bits() ^ ip.to_bits()).leading_zeros(),
            (IpAddr::V6(via), IpAddr::V6(ip)) => (via.to_bits() ^ ip.to_bits()).leading_zeros(),
            _ => 0,
        };
        let nearest = addresses.iter().rev().max_by_key(|ip| common(ip))?;
        (common(nearest) >= LEAST_COMMON_BITS).then_some(*nearest)
    };
    let sources = defaults.filter_map(|route| route.source.or_else(|| near(route.via?)));
    let mut first: Vec<IpAddr> = Vec::new();
    for source in sources {
        if first.iter().all(|known| known.is_ipv4() != source.is_ipv4()) {
            first.push(source);
        }
    }
    first
}

/// The folders of which two files have rules of the same kind: those of two machines. The implementations of iptables have each their own.
pub(super) fn folders_of_several(evidence: &Evidence) -> HashSet<&str> {
    let mut known: HashMap<_, BTreeMap<&str, RulesOfFile<'_>>> = HashMap::new();
    let mut of_several = HashSet::new();
    for piece in evidence.pieces.iter().filter(|piece| evidence.original(piece).is_none()) {
        let family = match &piece.contents {
            Contents::Iptables { rules, .. } => Some(rules.rules.family),
            Contents::Nftables { rules, .. } if !rules.rules.tables.is_empty() => None,
            _ => continue,
        };
        let Some(file) = piece.file.as_deref().filter(|file| !of_several.contains(folder(file))) else { continue };
        let own = backend(piece);
        let files = known.entry((folder(file), family)).or_default();
        let new = || RulesOfFile { machine: machine_name(file), pieces: Vec::new() };
        files.entry(file).or_insert_with(new).pieces.push((own, listing(piece)));
        let machine = &files[file].machine;
        let is_another = |(_, of_file): &(&&str, &RulesOfFile<'_>)| {
            of_file.pieces.iter().any(|(backend, other)| {
                let completes = || listing(piece).zip(*other).is_some_and(|(own, other)| own.completes(&other));
                own.zip(*backend).is_none_or(|(own, backend)| own == backend)
                    && !(of_file.machine == *machine && completes())
            })
        };
        if files.iter().filter(|(other, _)| **other != file).any(|one| is_another(&one)) {
            of_several.insert(folder(file));
        }
    }
    of_several
}

/// What a file has of rules of one kind.
struct RulesOfFile<'e> {
    /// The machine that its name says.
    machine: String,
    /// Each piece by its implementation of iptables; `None` for rules of nftables.
    pieces: Vec<(Option<&'static str>, Option<Listing<'e>>)>,
}

/// The rules of iptables of a piece of a file among several.
fn listing(piece: &Piece) -> Option<Listing<'_>> {
    let Contents::Iptables { rules, .. } = &piece.contents else { return None };
    Some(Listing { file: piece.file.as_deref()?, format: piece.format, rules: &rules.rules })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::evidence::{node_rules, read};

    /// Vagrant's machines have a first network that all of them have the same address in.
    #[rstest]
    #[case::source("default via 192.168.56.1 dev eth1 proto dhcp src 192.168.56.11 metric 100", "192.168.56.11")]
    #[case::router("default via 192.168.56.1 dev eth1", "192.168.56.11")]
    #[case::first_network("default via 10.0.2.2 dev eth0 proto dhcp metric 100", "10.0.2.15")]
    #[case::router_elsewhere("default via 169.254.1.1 dev eth0", "10.0.2.15")]
    fn the_address_of_the_default_route_comes_first(#[case] route: &str, #[case] expected: IpAddr) {
        let text = format!(
            "$ iptables-save\n*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n$ ip -4 addr\n\
             2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc fq state UP\n    inet 10.0.2.15/24 scope global eth0\n\
             3: eth1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc fq state UP\n    inet 192.168.56.11/24 scope global eth1\n\
             $ ip route\n{route}\n"
        );
        let evidence = read(&text);
        let addresses = MachinePieces::of(&evidence).addresses(&node_rules(&evidence), true);
        assert_eq!((addresses.len(), addresses[0]), (2, expected));
    }
}
