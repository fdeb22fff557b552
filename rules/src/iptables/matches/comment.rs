//! `comment`: text for readers; always holds, except where it says that a text does not show the interfaces of the rule.

use std::sync::Arc;

use super::{Extension, Match};
use crate::iptables::text::Printer;

/// The comment of a rule of a listing that does not show its interfaces: whether it holds is unknown.
pub(in crate::iptables) const UNSHOWN_INTERFACES: &str = "interfaces not shown";

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
