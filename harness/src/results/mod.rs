//! Results of `run`, `verify`, `mutate` and `diff` in one form, and the reports derived from it.
//!
//! ```text
//! JSON document (of this process, or a file) ─read→ Results ─┬─ junit    XML that CI systems show as a table
//!              ▲                                             ├─ tap      TAP 14
//!              └── merge: the documents of several shards    ├─ github   annotations at the lines of the scenarios
//!                                                            ├─ summary  Markdown for a job's summary
//!                                                            └─ html     one file to look at
//! ```
//!
//! Every report starts from the JSON document, so one that is made later, of a file or of several, is the one that the run would have
//! written. Renderers are pure.

mod from_diff;
mod from_mutate;
mod from_verify;
pub mod github;
pub mod html;
pub mod junit;
mod merge;
mod model;
mod read;
pub mod summary;
pub mod tap;
#[cfg(test)]
mod tests;
mod words;

pub use merge::{MergeError, Merged, merge};
pub use model::{Case, Problem, Results, Suite};
pub use read::ReadError;
