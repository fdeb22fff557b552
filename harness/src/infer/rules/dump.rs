//! Reading saved rules.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use svclab_rules::cluster::{Cluster, Family, Node, ProxyMode};
use svclab_rules::compare::{Finding, compare_machines};
use svclab_rules::infer::{Inferred, Show};
use svclab_rules::iptables::TableName;
use svclab_rules::nftables::ErrorPlace;
use svclab_rules::{iptables, nftables};

use crate::input::{Diagnostic, Diagnostics, Form, both_families, form, other_family};
use crate::scenario::Span;

/// The rules of a node in one proxy mode.
pub(super) enum Dump {
    Iptables(iptables::RuleSet),
    Nftables(nftables::Ruleset),
}

/// An error: line and column, message, help.
type Error = ((usize, usize), String, &'static str);

const WHOLE: &str = "Give all that `iptables-save` writes, from the first `*TABLE` to the last `COMMIT`, or `nft list ruleset`; \
    of parts and listings, `svclab cascade` tells the shares.";

impl Dump {
    /// Reads rules with at least one service port.
    pub(super) fn read(text: &str, path: &Path) -> Result<Self, Diagnostics> {
        Self::of(text).map_err(|errors| {
            let diagnostic = |((line, column), message, help): Error| Diagnostic {
                span: Span { file: path.to_owned(), line, column },
                length: 1,
                message,
                help: Some(help.to_owned()),
                also: None,
            };
            let sources = BTreeMap::from([(path.to_owned(), Arc::from(text))]);
            Diagnostics { errors: errors.into_iter().map(diagnostic).collect(), sources }
        })
    }

    fn of(text: &str) -> Result<Self, Vec<Error>> {
        let whole = |message: &str| vec![((1, 1), message.to_owned(), WHOLE)];
        let dump = match form(text) {
            Ok(Form::Saved) if !text.lines().any(|line| line.trim_start().starts_with('*')) => {
                return Err(whole("the rules name no table"));
            }
            Ok(Form::Saved) => saved(text)?,
            Ok(Form::Nft) => nft(text)?,
            Ok(Form::Listed) => {
                return Err(whole("this is the output of `iptables -L`, which omits parts of each rule"));
            }
            Ok(Form::Scenario) => return Err(whole("this is a scenario")),
            Err((message, help)) => return Err(vec![((1, 1), message.to_owned(), help)]),
        };
        if let Self::Iptables(rules) = &dump
            && rules.table(TableName::Nat).is_none()
        {
            return Err(whole("table `nat`, where kube-proxy translates addresses, is missing"));
        }
        if dump.shown().ports.is_empty() {
            let help = "Save the rules of a node on which kube-proxy runs in this mode, as root: those of a Service are in the table \
                `nat`, in KUBE-SERVICES and KUBE-SVC-..., or in nft's table `kube-proxy`.";
            return Err(vec![((1, 1), "no rules for a Service found".to_owned(), help)]);
        }
        Ok(dump)
    }

    /// What is inferred from the rules.
    pub(super) fn shown(&self) -> Inferred {
        match self {
            Self::Iptables(rules) => rules.show(),
            Self::Nftables(rules) => rules.show(),
        }
    }

    /// The proxy mode.
    pub(super) fn mode(&self) -> ProxyMode {
        match self {
            Self::Iptables(_) => ProxyMode::Iptables,
            Self::Nftables(_) => ProxyMode::Nftables,
        }
    }

    /// The families that have services.
    pub(super) fn families(&self) -> Vec<Family> {
        match self {
            Self::Iptables(rules) => vec![rules.family],
            Self::Nftables(rules) => {
                let table = |family: &Family| rules.table(*family).cloned();
                let has_services = |table| !nftables::Ruleset { tables: vec![table] }.show().ports.is_empty();
                Family::ALL.into_iter().filter(|family| table(family).is_some_and(has_services)).collect()
            }
        }
    }

    /// The differences from the rules that kube-proxy writes for a node; `None` where it cannot write any.
    pub(super) fn differences(&self, cluster: &Cluster, node: &Node) -> Option<Vec<Finding>> {
        match self {
            Self::Iptables(found) => {
                let expected = iptables::generate(cluster, node, found.family).ok()?;
                Some(compare_machines(&expected, found).own)
            }
            Self::Nftables(found) => {
                let tables = |family| nftables::generate(cluster, node, family).ok().map(|rules| rules.tables);
                let tables: Option<Vec<_>> = self.families().into_iter().map(tables).collect();
                let expected = nftables::Ruleset { tables: tables?.into_iter().flatten().collect() };
                Some(compare_machines(&expected, found).own)
            }
        }
    }
}

/// Rules of the family in which more of them parse.
fn saved(text: &str) -> Result<Dump, Vec<Error>> {
    let read = Family::ALL.map(|family| iptables::parse(text, family));
    let mut fewest: Option<Vec<iptables::ParseError>> = None;
    for read in read {
        match read {
            Ok(parsed) => return Ok(Dump::Iptables(parsed.rules)),
            Err(errors) if fewest.as_ref().is_none_or(|known| errors.len() < known.len()) => fewest = Some(errors),
            Err(_) => {}
        }
    }
    const HELP: &str = "Use the format of iptables-save.";
    if let Some((line, family)) = other_family(text) {
        let (message, help) = both_families(family);
        return Err(vec![((line, 1), message, help)]);
    }
    let errors = fewest.unwrap_or_default().into_iter();
    Err(errors.map(|error| ((error.line, error.column), error.message, HELP)).collect())
}

fn nft(text: &str) -> Result<Dump, Vec<Error>> {
    const HELP: &str = "Use the unmodified output of `nft list ruleset`, with or without `-j`.";
    let parsed = nftables::parse(text).map_err(|errors| {
        let error = |error: nftables::ParseError| match error.place {
            ErrorPlace::At { line, column } => ((line, column), error.message, HELP),
            ErrorPlace::Object(_) => ((1, 1), error.to_string(), HELP),
        };
        errors.into_iter().map(error).collect::<Vec<_>>()
    })?;
    if parsed.rules.tables.is_empty() && parsed.others.iter().any(|other| other.name == "nat") {
        let help = "nft does not print all rules of iptables-nft. Save them with iptables-save.";
        let message = "the only table is one of iptables-nft, not kube-proxy's".to_owned();
        return Err(vec![((1, 1), message, help)]);
    }
    Ok(Dump::Nftables(parsed.rules))
}
