//! Switches the kernel's rule tracing on and off.

use super::namespaces::Namespace;
use super::programs::{at_once, failed, run};
use super::{Lab, LabError};
use crate::topology::NetnsId;

/// The program that installs the rules which enable tracing.
const PROGRAM: &str = "nft";

/// The table of these rules. Its chains run before all others, set the trace bit of every packet and accept, so that no verdict depends on
/// them. nftables, iptables-nft and iptables-legacy report each rule that a packet with this bit matches.
pub(crate) const TRACING_TABLE: &str = "svclab-trace";

impl Lab {
    /// Switches the kernel's tracing of all packets in some namespaces on or off.
    ///
    /// # Errors
    ///
    /// [`LabError::Missing`] if nft is not installed, and [`LabError::Program`] if it fails.
    pub(crate) fn trace(&self, namespaces: &[NetnsId], on: bool) -> Result<(), LabError> {
        let text = if on { switch_on() } else { format!("delete table inet {TRACING_TABLE}\n") };
        let text = text.as_str();
        at_once(namespaces.iter().map(|netns| &self.namespaces[*netns]).map(|namespace| move || call(namespace, text)))
    }
}

fn switch_on() -> String {
    // Before `raw`, which has priority -300.
    let chain = |hook: &str| {
        format!(
            "add chain inet {TRACING_TABLE} {hook} {{ type filter hook {hook} priority -350; policy accept; }}\n\
             add rule inet {TRACING_TABLE} {hook} meta nftrace set 1\n"
        )
    };
    format!("add table inet {TRACING_TABLE}\n{}{}", chain("prerouting"), chain("output"))
}

fn call(namespace: &Namespace, text: &str) -> Result<(), LabError> {
    let output = run(namespace, PROGRAM, &["-f", "-"], text)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(namespace, PROGRAM, &said.lines().next().unwrap_or("no message")))
}
