//! Allocation of `healthCheckNodePort`.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;

use serde_json::Value;
use svclab_rules::cluster::objects::NODE_PORTS;

use super::super::object::Key;
use super::super::resource::Endpoint;
use super::{is_kind, key_of, text_at};

/// The ports that were allocated: a service keeps its own.
#[derive(Debug, Default, Clone)]
pub(in crate::apiserver) struct HealthPorts(BTreeMap<Key, u16>);

impl HealthPorts {
    /// Gives load balancers with `externalTrafficPolicy: Local` that have no port the highest that is free, outside of the usual range only
    /// when that has none: clients know that range alone.
    pub(super) fn allocate(&mut self, all: &mut [(Endpoint, Value)], range: &RangeInclusive<u16>) {
        let services = || all.iter().filter(|(end, _)| is_kind(*end, "Service")).map(|(_, object)| object);
        let mut taken: HashSet<u16> = services().flat_map(ports_of).collect();
        let lacking: HashSet<Key> = services().filter(|service| lacks_port(service)).map(key_of).collect();
        self.0.retain(|key, port| lacking.contains(key) && range.contains(port) && taken.insert(*port));
        let usual = NODE_PORTS.rev().filter(|port| range.contains(port));
        let others = range.clone().rev().filter(|port| !NODE_PORTS.contains(port));
        let mut free = usual.chain(others).filter(|port| !taken.contains(port));
        for (_, service) in all.iter_mut().filter(|(end, object)| is_kind(*end, "Service") && lacks_port(object)) {
            let key = key_of(service);
            let Some(port) = self.0.get(&key).copied().or_else(|| free.next()) else { continue };
            self.0.insert(key, port);
            service["spec"]["healthCheckNodePort"] = port.into();
        }
    }
}

fn lacks_port(service: &Value) -> bool {
    text_at(service, "/spec/type") == "LoadBalancer"
        && text_at(service, "/spec/externalTrafficPolicy") == "Local"
        && service.pointer("/spec/healthCheckNodePort").and_then(Value::as_i64).unwrap_or_default() == 0
}

/// The node ports that a service has.
fn ports_of(service: &Value) -> Vec<u16> {
    let listed = service.pointer("/spec/ports").and_then(Value::as_array).into_iter().flatten();
    let health = service.pointer("/spec/healthCheckNodePort");
    let numbers = listed.filter_map(|port| port.get("nodePort")).chain(health);
    numbers.filter_map(|number| u16::try_from(number.as_i64()?).ok()).collect()
}
