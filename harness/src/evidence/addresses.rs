//! The addresses of machines in evidence.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::model::{Contents, Evidence, Piece};
use super::rules::NodeRules;

/// The pieces that list addresses, as `ip addr` prints them, by the machine that they are of.
pub(crate) struct MachineAddresses<'e> {
    all: Vec<&'e [IpAddr]>,
    by_host: HashMap<&'e str, Vec<usize>>,
    by_file: HashMap<&'e str, Vec<usize>>,
}

impl<'e> MachineAddresses<'e> {
    pub(crate) fn of(evidence: &'e Evidence) -> Self {
        let mut found = Self { all: Vec::new(), by_host: HashMap::new(), by_file: HashMap::new() };
        let listed = evidence.pieces.iter().filter_map(|piece| match &piece.contents {
            Contents::Addresses(addresses, _) => Some((piece, addresses)),
            _ => None,
        });
        for (at, (piece, addresses)) in listed.enumerate() {
            found.all.push(addresses);
            let Piece { host, file, .. } = piece;
            host.iter().for_each(|host| found.by_host.entry(host).or_default().push(at));
            file.iter().for_each(|file| found.by_file.entry(file).or_default().push(at));
        }
        found
    }

    /// The addresses of the machine with some rules: those with its host or file; all if it is the only machine.
    pub(crate) fn of_machine<'r>(&self, rules: impl IntoIterator<Item = &'r NodeRules>, is_alone: bool) -> Vec<IpAddr> {
        if is_alone {
            return self.all.concat();
        }
        let pieces = rules.into_iter().flat_map(|set| {
            let of_host = set.host.as_deref().and_then(|host| self.by_host.get(host));
            let of_file = set.file.as_deref().and_then(|file| self.by_file.get(file));
            of_host.into_iter().chain(of_file).flatten()
        });
        let pieces: BTreeSet<usize> = pieces.copied().collect();
        pieces.into_iter().flat_map(|at| self.all[at]).copied().collect()
    }
}
