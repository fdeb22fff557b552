//! A reader of kube-proxy's chains and maps: which service port a chain belongs to, its frontends, and the endpoints of its rules.
//!
//! [`iptables`] and [`nftables`] read the rules of both modes into the same types: the kind of a chain ([`Kind`]), the addresses and ports
//! that lead to it ([`Frontend`]), the rules that lead to endpoints ([`Group`], [`Lead`]), and the endpoints' chains ([`Endpoint`]).
//! Defects of the rules as written are found here too: duplicate rules ([`Copies`]), endpoint chains with the name or comment of another
//! endpoint ([`Mismatch`]), missing jumps ([`StructureDefect`]). What happens to a packet is not decided here: shares and outcomes come from
//! walking the rules.

mod chance;
mod copies;
mod even;
mod frontend;
mod group;
pub(crate) mod iptables;
mod kind;
pub(crate) mod nftables;
mod structure;

pub use chance::Chance;
pub(crate) use copies::Copies;
pub(crate) use even::{FIVE_DIGITS, TEN_DIGITS, even, fits, is_even, nearest, one_in};
pub use frontend::Frontend;
pub(crate) use frontend::Routes;
pub(crate) use group::{Endpoint, Group, Key, Lead, Masqueraded, Mismatch, Note, Reading, Recall, To};
pub use kind::Policy;
pub(crate) use kind::{Kind, Naming};
pub use structure::StructureDefect;
