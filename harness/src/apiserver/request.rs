//! Handling of requests.

use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, Response};
use serde_json::Value;

use super::activity::Activity;
use super::api::Api;
use super::body::{self, Body};
use super::object::Key;
use super::query::{Effect, Query};
use super::resource::Endpoint;
use super::route::{Route, Target};
use super::status::Rejection;
use super::write::Change;
use super::{discovery, list, protobuf, watch, write};

const JSON: &str = "application/json";

/// Maximum size of a request's body.
const BODY: usize = 1 << 20;

/// The media types of patches. A strategic merge patch differs from a merge patch only in lists that have a merge key and in `$patch`
/// directives. Only Events can be patched, and the patches of client-go's event recorder have neither.
const PATCHES: [&str; 2] = ["application/merge-patch+json", "application/strategic-merge-patch+json"];

/// Responds to a request of a listener's client.
pub(super) async fn respond(api: Arc<Api>, activity: Arc<Activity>, request: Request<Incoming>) -> Response<Body> {
    match served(&api, &activity, request).await {
        Ok(response) => response,
        Err(rejection) => body::rejected(&rejection),
    }
}

async fn served(
    api: &Arc<Api>,
    activity: &Arc<Activity>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Rejection> {
    let path = request.uri().path().to_owned();
    match Route::parse(&path).ok_or_else(Rejection::no_such_path)? {
        Route::Health => Ok(body::text("ok")),
        _ if !accepts_json(request.headers()) => Err(Rejection::not_acceptable()),
        Route::Discovery(requested) => match discovery::document(requested) {
            None => Err(Rejection::no_such_path()),
            Some(_) if request.method() != Method::GET => Err(Rejection::method_not_allowed()),
            Some(document) => Ok(body::value(200, &document)),
        },
        Route::Collection { target, namespace } => {
            let end = endpoint(target, namespace)?;
            match *request.method() {
                Method::GET => read(api, activity, end, namespace, request.uri().query().unwrap_or_default()),
                Method::POST => create(api, end, namespace, request).await,
                _ => Err(Rejection::method_not_allowed()),
            }
        }
        Route::Object { target, namespace, name } => {
            let end = endpoint(target, namespace)?;
            let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
            match *request.method() {
                Method::GET => {
                    let stored = api.store.get(end.index, &key).ok_or_else(|| Rejection::not_found(end, name))?;
                    Ok(body::object(200, end, &stored))
                }
                Method::PATCH | Method::PUT if end.resource().writable => update(api, end, &key, request).await,
                _ => Err(Rejection::method_not_allowed()),
            }
        }
    }
}

/// Returns the resource of a path, if it is served and can be in the namespace.
fn endpoint(target: Target<'_>, namespace: &str) -> Result<Endpoint, Rejection> {
    let end = target.endpoint().filter(|end| end.resource().namespaced || namespace.is_empty());
    end.ok_or_else(Rejection::no_such_path)
}

/// Lists or watches a collection.
fn read(
    api: &Arc<Api>,
    activity: &Arc<Activity>,
    end: Endpoint,
    namespace: &str,
    query: &str,
) -> Result<Response<Body>, Rejection> {
    let query = Query::parse(query, end.resource())?;
    if query.watch {
        return Ok(body::json(200, watch::watch(api, end, namespace.to_owned(), query, activity)?));
    }
    let listed = list::list(api, end, namespace, &query)?;
    activity.listed(end.index);
    Ok(body::json(200, listed))
}

async fn create(
    api: &Api,
    end: Endpoint,
    namespace: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Rejection> {
    let effect = Effect::parse(request.uri().query().unwrap_or_default())?;
    let accepted: &[&str] = if end.resource().writable { &[JSON, protobuf::MEDIA] } else { &[JSON] };
    write::create(api, end, namespace, sent(request, end, accepted).await?, effect)
}

async fn update(api: &Api, end: Endpoint, key: &Key, request: Request<Incoming>) -> Result<Response<Body>, Rejection> {
    let effect = Effect::parse(request.uri().query().unwrap_or_default())?;
    let change = if request.method() == Method::PATCH {
        Change::Merge(sent(request, end, &PATCHES).await?)
    } else {
        Change::Replace(sent(request, end, &[JSON]).await?)
    };
    write::update(api, end, key, change, effect)
}

/// Returns whether a client accepts JSON. Responses are never protobuf: Kubernetes clients accept both.
fn accepts_json(headers: &HeaderMap) -> bool {
    let plain = |range: &str| {
        let mut parameters = range.split(';').map(str::trim);
        let media = parameters.next().unwrap_or_default().to_ascii_lowercase();
        // `as=Table` and `as=PartialObjectMetadata` request other objects; such clients also accept plain ones if they list them.
        let transformed = parameters.any(|parameter| parameter.starts_with("as="));
        matches!(media.as_str(), "application/json" | "application/*" | "*/*") && !transformed
    };
    let mut given = headers.get_all(ACCEPT).iter().peekable();
    given.peek().is_none() || given.any(|value| value.to_str().is_ok_and(|text| text.split(',').any(plain)))
}

/// Parses the object that a client sent, in one of the media types.
async fn sent(request: Request<Incoming>, end: Endpoint, accepted: &[&str]) -> Result<Value, Rejection> {
    let media = request.headers().get(CONTENT_TYPE).map_or(JSON, |value| value.to_str().unwrap_or_default());
    let media = media.split(';').next().unwrap_or_default().trim().to_owned();
    if !accepted.contains(&media.as_str()) {
        return Err(Rejection::unsupported_media_type(&accepted.join(", ")));
    }
    let body = Limited::new(request.into_body(), BODY).collect().await;
    let bytes = body.map_err(|_| Rejection::too_large(BODY))?.to_bytes();
    if media == protobuf::MEDIA {
        let event = protobuf::event(end.served.form, &bytes);
        return event.ok_or_else(|| Rejection::bad_request("the body is not an Event in protobuf"));
    }
    serde_json::from_slice(&bytes).map_err(|error| Rejection::bad_request(format!("the body is not JSON: {error}")))
}
