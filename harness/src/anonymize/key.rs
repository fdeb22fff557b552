//! The key that all replacements are derived from.

use std::hash::{BuildHasher, RandomState};

use sha2::{Digest, Sha256};

/// A key. Without it, the original cannot be recovered from the result.
#[derive(Debug, Clone)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn from_seed(seed: &str) -> Self {
        Self(Sha256::digest(seed).into())
    }

    /// Creates a random key: the standard library seeds each of these hashers with the system's random numbers.
    pub(super) fn random() -> Self {
        let numbers: Vec<u8> = (0..8u64).flat_map(|number| RandomState::new().hash_one(number).to_le_bytes()).collect();
        Self(Sha256::digest(numbers).into())
    }

    /// Returns pseudo-random bytes derived from an input.
    pub(super) fn bytes(&self, kind: &str, input: &[u8]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(kind);
        hasher.update([0]);
        hasher.update(input);
        hasher.finalize().into()
    }

    /// Returns another key, for another attempt.
    pub(super) fn next(&self) -> Self {
        Self(self.bytes("next", &[]))
    }
}
