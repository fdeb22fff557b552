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
//! Commands put these together: [`run`], [`verify`], [`explain`], [`cascade`] with [`sampling`], [`mutate`] and [`doctor`]; [`cli`] is
//! their command line, [`testing`] their entrance for `cargo test`.

pub mod cascade;
pub mod cli;
pub mod doctor;
pub mod documents;
mod environment;
pub mod explain;
pub mod infer;
pub mod input;
pub mod judge;
pub mod lab;
pub mod mutate;
pub mod observation;
mod output;
pub mod page;
pub mod predict;
pub mod probe;
pub mod report;
pub mod run;
pub mod sampling;
pub mod scenario;
mod sources;
pub mod stats;
mod svg;
pub mod testing;
mod text;
pub mod topology;
pub mod trace;
pub mod verify;
pub mod wire;
mod yaml;
