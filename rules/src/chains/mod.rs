//! kube-proxy's chains and maps, as they are written: which service port a chain belongs to, where it is reached, and which
//! endpoints its rules lead to.
//!
//! [`iptables`] and [`nftables`] read the rules of a mode in the same terms: what a chain is for ([`Kind`]), the addresses and
//! ports that lead to it ([`Frontend`]), the rules that lead to endpoints ([`Group`], [`Lead`]), and the endpoints' chains
//! ([`Endpoint`]). Nothing here says what happens to a packet: shares and outcomes come from walking the rules.

mod chance;
mod even;
mod frontend;
mod group;
pub(crate) mod iptables;
mod kind;
pub(crate) mod nftables;

pub use chance::Chance;
pub(crate) use even::{FIVE_DIGITS, TEN_DIGITS, is_even};
pub use frontend::Frontend;
pub(crate) use frontend::Routes;
pub(crate) use group::{Endpoint, Group, Key, Lead, Mismatch, Note, Reading, Recall};
pub use kind::Policy;
pub(crate) use kind::{Kind, Naming};
