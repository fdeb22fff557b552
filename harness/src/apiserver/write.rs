//! Write requests. Clients may write Events. All other objects are supplied by the lab; clients can only create them with `dryRun=All`, to
//! see what the server would store.

use std::sync::Arc;

use hyper::Response;
use serde_json::{Map, Value};

use super::admission;
use super::api::Api;
use super::body::{self, Body};
use super::object::Key;
use super::query::Effect;
use super::resource::Endpoint;
use super::status::Rejection;
use super::store;

/// Maximum number of stored Events.
const EVENTS: usize = 1000;

/// Creates an object.
pub(super) fn create(
    api: &Api,
    end: Endpoint,
    namespace: &str,
    mut sent: Value,
    effect: Effect,
) -> Result<Response<Body>, Rejection> {
    if effect == Effect::Stored && !end.resource().writable {
        return Err(Rejection::method_not_allowed());
    }
    if !namespace.is_empty() && sent.get("metadata").is_some_and(Value::is_object) {
        let given = sent["metadata"].get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        if given != namespace {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Rejection::bad_request(message));
        }
        sent["metadata"]["namespace"] = namespace.into();
    }
    let content = admission::admit_one(end, sent, &api.settings.node_ports)?;
    let exists = Rejection::already_exists(end, &content.key.name);
    let stored = match effect {
        Effect::DryRun if api.store.get(end.index, &content.key).is_some() => return Err(exists),
        Effect::DryRun => Arc::new(store::created(content, 0)),
        Effect::Stored => api.store.create(content, EVENTS).ok_or(exists)?,
    };
    Ok(body::object(201, end, &stored))
}

/// The change that a client sends for an existing object.
pub(super) enum Change {
    /// The whole object (`PUT`).
    Replace(Value),
    /// Some of its fields (`PATCH`).
    Merge(Value),
}

/// Replaces an object, or changes its fields by a patch.
pub(super) fn update(
    api: &Api,
    end: Endpoint,
    key: &Key,
    change: Change,
    effect: Effect,
) -> Result<Response<Body>, Rejection> {
    let missing = || Rejection::not_found(end, &key.name);
    let before = api.store.get(end.index, key).ok_or_else(missing)?;
    let object = match change {
        Change::Replace(object) => object,
        Change::Merge(patch) => {
            let (metadata, mut object) = before.content.parsed();
            end.served.form.encode(&mut object);
            object.insert("metadata".to_owned(), metadata.into());
            let mut object = Value::Object(object);
            merge(&mut object, patch);
            object
        }
    };
    let content = admission::admit_one(end, object, &api.settings.node_ports)?;
    if content.key != *key {
        return Err(Rejection::bad_request("the name of the object does not match the name on the URL"));
    }
    let stored = match effect {
        Effect::DryRun => Arc::new(store::changed(&before, content, before.version)),
        Effect::Stored => api.store.update(content).ok_or_else(missing)?,
    };
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
