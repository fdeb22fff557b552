//! Conditions for packets from pods, or for others.

use super::super::{Addresses, Condition, Side};
use super::{Generator, Unsupported};
use crate::selection::LocalTraffic;

impl Generator<'_> {
    /// Returns the condition that a packet comes from a pod, or with `negated` that it does not; nothing if pods are not detected.
    pub(super) fn pod_condition(&self, negated: bool) -> Result<Option<Condition>, Unsupported> {
        let by_name = self.profile.nftables_interface_by_name();
        let condition = match &self.local {
            LocalTraffic::Unknown => return Ok(None),
            LocalTraffic::Source(range) => {
                Condition::Address { side: Side::Source, negated, value: Addresses::Prefix(*range) }
            }
            LocalTraffic::Interface(name) => Condition::input(by_name, negated, name.as_str()),
            LocalTraffic::InterfacePrefix(prefix) if by_name => Condition::input(true, negated, format!("{prefix}*")),
            LocalTraffic::InterfacePrefix(prefix) => {
                let prefix = prefix.clone();
                return Err(Unsupported::InterfacePrefix { release: self.profile, prefix });
            }
        };
        Ok(Some(condition))
    }
}
