//! A group of endpoints, before and after the walk.

use super::Step;
use super::defect::Defect;
use super::outcome::{Case, Fallen, Unknown};
use crate::chains::{Chance, Group, Reading};
use crate::walk::{Program, RuleId, Share};

/// A group in rules that are prepared for walking.
pub(super) struct Walk<'a, 'b, C, R> {
    pub(super) program: &'a Program<C>,
    /// The chain's position.
    pub(super) chain: u32,
    pub(super) reading: &'a R,
    pub(super) group: &'a Group<'b>,
}

impl<'b, C, R: Reading<'b>> Walk<'_, 'b, C, R> {
    /// Returns whether a chain belongs to another group, which the walk does not enter.
    pub(super) fn is_group(&self, chain: u32) -> bool {
        self.reading.naming().service_port_part(self.program.chain_name(chain)).is_some()
    }

    /// Returns whether that group belongs to the same service.
    pub(super) fn is_kin(&self, chain: u32) -> bool {
        let naming = self.reading.naming();
        let own = naming.service_port_part(self.group.chain);
        own.is_some() && own == naming.service_port_part(self.program.chain_name(chain))
    }

    /// Returns the probability written in a rule, for one of several choices; `None` if the rule is for returning clients.
    pub(super) fn chance(&self, rule: usize, choice: u32) -> Option<Chance> {
        self.reading.chance(self.group, rule, choice)
    }

    /// Returns the target chain of a rule if the text does not contain it.
    pub(super) fn missing(&self, rule: RuleId) -> Option<&'b str> {
        let place = self.program.place(rule);
        self.reading.missing(place.chain, place.rule)
    }
}

/// The result of walking a group.
pub(super) struct Walked {
    pub(super) steps: Vec<Step>,
    /// The number of different endpoints.
    pub(super) endpoints: usize,
    pub(super) left: Share,
    pub(super) fallen: Vec<Fallen>,
    pub(super) cases: Vec<Case>,
    pub(super) unknown: Vec<Unknown>,
    pub(super) defects: Vec<Defect>,
}
