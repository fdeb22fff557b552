//! Which of the lines that could not be read may be rules.

use super::line::{is_rule_with_margin, looks_like_rule};
use super::model::{Contents, Evidence, Format, Piece};
use super::unread::{OLDER_SIDE, Unread};
use crate::text::counted;

impl Evidence {
    /// The lines of rule sets that could not be read, of which each may be a rule that decides anything. What a cut left of a last line is none, and
    /// neither is other text between rules.
    pub(crate) fn unread_rules(&self) -> impl Iterator<Item = &Unread> {
        let is_rule = |piece: &Piece, unread: &Unread| match &piece.contents {
            // nft's text has a rule a line.
            Contents::Iptables { cut, .. } if piece.format == Format::IptablesNft => *cut != Some(unread.line),
            Contents::Iptables { cut, .. } if piece.format == Format::IptablesList => {
                *cut != Some(unread.line) && unread.is_row_of_service()
            }
            Contents::Iptables { cut, .. } => {
                *cut != Some(unread.line) && ["-A ", "-I "].iter().any(|option| unread.text.contains(option))
            }
            // The last line of a text that is not cut closes its table.
            Contents::Nftables { cut, .. } => unread.line < cut.unwrap_or(piece.last),
            _ => false,
        };
        self.unread.iter().filter(move |unread| {
            let of_piece =
                |piece: &&Piece| piece.file == unread.file && (piece.first..=piece.last).contains(&unread.line);
            let mut of_pieces = self.pieces.iter().filter(of_piece).peekable();
            match of_pieces.peek() {
                None if unread.text.starts_with(OLDER_SIDE) => false,
                None => looks_like_rule(&unread.text) || is_rule_with_margin(&unread.text),
                Some(_) => of_pieces.any(|piece| is_rule(piece, unread) && self.original(piece).is_none()),
            }
        })
    }

    /// The lines of rules that could not be read, in words, if there are any.
    pub(crate) fn rules_not_read(&self) -> Option<String> {
        let mut all = self.unread_rules();
        let first = all.next()?;
        let file = first.file.as_ref().map(|file| format!("{file}:")).unwrap_or_default();
        let lines = counted(all.count() + 1, "line");
        Some(format!(
            "{lines} of rules not read, first {file}{} ({}): their effect is unknown",
            first.line, first.reason
        ))
    }

    /// What could not be read, in words, if there is anything.
    pub fn not_read(&self) -> Option<String> {
        let first = self.unread.first()?;
        let lines = counted(self.unread.len(), "line");
        let file = first.file.as_ref().map(|file| format!("{file}:")).unwrap_or_default();
        Some(format!("{lines} not read, first {file}{} ({}): `svclab dump show` lists them", first.line, first.reason))
    }
}
