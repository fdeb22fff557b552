//! From Kubernetes objects to facts.
//!
//! One function an object kind: it takes the API's own type and gives the fact, or every error for which the API
//! server would reject the object, each with the path of its field. [`assemble`] does so for a whole list of objects
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

pub use assembly::{Assembly, Object, assemble};
pub use checker::FieldError;
pub use notes::Note;
pub use proxy_config::{
    ConntrackConfiguration, DetectLocalConfiguration, KubeProxyConfiguration, MasqueradeConfiguration, proxy_config,
};

// One object at a time: svclab reports the place of each in its input.
#[doc(hidden)]
pub use assembly::check;
#[doc(hidden)]
pub use checker::special;
#[doc(hidden)]
pub use endpoint_slice::endpoint_slice;
#[doc(hidden)]
pub use endpoints::endpoints;
#[doc(hidden)]
pub use node::node;
#[doc(hidden)]
pub use notes::Reading;
#[doc(hidden)]
pub use pod::pod;
#[doc(hidden)]
pub use service::{service, service_within};
#[doc(hidden)]
pub use service_cidr::service_cidr;
#[doc(hidden)]
pub use syntax::NODE_PORTS;
