//! Walks of packets through rules, independent of the language of the rules.
//!
//! A walk covers one hook of one machine. It starts from a [`Packet`], its [`Tracking`] and the machine's [`Environment`], and ends in
//! [`Branch`]es: the possible outcomes of the packet, each with its exact [`Share`] of all packets. Random rules split a branch into
//! several; all shares add up to one.
//!
//! Everything between hooks (routing, forwarding, the next machine) is up to the caller: it takes the packet from an accepted branch,
//! routes it, and walks the next hook with the branch's [`Tracking`].
//!
//! Both languages share the walk through chains: [`Program`] has the chains of all hooks, `hook_order` orders them, also if rules of two
//! languages are [`Alongside`] each other, `machine` goes from rule to rule through the chains of a hook, `walker` is the packet between
//! rules, `translation` is the NAT of its connection, and `jump_limits` checks the nesting of chains. Matches and effects of rules are
//! specific to each language.
//!
//! A set of packets is walked by one of its packets, the witness: `field_queries` has every comparison of conditions with a packet, and
//! reports it; `narrowing` keeps the packets for which all comparisons have the same result, a `region` of [`Intervals`] for each
//! [`Field`]; [`Classes`] continues with the others until none is left. Packets from a cascade's own endpoints continue from the branch
//! that handles them differently (`source_fork`).

mod address;
mod alongside;
mod branch;
mod chain_position;
mod classes;
mod code;
mod connection;
mod distribution;
mod environment;
mod field;
mod field_queries;
mod forked_sources;
mod hook;
mod hook_order;
mod inspect;
mod interface;
mod intervals;
mod jump_limits;
mod machine;
mod match_result;
mod narrowing;
mod packet;
mod program;
mod region;
#[cfg(test)]
pub(crate) mod samples;
mod settled_source;
mod share;
mod source_fork;
mod trace;
mod translation;
mod tuple;
mod walker;

pub(crate) use address::bits;
pub use address::{address_from_bits, bits as address_bits};
pub use alongside::Alongside;
pub(crate) use alongside::Start;
pub use branch::{Assumptions, Branch, By, Effect, Effects, HookVerdict, RejectResponse, Unknown};
pub use chain_position::Fork;
pub(crate) use chain_position::{Next, Pass, stop};
pub use classes::{Class, Classes};
pub(crate) use code::Code;
pub use connection::{Connection, Direction, SourceNat, State, Tracked, Tracking};
pub(crate) use distribution::{End, Entry, Portion, distribute};
pub use environment::{AddressTable, Environment, IpSet, Part, RecentEntry, RecentLists, address_scope};
pub use field::Field;
pub use forked_sources::ForkedSources;
pub use hook::Hook;
pub(crate) use hook_order::{DESTINATIONS, Hooked, Kind, SOURCES};
pub(crate) use inspect::{Edges, Inspect, Reach, RuleEffect, Scan};
pub use interface::Interface;
pub use intervals::Intervals;
pub(crate) use jump_limits::{Fault, Hooks, Lead, faults, reached, starts};
pub use machine::Arrival;
pub(crate) use match_result::Held;
pub use narrowing::{Narrowed, Narrowing, Others};
pub use packet::{BridgePorts, Packet, Transport};
pub use program::Program;
pub(crate) use program::{Names, Span};
pub use region::Region;
pub use share::Share;
pub use trace::{ChainId, Evaluated, NoTrace, Path, Place, RuleId, Step, Then, Trace};
pub(crate) use translation::{Destination, Source, SourceAddress};
pub use tuple::Tuple;
pub(crate) use walker::Walker;
