//! svclab: Kubernetes Service traffic on a real kernel.
//!
//! The stages, in the order in which data passes them:
//!
//! 1. [`input`]: files found and recognised; [`scenario`]: YAML read, checked and resolved into a cluster and its tests; [`infer`]: scenarios
//!    for Kubernetes objects and saved rules;
//! 2. [`topology`]: the plan of namespaces, links, addresses and routes; [`documents`]: the rules of each node;
//! 3. [`lab`]: both made real in the kernel; [`wire`]: packets as values and as bytes;
//! 4. [`probe`]: flows sent, captured and counted; [`trace`]: the kernel's own account of rules; [`observation`]: what was seen;
//! 5. [`predict`]: what walking the rules says of a flow; what the Service API promises is [`svclab_rules::promise`];
//! 6. [`stats`], [`judge`]: what was seen against what was expected;
//! 7. [`report`]: results for people and programs.
//!
//! Commands put these together: [`run`], [`verify`], [`explain`], [`cascade`] with [`sampling`], [`mutate`] and [`doctor`]; [`testing`] is their entrance for `cargo test`.

#[doc(hidden)]
pub mod cascade;
#[doc(hidden)]
pub mod doctor;
#[doc(hidden)]
pub mod documents;
pub mod environment;
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
pub mod report;
pub mod run;
#[doc(hidden)]
pub mod sampling;
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
