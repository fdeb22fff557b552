//! A finding.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use svclab_rules::cluster::ProxyMode;
use svclab_rules::compare::Subject;
use svclab_rules::iptables::ChainKind;

use super::catalog::{self, Entry};
use super::port_names::port_name;
use super::severity::Severity;

/// Where a finding is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file among several.
    pub file: Option<Arc<str>>,
    /// The line, from 1.
    pub line: usize,
}

/// Something wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind, a name that stays the same.
    pub id: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// What was found: a fragment in lower case.
    pub message: String,
    /// What it does to which traffic: a fragment in lower case.
    pub effect: String,
    /// The mode of kube-proxy whose rules it is in.
    pub mode: ProxyMode,
    /// The chains, sets or Services that it is about, if others may find the same of them: of a Service without a port, all of its ports.
    pub(super) subjects: Vec<Subject>,
}

impl Finding {
    /// A finding of a kind of the catalog, with its usual severity.
    pub(super) fn new(id: &'static str, place: Place, message: impl Into<String>, effect: impl Into<String>) -> Self {
        let severity = catalog::entry(id).map_or(Severity::Info, |entry| entry.severity);
        let (message, effect) = (message.into(), effect.into());
        Self { id, severity, place, message, effect, mode: ProxyMode::Iptables, subjects: Vec::new() }
    }

    /// Sets what the finding is about.
    pub(super) fn about(self, subjects: impl IntoIterator<Item = Subject>) -> Self {
        Self { subjects: subjects.into_iter().collect(), ..self }
    }

    /// Whether the finding is about a subject, or about the Service of a service port.
    pub(super) fn is_about(&self, subject: &Subject) -> bool {
        let is_same = |own: &Subject| match (own, subject) {
            (Subject::Service(own), Subject::Service(name)) => {
                let (own, name) = (port_name(own), port_name(name));
                own == name || name.split_once(':').is_some_and(|(service, _)| service == own)
            }
            _ => own == subject,
        };
        self.subjects.iter().any(is_same)
    }

    /// Sets the severity.
    pub(super) fn graded(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }

    /// Sets the mode of the rules that the finding is about.
    pub(super) fn with_mode(self, mode: ProxyMode) -> Self {
        Self { mode, ..self }
    }

    /// What to ask a reporter for.
    pub fn ask(&self) -> Cow<'static, str> {
        let ask = self.entry().map(|entry| entry.ask).unwrap_or_default();
        match self.mode {
            ProxyMode::Iptables => ask.into(),
            ProxyMode::Nftables => ask
                .replace("`iptables-save`", "`nft list ruleset`")
                .replace(
                    "`iptables --version` on the host and in kube-proxy's image",
                    "`nft --version` in kube-proxy's image",
                )
                .into(),
        }
    }

    /// An issue that it would have explained. Those about iptables' programs explain nothing in nftables mode.
    pub fn issue(&self) -> Option<&'static str> {
        let is_of_mode = self.id != "sync-failed" || self.mode == ProxyMode::Iptables;
        self.entry().and_then(|entry| entry.issue).filter(|_| is_of_mode)
    }

    /// What is known of its kind.
    pub fn entry(&self) -> Option<&'static Entry> {
        catalog::entry(self.id)
    }
}

/// What a rule of a chain is about: the service port in the chain's name, or else the chain.
pub(super) fn subject_of_chain(table: &'static str, chain: &str) -> Subject {
    service_of_chain(chain).unwrap_or_else(|| Subject::Chain { table, name: chain.to_owned() })
}

/// The service port in the name of a chain that is not an endpoint's: by its hash in iptables, by its name in nftables.
pub(super) fn service_of_chain(chain: &str) -> Option<Subject> {
    if let Some((kind, hash)) = ChainKind::of(chain) {
        return (kind != ChainKind::Endpoint).then(|| Subject::Service(hash.to_owned()));
    }
    // `external-HASH-namespace/name/protocol/port`
    let (_, name) = chain.split_once('-')?.1.split_once('-')?;
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [namespace, name, _, ""] => Some(Subject::Service(format!("{namespace}/{name}"))),
        [namespace, name, _, port] => Some(Subject::Service(format!("{namespace}/{name}:{port}"))),
        _ => None,
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{file}:{}", self.line),
            None => write!(f, "line {}", self.line),
        }
    }
}
