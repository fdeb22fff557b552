//! Printing of conntrack entries.

use super::{field, protocol};
use crate::scenario::model::ConntrackEntry;
use crate::yaml::{Fields, Item};

pub(super) fn connection(entry: &ConntrackEntry) -> Item {
    let end = |name: &str, end: &dyn ToString| field(name, end.to_string());
    let fields = [
        Some(field("node", entry.node.as_str())),
        protocol(entry.protocol).map(|(name, _)| field(&name, entry.protocol.to_string().to_lowercase())),
        Some(end("from", &entry.from)),
        Some(end("to", &entry.to)),
        (entry.reply_from != entry.to).then(|| end("replyFrom", &entry.reply_from)),
        (entry.reply_to != entry.from).then(|| end("replyTo", &entry.reply_to)),
        entry.unreplied.then(|| field("unreplied", true)),
    ];
    fields.into_iter().flatten().collect::<Fields>().into()
}
