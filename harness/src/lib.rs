#![doc = include_str!("../README.md")]
#![warn(unnameable_types)]

// Hidden items are for the command only, which is a binary on top of this library.
#[doc(hidden)]
pub mod anonymize;
mod apiserver;
pub mod cascade;
#[doc(hidden)]
pub mod collect;
pub mod diff;
#[doc(hidden)]
pub mod doctor;
pub mod documents;
#[cfg(test)]
#[path = "../../rules/tests/suite/each_file.rs"]
mod each_file;
#[doc(hidden)]
pub mod environment;
#[doc(hidden)]
pub mod evidence;
pub mod explain;
#[doc(hidden)]
pub mod graph;
pub mod infer;
pub mod input;
#[cfg(test)]
#[path = "../tests/internal/mod.rs"]
mod internal;
mod judge;
mod kernel;
mod lab;
#[doc(hidden)]
pub mod lint;
#[doc(hidden)]
pub mod minimize;
pub mod mutate;
pub mod observation;
mod open_files;
#[doc(hidden)]
pub mod output;
#[doc(hidden)]
pub mod page;
mod predict;
mod probe;
#[doc(hidden)]
pub mod proxy;
pub mod report;
#[doc(hidden)]
pub mod results;
pub mod run;
pub mod sampling;
pub mod scenario;
#[doc(hidden)]
pub mod shell;
mod sources;
mod stats;
mod svg;
pub mod testing;
#[doc(hidden)]
pub mod text;
mod topology;
mod trace;
pub mod verify;
#[doc(hidden)]
pub mod vm;
mod wire;
#[doc(hidden)]
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
