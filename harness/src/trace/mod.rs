//! The kernel's trace of the rules that a packet matches.
//!
//! A `Tracer` (`tracer`) asks the kernel for it by a table of its own (`Lab::trace`), which sets a bit on every packet and nothing
//! else, and listens in each namespace that has rules:
//!
//! - `nftables`: rules of nftables and of iptables-nft are reported over netlink (`nf_tables_trace.c`), by their handles; a handle
//!   becomes a number by listing the rules of its chain;
//! - `legacy`: iptables-legacy writes to the log of its namespace (`trace_packet` in `ip_tables.c`), which is sent over netlink
//!   too (`nfnetlink_log`);
//! - `headers`: which packet a message is about;
//! - `comparison`: the trace compared with the prediction.
//!
//! The kernel reports neither rules that do not match nor the hook; tables and chains imply the latter.

mod comparison;
mod event;
mod headers;
mod legacy;
mod nftables;
mod tracer;

pub(crate) use comparison::{Comparison, Difference, nearest};
pub(crate) use event::{Traced, TracedWhat};
pub(crate) use headers::Passage;
pub(crate) use tracer::send_traced;
