//! `comment`: text for readers; always holds.

use std::sync::Arc;

use super::{Extension, Match};
use crate::iptables::text::Printer;

pub(super) const COMMENT: Extension = Extension {
    name: "comment",
    options: &["--comment"],
    parse: |options| options.iter().next().map(|option| Ok(Match::Comment(option.value()?.into()))).transpose(),
    parse_listed: |words, negated| {
        let is_comment = !negated && words[0] == "/*";
        let end = is_comment.then(|| words.iter().position(|word| *word == "*/"))??;
        Some((Match::Comment(words[1..end].join(" ").into()), end + 1))
    },
};

pub(super) fn print(text: &Arc<str>, out: &mut Printer) {
    out.push(" -m comment --comment ");
    out.quoted(text);
}
