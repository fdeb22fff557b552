//! From Kubernetes objects to facts.
//!
//! One function an object kind: it takes the API's own type and gives the fact, or every error that the API
//! server would have refused, each with the path of its field. [`assemble`] does so for a whole list of objects
//! and checks what only all of them together show: names that are taken twice, addresses and node ports that
//! collide.
//!
//! What kube-proxy never sees as a fact is not an error. It comes back as a [`Note`] that says why; what it ignores of facts,
//! [`crate::selection::notes`] lists.

mod assembly;
mod checker;
mod endpoint_slice;
mod endpoints;
mod node;
mod notes;
mod pod;
mod proxy_config;
mod service;
mod service_cidr;
mod syntax;
#[cfg(test)]
mod tests;

pub use assembly::{Assembly, Object, assemble, check};
pub use checker::{FieldError, special};
pub use endpoint_slice::endpoint_slice;
pub use endpoints::endpoints;
pub use node::node;
pub use notes::{Note, Reading};
pub use pod::pod;
pub use proxy_config::{
    ConntrackConfiguration, DetectLocalConfiguration, KubeProxyConfiguration, MasqueradeConfiguration, proxy_config,
};
pub use service::{service, service_within};
pub use service_cidr::service_cidr;
pub use syntax::NODE_PORTS;
