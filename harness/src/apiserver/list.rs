//! Responses to list requests.

use std::iter;
use std::sync::Arc;

use serde_json::Value;

use super::api::Api;
use super::body::{self, Body, PART};
use super::object::Stored;
use super::query::{Page, Query};
use super::resource::Endpoint;
use super::status::Rejection;
use super::store::Unknown;

/// Creates the response to a list request.
pub(super) fn list(api: &Api, end: Endpoint, namespace: &str, query: &Query) -> Result<Body, Rejection> {
    let (version, objects) = snapshot(api, end, namespace, query)?;
    let selected = objects.into_iter().filter(|stored| {
        let content = &stored.content;
        query.selector.selects(&content.labels, &content.fields)
    });
    let mut selected: Vec<Arc<Stored>> = match &query.page {
        Some(Page { after, .. }) => selected.filter(|stored| is_after(stored, after)).collect(),
        None => selected.collect(),
    };
    let left = query.limit.map_or(0, |limit| selected.len().saturating_sub(limit));
    selected.truncate(selected.len() - left);
    let next = selected.last().filter(|_| left > 0).map(|last| {
        let key = &last.content.key;
        Page { version: Some(version), after: (key.namespace.clone(), key.name.clone()) }.token()
    });
    // As in the API server, the remaining items are counted only without selectors.
    let remaining = next.as_ref().filter(|_| query.selector.is_everything()).map(|_| left);
    Ok(body::written(parts(end, head(end, version, next, remaining), selected)))
}

fn is_after(stored: &Stored, (namespace, name): &(String, String)) -> bool {
    let key = &stored.content.key;
    (&key.namespace, &key.name) > (namespace, name)
}

fn snapshot(api: &Api, end: Endpoint, namespace: &str, query: &Query) -> Result<(u64, Vec<Arc<Stored>>), Rejection> {
    let newest = || api.store.objects(end.index, namespace);
    let asked = match &query.page {
        Some(Page { version, .. }) => *version,
        None => query.version.filter(|version| *version > 0),
    };
    let Some(version) = asked else { return Ok(newest()) };
    let exact = query.exact || query.page.is_some();
    if !exact {
        let (current, objects) = newest();
        return if version > current {
            Err(Rejection::too_large_version(version, current))
        } else {
            Ok((current, objects))
        };
    }
    let objects =
        api.store.objects_at(end.index, namespace, version).map_err(|unknown| match (unknown, &query.page) {
            (Unknown::Future(current), _) => Rejection::too_large_version(version, current),
            (Unknown::Compacted(_), Some(page)) => {
                Rejection::expired_page(Page { version: None, after: page.after.clone() }.token())
            }
            (Unknown::Compacted(oldest), None) => Rejection::expired(format!(
                "The resourceVersion for the provided list is too old: {version} ({oldest})"
            )),
        })?;
    Ok((version, objects))
}

fn head(end: Endpoint, version: u64, next: Option<String>, remaining: Option<usize>) -> Vec<u8> {
    let mut metadata = serde_json::Map::from_iter([("resourceVersion".to_owned(), Value::from(version.to_string()))]);
    metadata.extend(next.map(|token| ("continue".to_owned(), token.into())));
    metadata.extend(remaining.map(|count| ("remainingItemCount".to_owned(), count.into())));
    let (kind, api_version) = (end.resource().kind, end.served.api_version());
    let metadata = Value::Object(metadata);
    format!("{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[")
        .into_bytes()
}

/// Returns the text of a list, in parts that are generated when they are sent.
fn parts(end: Endpoint, head: Vec<u8>, objects: Vec<Arc<Stored>>) -> impl Iterator<Item = Vec<u8>> {
    let mut head = Some(head);
    let mut objects = objects.into_iter().enumerate().peekable();
    iter::from_fn(move || {
        let mut part = match head.take() {
            Some(head) => head,
            None => {
                objects.peek()?;
                Vec::with_capacity(PART * 5 / 4)
            }
        };
        while part.len() < PART {
            let Some((index, stored)) = objects.next() else { break };
            part.extend((index > 0).then_some(b','));
            stored.write(end.served, stored.version, &mut part);
        }
        if objects.peek().is_none() {
            part.extend_from_slice(b"]}");
        }
        Some(part)
    })
}
