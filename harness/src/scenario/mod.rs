//! Scenarios: YAML is read, checked and resolved into a cluster and its tests.
//!
//! 1. `read`: a file's text and the files it names → trees (`yaml`);
//! 2. `schema`: the types that a tree is decoded into;
//! 3. `resolve`: references looked up, defaults filled in, steps completed → the [`Scenario`] of `model`.
//!
//! `print` writes a scenario as text again. `objects_only` reads Kubernetes objects and a configuration of kube-proxy without a scenario.
//! `tag` holds the tags by which tests are selected, and `listeners` the listeners that nodes need. Errors are [`Diagnostics`].

mod listeners;
mod model;
mod objects_only;
mod print;
mod read;
mod resolve;
mod schema;
mod tag;
#[cfg(test)]
mod tests;

pub(crate) use crate::input::{Diagnostic, Diagnostics, MAX_FLOWS, Span};
pub(crate) use listeners::served_on;
pub use model::{
    Balance, Bounds, Change, Cni, CniKind, ConntrackEntry, Destination, DropPlace, During, DuringExpectation,
    DuringProbe, Expectation, ExpectedOutcome, Flows, Host, Install, Note, OtherRules, Overlay, Place, Probe,
    RejectKind, Releases, ReplyExpectation, Scenario, Setting, Shape, SourceExpectation, Step, Target, TcpFlags, Test,
    Tests, TooBig, Vantage,
};
pub(crate) use model::{VantageKind, flows_at_rate, pod_label, short_name};
pub use objects_only::{ObjectCluster, cluster, proxy_config};
pub(crate) use print::{PlannedOutcome, link_words, node_port_range};
pub use print::{PlannedTest, print};
pub(crate) use read::parse_into;
pub use read::{load, load_within, parse, parse_with};
pub use resolve::step_out_of_range;
pub(crate) use resolve::{
    Extra, Findings, IPV6_MIN_MTU, LEFT_OUT, NO_EFFECT, NODE_RANGES, OF_THE_MACHINE, OwnChange, ResolvedProbe,
};
pub use schema::schema;
pub(crate) use schema::{RawApply, RawProbe, RawStep};
pub use tag::{InvalidTag, Tag};
