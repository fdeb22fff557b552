//! The environment of a result, and the JSON envelope that names it.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svclab_rules::cluster::{Family, ProxyMode};

use crate::lab::{Backend, programs};
use crate::text;

/// The implementation of an iptables program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Implementation {
    /// iptables-nft.
    Nft,
    /// iptables-legacy, and every release before there were two implementations.
    Legacy,
}

impl Implementation {
    /// The name of the implementation.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nft => "iptables-nft",
            Self::Legacy => "iptables-legacy",
        }
    }

    /// The implementation of the system's `iptables-restore`; `None` if there is none.
    pub(crate) fn installed() -> Option<Self> {
        Iptables::of(Backend::System).map(|iptables| iptables.backend)
    }
}

/// The iptables that installs rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Iptables {
    /// The version: `1.8.9`.
    pub version: String,
    /// The implementation.
    pub backend: Implementation,
}

impl Iptables {
    fn of(backend: Backend) -> Option<Self> {
        let said = version(&programs::find(backend.program(ProxyMode::Iptables, Family::Ipv4))?)?;
        let implementation = if said.contains("nf_tables") { Implementation::Nft } else { Implementation::Legacy };
        Some(Self { version: first_word(version_number(&said)), backend: implementation })
    }
}

/// The machine and the programs that a result depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    /// The version of svclab.
    pub svclab_version: String,
    /// The release of the kernel, as `uname -r` prints it.
    pub kernel: String,
    /// The iptables that installs rules; `null` if it is not installed.
    pub iptables: Option<Iptables>,
    /// The version of nft; `null` if it is not installed.
    pub nft: Option<String>,
    /// The machine.
    pub machine: Machine,
}

/// The machine that a command runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The architecture, as `uname -m` prints it: `x86_64`.
    pub architecture: String,
    /// The number of CPUs that the process may use.
    pub cpus: usize,
}

impl Environment {
    /// The environment of a command that installs iptables rules with this backend.
    pub fn of(backend: Backend) -> Self {
        let (kernel, architecture) = match nix::sys::utsname::uname() {
            Ok(name) => (name.release().to_string_lossy().into_owned(), name.machine().to_string_lossy().into_owned()),
            Err(_) => Default::default(),
        };
        let nft = programs::find("nft").and_then(|file| version(&file));
        Self {
            svclab_version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel,
            iptables: Iptables::of(backend),
            nft: nft.map(|said| first_word(version_number(&said))),
            machine: Machine { architecture, cpus: std::thread::available_parallelism().map_or(1, usize::from) },
        }
    }

    /// A command's result in its envelope, as an indented JSON document.
    ///
    /// # Errors
    ///
    /// Those of the result's own serialization.
    pub fn envelop(&self, command: &str, result: impl Serialize) -> Result<String, serde_json::Error> {
        text::json(&Envelope { schema_version: SCHEMA_VERSION, command, environment: self, result })
    }
}

/// The version of the JSON output of all commands.
pub const SCHEMA_VERSION: u32 = 1;

/// A command's result with its environment.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'e, T> {
    /// The version of this format: 1. With the same number fields may be added; none is renamed, removed or changed in type or
    /// meaning. So readers ignore unknown fields, and reject other numbers.
    schema_version: u32,
    /// The command: `run`, `verify`, ...
    command: &'e str,
    #[serde(flatten)]
    environment: &'e Environment,
    /// The result of the command.
    result: T,
}

/// The first line that a program prints about its version.
pub(crate) fn version(file: &Path) -> Option<String> {
    programs::version(file)?.lines().next().map(str::to_owned)
}

/// The version and what follows it, without the program's name: `1.8.9 (nf_tables)`.
pub(crate) fn version_number(said: &str) -> &str {
    let is_version = |word: &&str| word.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit());
    let word = said.split_whitespace().find(is_version).unwrap_or(said);
    let start = said.find(word).unwrap_or_default();
    said[start..].trim_start_matches('v').trim_end()
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("iptables-restore v1.8.9 (nf_tables)", "1.8.9 (nf_tables)")]
    #[case("ip6tables-restore v1.6.1", "1.6.1")]
    #[case("nftables v1.0.6 (Lester Gooch #5)", "1.0.6 (Lester Gooch #5)")]
    #[case("conntrack v1.4.7 (conntrack-tools)", "1.4.7 (conntrack-tools)")]
    #[case("no number at all", "no number at all")]
    fn the_version_follows_the_name(#[case] said: &str, #[case] expected: &str) {
        assert_eq!(version_number(said), expected);
    }
}
