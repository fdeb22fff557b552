//! nftables: kube-proxy's rules in `nftables` mode.
//!
//! [`generate()`] generates a node's table of one family from a cluster, [`print()`] writes it as `nft list ruleset` does,
//! which `nft -f` loads unchanged. [`parse()`] reads tables back from that text, or from the JSON of `nft -j list ruleset`. [`print_sync`]
//! is for a network namespace that may have the table of an earlier sync. [`evaluate`] evaluates tables for a packet.
//!
//! A table holds sets, maps and chains in a namespace of its own. kube-proxy uses one table per family, `kube-proxy`, and never touches
//! other tables.

mod ast;
mod conditions;
mod dynamic;
mod elements;
pub mod evaluate;
mod generate;
mod key;
mod name;
mod numgen;
mod parse;
mod positions;
mod print;
mod ranges;
mod references;
mod sorted_keys;
mod statements;
mod text;
mod unmodelled;
mod verdict;

pub use ast::{BaseChain, Chain, Element, Rule, Ruleset, Set, SetKind, Table};
pub use conditions::{Addresses, Condition, ConnectionState, Interfaces, Mark, Ports, Protocols, States};
pub use dynamic::Dynamic;
pub use generate::{Unsupported, generate};
pub use key::{Datatype, Key, LookupKey, Side};
pub use name::{Name, name_hash};
pub(crate) use name::{base_of_comment, base_of_endpoint, comment_of_base};
pub use numgen::{Numgen, NumgenMode};
pub use parse::{ErrorPlace, OtherTable, ParseError, Parsed, SourceLines, TableName, parse, parse_all};
pub use print::{print, print_element, print_key, print_rule, print_sync};
pub(crate) use print::{print_deleted_sets, print_verdict};
pub use ranges::AddressRange;
pub use statements::{MarkChange, Statement};
pub(crate) use text::family as print_family;
pub use verdict::Verdict;

/// The name of kube-proxy's tables.
const TABLE: &str = "kube-proxy";

/// The maximum length in bytes of an element's comment.
pub(crate) const LONGEST_COMMENT: usize = 128;
