//! Scenarios: what a user wrote, checked and resolved.
//!
//! 1. `document`: text → a tree that knows the place of every value, within bounds;
//! 2. `decode`: tree → the types of `raw`, with all mistakes at once; `value` reads the tree in place;
//! 3. `resolve`: references looked up, defaults filled in, steps made whole → [`Scenario`].
//!
//! Alongside that, `plain` reads Kubernetes objects and a configuration of kube-proxy without a scenario, `assumed` makes a
//! scenario of such objects, and `infer` of saved rules. `form` tells what a text is, and `aim` adds a probe that is asked for.
//!
//! Mistakes are [`Diagnostics`]: every one with file, line, column, what is wrong and how to put it right.

mod ad_hoc;
mod assumed;
mod decode;
mod diagnostics;
mod document;
mod files;
mod find;
mod form;
mod infer;
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
mod value;

pub(crate) use ad_hoc::aim_at;
pub use ad_hoc::{AdHocProbe, AdHocScenario, load_with_ad_hoc_probe};
pub use assumed::{Assumed, of_objects};
pub(crate) use decode::did_you_mean;
pub use diagnostics::{Diagnostic, Diagnostics, Label};
pub use files::{Reach, read_file, unreadable};
pub(crate) use files::{read_argument, read_limited};
pub use find::{FindError, Found, IGNORED, find, is_manifest};
pub use form::{Form, form};
pub(crate) use form::{both_families, family, is_input, is_rule, other_family};
pub use infer::infer;
pub use limits::{FILE_BYTES, MOST_FLOWS};
pub(crate) use model::pod_label;
pub use model::{
    Balance, Cni, CniKind, Destination, DropPlace, Expectation, Flows, Host, Install, Note, OtherRules,
    OutcomeExpectation, Overlay, Place, Probe, RejectKind, ReplyExpectation, Scenario, Setting, SourceExpectation,
    Span, Step, Target, Test, Vantage,
};
pub use plain::{PlainCluster, cluster, proxy_config};
pub use read::{load, load_within, parse};
pub use schema::schema;
pub(crate) use served::served_on;
