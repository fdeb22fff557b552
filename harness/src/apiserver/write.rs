//! What clients may write: Events. All other objects are those that the server was given; a client can only try to create them
//! (`dryRun=All`), to see what the server would store.

use hyper::Response;
use serde_json::{Map, Value};

use super::Api;
use super::admission;
use super::body::{self, Body};
use super::object::Key;
use super::resource::Endpoint;
use super::status::Refusal;
use super::store;

/// The number of Events that are kept.
const EVENTS: usize = 1000;

/// Creates an object.
pub(super) fn create(
    api: &Api,
    end: Endpoint,
    namespace: &str,
    mut sent: Value,
    dry: bool,
) -> Result<Response<Body>, Refusal> {
    if !dry && !end.resource().writable {
        return Err(Refusal::method_not_allowed());
    }
    if !namespace.is_empty() && sent.get("metadata").is_some_and(Value::is_object) {
        let given = sent["metadata"].get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        if given != namespace {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refusal::bad_request(message));
        }
        sent["metadata"]["namespace"] = namespace.into();
    }
    let content = admission::admit_one(end, sent, &api.settings.node_ports)?;
    let name = content.key.name.clone();
    if dry {
        return Ok(body::object(201, end, &store::created(content, 0)));
    }
    let stored = api.store.create(content, EVENTS).ok_or_else(|| Refusal::already_exists(end, &name))?;
    Ok(body::object(201, end, &stored))
}

/// Replaces an object, or changes those of its fields that a patch names.
pub(super) fn update(api: &Api, end: Endpoint, key: &Key, sent: Value, patch: bool) -> Result<Response<Body>, Refusal> {
    let missing = || Refusal::not_found(end, &key.name);
    let object = if patch {
        let stored = api.store.get(end.index, key).ok_or_else(missing)?;
        let (metadata, mut object) = stored.content.parsed();
        end.served.form.encode(&mut object);
        object.insert("metadata".to_owned(), metadata.into());
        let mut object = Value::Object(object);
        merge(&mut object, sent);
        object
    } else {
        sent
    };
    let content = admission::admit_one(end, object, &api.settings.node_ports)?;
    if content.key != *key {
        return Err(Refusal::bad_request("the name of the object does not match the name on the URL"));
    }
    let stored = api.store.update(content).ok_or_else(missing)?;
    Ok(body::object(200, end, &stored))
}

/// Applies a JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(&name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}
