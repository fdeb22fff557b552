//! Reading of objects from files, and from the lists of a scenario or a step.

use std::collections::{BTreeMap, HashSet};

use svclab_rules::cluster::objects::{self, Reading};
use svclab_rules::cluster::{EndpointSlice, ObjectName};

use super::allocations;
use super::endpoints::service_of;
use super::findings::Findings;
use super::located::{Located, sound};
use super::manifests::{Manifests, Object};
use super::network::Network;
use super::objects::{Objects, Source};
use super::pods;
use super::services;
use crate::scenario::model::short_name;
use crate::yaml::{At, Place};

impl<'a> Objects<'a> {
    /// Adds the objects in files; pods are returned, because they may need addresses.
    pub(super) fn read_manifests(
        &mut self,
        source: &Source<'a>,
        manifests: &'a Manifests,
        findings: &mut Findings,
    ) -> Vec<Located<'a, pods::Draft>> {
        let mut drafts = Vec::new();
        let mut known: HashSet<ObjectName> = self.slices.iter().map(|slice| slice.value.name.clone()).collect();
        for file in &source.manifests {
            let (objects, complete) = manifests.objects(file, findings);
            self.complete &= complete;
            for object in objects {
                let place = object.with(());
                match object.value {
                    Object::Pod(pod) => drafts.push(pods::manifest(*pod, place.at)),
                    Object::Service(mut service) => {
                        if let Some(former) = self.services.get(&services::object_name(&service)) {
                            allocations::keep(&mut service, &former.value);
                        }
                        self.services.put(place.with(*service));
                    }
                    Object::Node(node) => {
                        let node = sound(&place, objects::node(&node), findings);
                        self.complete &= node.is_some();
                        self.nodes.extend(node.map(|node| place.with(node)));
                    }
                    Object::ServiceCidr(ranges) => {
                        self.complete &= sound(&place, objects::service_cidr(&ranges), findings).is_some();
                        let reason = "a scenario sets `cluster.serviceCIDR` instead";
                        findings.note(place.at, format!("ServiceCIDR ignored: {reason}"));
                    }
                    Object::EndpointSlice(slice) => match sound(&place, objects::endpoint_slice(&slice), findings) {
                        Some(Reading::Kept(slice)) => {
                            if !known.insert(slice.name.clone()) {
                                self.slices.retain(|other| other.value.name != slice.name);
                            }
                            self.slices.push(place.with(slice));
                        }
                        Some(Reading::Ignored(note)) => findings.note(place.at, note.to_string()),
                        None => {}
                    },
                    Object::Endpoints(endpoints) => {
                        let slices = sound(&place, objects::endpoints(&endpoints), findings).unwrap_or_default();
                        known.extend(slices.iter().map(|slice| slice.name.clone()));
                        self.put_mirrored(place, slices, findings);
                    }
                }
            }
        }
        drafts
    }

    /// Adds the slices of an Endpoints object, if the Service has no EndpointSlices.
    fn put_mirrored(&mut self, place: Located<'a, ()>, slices: Vec<EndpointSlice>, findings: &mut Findings) {
        let Some(service) = slices.first().map(|slice| slice.service.clone()) else { return };
        if self.slices.iter().any(|slice| slice.value.service == service) {
            findings.note(place.at, format!("Endpoints {service} ignored: its service has EndpointSlices"));
        } else {
            self.slices.extend(slices.into_iter().map(|slice| place.with(slice)));
        }
    }

    /// Applies Services and endpoints in short form to the existing objects.
    pub(super) fn lay_over(&mut self, source: &Source<'a>, network: &Network, findings: &mut Findings) {
        let mut seen: BTreeMap<ObjectName, At<'a>> = BTreeMap::new();
        for (index, raw) in source.services.iter().enumerate() {
            let at = source.at.field("services").item(index);
            let name = services::name_of(raw);
            if let Some(first) = seen.get(&name) {
                let error = at.field("name").error(format!("duplicate service `{}`", short_name(&name)));
                findings.add(error.help("Rename one of them.").also(first.field("name").label("first defined here")));
                continue;
            }
            seen.insert(name.clone(), at);
            if raw.delete == Some(true) {
                self.remove_service(&name, at, findings);
            } else {
                let mut object = self.services.get(&name).map(|known| known.value.clone()).unwrap_or_default();
                services::overlay(raw, &mut object);
                self.services.put(Located::short(object, at));
            }
        }
        services::complete(self.services.as_mut_slice(), network, &mut self.pool, findings);
        for (index, raw) in source.endpoints.iter().enumerate() {
            let at = source.at.field("endpoints").item(index);
            let name = service_of(raw);
            if raw.delete == Some(true) && (raw.pods.is_some() || raw.addresses.is_some() || raw.endpoints.is_some()) {
                let help = "Omit `delete`: the listed endpoints replace the previous ones.";
                findings.wrong(at.field("delete").key(), "an entry can either list endpoints or delete them", help);
            }
            if self.services.get(&name).is_some() {
                self.entries.push(Located::short(raw, at));
            } else if !(raw.delete == Some(true) && seen.contains_key(&name)) {
                // A step may list endpoints of a Service that it deletes.
                self.missing_service(&name, at.field("service"), findings);
            }
        }
    }

    fn remove_service(&mut self, name: &ObjectName, at: At<'_>, findings: &mut Findings) {
        if !self.services.remove(name) {
            self.missing_service(name, at.field("name"), findings);
        }
        self.entries.retain(|entry| service_of(entry.value) != *name);
        self.slices.retain(|slice| slice.value.service != *name);
    }
}
