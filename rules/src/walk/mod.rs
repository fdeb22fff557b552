//! What a walk of a packet through rules starts from and ends with, whatever language the rules are written in.
//!
//! A walk looks at one hook of one machine. It starts from a [`Packet`], its [`Tracking`] and the machine's
//! [`Environment`], and ends in [`Branch`]es: what can become of the packet, each with its exact [`Share`] of all
//! packets. Rules that chance decides make several branches of one; the shares of all add up to one.
//!
//! What lies between hooks (routing, forwarding, the next machine) is the caller's part: it takes the packet out of an
//! accepted branch, finds its way, and walks the next hook with the branch's [`Tracking`].

mod address;
mod branch;
mod connection;
mod environment;
mod hash;
mod held;
mod hook;
mod interface;
mod packet;
mod share;
mod trace;

pub(crate) use address::bits;
pub use branch::{Assumptions, Branch, By, Effect, Effects, Outcome, Refusal, Unknown};
pub use connection::{Connection, Direction, SourceNat, State, Tracked, Tracking, Tuple};
pub use environment::{AddressTable, Environment, IpSet, Part, RecentEntry, RecentLists};
pub(crate) use hash::FastMap;
pub(crate) use held::Held;
pub use hook::Hook;
pub use interface::Interface;
pub use packet::{BridgePorts, Packet, Transport};
pub use share::Share;
pub use trace::{Did, NoTrace, Path, Place, RuleId, Step, Trace};
