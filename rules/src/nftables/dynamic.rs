//! Sets to which packets add keys.

/// A set to which packets add keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dynamic {
    /// The maximum number of keys.
    pub size: u32,
    /// The timeout of a key in seconds; `None` if keys stay.
    pub timeout: Option<u32>,
}

/// The size that the kernel gives a set without one (`NFT_DYNSET_SIZE`).
const DYNAMIC_SIZE: u32 = 65_535;

impl Dynamic {
    /// Creates the properties of a set as it is declared. nft sets no timeout for one of 0.
    pub(super) fn of(size: Option<u32>, timeout: Option<u32>) -> Self {
        Self { size: size.unwrap_or(DYNAMIC_SIZE), timeout: timeout.filter(|seconds| *seconds > 0) }
    }
}
