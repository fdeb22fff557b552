//! The kernel's trace of the rules that a packet matches.
//!
//! A `Tracer` (`tracer`) enables tracing with a table of its own (`Lab::trace`), which only sets the trace bit of every packet, and listens
//! in each namespace that has rules:
//!
//! - `nftables`: rules of nftables and of iptables-nft are reported over netlink (`nf_tables_trace.c`) by their handles, which are
//!   converted to positions by listing the rules of the chain;
//! - `legacy`: iptables-legacy writes to the log of its namespace (`trace_packet` in `ip_tables.c`), which is also sent over netlink
//!   (`nfnetlink_log`);
//! - `headers`: the packet that a message is about;
//! - `comparison`: the trace compared with the prediction.
//!
//! The kernel reports neither rules that do not match nor the hook; the hook follows from table and chain.

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
