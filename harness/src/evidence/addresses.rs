//! The addresses of machines in evidence.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::model::{Contents, Evidence, Piece};
use super::rules::{NodeRules, folder};

/// The pieces that list addresses, as `ip addr` prints them, by the machine that they are of.
pub(crate) struct MachineAddresses<'e> {
    all: Vec<&'e [IpAddr]>,
    by_host: HashMap<&'e str, Vec<usize>>,
    by_file: HashMap<&'e str, Vec<usize>>,
    by_folder: HashMap<&'e str, Vec<usize>>,
}

impl<'e> MachineAddresses<'e> {
    pub(crate) fn of(evidence: &'e Evidence) -> Self {
        let (by_host, by_file, by_folder) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut found = Self { all: Vec::new(), by_host, by_file, by_folder };
        let listed = evidence.pieces.iter().filter_map(|piece| match &piece.contents {
            Contents::Addresses(addresses, _) => Some((piece, addresses)),
            _ => None,
        });
        for (at, (piece, addresses)) in listed.enumerate() {
            found.all.push(addresses);
            let Piece { host, file, .. } = piece;
            host.iter().for_each(|host| found.by_host.entry(host).or_default().push(at));
            for file in file.iter() {
                found.by_file.entry(file).or_default().push(at);
                found.by_folder.entry(folder(file)).or_default().push(at);
            }
        }
        found
    }

    /// The addresses of the machine with some rules: those with its host or file, or in the folder that has the rules of no other machine;
    /// all if it is the only machine.
    pub(crate) fn of_machine<'r>(
        &self,
        rules: impl IntoIterator<Item = &'r NodeRules>,
        own_folder: Option<&str>,
        is_alone: bool,
    ) -> Vec<IpAddr> {
        if is_alone {
            return self.all.concat();
        }
        let pieces = rules.into_iter().flat_map(|set| {
            let of_host = set.host.as_deref().and_then(|host| self.by_host.get(host));
            let of_file = set.file.as_deref().and_then(|file| self.by_file.get(file));
            of_host.into_iter().chain(of_file).flatten()
        });
        let in_folder = own_folder.and_then(|folder| self.by_folder.get(folder)).into_iter().flatten();
        let pieces: BTreeSet<usize> = pieces.chain(in_folder).copied().collect();
        pieces.into_iter().flat_map(|at| self.all[at]).copied().collect()
    }
}
