//! The shape of `nft -j list ruleset` (libnftables-json(5), schema version 1), as far as kube-proxy's tables need it.
//!
//! Values of any shape keep their text ([`RawValue`]): they are parsed once they are known to be kube-proxy's, and kept as they are if that
//! fails.

use serde::Deserialize;
use serde_json::value::RawValue;

/// The whole document.
#[derive(Deserialize)]
pub(super) struct Document<'a> {
    #[serde(borrow)]
    pub(super) nftables: Vec<Object<'a>>,
}

/// One of its objects. Exactly one field is set; none if it is of another kind, such as a named counter.
#[derive(Deserialize)]
pub(super) struct Object<'a> {
    pub(super) metainfo: Option<Metainfo>,
    #[serde(borrow)]
    pub(super) table: Option<Table<'a>>,
    #[serde(borrow)]
    pub(super) chain: Option<Chain<'a>>,
    #[serde(borrow)]
    pub(super) set: Option<Set<'a>>,
    #[serde(borrow)]
    pub(super) map: Option<Set<'a>>,
    #[serde(borrow)]
    pub(super) rule: Option<Rule<'a>>,
    /// A named object other than a counter, or a flowtable.
    #[serde(
        rename = "limit",
        alias = "quota",
        alias = "flowtable",
        alias = "secmark",
        alias = "synproxy",
        alias = "tunnel",
        alias = "ct helper",
        alias = "ct timeout",
        alias = "ct expectation"
    )]
    pub(super) named: Option<Named>,
}

#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) family: String,
    pub(super) table: String,
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Metainfo {
    pub(super) json_schema_version: u32,
}

#[derive(Deserialize)]
pub(super) struct Table<'a> {
    pub(super) family: String,
    pub(super) name: String,
    pub(super) comment: Option<String>,
    /// A word, or a list of them.
    #[serde(borrow)]
    pub(super) flags: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Chain<'a> {
    pub(super) family: String,
    pub(super) table: String,
    pub(super) name: String,
    pub(super) comment: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) hook: Option<String>,
    #[serde(borrow)]
    pub(super) prio: Option<&'a RawValue>,
    pub(super) policy: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Set<'a> {
    pub(super) family: String,
    pub(super) table: String,
    pub(super) name: String,
    pub(super) comment: Option<String>,
    #[serde(borrow, rename = "type")]
    pub(super) key: &'a RawValue,
    /// The type of a map's values.
    #[serde(borrow)]
    pub(super) map: Option<&'a RawValue>,
    pub(super) size: Option<u32>,
    pub(super) timeout: Option<u32>,
    #[serde(borrow, default)]
    pub(super) elem: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Rule<'a> {
    pub(super) family: String,
    pub(super) table: String,
    pub(super) chain: String,
    pub(super) handle: Option<u64>,
    pub(super) comment: Option<String>,
    #[serde(borrow, default)]
    pub(super) expr: Vec<&'a RawValue>,
}

/// One value or a list of values.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}
