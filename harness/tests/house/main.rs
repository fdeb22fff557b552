//! Tests of the source code itself, of both crates: what modules import, and what is public.

mod imports;
mod layers;
mod modules;
mod public_items;

use std::path::{Path, PathBuf};

/// The `src` folders of both crates.
fn crates() -> [(&'static str, PathBuf); 2] {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    [("svclab-rules", harness.join("../rules/src")), ("svclab", harness.join("src"))]
}
