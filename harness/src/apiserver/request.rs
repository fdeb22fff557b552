//! From a request to its response.

use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use hyper::{Method, Request, Response};
use serde_json::Value;

use super::Api;
use super::activity::Activity;
use super::body::{self, Body};
use super::object::Key;
use super::query::Query;
use super::resource::Endpoint;
use super::route::Route;
use super::status::Refusal;
use super::{discovery, list, protobuf, watch, write};

const JSON: &str = "application/json";

/// The largest body of a request.
const BODY: usize = 1 << 20;

/// Responds to a request of a listener's client.
pub(super) async fn respond(api: Arc<Api>, activity: Arc<Activity>, request: Request<Incoming>) -> Response<Body> {
    match served(&api, &activity, request).await {
        Ok(response) => response,
        Err(refusal) => body::refused(&refusal),
    }
}

async fn served(
    api: &Arc<Api>,
    activity: &Arc<Activity>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let path = request.uri().path().to_owned();
    let route = Route::parse(&path);
    match route {
        Route::Health => return Ok(body::text("ok")),
        Route::Unknown => return Err(Refusal::no_such_path()),
        _ if !accepts_json(request.headers()) => return Err(Refusal::not_acceptable()),
        _ => {}
    }
    let described = |value: Option<Value>| match value {
        Some(value) if request.method() == Method::GET => Ok(body::value(200, &value)),
        Some(_) => Err(Refusal::method_not_allowed()),
        None => Err(Refusal::no_such_path()),
    };
    let (target, namespace, name) = match route {
        Route::Collection { target, namespace } => (target, namespace, None),
        Route::Object { target, namespace, name } => (target, namespace, Some(name)),
        Route::Version => return described(Some(discovery::version())),
        Route::CoreVersions => return described(Some(discovery::core_versions())),
        Route::Groups => return described(Some(discovery::groups())),
        Route::Group(name) => return described(discovery::group(name)),
        Route::Resources { group, version } => return described(discovery::resources(group, version)),
        Route::Health | Route::Unknown => return Err(Refusal::no_such_path()),
    };
    let end = target.endpoint().ok_or_else(Refusal::no_such_path)?;
    if !end.resource().namespaced && !namespace.is_empty() {
        return Err(Refusal::no_such_path());
    }
    match (request.method().clone(), name) {
        (Method::GET, None) => collection(api, activity, end, namespace, request.uri().query().unwrap_or_default()),
        (Method::GET, Some(name)) => {
            let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
            let stored = api.store.get(end.index, &key).ok_or_else(|| Refusal::not_found(end, name))?;
            Ok(body::object(200, end, &stored))
        }
        (Method::POST, None) => {
            let dry = request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "dryRun=All"));
            let accepted: &[&str] = if end.resource().writable { &[JSON, protobuf::MEDIA] } else { &[JSON] };
            let sent = sent(request, end, accepted).await?;
            write::create(api, end, namespace, sent, dry)
        }
        (Method::PATCH | Method::PUT, Some(name)) if end.resource().writable => {
            let patch = request.method() == Method::PATCH;
            let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
            let patches = ["application/merge-patch+json", "application/strategic-merge-patch+json"];
            let sent = sent(request, end, if patch { &patches } else { &[JSON] }).await?;
            write::update(api, end, &key, sent, patch)
        }
        _ => Err(Refusal::method_not_allowed()),
    }
}

fn collection(
    api: &Arc<Api>,
    activity: &Arc<Activity>,
    end: Endpoint,
    namespace: &str,
    query: &str,
) -> Result<Response<Body>, Refusal> {
    let query = Query::parse(query, end.resource())?;
    if query.watch {
        return Ok(body::json(200, watch::watch(api, end, namespace.to_owned(), query, activity)?));
    }
    let listed = list::list(api, end, namespace, &query)?;
    activity.listed(end.index);
    Ok(body::json(200, listed))
}

/// Whether JSON is among the media types that a client accepts. Responses are never protobuf: clients of Kubernetes name both.
fn accepts_json(headers: &HeaderMap) -> bool {
    let plain = |range: &str| {
        let mut parameters = range.split(';').map(str::trim);
        let media = parameters.next().unwrap_or_default().to_ascii_lowercase();
        // `as=Table` and `as=PartialObjectMetadata` ask for other objects; those who ask take plain ones too, where they say so.
        let transformed = parameters.any(|parameter| parameter.starts_with("as="));
        matches!(media.as_str(), "application/json" | "application/*" | "*/*") && !transformed
    };
    let mut given = headers.get_all(ACCEPT).iter().peekable();
    given.peek().is_none() || given.any(|value| value.to_str().is_ok_and(|text| text.split(',').any(plain)))
}

/// The object that a client sent, in one of the media types.
async fn sent(request: Request<Incoming>, end: Endpoint, accepted: &[&str]) -> Result<Value, Refusal> {
    let media = request.headers().get(CONTENT_TYPE).map_or(JSON, |value| value.to_str().unwrap_or_default());
    let media = media.split(';').next().unwrap_or_default().trim().to_owned();
    if !accepted.contains(&media.as_str()) {
        return Err(Refusal::unsupported_media_type(&accepted.join(", ")));
    }
    let body = Limited::new(request.into_body(), BODY).collect().await;
    let bytes = body.map_err(|_| Refusal::too_large(BODY))?.to_bytes();
    if media == protobuf::MEDIA {
        let event = protobuf::event(end.served.form, &bytes);
        return event.ok_or_else(|| Refusal::bad_request("the body is not an Event in protobuf"));
    }
    serde_json::from_slice(&bytes).map_err(|error| Refusal::bad_request(format!("the body is not JSON: {error}")))
}
