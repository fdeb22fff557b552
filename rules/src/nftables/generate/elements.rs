//! Elements of the sets and maps that services share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::super::Verdict;
use super::super::{Element, Key};
use super::Unsupported;

/// Elements that services add to sets and maps.
#[derive(Default)]
pub(super) struct Elements {
    pub(super) hairpins: BTreeSet<Vec<Key>>,
    pub(super) cluster_ips: BTreeSet<IpAddr>,
    pub(super) service_ips: VerdictMap,
    pub(super) service_node_ports: VerdictMap,
    pub(super) no_endpoint_services: VerdictMap,
    pub(super) no_endpoint_node_ports: VerdictMap,
    pub(super) firewall_ips: VerdictMap,
}

/// The elements of a map, sorted.
#[derive(Default)]
pub(super) struct VerdictMap(BTreeMap<Vec<Key>, (Verdict, Option<Arc<str>>)>);

impl VerdictMap {
    /// Adds an element. The same one may be added again.
    ///
    /// # Errors
    ///
    /// [`Unsupported::Collision`] if the key has another verdict already.
    pub(super) fn add(
        &mut self,
        key: Vec<Key>,
        verdict: Verdict,
        comment: Option<Arc<str>>,
    ) -> Result<(), Unsupported> {
        let value = (verdict, comment);
        match self.0.get(&key) {
            Some(there) if *there != value => {
                let at = key.iter().map(show_key).collect::<Vec<_>>().join(" . ");
                Err(Unsupported::Collision { at, first: show(there), second: show(&value) })
            }
            _ => {
                self.0.insert(key, value);
                Ok(())
            }
        }
    }

    pub(super) fn into_elements(self) -> Vec<Element> {
        let elements = self.0.into_iter();
        elements.map(|(key, (verdict, comment))| Element { key, comment, verdict: Some(verdict) }).collect()
    }
}

fn show_key(key: &Key) -> String {
    match key {
        Key::Address(address) => address.to_string(),
        Key::Addresses(range) => range.to_string(),
        Key::Protocol(protocol) => protocol.to_string(),
        Key::Port(port) => port.to_string(),
    }
}

/// Returns the service port of an element, by its comment or chain.
fn show((verdict, comment): &(Verdict, Option<Arc<str>>)) -> String {
    match (comment, verdict) {
        (Some(comment), _) => comment.to_string(),
        (None, Verdict::Goto(chain) | Verdict::Jump(chain)) => chain.to_string(),
        (None, Verdict::Accept | Verdict::Drop | Verdict::Return) => "another".to_owned(),
    }
}
