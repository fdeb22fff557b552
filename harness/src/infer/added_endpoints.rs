//! Endpoints that rules show, beside those that objects list.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use svclab_rules::infer::Inferred;

use super::accessors::{name, service_of};
use super::endpoint_tables::Unlisted;
use super::merge::{Extent, Lists, Objects};
use super::{Assumption, cut_tables};

impl Objects {
    /// Adds the EndpointSlices that rules show of Services that no list is of, and those that tables leave out.
    pub(super) fn add_endpoints(
        &mut self,
        slices: Vec<Value>,
        lists: &BTreeMap<String, Lists>,
        (inferred, extent): (&Inferred, &Extent<'_>),
        notes: &mut Vec<Assumption>,
    ) {
        let mut of_rules: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for slice in slices {
            of_rules.entry(service_of(&slice)).or_default().push(slice);
        }
        let services: BTreeMap<String, &Value> = self.services.iter().rev().map(|one| (name(one), one)).collect();
        let tables = grouped(self.endpoints.iter().map(|one| (service_of(one), one)));
        let ports = grouped(inferred.ports.iter().map(|port| (port.service.to_string(), port)));
        let (mut added, mut replaced) = (Vec::new(), HashSet::new());
        for (service, slices) in of_rules {
            let own = tables.get(&service).map_or(&[][..], Vec::as_slice);
            let slices = match lists.get(&service) {
                None => {
                    added.extend(slices);
                    continue;
                }
                Some(lists) if lists.are_completed() => slices,
                Some(lists) if lists.are_tables => {
                    let ports = ports.get(&service).into_iter().flatten().copied();
                    let unlisted = Unlisted::of(own, services.get(&service).copied(), ports, extent.is_here);
                    let Some(unlisted) = unlisted else { continue };
                    notes.extend(unlisted.words(&service));
                    unlisted.retained(slices)
                }
                Some(_) => continue,
            };
            added.extend(cut_tables::joined(slices, own, extent.made_up));
            replaced.insert(service);
        }
        self.endpoints.retain(|one| !replaced.contains(&service_of(one)));
        self.endpoints.extend(added);
    }
}

/// What belongs to each Service, in its order.
fn grouped<'v, T>(all: impl Iterator<Item = (String, &'v T)>) -> BTreeMap<String, Vec<&'v T>> {
    let mut groups: BTreeMap<String, Vec<&T>> = BTreeMap::new();
    all.for_each(|(service, one)| groups.entry(service).or_default().push(one));
    groups
}
