//! A group of endpoints before and after it is walked.

use super::Step;
use super::defect::Defect;
use super::outcome::{Case, Fallen, Unknown};
use crate::chains::{Chance, Group, Reading};
use crate::walk::{Program, RuleId, Share};

/// A group, in rules that are ready for walking.
pub(super) struct Walk<'a, 'b, C, R> {
    pub(super) program: &'a Program<C>,
    /// The chain's position.
    pub(super) chain: u32,
    pub(super) reading: &'a R,
    pub(super) group: &'a Group<'b>,
}

impl<'b, C, R: Reading<'b>> Walk<'_, 'b, C, R> {
    /// Whether a chain is another group's, and is not looked into.
    pub(super) fn is_group(&self, chain: u32) -> bool {
        self.reading.naming().service_port_part(self.program.chain_name(chain)).is_some()
    }

    /// Whether that group is one of the same service.
    pub(super) fn is_kin(&self, chain: u32) -> bool {
        let naming = self.reading.naming();
        let own = naming.service_port_part(self.group.chain);
        own.is_some() && own == naming.service_port_part(self.program.chain_name(chain))
    }

    /// The chance that is written at a rule, for one of several choices; `None` if the rule leads clients to an endpoint again.
    pub(super) fn chance(&self, rule: usize, choice: u32) -> Option<Chance> {
        self.reading.chance(self.group, rule, choice)
    }

    /// The chain that a rule leads to and that is not in the text.
    pub(super) fn missing(&self, rule: RuleId) -> Option<&'b str> {
        let place = self.program.place(rule);
        self.reading.missing(place.chain, place.rule)
    }
}

/// What was found of a group.
pub(super) struct Walked {
    pub(super) steps: Vec<Step>,
    /// How many different endpoints there are.
    pub(super) endpoints: usize,
    pub(super) left: Share,
    pub(super) fallen: Vec<Fallen>,
    pub(super) cases: Vec<Case>,
    pub(super) unknown: Vec<Unknown>,
    pub(super) defects: Vec<Defect>,
}
