//! Fuzzing of svclab's readers: properties that must hold for every input.
//!
//! [`targets`] has one module for each reader; corpus, mutation and campaigns are those of [`svclab_rules_fuzz`].

pub mod targets;

pub use svclab_rules_fuzz::{Campaign, Target, campaign};

/// All targets of this crate.
pub const TARGETS: [Target; 6] = [
    targets::evidence::TARGET,
    targets::archive::TARGET,
    targets::anonymize::TARGET,
    targets::scenario::TARGET,
    targets::manifests::TARGET,
    targets::saved_rules::TARGET,
];
