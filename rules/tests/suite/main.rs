//! All integration tests of the rules, in one program, so that it is linked once and tests share all processors.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails where something is missing")]

mod cascade;
mod cascade_defects;
mod classes;
mod compare;
mod each_file;
mod golden;
mod golden_support;
mod golden_updates;
mod listings;
mod nftables;
mod properties;
mod round_trip;
mod seeds;
mod structure_defects;
mod walk;
mod walk_alongside;
mod walk_nftables;
