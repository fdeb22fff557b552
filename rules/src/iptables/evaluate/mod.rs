//! Evaluation of rules for a packet.
//!
//! [`Program::compile`] compiles a rule set once; [`Program::walk`] then evaluates a packet at one hook. The tables are traversed in the
//! kernel's order (`enum nf_ip_hook_priorities`): `raw`, connection tracking, `mangle`, `nat` for DNAT, `filter`, `security`, `nat` for
//! SNAT. Only packets that a table accepts continue in the next one.
//!
//! The rules of `nat` are evaluated once per connection and direction of translation (`nf_nat_inet_fn`): the first packet decides, and the
//! conntrack entry keeps the result. If no rule matches, that also settles that nothing is translated.
//!
//! Nothing is guessed. A rule with a match or target that is not modelled ends the walk with [`HookVerdict::Unknown`], but only if all its
//! other matches hold and it has an effect. A branch lists its assumptions:
//!
//! - translated sources keep their port if the kernel tries to keep it: the port is assumed to be free;
//! - a [`Transport`](crate::walk::Transport) is never a fragment, and `-f` never holds;
//! - `limit` holds, `statistic --mode nth` has a counter of unknown value (see [`Assumptions`]).
//!
//! ```
//! use svclab_rules::cluster::{Family, Protocol};
//! use svclab_rules::iptables::{evaluate::Program, parse};
//! use svclab_rules::walk::{Environment, Hook, Packet, Share, Tracking, Transport};
//!
//! let text = "*nat\n\
//!     -A PREROUTING -d 10.96.0.1/32 -p tcp -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.0.0.1:80\n\
//!     -A PREROUTING -d 10.96.0.1/32 -p tcp -j DNAT --to-destination 10.0.0.2:80\n\
//!     COMMIT\n";
//! let program = Program::compile(&parse(text, Family::Ipv4).unwrap().rules).unwrap();
//! let transport = Transport::opening(Protocol::Tcp, 40_000, 443);
//! let packet = Packet::new([10, 0, 0, 9].into(), [10, 96, 0, 1].into(), transport);
//! let tracking = Tracking::first(&packet);
//! let branches = program.walk(&Environment::default(), Hook::Prerouting, &packet, tracking);
//! assert_eq!(branches.len(), 2);
//! assert_eq!(branches[0].share, Share::of(1, 2));
//! assert_eq!(branches[1].packet.destination.to_string(), "10.0.0.2");
//! // At the next hook, `branches[1].packet` and `branches[1].tracking` continue, with the interface that routing found.
//! ```
//!
//! [`HookVerdict::Unknown`]: crate::walk::HookVerdict::Unknown
//! [`Assumptions`]: crate::walk::Assumptions

mod check;
mod compile;
mod index;
mod inspect;
mod lower;
mod program;
mod rule;

pub(crate) use check::rejections;
pub use check::{CompileError, CompileErrorKind};
pub use program::{Code, Program};

#[cfg(test)]
mod tests;
