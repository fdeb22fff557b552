//! Describes the rules of load-balancing chains.

use svclab_rules::iptables::{Match, Rule, Statistic};
use svclab_rules::walk::Share;

/// The position of a rule in a load-balancing chain: each rule takes a part of the packets that earlier rules left, and the last takes the
/// rest.
pub(super) struct Sharing {
    /// The number of load-balancing rules.
    among: usize,
    /// The position of this rule among them, from 1.
    position: usize,
}

impl Sharing {
    /// Returns a rule's position in the load balancing of its chain, if it has one.
    pub(super) fn of(chain: &[Rule], number: usize) -> Option<Self> {
        let by_chance =
            |rule: &Rule| rule.matches.iter().any(|one| matches!(one, Match::Statistic(Statistic::Random(_))));
        let first = chain.iter().position(by_chance)?;
        let chances = chain[first..].iter().take_while(|rule| by_chance(rule)).count();
        let has_last = chain.get(first + chances).is_some_and(|rule| rule.next_chain().is_some());
        let among = chances + usize::from(has_last);
        let position = number.checked_sub(first).filter(|position| (1..=among).contains(position))?;
        Some(Self { among, position })
    }

    /// Explains the rule's share.
    pub(super) fn sentence(&self, share: Share) -> String {
        let Self { among, position } = *self;
        let even = match position {
            1 => format!("1/{among} of the packets that reach it"),
            _ if position == among => "all that earlier rules left".to_owned(),
            _ => format!("1/{} of what earlier rules left", among - position + 1),
        };
        format!(
            "load-balancing rule {position} of {among}: an even share is {even}; {share} of all packets take this path"
        )
    }
}
