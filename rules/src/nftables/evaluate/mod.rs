//! What tables do with a packet: the twin of [`crate::iptables::evaluate`].
//!
//! [`Program::compile`] compiles the tables of one family once; [`Program::walk`] then evaluates a packet at one
//! hook. The base chains of all tables are evaluated in the order of their priorities, of equal ones the one created last first
//! (`nf_hook_entries_grow`). What a chain accepts goes on to the next one, in its own table or in others; what it drops does
//! not.
//!
//! Chains of type `nat` are evaluated for the first packet of a connection only, until one of them translates it. Whatever their
//! own priority, the kernel evaluates them where it translates: destinations at -100, sources at 100 (`nf_nat_register_fn`).
//!
//! Nothing is guessed. A rule with a condition or statement that is not modelled ends the walk with [`HookVerdict::Unknown`], but
//! only if all other conditions of it hold and it would change anything. What is taken as given:
//!
//! - `numgen random mod n` gives every number the same share. The kernel scales 32 random bits (`reciprocal_scale`), so that a
//!   share may be off by 2^-32;
//! - interfaces are compared as kernels do from 5.4 on: a packet without one has the name "";
//! - masqueraded sources keep their port where the kernel would try to keep it: the port is free;
//! - what rules put into a set is in [`Environment::recent`], in a list of the table's name, a blank and the set's name.
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
