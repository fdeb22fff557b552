//! Scenarios: what a user wrote, checked and resolved.
//!
//! 1. `document`: text → a tree that knows the place of every value, within bounds;
//! 2. `decode`: tree → the types of `raw`, with all mistakes at once;
//! 3. `resolve`: references looked up, defaults filled in, steps made whole → [`Scenario`].
//!
//! Beside that, `plain` reads Kubernetes objects and a configuration of kube-proxy without a scenario, and `assumed` makes a
//! scenario of such objects.
//!
//! Mistakes are [`Diagnostics`]: every one with file, line, column, what is wrong and how to put it right.

mod assumed;
mod decode;
mod diagnostics;
mod document;
mod find;
mod limits;
mod model;
mod plain;
mod raw;
mod read;
mod resolve;
mod schema;
mod served;
#[cfg(test)]
mod tests;
mod tree;

pub use assumed::{Assumed, of_objects};
pub(crate) use decode::did_you_mean;
pub use diagnostics::{Diagnostic, Diagnostics, Label};
pub use find::{FindError, Found, IGNORED, find, is_manifest};
pub use limits::{FILE_BYTES, MOST_FLOWS};
pub(crate) use model::pod_label;
pub use model::{
    Balance, Cni, CniKind, Destination, Expectation, Flows, ForeignRules, Host, Install, Note, OutcomeExpectation,
    Overlay, Place, Probe, RejectKind, ReplyExpectation, Scenario, Setting, SourceExpectation, Span, Step, Target,
    Test, Vantage,
};
pub use plain::{PlainCluster, cluster, proxy_config};
pub use read::{Aim, AimedScenario, load, load_and_aim, parse, read_file, unreadable};
pub(crate) use read::{read_argument, read_limited};
pub use schema::schema;
pub(crate) use served::served_at;
