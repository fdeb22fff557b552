//! Notes on valid objects that have no effect, or only a part of it.

use std::fmt;

/// An object, or a part of one, that has less effect than it seems to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The object, as `EndpointSlice default/web-x7k2p`.
    pub object: String,
    /// The missing effect, as a predicate: `has no rules`.
    pub effect: String,
    /// The reason, as a lower-case fragment.
    pub reason: String,
}

impl Note {
    /// Creates a note on an object.
    pub fn new(object: impl Into<String>, effect: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { object: object.into(), effect: effect.into(), reason: reason.into() }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.object, self.effect, self.reason)
    }
}

/// The result of reading a valid object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<T> {
    /// The object is part of the cluster.
    Kept(T),
    /// The object has no effect on Service traffic.
    Ignored(Note),
}
