//! What is said of a rule that a packet met, in whatever language it is.

use svclab_rules::walk::Share;

use super::{iptables, nftables};
use crate::predict::{AnyRule, Met};

/// What is said of a rule.
pub(super) struct Words {
    /// What it asks for, as a fragment.
    pub(super) why: String,
    /// What it does, as a fragment.
    pub(super) does: String,
    /// Whether it leaves something to chance.
    pub(super) is_by_chance: bool,
    /// How packets are shared out, for rules that do so or have a part in it.
    pub(super) sharing: Option<String>,
}

/// What is said of a rule that was met; `share` is that of the packets that it takes, of all.
pub(super) fn words(met: &Met<'_>, share: Share) -> Words {
    match met.rule {
        AnyRule::Iptables { rule, chain } => iptables::words(rule, chain, met.place.number, share),
        AnyRule::Nftables { rule, table, .. } => nftables::words(met, rule, table, share),
    }
}
