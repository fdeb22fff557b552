//! The key that all replacements are derived from.

use std::hash::{BuildHasher, RandomState};

use sha2::{Digest, Sha256};

/// A key. Without it, nothing leads from what is written back to what was read.
#[derive(Debug, Clone)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn from_seed(seed: &str) -> Self {
        Self(Sha256::digest(seed).into())
    }

    /// A random one: the standard library seeds each of these hashers with the system's random numbers.
    pub(super) fn random() -> Self {
        let numbers: Vec<u8> = (0..8u64).flat_map(|number| RandomState::new().hash_one(number).to_le_bytes()).collect();
        Self(Sha256::digest(numbers).into())
    }

    /// Bytes that look random and belong to a question.
    pub(super) fn bytes(&self, kind: &str, question: &[u8]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(kind);
        hasher.update([0]);
        hasher.update(question);
        hasher.finalize().into()
    }

    /// Another key, for another attempt.
    pub(super) fn next(&self) -> Self {
        Self(self.bytes("next", &[]))
    }
}
