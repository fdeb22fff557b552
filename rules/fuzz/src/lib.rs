//! Fuzzing of the parsers of svclab-rules: properties that hold for every input.
//!
//! - [`targets`]: one module for each parser, each with a function `check` that panics if a property does not hold;
//! - [`corpus`]: inputs to start from; [`mutate`]: inputs derived from these with a fixed seed, on any toolchain;
//! - [`campaign`]: many executions of a target, reproducible by seed.
//!
//! `fuzz_targets/` has the same targets for cargo-fuzz, whose libFuzzer is guided by coverage. `ci/fuzz` runs either.

pub mod campaign;
pub mod corpus;
pub mod dice;
pub mod mutate;
pub mod targets;

pub use campaign::{Campaign, Length, Report, Target};

/// All targets of this crate.
pub const TARGETS: [Target; 5] = [
    targets::iptables_save::TARGET,
    targets::iptables_listing::TARGET,
    targets::nft_text::TARGET,
    targets::nft_json::TARGET,
    targets::objects::TARGET,
];
