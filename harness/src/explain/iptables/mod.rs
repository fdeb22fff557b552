//! Describes iptables rules.

mod actions;
mod conditions;
mod sharing;

use svclab_rules::iptables::Rule;
use svclab_rules::walk::Share;

use super::phrases::Words;
use sharing::Sharing;

/// Describes a rule, by its number in its chain; `share` is its share of all packets.
pub(super) fn words(rule: &Rule, chain: &[Rule], number: usize, share: Share) -> Words {
    let (conditions, probability) = (conditions::words(rule), conditions::probability(rule));
    Words {
        why: match probability {
            Some(taken) => {
                format!("{conditions}, at random, {:.2} % of the packets that reach this rule", taken * 100.0)
            }
            None => conditions,
        },
        does: actions::words(rule),
        is_by_chance: probability.is_some(),
        sharing: Sharing::of(chain, number).map(|sharing| sharing.sentence(share)),
    }
}
