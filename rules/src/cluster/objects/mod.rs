//! Conversion of Kubernetes objects to cluster state.
//!
//! Each object kind has one function: it takes the API's own type and returns the value, or every error for which the API server would
//! reject the object, each with the path of its field. [`assemble`] does so for a whole list of objects and finds conflicts between them:
//! duplicate names, addresses and node ports.
//!
//! An object that kube-proxy does not see is not an error: it is returned as a [`Note`] with the reason. [`crate::selection::notes`] lists
//! what kube-proxy ignores of the rest.

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

// Public one by one: svclab reports the place of each object in its input.
#[doc(hidden)]
pub use assembly::check;
#[doc(hidden)]
pub use checker::Special;
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
