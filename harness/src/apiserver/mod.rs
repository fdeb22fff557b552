//! An API server of Kubernetes for the clients inside of a lab: discovery, lists and watches of the objects that it is given.
//!
//! `server` serves plain HTTP on listeners that its owner bound, each in the network namespace that it belongs to; `api` is what all
//! requests share. `resource` is the table of what is served; `admission` makes objects what an API server would store; `store` numbers
//! them and keeps the changes; `route`, `query` and `selector` read requests; `list`, `watch` and `write` respond to them. Clients may
//! send Events in `protobuf`.

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
