//! Statistics of load balancing: whether counts fit exact shares, and how many flows are needed to tell.
//!
//! Every result has a false-alarm rate that holds at any number of flows, not only asymptotically:
//!
//! - each endpoint's count is compared with its share by an exact binomial test ([`fit()`]);
//! - all counts together are compared with all shares by an exact multinomial test if the outcomes can be enumerated,
//!   otherwise by a likelihood ratio whose probability has a proven bound ([`Global`](fit::Global));
//! - half of the false-alarm rate goes to the endpoints, split evenly (Bonferroni), and half to the whole.
//!
//! If the number of flows is left to svclab, counts are tested at interim looks ([`is_clear`]), and counting ends as soon as they are
//! clear, at the same rates ([`conclude`]). Whether flows depend on each other or on their source port is a separate test
//! ([`Contingency::independence`]).

mod anytime;
pub(crate) mod binomial;
mod fit;
mod independence;
mod multinomial;
mod numbers;
mod rate;
mod sample;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use anytime::{conclude, is_clear, most_flows};

pub(crate) use fit::{Cell, Fit, StatsError, fit};
pub(crate) use independence::{Contingency, Independence};
pub(crate) use numbers::percent;
pub use rate::{FalseAlarmRate, Goal};
pub(crate) use sample::{flows_to_distinguish, flows_to_meet_all, sample_size};
