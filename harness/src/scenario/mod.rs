//! Scenarios: what a user wrote, checked and resolved.

mod model;

pub use model::{
    Balance, Cni, CniKind, Destination, Expectation, Flows, ForeignRules, Host, Install, OutcomeExpectation, Overlay,
    Place, Probe, RejectKind, ReplyExpectation, Scenario, SourceExpectation, Span, Step, Target, Test, Vantage,
};
