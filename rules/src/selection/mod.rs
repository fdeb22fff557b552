//! Input shared by all modes of kube-proxy: service ports as one family's proxy sees them, and the endpoints that serve them.
//!
//! `service_ports` joins services with their slices; `ServicePortView::select` decides which of the endpoints
//! traffic goes to, by traffic policy, topology hints and conditions. [`notes()`] lists the objects that have no effect on rules.

mod endpoints;
mod hints;
mod local_traffic;
mod node_ports;
mod notes;
mod selected;
mod service_port;

pub(crate) use endpoints::EndpointView;
pub(crate) use local_traffic::LocalTraffic;
pub(crate) use node_ports::NodePortAddresses;
pub use notes::notes;
pub(crate) use selected::Selected;
pub(crate) use service_port::{ServicePortView, Slices, service_ports};
