//! Admission: from objects as users write them to objects as an API server stores them.
//!
//! In this order: `controllers` add namespaces, `defaults` fill in fields, `validate` rejects invalid objects, and `controllers` create
//! Endpoints from slices. Cluster IPs and node ports, including those for health checks, are not allocated: scenarios have them.

mod controllers;
mod defaults;
mod validate;

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::object::{Content, Key};
use super::resource::{Endpoint, RESOURCES};
use super::status::Rejection;

/// Admits the whole content of a server. Objects of kinds that are not served are dropped.
///
/// # Errors
///
/// A rejection for each object that the API server would not store.
pub(super) fn admit(objects: Vec<Value>, node_ports: &RangeInclusive<u16>) -> Result<Vec<Content>, Vec<Rejection>> {
    let served = |object| Endpoint::from_object(&object).and_then(|end| Some((end, stored_form(end, object)?)));
    let mut all: Vec<(Endpoint, Value)> = objects.into_iter().filter_map(served).collect();
    controllers::add_namespaces(&mut all);
    all.iter_mut().for_each(|(end, object)| defaults::fill(*end, object));
    let rejections = validate::all(&all, node_ports);
    if !rejections.is_empty() {
        return Err(rejections);
    }
    // One at a time: as values, objects take many times the memory of their text. Given Endpoints come later, and replace those created
    // from slices.
    let mut contents = controllers::endpoints(&all, content);
    contents.extend(all.into_iter().map(|(end, object)| content(end, object)));
    Ok(contents)
}

/// Admits one object that a client sends to an endpoint.
///
/// # Errors
///
/// The rejection of an object that the API server would not store.
pub(super) fn admit_one(end: Endpoint, object: Value, node_ports: &RangeInclusive<u16>) -> Result<Content, Rejection> {
    let mut object = stored_form(end, object).ok_or_else(|| Rejection::bad_request("the body is not a JSON object"))?;
    defaults::fill(end, &mut object);
    match validate::all(&[(end, object.clone())], node_ports).into_iter().next() {
        Some(rejection) => Err(rejection),
        None => Ok(content(end, object)),
    }
}

/// Returns an object in the first version of its resource, which is the stored one.
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

/// Returns a list in an object; empty if it is missing.
fn members<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let listed = object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
    listed.filter_map(Value::as_object_mut)
}

/// Returns the text at a pointer; empty if there is none.
fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the namespace of an object; `default` if none is given.
fn namespace_of(object: &Value) -> &str {
    match text_at(object, "/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    }
}

/// Returns namespace and name of a namespaced object.
fn key_of(object: &Value) -> Key {
    Key { namespace: namespace_of(object).to_owned(), name: text_at(object, "/metadata/name").to_owned() }
}

fn is_kind(end: Endpoint, kind: &str) -> bool {
    RESOURCES[end.index].kind == kind
}

#[cfg(test)]
mod tests;
