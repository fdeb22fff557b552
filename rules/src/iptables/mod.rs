//! iptables: kube-proxy's rules in `iptables` mode, and rule text in general.
//!
//! [`generate()`] generates a node's rules from a cluster, [`print()`] writes them as `iptables-save` does, [`parse()`] reads
//! such text back and [`parse_listing`] the output of `iptables -L`, [`merge()`] adds other rules to the generated ones,
//! [`evaluate`] evaluates them for packets.

mod ast;
mod chain_name;
pub mod evaluate;
mod generate;
mod matches;
mod merge;
mod normal_form;
mod parse;
mod print;
mod table_name;
mod targets;
mod text;
mod values;

pub use ast::{Chain, Counters, Matches, Policy, Rule, RuleSet, Table};
pub use chain_name::{ChainHash, ChainKind, FIXED_CHAINS};
pub use generate::generate;
pub use matches::{
    AddressType, IpSet, Match, Multiport, Other, Physdev, Ports, Probability, Recent, RecentAction, RouteType, Side,
    States, Statistic, TcpFlags, UNREAD,
};
pub use merge::{Order, merge};
pub(crate) use normal_form::canonical_key;
pub use parse::{ELLIPSIS, OLDER, parse_excerpt, unfold};
pub use parse::{
    End, Excerpt, ExcerptMerger, Listing, ListingLine, ListingReader, MAX_LINE_BYTES, ParseError, Parsed, SourceLines,
    parse, parse_either_family, parse_listing, parse_rule,
};
pub use print::{print, print_rule};
pub use table_name::TableName;
pub use targets::{Nat, RejectWith, Target};
pub use values::{ChainName, Masked, Negatable, Network, PortRange};
