//! An ordered list of Services, indexed by name.

use std::collections::HashMap;

use k8s_openapi::api::core::v1 as core;
use svclab_rules::cluster::ObjectName;

use super::located::Located;
use super::services::object_name;

/// Services in insertion order, with unique names. A large cluster has ten thousand.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServiceList<'a> {
    list: Vec<Located<'a, core::Service>>,
    /// Positions in the list by name.
    places: HashMap<ObjectName, usize>,
}

impl<'a> ServiceList<'a> {
    /// Adds a Service, or replaces the one with the same name.
    pub(super) fn put(&mut self, service: Located<'a, core::Service>) {
        let name = object_name(&service.value);
        match self.places.get(&name) {
            Some(place) => self.list[*place] = service,
            None => {
                self.places.insert(name, self.list.len());
                self.list.push(service);
            }
        }
    }

    /// Returns the Service of this name.
    pub(super) fn get(&self, name: &ObjectName) -> Option<&Located<'a, core::Service>> {
        self.places.get(name).map(|place| &self.list[*place])
    }

    /// Removes a Service; returns false if there is none with this name.
    pub(super) fn remove(&mut self, name: &ObjectName) -> bool {
        let Some(gap) = self.places.remove(name) else { return false };
        self.list.remove(gap);
        self.places.values_mut().filter(|place| **place > gap).for_each(|place| *place -= 1);
        true
    }

    /// Iterates over all Services.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Located<'a, core::Service>> {
        self.list.iter()
    }

    /// Returns all Services mutably, to fill in missing fields; names must not change.
    pub(super) fn as_mut_slice(&mut self) -> &mut [Located<'a, core::Service>] {
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{At, Node};

    #[test]
    fn a_service_keeps_its_place_until_it_is_removed() {
        let (path, node) = (std::path::Path::new("s.yaml"), Node::empty());
        let service = |name: &str, kind: &str| {
            let mut object = core::Service::default();
            object.metadata.name = Some(name.to_owned());
            object.spec.get_or_insert_default().type_ = Some(kind.to_owned());
            Located::short(object, At::root(path, &node))
        };
        let name = |name: &str| ObjectName::new("default", name);
        let mut services = ServiceList::default();
        for (name, kind) in [("a", "1"), ("b", "2"), ("c", "3"), ("b", "4")] {
            services.put(service(name, kind));
        }
        let kinds = |services: &ServiceList<'_>| -> Vec<String> {
            services.iter().filter_map(|one| one.value.spec.as_ref()?.type_.clone()).collect()
        };
        assert_eq!(kinds(&services), ["1", "4", "3"]);
        assert!(services.remove(&name("a")) && !services.remove(&name("a")));
        assert_eq!(kinds(&services), ["4", "3"]);
        services.put(service("c", "5"));
        assert_eq!(kinds(&services), ["4", "5"]);
        assert!(services.get(&name("a")).is_none() && services.get(&name("b")).is_some());
    }
}
