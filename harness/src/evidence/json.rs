//! The result of `svclab dump show` for machines. `svclab schema dump-show` describes every field.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::model::{Evidence, Piece};
use super::repairs::RepairCount;
use crate::text::path_text;

/// What results about an input start with.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    /// The version of this format: 1. With the same number fields may be added; none is renamed, removed or changed in type or meaning.
    schema_version: u32,
    /// The command: `dump-show` or `dump-lint`.
    command: &'static str,
    /// The version of svclab.
    svclab_version: &'static str,
    /// The input, as the user named it.
    source: String,
}

impl Head {
    pub(crate) fn new(command: &'static str, path: &Path) -> Self {
        Self { schema_version: 1, command, svclab_version: env!("CARGO_PKG_VERSION"), source: path_text(path) }
    }
}

/// The pieces of an input. They follow from the input alone, so no machine is described as in the results of other commands.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// The pieces, in their order.
    pieces: Vec<PieceOf<'a>>,
    /// How many rules all pieces have.
    rules: usize,
    /// How many Kubernetes objects all pieces have.
    objects: usize,
    /// Lines that look like evidence, or stand in it, and could not be read.
    unread: Vec<UnreadLine<'a>>,
    /// Lines of prose.
    prose: Vec<Lines<'a>>,
}

/// Lines of one format.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PieceOf<'a> {
    /// The file, if the input has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The format: `iptables-save`, `iptables-S`, `iptables-L`, `nft`, `nft-json`, `iptables-nft`, `kubectl-get`, `kubectl-describe`, `yaml`,
    /// `json`, `kube-proxy-config`, `kube-proxy-log`, `conntrack`, `ip-addr`, `ip-route`, `ip-rule`, `ip-json`, `ifconfig`, `ipset-save`, `tcpdump` or `sysctl`.
    format: &'static str,
    /// The first line, from 1.
    first_line: usize,
    /// The last line.
    last_line: usize,
    /// How many rules it has.
    rules: usize,
    /// How many Kubernetes objects it has.
    objects: usize,
    /// How many entries it has that are neither: connections, routes, log lines, elements of nftables' sets and maps.
    entries: usize,
    /// The command that printed it, if it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    /// How lines were changed to be read.
    repairs: &'a [RepairCount],
}

/// A line that could not be read.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UnreadLine<'a> {
    /// The file, if the input has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The line, from 1.
    line: usize,
    /// Its text.
    text: &'a str,
    /// Why it was not read.
    reason: &'a str,
}

/// Lines in a row.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Lines<'a> {
    /// The file, if the input has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// The first line, from 1.
    first_line: usize,
    /// The last line.
    last_line: usize,
}

impl<'a> Document<'a> {
    /// The document of evidence from a path.
    pub fn of(path: &Path, evidence: &'a Evidence) -> Self {
        let unread = evidence.unread.iter().map(|unread| UnreadLine {
            file: unread.file.as_deref(),
            line: unread.line,
            text: &unread.text,
            reason: &unread.reason,
        });
        let prose = evidence.prose.iter().map(|prose| Lines {
            file: prose.file.as_deref(),
            first_line: prose.first,
            last_line: prose.last,
        });
        Self {
            head: Head::new("dump-show", path),
            pieces: evidence.pieces.iter().map(PieceOf::of).collect(),
            rules: evidence.rules(),
            objects: evidence.objects(),
            unread: unread.collect(),
            prose: prose.collect(),
        }
    }
}

impl<'a> PieceOf<'a> {
    fn of(piece: &'a Piece) -> Self {
        Self {
            file: piece.file.as_deref(),
            format: piece.format.code(),
            first_line: piece.first,
            last_line: piece.last,
            rules: piece.contents.rules(),
            objects: piece.contents.objects(),
            entries: piece.contents.entries() + piece.contents.elements(),
            command: piece.command.as_deref(),
            repairs: &piece.repairs,
        }
    }
}
