//! What lint and verify say of a pasted text, and the names of kube-proxy's chains in it.

use std::process::Command;

use svclab::evidence::read;
use svclab::lint::{Severity, lint};
use svclab_rules::cluster::Protocol;
use svclab_rules::iptables::{ChainHash, ChainKind};

use crate::unwrapped;

/// The output of `verify --no-lab -v` for a text, and its exit code.
pub(crate) fn verified(text: &str, options: &[&str]) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("note.md");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    let output = command.args(["verify", "--no-lab", "-v"]).args(options).arg(path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (unwrapped(&text), output.status.code())
}

/// The errors and warnings of a text.
pub(crate) fn grave(text: &str) -> Vec<String> {
    let found = lint(&read(text)).into_iter().filter(|finding| finding.severity != Severity::Info);
    found.map(|finding| format!("{}: {}", finding.id, finding.message)).collect()
}

/// The name of a tcp service port's chain.
pub(crate) fn chain(kind: ChainKind, name: &str) -> String {
    format!("{}{}", kind.prefix(), ChainHash::for_service_port(name, Protocol::Tcp))
}

/// The name of the chain of a tcp service port's endpoint.
pub(crate) fn endpoint(name: &str, to: &str) -> String {
    format!("{}{}", ChainKind::Endpoint.prefix(), ChainHash::for_endpoint(name, Protocol::Tcp, to))
}
