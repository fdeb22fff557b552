//! The fuzzed parsers, and the properties of their results.

pub mod iptables_listing;
pub mod iptables_save;
pub mod nft_json;
pub mod nft_text;
pub mod objects;

use std::path::{Path, PathBuf};

/// Returns a folder of the crate `svclab-rules`.
fn rules_folder(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)
}
