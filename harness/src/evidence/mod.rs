//! What people send: files, terminal output and whole issues in Markdown, read as pieces of evidence.
//!
//! 1. `line`: text → lines, without what terminals, mail and web pages put around them (`prefixes`, `joined_lines`, `wrapped_lines`, `wrapped_nft`);
//! 2. `format`: lines → pieces, one format a file;
//! 3. `read`: a text → [`Evidence`]: its pieces, with their machines (`heading`, `loops`), and every line that is prose or that could not be read;
//!    `snapshots`: what a text shows of two clusters, or of one at two times;
//! 4. `families`: rules without addresses → their family; `rules`: the pieces with rules → the rules of a node, of each family; `added_files`:
//!    those of a machine's files (`machine_files`) → one rule set; `logged_services`: kube-proxy's log → Services; `objects`:
//!    those with Kubernetes objects.
//!
//! Nothing is left out silently: every line belongs to a piece, is prose, or is listed as unread.

mod added_files;
mod alternatives;
mod archive;
mod blocks;
mod collected;
mod command;
mod continued_lines;
mod dictionary;
mod endpoints;
mod families;
mod filter;
mod format;
mod grep;
mod heading;
mod hosts;
mod joined_lines;
pub mod json;
mod line;
mod listings;
mod logged;
mod logged_services;
mod loops;
mod machine_files;
mod machine_pieces;
mod model;
mod namespaces;
mod node_rules;
mod objects;
mod page;
mod pipes;
mod prefixes;
mod read;
mod releases;
mod repairs;
mod repeated_commands;
mod rules;
mod rules_not_read;
mod service_fields;
mod snapshots;
mod source;
mod tables;
#[cfg(test)]
mod tests;
mod unread;
mod unwrapped;
mod warnings;
mod wrapped_lines;
mod wrapped_nft;

pub(crate) use added_files::MachineRules;
pub(crate) use dictionary::service_of_hash;
pub(crate) use endpoints::{
    ListedEndpoint, endpoints, has_unknown_readiness, is_cut, is_from_table, marked, remove_marks,
};
pub(crate) use hosts::host_of;
pub(crate) use listings::rules as rules_by_chain;
pub(crate) use logged::{Complaint, Failure};
pub(crate) use logged_services::logged_services;
pub(crate) use machine_files::{machine_name, machine_of_bundle};
pub(crate) use machine_pieces::MachinePieces;
pub(crate) use model::{Connection, Contents, OF_IPTABLES_NFT, Release, Route, Setting};
pub use model::{Evidence, Format, Piece, Stretch};
pub(crate) use namespaces::shown_objects;
pub use node_rules::NodeRules;
pub(crate) use node_rules::{find_host, has_word, other_mode};
pub(crate) use objects::objects;
pub use page::render;
pub use read::read;
pub(crate) use releases::releases;
pub(crate) use rules::{machine_rules, others, words_of_other};
pub use rules::{node_rules, not_judged};
pub(crate) use service_fields::{fill_service, is_service_of_table, name_ports};
pub(crate) use snapshots::Snapshot;
pub(crate) use source::visit;
pub use source::{Source, SourceError, from_source, read_file};
pub use unread::Unread;
#[doc(hidden)]
pub use unwrapped::unwrapped;
