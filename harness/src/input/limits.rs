//! Bounds on inputs, so that hostile ones are rejected quickly. Far above what a real cluster needs.

/// Bytes of one file. A cluster of 10,000 Services with 50,000 endpoints has about 30 MB of YAML.
pub const FILE_BYTES: usize = 64 << 20;

/// The nesting depth of lists and maps. A Pod with every field of the API needs about 20.
pub(crate) const DEPTH: usize = 64;

/// Values in one file: scalars, lists and maps, without aliases. 64 MiB of YAML of a real cluster have half as many.
pub(crate) const VALUES: u32 = 8_000_000;

/// Values that aliases (`*name`) may add to those that are written out.
pub(crate) const ALIASED_VALUES: u32 = 100_000;

/// Bytes of text that aliases may add to what is written out.
pub(crate) const ALIASED_BYTES: usize = 4 << 20;

/// Texts that are stored once per file: names of fields, of which the API's objects have some hundreds, and short values.
pub(crate) const SHARED_TEXTS: usize = 4096;

/// Bytes of a value that is kept once.
pub(crate) const SHORT: usize = 8;

/// The largest number of errors in one document before reading it is given up.
pub(crate) const ERRORS: usize = 1000;

/// The number of values that may be decoded again to find further errors.
pub(crate) const RECOVERY_VALUES: u32 = 5_000_000;

/// The largest `replicas:`.
pub(crate) const REPLICAS: u32 = 10_000;

/// The largest number of objects in all states of a scenario: each state has all objects of the cluster.
pub(crate) const OBJECTS_OF_CHANGES: usize = 200_000;

/// The largest number of flows of a probe.
pub const MAX_FLOWS: u64 = 100_000_000;
