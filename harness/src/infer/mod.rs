//! Scenarios for other inputs: Kubernetes objects, evidence from issues and dumps, and a probe given on the command line (`ad_hoc`,
//! `flow_args`).
//!
//! 1. `machines`: the rules in evidence → those of each machine; `dumps`: → those of each node; `merge`: its objects, completed by what
//!    rules show: `added_endpoints` with `endpoint_tables` and `cut_tables`, `compared_endpoints`, `unshown_fields` of Services, `node_tables`;
//!    with `ranges` for pods, `names`, `service_ports` and `validity` as the API demands, `unlisted` for endpoints that no list shows,
//!    `named_endpoints` for those whose node a list names, and `hairpins` for endpoints without a Service; `accessors` read single objects;
//! 2. `rules`: dumps and objects → a scenario; `objects`: objects alone → a scenario;
//! 3. `evidence`: all of these steps, and settings; `routes`: nodes and links from the routes of a dump; `connections`: entries of
//!    connection tables; `probes`: a scenario → tests of every service port.
//!
//! Whatever an input does not say is assumed and listed in [`Assumed::assumptions`]. The result is written as a scenario and read as any
//! other, so that the same defaults and checks apply.

pub(crate) mod accessors;
mod ad_hoc;
mod added_endpoints;
mod assumption;
mod compared_endpoints;
mod connections;
mod cut_tables;
mod dumps;
mod endpoint_nodes;
mod endpoint_pods;
mod endpoint_tables;
mod evidence;
mod flow_args;
mod hairpins;
mod interfaces;
mod machines;
mod merge;
mod named_endpoints;
mod names;
mod node_file;
mod node_port_addresses;
mod node_tables;
mod objects;
mod owners;
mod probes;
mod ranges;
mod readiness;
mod routes;
mod rules;
mod service_ports;
mod snapshots;
mod unlisted;
mod unshown;
mod unshown_fields;
mod usual_ranges;
mod validity;

pub use ad_hoc::with_ad_hoc_probe;
pub(crate) use ad_hoc::{AdHocChange, is_typed, with_changes, with_files};
pub use ad_hoc::{AdHocProbe, AdHocScenario, load_with_ad_hoc_probe};
pub use assumption::Assumption;
pub use connections::Connections;
pub use evidence::{from_evidence, from_pair};
#[doc(hidden)]
pub use flow_args::FlowArgs;
pub use node_file::NodeFile;
pub(crate) use node_port_addresses::find_unassigned;
pub use objects::{Assumed, Deviation, cluster_cidrs, from_objects, is_allocated};
pub use probes::tests;
pub(crate) use service_ports::is_api_server;
pub(crate) use unshown_fields::PROXY_NAME_LABEL;
