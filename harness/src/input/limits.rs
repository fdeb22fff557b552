//! Limits on inputs, so that hostile ones are rejected quickly. They are far above what a real cluster needs.

/// Maximum size of a file in bytes. A cluster of 10,000 Services with 50,000 endpoints has about 30 MB of YAML.
pub const FILE_BYTES: usize = 64 << 20;

/// Maximum nesting of lists and maps. A Pod with every field of the API needs about 20.
pub(crate) const DEPTH: usize = 64;

/// Maximum number of values in a file: scalars, lists and maps, without aliases. 64 MiB of YAML from a real cluster have half as many.
pub(crate) const VALUES: u32 = 8_000_000;

/// Maximum number of values that aliases (`*name`) may add.
pub(crate) const ALIASED_VALUES: u32 = 100_000;

/// Maximum number of bytes of text that aliases may add.
pub(crate) const ALIASED_BYTES: usize = 4 << 20;

/// Maximum number of texts that are shared within a file: names of fields, of which the API's objects have some hundreds, and short values.
pub(crate) const SHARED_TEXTS: usize = 4096;

/// Maximum length of a shared value in bytes.
pub(crate) const SHORT: usize = 8;

/// Maximum number of errors in one document, after which parsing stops.
pub(crate) const ERRORS: usize = 1000;

/// Maximum number of values that are decoded again to find further errors.
pub(crate) const RECOVERY_VALUES: u32 = 5_000_000;

/// Maximum value of `replicas:`.
pub(crate) const REPLICAS: u32 = 10_000;

/// Maximum number of objects in all states of a scenario: each state has all objects of the cluster.
pub(crate) const OBJECTS_OF_CHANGES: usize = 200_000;

/// Maximum number of flows of a probe.
pub const MAX_FLOWS: u64 = 100_000_000;
