//! What became of objects that are sound.

use std::fmt;

/// An object, or a part of one, that does less than it seems to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The object, as `EndpointSlice default/web-x7k2p`.
    pub object: String,
    /// What it does not do, as a predicate: `has no rules`.
    pub effect: String,
    /// Why, as a lower-case fragment.
    pub reason: String,
}

impl Note {
    /// A note on an object.
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
    /// It is a fact now.
    Kept(T),
    /// Nothing in the cluster's traffic depends on it.
    Ignored(Note),
}
