#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(unnameable_types)]

pub mod cascade;
mod chains;
pub mod cluster;
pub mod compare;
pub mod conntrack;
pub mod coverage;
mod digits;
pub mod infer;
pub mod iptables;
pub mod mutate;
pub mod nftables;
pub mod profile;
pub mod promise;
pub mod ruleset;
pub mod selection;
pub mod walk;
