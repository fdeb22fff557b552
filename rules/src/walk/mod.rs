//! What a walk of a packet through rules starts from and ends with, whatever language the rules are written in.
//!
//! A walk looks at one hook of one machine. It starts from a [`Packet`], its [`Tracking`] and the machine's
//! [`Environment`], and ends in [`Branch`]es: the possible outcomes of the packet, each with its exact [`Share`] of all
//! packets. Random rules make several branches of one; the shares of all add up to one.
//!
//! What is between hooks (routing, forwarding, the next machine) is the caller's part: it takes the packet out of an
//! accepted branch, routes it, and walks the next hook with the branch's [`Tracking`].
//!
//! Languages share how chains are walked: [`Program`] has the chains of all hooks, `hook_order` orders them, also where rules of two languages are
//! [`Alongside`] each other, `machine` goes from rule to rule through the chains of a hook, `walker` is the
//! packet between rules, `translation` what rules bind to its connection, `jump_depth` which chains are inside of which. What a
//! rule asks and does is each language's own.
//!
//! Sets of packets go through rules by one of them, the witness: `field_queries` has every question that conditions put to a packet, and
//! reports it; `narrowing` keeps the packets for which all comparisons would have the same result, a `region` of [`Intervals`] for each [`Field`]; [`Classes`]
//! goes on with the others until none is left. Of a cascade, the packets of its own endpoints are taken up in the branch that handles
//! them differently (`source_fork`).

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
mod hook;
mod hook_order;
mod inspect;
mod interface;
mod intervals;
mod jump_depth;
mod machine;
mod match_result;
mod narrowing;
mod packet;
mod program;
mod region;
#[cfg(test)]
pub(crate) mod samples;
mod separate_sources;
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
pub use hook::Hook;
pub(crate) use hook_order::{DESTINATIONS, Hooked, Kind, SOURCES};
pub(crate) use inspect::{Edges, Inspect, Reach, RuleEffect, Scan};
pub use interface::Interface;
pub use intervals::Intervals;
pub(crate) use jump_depth::{Fault, Hooks, Lead, faults, reached, starts};
pub use machine::Arrival;
pub(crate) use match_result::Held;
pub use narrowing::{Narrowed, Narrowing, Others};
pub use packet::{BridgePorts, Packet, Transport};
pub use program::Program;
pub(crate) use program::{Names, Span};
pub use region::Region;
pub use separate_sources::Apart;
pub use share::Share;
pub use trace::{ChainId, Evaluated, NoTrace, Path, Place, RuleId, Step, Then, Trace};
pub(crate) use translation::{Destination, Source, SourceAddress};
pub use tuple::Tuple;
pub(crate) use walker::Walker;
