#![doc = include_str!("../README.md")]
#![warn(unnameable_types)]

pub mod anonymize;
pub mod cascade;
pub mod collect;
pub mod diff;
pub mod doctor;
pub mod documents;
pub mod environment;
pub mod evidence;
pub mod explain;
pub mod infer;
pub mod input;
#[cfg(test)]
#[path = "../tests/internal/mod.rs"]
mod internal;
mod judge;
mod lab;
pub mod lint;
pub mod minimize;
pub mod mutate;
pub mod observation;
// For the command only.
#[doc(hidden)]
pub mod output;
pub mod page;
mod predict;
mod probe;
pub mod report;
pub mod results;
pub mod run;
pub mod sampling;
pub mod scenario;
mod sources;
mod stats;
mod svg;
pub mod testing;
// For the command only.
#[doc(hidden)]
pub mod text;
mod topology;
mod trace;
pub mod verify;
mod wire;
pub mod worker;
mod yaml;

#[doc(inline)]
pub use lab::Backend;
#[doc(inline)]
pub use probe::Progress;
#[doc(inline)]
pub use run::{Options, run};
#[doc(inline)]
pub use scenario::{Scenario, load};
#[doc(inline)]
pub use stats::{FalseAlarmRate, Goal};
