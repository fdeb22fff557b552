//! The dumps that addresses, routes and settings belong to.

use super::rules::Dump;
use crate::evidence::{Evidence, MachinePieces, Piece};

/// The pieces of each dump's machine.
pub(super) struct Owners<'e>(Vec<Vec<&'e Piece>>);

impl<'e> Owners<'e> {
    pub(super) fn of(evidence: &'e Evidence, dumps: &[Dump]) -> Self {
        let pieces = MachinePieces::of(evidence);
        Self(dumps.iter().map(|dump| pieces.of_machine(&dump.parts, dumps.len() == 1)).collect())
    }

    /// The position of the first dump whose machine a piece is of.
    pub(super) fn first(&self, piece: &Piece) -> Option<usize> {
        self.all(piece).next()
    }

    /// The position of the dump whose machine a piece is of, if it is that of no other.
    pub(super) fn only(&self, piece: &Piece) -> Option<usize> {
        let mut all = self.all(piece);
        all.next().filter(|_| all.next().is_none())
    }

    fn all(&self, piece: &Piece) -> impl Iterator<Item = usize> {
        let is_own = |own: &Vec<&Piece>| own.iter().any(|one| std::ptr::eq(*one, piece));
        self.0.iter().enumerate().filter(move |(_, own)| is_own(own)).map(|(at, _)| at)
    }
}
