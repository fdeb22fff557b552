//! Failures as the API reports them: `Status` objects.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use serde_json::Value;
use svclab_rules::cluster::objects::FieldError;

use super::resource::Endpoint;

/// A rejected request, with its `Status`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rejection(Box<Status>);

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message.as_deref().unwrap_or_default())
    }
}

impl Rejection {
    /// Returns the `Status` object.
    pub(super) fn status(&self) -> &Status {
        &self.0
    }

    /// Returns the HTTP status code.
    pub(super) fn code(&self) -> u16 {
        self.0.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500)
    }

    fn new(code: i32, reason: &str, message: impl Into<String>) -> Self {
        Self(Box::new(Status {
            code: Some(code),
            message: Some(message.into()),
            reason: Some(reason.to_owned()),
            status: Some("Failure".to_owned()),
            ..Status::default()
        }))
    }

    fn about(mut self, end: Endpoint, name: &str) -> Self {
        self.0.details = Some(StatusDetails {
            group: (!end.served.group.is_empty()).then(|| end.served.group.to_owned()),
            kind: Some(end.resource().plural.to_owned()),
            name: (!name.is_empty()).then(|| name.to_owned()),
            ..StatusDetails::default()
        });
        self
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(super) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(super) fn not_found(end: Endpoint, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", qualified(end))).about(end, name)
    }

    pub(super) fn already_exists(end: Endpoint, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(end))).about(end, name)
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    pub(super) fn not_acceptable() -> Self {
        Self::new(406, "NotAcceptable", "only the following media types are accepted: application/json")
    }

    pub(super) fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    pub(super) fn too_many_watches(limit: usize) -> Self {
        let message = format!(
            "the server has received too many requests and has asked us to try again later: {limit} watches are open"
        );
        let mut rejection = Self::new(429, "TooManyRequests", message);
        rejection.0.details = Some(StatusDetails { retry_after_seconds: Some(1), ..StatusDetails::default() });
        rejection
    }

    /// The requested version is compacted: the client must list again.
    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The same for a page of a list, with a token that continues with the newest version.
    pub(super) fn expired_page(token: String) -> Self {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
        let mut rejection = Self::expired(message);
        rejection.0.metadata.continue_ = Some(token);
        rejection
    }

    /// The requested version does not exist yet.
    pub(super) fn too_large_version(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut rejection = Self::new(504, "Timeout", message);
        let cause = StatusCause {
            field: None,
            message: Some("Too large resource version".to_owned()),
            reason: Some("ResourceVersionTooLarge".to_owned()),
        };
        let causes = Some(vec![cause]);
        rejection.0.details = Some(StatusDetails { causes, retry_after_seconds: Some(1), ..StatusDetails::default() });
        rejection
    }

    /// The parameters of a request contradict each other.
    pub(super) fn invalid_options(field: &str, message: &str) -> Self {
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: Forbidden: {message}");
        Self::new(422, "Invalid", message)
    }

    /// The value of `dryRun` is not `All`.
    pub(super) fn invalid_dry_run(given: &str) -> Self {
        let message = format!("dryRun: Unsupported value: \"{given}\": supported values: \"All\"");
        Self::new(422, "Invalid", message)
    }

    /// The body is not an object of the kind.
    pub(super) fn undecodable(end: Endpoint, path: &str, error: &str) -> Self {
        let (kind, version) = (end.resource().kind, end.served.version);
        Self::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {path}: {error}"))
    }

    /// The object has invalid fields.
    pub(super) fn invalid(end: Endpoint, object: &Value, errors: &[FieldError]) -> Self {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let causes: Vec<Cause> = errors.iter().map(|error| Cause::new(object, error)).collect();
        let listed = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>();
        let listed = if listed.len() == 1 { listed.concat() } else { format!("[{}]", listed.join(", ")) };
        let kind = match end.served.group {
            "" => end.resource().kind.to_owned(),
            group => format!("{}.{group}", end.resource().kind),
        };
        let mut rejection =
            Self::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {listed}")).about(end, name);
        if let Some(details) = &mut rejection.0.details {
            details.kind = Some(end.resource().kind.to_owned());
            details.causes = Some(causes.into_iter().map(StatusCause::from).collect());
        }
        rejection
    }
}

/// `services`, or `endpointslices.discovery.k8s.io`.
fn qualified(end: Endpoint) -> String {
    match end.served.group {
        "" => end.resource().plural.to_owned(),
        group => format!("{}.{group}", end.resource().plural),
    }
}

struct Cause {
    field: String,
    reason: &'static str,
    message: String,
}

impl Cause {
    fn new(object: &Value, error: &FieldError) -> Self {
        let value = at_path(object, &error.path);
        let (reason, message) = match value {
            None | Some(Value::Null) => ("FieldValueRequired", format!("Required value: {}", error.message)),
            Some(value) => ("FieldValueInvalid", format!("Invalid value: {value}: {}", error.message)),
        };
        Self { field: error.path.clone(), reason, message }
    }
}

impl From<Cause> for StatusCause {
    fn from(cause: Cause) -> Self {
        Self { field: Some(cause.field), message: Some(cause.message), reason: Some(cause.reason.to_owned()) }
    }
}

/// Returns the value at a path such as `spec.ports[0].nodePort`.
fn at_path<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, step| {
        let mut parts = step.split('[');
        let member = value.get(parts.next()?)?;
        parts.try_fold(member, |value, index| value.get(index.strip_suffix(']')?.parse::<usize>().ok()?))
    })
}
