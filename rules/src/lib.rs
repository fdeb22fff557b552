//! kube-proxy's rules as plain values.
//!
//! The stages, in the order in which data passes them:
//!
//! 1. [`cluster`]: Kubernetes facts, from the API's objects;
//! 2. [`profile`]: which kube-proxy release's rules are meant;
//! 3. [`selection`]: service ports of one family, and which endpoints serve them;
//! 4. [`iptables`]: rules: generated, printed, parsed, merged; [`nftables`]: generated, printed, parsed; [`ruleset`]: rules of a
//!    namespace in either language;
//! 5. [`walk`]: a packet, its connection, and the branches that rules make of it; a `Program` of [`iptables::evaluate`] or
//!    [`nftables::evaluate`] takes it through a hook;
//! 6. [`conntrack`]: which connections are forgotten when objects change;
//! 7. [`compare`]: how two rule sets of a mode differ, in words of services; [`cascade`]: how rules share connections out;
//!    [`mutate`]: rules with one thing wrong; [`shown`]: what rules show of the cluster that they were written for.
//!
//! [`promise`] starts from facts too, and knows nothing of rules: what the Service API promises for a connection.
//!
//! Nothing here does I/O, reads a clock or draws random numbers: the same input gives the same output.
#![forbid(unsafe_code)]

pub mod cascade;
mod chains;
pub mod cluster;
pub mod compare;
pub mod conntrack;
mod digits;
pub mod infer;
pub mod iptables;
pub mod mutate;
pub mod nftables;
pub mod profile;
pub mod promise;
pub mod ruleset;
pub mod selection;
pub mod walk;
