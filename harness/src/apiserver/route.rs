//! Paths of requests.

use super::resource::Endpoint;

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route<'a> {
    Health,
    /// A discovery document.
    Discovery(Discovery<'a>),
    /// The objects of a resource, in one namespace or (empty) in all.
    Collection {
        target: Target<'a>,
        namespace: &'a str,
    },
    /// An object.
    Object {
        target: Target<'a>,
        namespace: &'a str,
        name: &'a str,
    },
}

/// A document that describes the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Discovery<'a> {
    /// `/version`: the release.
    Version,
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: all other groups.
    Groups,
    /// `/apis/discovery.k8s.io`.
    Group(&'a str),
    /// `/api/v1`, `/apis/discovery.k8s.io/v1`: the resources of a group version.
    Resources { group: &'a str, version: &'a str },
}

/// The resource of a path, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target<'a> {
    group: &'a str,
    version: &'a str,
    plural: &'a str,
}

impl Target<'_> {
    /// Returns the resource, if it is served.
    pub(super) fn endpoint(self) -> Option<Endpoint> {
        Endpoint::from_path(self.group, self.version, self.plural)
    }
}

impl<'a> Route<'a> {
    /// Parses a path; `None` for one that no API server has.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        Some(match segments.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["version"] => Self::Discovery(Discovery::Version),
            ["api"] => Self::Discovery(Discovery::CoreVersions),
            ["apis"] => Self::Discovery(Discovery::Groups),
            ["api", version, rest @ ..] => return Self::within("", version, rest),
            ["apis", group] => Self::Discovery(Discovery::Group(group)),
            ["apis", group, version, rest @ ..] => return Self::within(group, version, rest),
            _ => return None,
        })
    }

    fn within(group: &'a str, version: &'a str, rest: &[&'a str]) -> Option<Self> {
        let target = |plural| Target { group, version, plural };
        Some(match *rest {
            [] => Self::Discovery(Discovery::Resources { group, version }),
            ["namespaces", namespace, plural] => Self::Collection { target: target(plural), namespace },
            ["namespaces", namespace, plural, name] => Self::Object { target: target(plural), namespace, name },
            [plural] => Self::Collection { target: target(plural), namespace: "" },
            [plural, name] => Self::Object { target: target(plural), namespace: "", name },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const SLICES: Target<'_> = Target { group: "discovery.k8s.io", version: "v1", plural: "endpointslices" };
    const NODES: Target<'_> = Target { group: "", version: "v1", plural: "nodes" };

    #[rstest]
    #[case("/readyz/ping", Route::Health)]
    #[case("/api/v1", Route::Discovery(Discovery::Resources { group: "", version: "v1" }))]
    #[case("/apis/discovery.k8s.io/v1/endpointslices", Route::Collection { target: SLICES, namespace: "" })]
    #[case(
        "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/",
        Route::Collection { target: SLICES, namespace: "a" }
    )]
    #[case(
        "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/web",
        Route::Object { target: SLICES, namespace: "a", name: "web" }
    )]
    #[case("/api/v1/nodes/n1", Route::Object { target: NODES, namespace: "", name: "n1" })]
    fn paths(#[case] path: &str, #[case] route: Route<'_>) {
        assert_eq!(Route::parse(path), Some(route));
    }

    #[rstest]
    #[case("/")]
    #[case("/api/v1/nodes/n1/status/x")]
    fn no_paths(#[case] path: &str) {
        assert_eq!(Route::parse(path), None);
    }
}
