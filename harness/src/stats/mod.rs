//! Statistics of load balancing: do counts fit exact shares, and how many flows does it take to know?
//!
//! Every statement has a false-alarm rate that is kept at any number of flows, not only in the limit:
//!
//! - each endpoint's count is held against its share by an exact binomial test ([`fit()`]);
//! - all counts together are held against all shares by an exact multinomial test where the outcomes can be
//!   enumerated, and else by a likelihood ratio whose chance has a proven bound ([`Global`]);
//! - half of the false-alarm rate goes to the endpoints, shared out evenly (Bonferroni), and half to the whole.
//!
//! Where the number of flows is left to svclab, counts are looked at on the way ([`is_clear`]), and counting ends as soon as they
//! are clear, at the same rates ([`conclude`]). Whether flows depend on each other or on their source port is another
//! question, with another test ([`Contingency::independence`]).
//!
//! The familiar [`chi_square()`] is there to be shown. It decides nothing: at a rate of 1e-6 its approximation is off by
//! orders of magnitude where fewer than some hundred flows are expected.
//!
//! ```
//! use svclab::stats::{FalseAlarmRate, Goal, fit, sample_size};
//!
//! let shares = [1.0 / 3.0; 3];
//! let flows = sample_size(&shares, &Goal::default())?;
//! assert_eq!(flows, 56_244);
//!
//! let fit = fit(&[18_500, 18_610, 18_421], &shares, FalseAlarmRate::DEFAULT)?;
//! assert!(fit.held);
//! # Ok::<(), svclab::stats::StatsError>(())
//! ```

mod anytime;
mod binomial;
mod chi_square;
mod fit;
mod independence;
mod multinomial;
mod numbers;
mod rate;
mod sample;
mod words;

#[cfg(test)]
mod tests;

pub use anytime::{conclude, is_clear, most_flows};
pub use binomial::{Interval, interval, two_sided};
pub use chi_square::{ChiSquare, chi_square};
pub use fit::{Cell, Fit, Global, StatsError, fit};
pub use independence::{Contingency, Independence};
pub use numbers::percent;
pub use rate::{FalseAlarmRate, Goal};
pub use sample::{flows_to_meet_all, flows_to_tell, sample_size};
