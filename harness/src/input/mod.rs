//! Input files: finding them, reading them within limits, and recognising them by content.
//!
//! 1. `find`: paths → the scenario files in them;
//! 2. `files`: a path → its text, within `limits` and within the [`Reach`] of the scenario that names it;
//! 3. `rule_format`: a text → its [`InputKind`]: a format of rules, or a scenario.
//!
//! Errors are [`Diagnostics`], each with its [`Span`]; `groups` joins those that are equal in many places, and `suggestions` finds similar
//! known names.

mod compression;
mod diagnostics;
mod files;
mod find;
mod groups;
pub(crate) mod limits;
mod rule_format;
mod suggestions;

pub(crate) use compression::compressed;
pub use diagnostics::{Diagnostic, Diagnostics, Label, Span};
pub use files::{Reach, read_file, unreadable};
pub(crate) use files::{folder_of, from_utf16, is_outside, read_bytes, text_of_bytes};
pub use files::{read_argument, read_limited};
pub use find::{FindError, Found, IGNORED, find, is_manifest};
pub use groups::Group;
pub use limits::{FILE_BYTES, MAX_FLOWS};
pub use rule_format::{InputKind, input_kind};
pub use rule_format::{is_input, is_scenario};
pub(crate) use rule_format::{is_rules, is_yaml, language};
pub use suggestions::did_you_mean;
pub(crate) use suggestions::{did_you_mean_elsewhere, listed};

/// The name in messages of standard input, which is `-` on the command line.
pub const STANDARD_INPUT: &str = "standard input";
