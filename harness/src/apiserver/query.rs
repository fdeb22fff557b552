//! The parameters of requests.

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use super::resource::Resource;
use super::selector::Selector;
use super::status::Rejection;

/// `ListOptions`, checked.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) watch: bool,
    pub(super) selector: Selector,
    /// The resourceVersion; `None` if none is given.
    pub(super) version: Option<u64>,
    pub(super) exact: bool,
    pub(super) limit: Option<usize>,
    pub(super) page: Option<Page>,
    pub(super) bookmarks: bool,
    /// `sendInitialEvents`, if it is given.
    pub(super) initial_events: Option<bool>,
    pub(super) timeout_seconds: Option<u64>,
}

/// The position in a list, from a `continue` token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Page {
    /// The version of the previous pages; `None` for the newest one.
    pub(super) version: Option<u64>,
    /// Namespace and name of the last sent object.
    pub(super) after: (String, String),
}

impl Page {
    /// Returns the token.
    pub(super) fn token(&self) -> String {
        BASE64URL_NOPAD.encode(&serde_json::to_vec(self).unwrap_or_default())
    }

    fn parse(token: &str) -> Option<Self> {
        serde_json::from_slice(&BASE64URL_NOPAD.decode(token.as_bytes()).ok()?).ok()
    }
}

impl Query {
    /// Parses the query of a request for a resource.
    pub(super) fn parse(text: &str, resource: &Resource) -> Result<Self, Rejection> {
        let parameters = Parameters::parse(text);
        let get = |name: &str| parameters.get(name);
        let selector = Selector::parse(
            get("labelSelector").unwrap_or_default(),
            get("fieldSelector").unwrap_or_default(),
            resource.fields,
        );
        let page = get("continue").map(|token| {
            Page::parse(token).ok_or_else(|| Rejection::bad_request(format!("continue key is not valid: {token}")))
        });
        let query = Self {
            watch: parameters.flag("watch")?,
            selector: selector.map_err(Rejection::bad_request)?,
            version: parameters.number("resourceVersion")?,
            exact: get("resourceVersionMatch") == Some("Exact"),
            limit: parameters
                .number("limit")?
                .filter(|limit| *limit > 0)
                .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            page: page.transpose()?,
            bookmarks: parameters.flag("allowWatchBookmarks")?,
            initial_events: get("sendInitialEvents").map(|_| parameters.flag("sendInitialEvents")).transpose()?,
            timeout_seconds: parameters.number("timeoutSeconds")?.filter(|seconds| *seconds > 0),
        };
        query.check(get("resourceVersionMatch")).map(|()| query)
    }

    /// `ValidateListOptions` of apimachinery's `pkg/apis/internalversion/validation`.
    fn check(&self, matching: Option<&str>) -> Result<(), Rejection> {
        let forbidden = |field: &str, message: &str| Err(Rejection::invalid_options(field, message));
        if matching.is_some_and(|matching| !matches!(matching, "Exact" | "NotOlderThan")) {
            return forbidden("resourceVersionMatch", "supported values: \"Exact\", \"NotOlderThan\", \"\"");
        }
        if self.watch {
            return match (matching, self.initial_events.is_some()) {
                (Some("NotOlderThan"), true) | (None, false) => Ok(()),
                (_, true) => forbidden(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ),
                (Some(_), false) => forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
            };
        }
        if self.initial_events.is_some() {
            return forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        match (matching, self.version) {
            (Some(_), _) if self.page.is_some() => {
                forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            }
            (Some(_), None) => forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (Some("Exact"), Some(0)) => forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (_, Some(version)) if version > 0 && self.page.is_some() => {
                Err(Rejection::bad_request("specifying resource version is not allowed when using continue"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a request to create or change an object is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Stored,
    /// `dryRun=All`: the response is the same, and nothing is stored.
    DryRun,
}

impl Effect {
    /// Parses the query of a write request.
    pub(super) fn parse(text: &str) -> Result<Self, Rejection> {
        match Parameters::parse(text).get("dryRun") {
            None => Ok(Self::Stored),
            Some("All") => Ok(Self::DryRun),
            Some(other) => Err(Rejection::invalid_dry_run(other)),
        }
    }
}

/// The parameters of a query, decoded.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn parse(text: &str) -> Self {
        Self(text.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    /// Returns the first value of a parameter, unless it is empty.
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(parameter, _)| parameter == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    fn flag(&self, name: &str) -> Result<bool, Rejection> {
        match self.get(name) {
            None => Ok(false),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
            Some(value) => Err(Rejection::bad_request(format!("{name}: invalid boolean \"{value}\""))),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Rejection> {
        let number = |value: &str| {
            let invalid = |_| Rejection::bad_request(format!("{name}: Invalid value: \"{value}\": not a number"));
            value.parse().map_err(invalid)
        };
        self.get(name).map(number).transpose()
    }
}

fn pair(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(name), decoded(value))
}

/// Decodes text in a URL's query.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let (byte, left) = match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => (u8::try_from(high * 16 + low).unwrap_or(b'%'), &tail[2..]),
            (b'+', ..) => (b' ', tail),
            _ => (*first, tail),
        };
        bytes.push(byte);
        rest = left;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::resource::{RESOURCES, index_of};
    use super::*;

    fn parse(text: &str) -> Result<Query, Rejection> {
        Query::parse(text, &RESOURCES[index_of("Service").unwrap()])
    }

    #[test]
    fn a_watch_of_a_client() {
        let query = parse(
            "allowWatchBookmarks=true&labelSelector=%21a%2Cb+in+%28c%29&resourceVersion=7&timeoutSeconds=9&watch=true",
        );
        let query = query.unwrap();
        assert!(query.watch && query.bookmarks && !query.selector.is_everything());
        assert_eq!((query.version, query.timeout_seconds, query.limit), (Some(7), Some(9), None));
    }

    #[test]
    fn a_token_is_read_as_written() {
        let page = Page { version: Some(7), after: ("default".to_owned(), "web".to_owned()) };
        let query = parse(&format!("limit=5&continue={}", page.token())).unwrap();
        assert_eq!((query.page, query.limit), (Some(page), Some(5)));
    }

    #[rstest]
    #[case::stored("fieldManager=a", Ok(Effect::Stored))]
    #[case::dry("fieldManager=a&dryRun=%41ll", Ok(Effect::DryRun))]
    #[case::unknown("dryRun=Some", Err(422))]
    fn effects(#[case] text: &str, #[case] effect: Result<Effect, u16>) {
        assert_eq!(Effect::parse(text).map_err(|rejection| rejection.code()), effect);
    }

    #[rstest]
    #[case::no_version("resourceVersionMatch=Exact", 422)]
    #[case::exact_any("resourceVersionMatch=Exact&resourceVersion=0", 422)]
    #[case::unknown_match("resourceVersionMatch=Older&resourceVersion=1", 422)]
    #[case::initial_events_of_list("sendInitialEvents=true", 422)]
    #[case::initial_events_without_match("watch=1&sendInitialEvents=true", 422)]
    #[case::match_of_watch("watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1", 422)]
    #[case::token("continue=x", 400)]
    #[case::number("limit=many", 400)]
    #[case::flag("watch=maybe", 400)]
    #[case::selector("labelSelector=a%20b", 400)]
    fn invalid(#[case] text: &str, #[case] code: u16) {
        assert_eq!(parse(text).unwrap_err().code(), code);
    }
}
