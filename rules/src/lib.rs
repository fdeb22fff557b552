//! kube-proxy's rules as plain values.
//!
//! The stages, in the order in which data passes them:
//!
//! 1. [`cluster`]: Kubernetes facts;
//!
//! Nothing here does I/O, reads a clock or draws random numbers: the same input gives the same output.
#![forbid(unsafe_code)]

pub mod cluster;
