//! Evaluation of tables for a packet: the counterpart of [`crate::iptables::evaluate`].
//!
//! [`Program::compile`] compiles the tables of one family once; [`Program::walk`] then evaluates a packet at one
//! hook. The base chains of all tables are evaluated in the order of their priorities; with equal priorities, the chain created last comes
//! first (`nf_hook_entries_grow`). Packets that a chain accepts continue in the next base chain, in its own table or in others; dropped
//! packets do not.
//!
//! Chains of type `nat` are evaluated only for the first packet of a connection, until one of them translates it. Whatever their own
//! priority, the kernel evaluates them where NAT happens: DNAT at -100, SNAT at 100 (`nf_nat_register_fn`).
//!
//! Nothing is guessed. A rule with a condition or statement that is not modelled ends the walk with [`HookVerdict::Unknown`], but only if
//! all its other conditions hold and it has an effect. Assumptions:
//!
//! - `numgen random mod n` gives every number the same share. The kernel scales 32 random bits (`reciprocal_scale`), so that a
//!   share may be off by 2^-32;
//! - interfaces are compared as kernels do from 5.4 on: a packet without one has the name "";
//! - masqueraded sources keep their port if the kernel tries to keep it: the port is assumed to be free;
//! - keys that rules added to a set are in [`Environment::recent`], in a list named after the table, a blank and the set.
//!
//! [`HookVerdict::Unknown`]: crate::walk::HookVerdict::Unknown
//! [`Environment::recent`]: crate::walk::Environment::recent

mod check;
mod compile;
mod inspect;
mod program;
mod rule;

pub(crate) use check::rejections;
pub use check::{CompileError, CompileErrorKind, Part};
pub use program::{Code, Program};

#[cfg(test)]
mod tests;
