//! Scenarios for inputs that are none: Kubernetes objects, saved rules, and a probe given on the command line.
//!
//! Whatever an input does not say is assumed and listed in [`Assumed::assumptions`]. The result is written as a scenario and
//! read as any other, so that the same defaults and checks apply.

mod ad_hoc;
mod evidence;
mod objects;
mod rules;

pub use ad_hoc::aim_at;
pub use ad_hoc::{AdHocProbe, AdHocScenario, load_with_ad_hoc_probe};
pub use evidence::from_evidence;
pub use objects::{Assumed, from_objects};
pub use rules::from_rules;
