//! A Kubernetes API server for clients inside a lab: discovery, lists and watches of given objects.
//!
//! `server` serves plain HTTP on listeners that its owner bound, each in its network namespace; `api` is the state shared by requests.
//! `resource` is the table of served resources; `admission` converts objects to what an API server would store; `store` versions them and
//! keeps the changes; `route`, `query` and `selector` read requests; `list`, `watch` and `write` respond to them. Clients may send Events
//! in `protobuf`.

mod activity;
mod admission;
mod api;
mod body;
mod discovery;
mod list;
mod object;
mod protobuf;
mod query;
mod request;
mod resource;
mod route;
mod selector;
mod server;
mod status;
mod store;
mod version_conversion;
mod watch;
mod write;

pub(crate) use activity::ClientActivity;
pub(crate) use api::{ApiError, Settings};
pub(crate) use server::ApiServer;
pub(crate) use version_conversion::to_stored_slice;
