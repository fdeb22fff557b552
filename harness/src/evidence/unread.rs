//! Lines that could not be read.

use std::sync::Arc;

use super::line::leads_to_service;

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The file among several.
    pub file: Option<Arc<str>>,
    /// The line, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// Why: a fragment in lower case.
    pub reason: String,
}

impl Unread {
    /// Whether it is a row of a listing that decides where connections to Services go, as one does not that is of the host which it names.
    pub(super) fn is_row_of_service(&self) -> bool {
        leads_to_service(&self.text) && !self.reason.starts_with(NAME_OF_HOST)
    }
}

/// How the reason starts why a row from a host by its name is not read: `iptables -L` without `-n` prints names for addresses.
pub(super) const NAME_OF_HOST: &str = "only its machine can resolve the source";

/// How lines of the older side of a `diff` start.
pub(super) const OLDER_SIDE: &str = "< ";
