#![doc = include_str!("../README.md")]

// The modules that are hidden from the documentation are for the command line and for svclab's own tests.
#[doc(hidden)]
pub mod cascade;
#[doc(hidden)]
pub mod diff;
#[doc(hidden)]
pub mod doctor;
#[doc(hidden)]
pub mod documents;
pub mod environment;
#[doc(hidden)]
pub mod evidence;
#[doc(hidden)]
pub mod explain;
#[doc(hidden)]
pub mod infer;
#[doc(hidden)]
pub mod input;
#[doc(hidden)]
pub mod judge;
#[doc(hidden)]
pub mod lab;
#[doc(hidden)]
pub mod lint;
#[doc(hidden)]
pub mod mutate;
#[doc(hidden)]
pub mod observation;
#[doc(hidden)]
pub mod output;
#[doc(hidden)]
pub mod page;
#[doc(hidden)]
pub mod predict;
#[doc(hidden)]
pub mod probe;
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod results;
#[doc(hidden)]
pub mod run;
#[doc(hidden)]
pub mod sampling;
#[doc(hidden)]
pub mod scenario;
#[doc(hidden)]
pub mod sources;
#[doc(hidden)]
pub mod stats;
mod svg;
pub mod testing;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod topology;
#[doc(hidden)]
pub mod trace;
#[doc(hidden)]
pub mod verify;
#[doc(hidden)]
pub mod wire;
#[doc(hidden)]
pub mod yaml;

#[doc(inline)]
pub use lab::Backend;
#[doc(inline)]
pub use report::{Counts, RunReport, ScenarioReport, Status, TestReport};
#[doc(inline)]
pub use run::{Options, run};
#[doc(inline)]
pub use scenario::{Diagnostics, Scenario, load};
