//! Reading saved rules.

use std::path::Path;

use svclab_rules::cluster::{Cluster, Family, Node, ProxyMode};
use svclab_rules::compare::{Finding, compare_machines};
use svclab_rules::infer::{Inferred, Show};
use svclab_rules::iptables::{self, TableName};
use svclab_rules::nftables;
use svclab_rules::ruleset::Rules;

use crate::input::{Diagnostic, Diagnostics, Form, both_families, form, other_family};
use crate::scenario::Span;

/// The rules of a node, with at least one service port.
pub(super) struct Dump {
    rules: Rules,
    /// The families that have services.
    pub(super) families: Vec<Family>,
}

/// An error: line and column, message, help.
type Error = ((usize, usize), String, &'static str);

const WHOLE: &str = "Use the whole output of `iptables-save`, from the first `*TABLE` to the last `COMMIT`, or of `nft list ruleset`; \
    `svclab cascade` computes shares from parts and listings.";

impl Dump {
    /// Reads rules with at least one service port.
    pub(super) fn read(text: &str, path: &Path) -> Result<Self, Diagnostics> {
        Self::of(text).map_err(|errors| {
            let diagnostic = |((line, column), message, help): Error| {
                Diagnostic::new(Span { file: path.to_owned(), line, column }, message, help)
            };
            Diagnostics::of_text(errors.into_iter().map(diagnostic).collect(), path, text)
        })
    }

    fn of(text: &str) -> Result<Self, Vec<Error>> {
        let whole = |message: &str| vec![((1, 1), message.to_owned(), WHOLE)];
        let rules = match form(text) {
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
        if rules.iptables().is_some_and(|rules| rules.table(TableName::Nat).is_none()) {
            return Err(whole("table `nat`, where kube-proxy translates addresses, is missing"));
        }
        if rules.show().ports.is_empty() {
            let help = "Save the rules as root, on a node on which kube-proxy runs in this mode: rules for Services are in table \
                `nat`, in KUBE-SERVICES and KUBE-SVC-..., or in nft's table `kube-proxy`.";
            return Err(vec![((1, 1), "no rules for a Service found".to_owned(), help)]);
        }
        Ok(Self { families: families(&rules), rules })
    }

    /// What is inferred from the rules.
    pub(super) fn inferred(&self) -> Inferred {
        self.rules.show()
    }

    /// The proxy mode.
    pub(super) fn mode(&self) -> ProxyMode {
        self.rules.mode()
    }

    /// The differences from the rules that kube-proxy writes for a node; `None` where it cannot write any.
    pub(super) fn differences(&self, cluster: &Cluster, node: &Node) -> Option<Vec<Finding>> {
        let of_families = self.families.iter().map(|family| Rules::generate(cluster, node, *family).ok());
        let expected = of_families.collect::<Option<Vec<_>>>()?.into_iter().reduce(Rules::joined)?;
        Some(compare_machines(&expected, &self.rules).own)
    }
}

/// The families that have services.
fn families(rules: &Rules) -> Vec<Family> {
    if let Some(rules) = rules.iptables() {
        return vec![rules.family];
    }
    let has_services = |family: &Family| !rules.clone().of_family(*family).show().ports.is_empty();
    Family::ALL.into_iter().filter(has_services).collect()
}

/// Rules of the family in which more of them parse.
fn saved(text: &str) -> Result<Rules, Vec<Error>> {
    const HELP: &str = "Use the format of iptables-save.";
    iptables::parse_either_family(text).map(Rules::Iptables).map_err(|errors| {
        if let Some((line, family)) = other_family(text) {
            let (message, help) = both_families(family);
            return vec![((line, 1), message, help)];
        }
        errors.into_iter().map(|error| ((error.line, error.column), error.message, HELP)).collect()
    })
}

fn nft(text: &str) -> Result<Rules, Vec<Error>> {
    const HELP: &str = "Use the unmodified output of `nft list ruleset`, with or without `-j`.";
    let parsed = nftables::parse(text).map_err(|errors| {
        let in_text = errors.iter().map(nftables::ParseError::in_text);
        in_text.map(|(place, message)| (place, message, HELP)).collect::<Vec<_>>()
    })?;
    if parsed.rules.tables.is_empty() && parsed.others.iter().any(|other| other.name == "nat") {
        let help = "nft does not print all rules of iptables-nft. Save them with iptables-save.";
        let message = "the only table is one of iptables-nft, not kube-proxy's".to_owned();
        return Err(vec![((1, 1), message, help)]);
    }
    Ok(Rules::Nftables(parsed))
}
