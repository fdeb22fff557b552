#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The modules that are hidden from the documentation are for svclab itself.
pub mod cascade;
mod chains;
pub mod cluster;
pub mod compare;
#[doc(hidden)]
pub mod conntrack;
mod digits;
#[doc(hidden)]
pub mod infer;
#[doc(hidden)]
pub mod iptables;
#[doc(hidden)]
pub mod mutate;
#[doc(hidden)]
pub mod nftables;
pub mod profile;
pub mod promise;
pub mod ruleset;
#[doc(hidden)]
pub mod selection;
pub mod walk;
