//! From objects as users write them to objects as an API server stores them.
//!
//! In this order: `controllers` add namespaces and slices, `defaults` fill fields in, `health_ports` are allocated, `validate` refuses
//! what the API's rules forbid, and `controllers` make Endpoints of slices. Cluster IPs and node ports are not allocated.

mod controllers;
mod defaults;
mod health_ports;
mod validate;

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

pub(super) use health_ports::HealthPorts;

use super::object::Content;
use super::resource::{Endpoint, RESOURCES};
use super::status::Refusal;

/// Admits the whole content of a server. Lists are taken apart, and objects of kinds that are not served are left out.
///
/// # Errors
///
/// A refusal for each object that the API server would not store.
pub(super) fn admit(
    objects: Vec<Value>,
    node_ports: &RangeInclusive<u16>,
    health: &mut HealthPorts,
) -> Result<Vec<Content>, Vec<Refusal>> {
    let mut all = Vec::with_capacity(objects.len());
    objects.into_iter().for_each(|object| take_apart(object, &mut all));
    controllers::complete(&mut all);
    all.iter_mut().for_each(|(end, object)| defaults::fill(*end, object));
    health.allocate(&mut all, node_ports);
    let refusals = validate::all(&all, node_ports);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    // One at a time: as values, objects take many times the memory of their text.
    let mut contents = controllers::endpoints(&all, content);
    contents.extend(all.into_iter().map(|(end, object)| content(end, object)));
    Ok(contents)
}

/// Admits one object that a client sends to an endpoint.
///
/// # Errors
///
/// The refusal of an object that the API server would not store.
pub(super) fn admit_one(end: Endpoint, object: Value, node_ports: &RangeInclusive<u16>) -> Result<Content, Refusal> {
    let mut object = stored_form(end, object).ok_or_else(|| Refusal::bad_request("the body is not a JSON object"))?;
    defaults::fill(end, &mut object);
    match validate::all(&[(end, object.clone())], node_ports).into_iter().next() {
        Some(refusal) => Err(refusal),
        None => Ok(content(end, object)),
    }
}

/// Adds an object, or those of a list; items of a typed list (`ServiceList`) do not repeat their kind.
fn take_apart(mut object: Value, all: &mut Vec<(Endpoint, Value)>) {
    let kind = text_at(&object, "/kind").strip_suffix("List").map(str::to_owned);
    let version = object.get("apiVersion").cloned().unwrap_or_default();
    let items = kind.as_ref().and_then(|_| object.get_mut("items")).map(Value::take);
    match (kind, items) {
        (Some(kind), Some(Value::Array(items))) => {
            for mut item in items {
                if let Some(item) = item.as_object_mut().filter(|item| !item.contains_key("kind")) {
                    item.insert("kind".to_owned(), kind.as_str().into());
                    item.insert("apiVersion".to_owned(), version.clone());
                }
                take_apart(item, all);
            }
        }
        _ => all.extend(Endpoint::of_object(&object).and_then(|end| Some((end, stored_form(end, object)?)))),
    }
}

/// An object as the first version of its resource has it, which is the one that is stored.
fn stored_form(end: Endpoint, mut object: Value) -> Option<Value> {
    let fields = object.as_object_mut()?;
    end.served.form.decode(fields);
    fields.insert("apiVersion".to_owned(), end.resource().served[0].api_version().into());
    Some(object)
}

fn content(end: Endpoint, object: Value) -> Content {
    let object = match object {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    Content::new(end.index, object)
}

/// A list of members of an object, empty where it is missing.
fn members<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let listed = object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
    listed.filter_map(Value::as_object_mut)
}

/// The text at a pointer, empty where there is none.
fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The namespace of an object, `default` where none is given.
fn namespace_of(object: &Value) -> &str {
    match text_at(object, "/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    }
}

fn is_kind(end: Endpoint, kind: &str) -> bool {
    RESOURCES[end.index].kind == kind
}

#[cfg(test)]
mod tests;
