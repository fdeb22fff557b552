//! A real kube-proxy, or another program that writes rules from Kubernetes' API, on every node of a lab.
//!
//! ```text
//! Cluster ─objects→ ApiServer ←watch── program in each node's namespaces ──→ rules ─read→ Documents
//! ```
//!
//! - `programs`: the programs that the command line names, and which scenarios they can carry out;
//! - `objects`: a cluster as the API objects that an API server stores;
//! - `configuration`: a node's KubeProxyConfiguration and kubeconfig;
//! - `process`, `log`: the program, confined to its node, and the end of what it printed;
//! - `signals`, `synced`: whether it has written the rules of the newest objects;
//! - `proxies`: all nodes' programs together.

mod configuration;
mod error;
mod log;
mod objects;
mod process;
mod programs;
mod proxies;
mod signals;
mod synced;

pub(crate) use error::ProxyError;
pub use error::{NotApplicable, ProgramError};
pub use programs::{Launch, Program, Programs};
pub(crate) use proxies::{Proxies, SyncTime};
