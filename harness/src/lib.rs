//! svclab: Kubernetes Service traffic on a real kernel.

pub mod cascade;
pub mod cli;
pub mod doctor;
pub mod documents;
pub mod explain;
pub mod judge;
pub mod lab;
pub mod mutate;
pub mod observation;
pub mod predict;
pub mod probe;
pub mod report;
pub mod run;
pub mod sampling;
pub mod scenario;
pub mod stats;
pub mod testing;
mod text;
pub mod topology;
pub mod trace;
pub mod verify;
mod voices;
pub mod wire;
