//! Bounds on what is read, so that hostile input ends quickly. Far above what a real cluster needs.

/// Bytes of one file. A cluster of 10,000 Services with 50,000 endpoints has about 30 MB of YAML.
pub const FILE_BYTES: usize = 64 << 20;

/// Lists and maps inside of each other. A Pod with everything that the API knows needs about 20.
pub(crate) const DEPTH: usize = 64;

/// Values of one file: scalars, lists and maps, aliases left out. What 64 MiB of YAML for a real cluster have is half of it.
pub(crate) const VALUES: u32 = 8_000_000;

/// Values that aliases (`*name`) may add to those that are written out.
pub(crate) const ALIASED_VALUES: u32 = 100_000;

/// Bytes of text that aliases may add to what is written out.
pub(crate) const ALIASED_BYTES: usize = 4 << 20;

/// Texts that are kept once, however often they stand in a file: names of fields, of which the API's objects have some hundreds, and short values.
pub(crate) const SHARED_TEXTS: usize = 4096;

/// Bytes of a value that is kept once.
pub(crate) const SHORT: usize = 8;

/// Errors of one document that are looked for before reading it is given up.
pub(crate) const ERRORS: usize = 1000;

/// Values that may be looked at again and again to find further errors.
pub(crate) const RECOVERY_VALUES: u32 = 5_000_000;

/// Pods that one `replicas:` may ask for.
pub(crate) const REPLICAS: u32 = 10_000;

/// Objects of all states that the changes of a scenario lead to: each state has all of its cluster's.
pub(crate) const OBJECTS_OF_CHANGES: usize = 200_000;

/// Flows that one probe may ask for.
pub const MOST_FLOWS: u64 = 100_000_000;
