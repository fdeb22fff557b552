//! Statistics of load balancing: do counts fit exact shares, and how many flows does it take to know?
//!
//! Every statement has a false-alarm rate that is kept at any number of flows, not only in the limit:
//!
//! - each endpoint's count is compared with its share by an exact binomial test ([`fit()`]);
//! - all counts together are compared with all shares by an exact multinomial test where the outcomes can be
//!   enumerated, and else by a likelihood ratio whose chance has a proven bound ([`Global`](fit::Global));
//! - half of the false-alarm rate goes to the endpoints, split evenly (Bonferroni), and half to the whole.
//!
//! Where the number of flows is left to svclab, counts are looked at on the way ([`is_clear`]), and counting ends as soon as they
//! are clear, at the same rates ([`conclude`]). Whether flows depend on each other or on their source port is another
//! question, with another test ([`Contingency::independence`]).

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
