//! Bodies of responses.

use std::convert::Infallible;

use futures_util::stream;
use futures_util::{Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Response, StatusCode, header};
use serde::Serialize;

use super::object::Stored;
use super::resource::Endpoint;
use super::status::Rejection;

/// The body of a response, whole or streamed.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The approximate size of parts of streamed bodies.
pub(super) const PART: usize = 64 << 10;

/// Creates a response with a JSON body.
pub(super) fn json(code: u16, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// Creates a response with one value.
pub(super) fn value(code: u16, value: &impl Serialize) -> Response<Body> {
    json(code, whole(serde_json::to_vec(value).unwrap_or_default()))
}

/// Creates a response with one object, in a version of its group.
pub(super) fn object(code: u16, end: Endpoint, stored: &Stored) -> Response<Body> {
    let mut text = Vec::new();
    stored.write(end.served, stored.version, &mut text);
    json(code, whole(text))
}

/// Creates a plain text response.
pub(super) fn text(text: &'static str) -> Response<Body> {
    Response::new(whole(text.into()))
}

/// Creates the response for a rejected request.
pub(super) fn rejected(rejection: &Rejection) -> Response<Body> {
    let mut response = value(rejection.code(), rejection.status());
    if let Some(seconds) = rejection.status().details.as_ref().and_then(|details| details.retry_after_seconds) {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from(seconds));
    }
    response
}

/// Creates a body of known length.
pub(super) fn whole(bytes: Vec<u8>) -> Body {
    Full::new(Bytes::from(bytes)).boxed_unsync()
}

/// Creates a body from parts.
pub(super) fn streamed(parts: impl Stream<Item = Vec<u8>> + Send + 'static) -> Body {
    StreamBody::new(parts.map(|part| Ok(Frame::data(Bytes::from(part))))).boxed_unsync()
}

/// Creates a body from parts, each generated when the previous one has been sent.
pub(super) fn written(parts: impl Iterator<Item = Vec<u8>> + Send + 'static) -> Body {
    streamed(stream::iter(parts))
}
