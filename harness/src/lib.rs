//! svclab: Kubernetes Service traffic on a real kernel.

pub mod lab;
pub mod observation;
pub mod scenario;
pub mod topology;
