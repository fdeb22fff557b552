//! A node's rules as printed by the programs that list them.

use svclab_rules::cluster::{Family, ProxyMode};

use super::{Lab, LabError, programs};
use crate::topology::NetnsId;

/// nft's message about a table that does not exist.
const NO_TABLE: &str = "No such file or directory";

impl Lab {
    /// Lists a namespace's iptables tables, or kube-proxy's nftables table, of one family; empty if there are none.
    ///
    /// # Errors
    ///
    /// If the program is missing or fails.
    pub(crate) fn saved(&self, netns: NetnsId, mode: ProxyMode, family: Family) -> Result<String, LabError> {
        let namespace = &self.namespaces[netns];
        if mode == ProxyMode::Iptables {
            return programs::listing(namespace, self.backend.saver(family), &[]);
        }
        let name = match family {
            Family::Ipv4 => "ip",
            Family::Ipv6 => "ip6",
        };
        let output = programs::run(namespace, "nft", &["list", "table", name, "kube-proxy"], "")?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false if said.contains(NO_TABLE) => Ok(String::new()),
            false => Err(programs::failed(namespace, "nft", &said.trim())),
        }
    }
}
