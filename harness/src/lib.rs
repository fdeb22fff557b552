//! svclab: Kubernetes Service traffic on a real kernel.

pub mod observation;
pub mod scenario;
