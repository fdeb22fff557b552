//! The addresses, routes and settings of machines in evidence.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use super::model::{Contents, Evidence, Piece};
use super::rules::{NodeRules, backend, folder};

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

    /// The addresses of the machine with some rules.
    pub(crate) fn addresses(&self, rules: &[NodeRules], is_alone: bool) -> Vec<IpAddr> {
        let of_piece = |piece: &'e Piece| match &piece.contents {
            Contents::Addresses(addresses, _) => addresses.as_slice(),
            _ => &[],
        };
        self.of_machine(rules, is_alone).into_iter().flat_map(of_piece).copied().collect()
    }
}

/// The folders of which two files have rules of the same kind: those of two machines. The implementations of iptables have each their own.
pub(super) fn folders_of_several(evidence: &Evidence) -> HashSet<&str> {
    let mut known: HashMap<_, Vec<(&str, Option<&'static str>)>> = HashMap::new();
    let mut of_several = HashSet::new();
    for piece in evidence.pieces.iter().filter(|piece| evidence.original(piece).is_none()) {
        let family = match &piece.contents {
            Contents::Iptables { rules, .. } => Some(rules.rules.family),
            Contents::Nftables { rules, .. } if !rules.rules.tables.is_empty() => None,
            _ => continue,
        };
        let Some(file) = piece.file.as_deref() else { continue };
        let own = backend(piece);
        let others = known.entry((folder(file), family)).or_default();
        let is_another = |(other, of_other): &(&str, Option<&'static str>)| {
            *other != file && (own.is_none() || of_other.is_none() || own == *of_other)
        };
        if others.iter().any(is_another) {
            of_several.insert(folder(file));
        }
        if !others.contains(&(file, own)) {
            others.push((file, own));
        }
    }
    of_several
}
