//! Numbers of flows by vantage point and kind of address.

use std::collections::HashMap;

use super::class_walk::ClassCount;
use super::finding::Finding;
use super::verification::{AddressKind, CoverageRow, SenderKind, Verification};
use crate::scenario::Vantage;

/// Numbers of flows, while they are counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The rows, in the order in which vantage points and kinds of addresses first occurred.
    coverage: Vec<(Vantage, CoverageRow)>,
    positions: HashMap<(Vantage, AddressKind), usize>,
    not_promised: usize,
    class_count: ClassCount,
}

impl Tally {
    /// Counts a flow.
    pub(super) fn count(&mut self, from: &Vantage, kind: AddressKind, is_promised: bool, disagrees: bool) {
        self.not_promised += usize::from(!is_promised);
        let (sender, disagreeing) = (SenderKind::of(from), usize::from(disagrees));
        self.add(from, CoverageRow { from: from.to_string(), sender, kind, flows: 1, disagreeing });
    }

    pub(super) fn add_classes(&mut self, class_count: ClassCount) {
        self.class_count.classes += class_count.classes;
        self.class_count.left_out += class_count.left_out;
    }

    pub(super) fn merge(&mut self, other: Self) {
        other.coverage.into_iter().for_each(|(from, row)| self.add(&from, row));
        self.not_promised += other.not_promised;
        self.add_classes(other.class_count);
    }

    fn add(&mut self, from: &Vantage, more: CoverageRow) {
        let position = *self.positions.entry((from.clone(), more.kind)).or_insert(self.coverage.len());
        match self.coverage.get_mut(position) {
            Some((_, row)) => {
                row.flows += more.flows;
                row.disagreeing += more.disagreeing;
            }
            None => self.coverage.push((from.clone(), more)),
        }
    }

    /// The result.
    pub(super) fn into_verification(self, nodes: usize, services: usize, findings: Vec<Finding>) -> Verification {
        let ClassCount { classes, left_out } = self.class_count;
        let coverage = self.coverage.into_iter().map(|(_, row)| row).collect();
        let not_promised = self.not_promised;
        Verification { nodes, services, coverage, classes, left_out, not_promised, findings, ..Verification::default() }
    }
}
