//! kube-proxy's chains and maps, as they are written: which service port a chain belongs to, where it is reached, and which
//! endpoints its rules lead to.
//!
//! [`iptables`] and [`nftables`] read the rules of a mode in the same terms: what a chain is for ([`Kind`]), the addresses and
//! ports that lead to it ([`Frontend`]), the rules that lead to endpoints ([`Group`], [`Lead`]), and the endpoints' chains
//! ([`Endpoint`]). What is wrong with the rules as they are written is found here too: rules that a chain has several times
//! ([`Copies`]), endpoints' chains that are for another endpoint ([`Mismatch`]), missing jumps ([`FrameDefect`]). Nothing here says what happens to a packet: shares and outcomes come from walking the rules.

mod chance;
mod copies;
mod even;
mod frame;
mod frontend;
mod group;
pub(crate) mod iptables;
mod kind;
pub(crate) mod nftables;

pub use chance::Chance;
pub(crate) use copies::Copies;
pub(crate) use even::{FIVE_DIGITS, TEN_DIGITS, is_even};
pub use frame::FrameDefect;
pub use frontend::Frontend;
pub(crate) use frontend::Routes;
pub(crate) use group::{Endpoint, Group, Key, Lead, Masqueraded, Mismatch, Note, Reading, Recall, To};
pub use kind::Policy;
pub(crate) use kind::{Kind, Naming};
