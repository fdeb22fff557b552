//! Runs a real kube-proxy, or another program that writes rules from the Kubernetes API, on every node of a lab.
//!
//! ```text
//! Cluster ─objects→ ApiServer ←watch── program in each node's namespaces ──→ rules ─read→ Documents
//! ```
//!
//! - `program`: a program, and how it is started; `programs`: the programs on the command line, and the scenarios that they can run;
//! - `objects`: the API objects of a cluster;
//! - `configuration`: a node's KubeProxyConfiguration and kubeconfig;
//! - `process`, `log`: the program, confined to its node, and the end of what it printed;
//! - `signals`, `synced`: whether it has written the rules for the newest objects;
//! - `on_node`: the program of one node; `proxies`: all nodes' programs together.

mod configuration;
mod error;
mod log;
mod objects;
mod on_node;
mod process;
mod program;
mod programs;
mod proxies;
mod signals;
mod synced;

pub(crate) use error::ProxyError;
pub use error::{NotApplicable, ProgramError};
pub(crate) use process::Process;
pub use program::{Launch, Program};
pub use programs::{Programs, fit, partition};
pub(crate) use proxies::{Begun, Proxies, SyncTime};
