//! The fuzzed readers, and the properties that must hold.

pub mod anonymize;
pub mod archive;
pub mod evidence;
pub mod manifests;
pub mod saved_rules;
pub mod scenario;

use std::path::{Path, PathBuf};

use svclab::input::Diagnostics;

/// A folder of the repository.
fn repository_path(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)
}

/// Checks that errors are printable: there is at least one, and each has a message of one line and a valid place in its file, or in the
/// input if the errors do not contain the text.
fn are_shown(errors: &Diagnostics, input: &str) {
    assert!(!errors.is_empty(), "an error without errors");
    for error in &errors.errors {
        let lines = errors.source(&error.span.file).unwrap_or(input).lines().count().max(1);
        assert!((1..=lines + 1).contains(&error.span.line), "line of {lines}: {error:?}");
        assert!(error.span.column > 0 && error.length > 0, "{error:?}");
        assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error:?}");
    }
}
