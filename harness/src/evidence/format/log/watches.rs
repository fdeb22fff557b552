//! Lines of kube-proxy's log that say it does not get the Services or endpoints of the API server.

use super::super::super::line::Line;
use super::super::super::logged::{Complaint, Failure};

/// How client-go says that it gets no objects of a kind; up to 1.18 only the second way.
const STARTS: [&str; 3] = ["Failed to watch *", "Failed to list *", "failed to list *"];

/// The kinds of objects that rules are made of.
const KINDS: [&str; 3] = ["Service", "EndpointSlice", "Endpoints"];

/// Words of lines that kube-proxy writes and other clients of the API server do not.
const OF_PROXY: [&str; 6] =
    ["proxier.go:", "kube-proxy", "Syncing iptables rules", "SyncProxyRules", "syncProxyRules", "service port"];

/// Words of lines after which the objects are known again, or rules were written.
const LATER: [&str; 6] = [
    "Caches are synced",
    "Syncing iptables rules",
    "SyncProxyRules complete",
    "syncProxyRules took",
    "Adding new service",
    "Setting endpoints for ",
];

/// The failures to get objects that lines name. Other programs write the same lines, such as CoreDNS and kubelet: `is_of_proxy` says that these
/// are known to be kube-proxy's.
pub(super) fn failures(lines: &[Line<'_>], is_of_proxy: bool) -> Vec<Failure> {
    let has = |line: &Line<'_>, words: &[&str]| words.iter().any(|one| line.text.contains(one));
    let is_of_proxy = is_of_proxy || lines.iter().any(|line| has(line, &OF_PROXY));
    let last_success = lines.iter().rposition(|line| has(line, &LATER));
    let named = lines.iter().enumerate().filter_map(|(at, line)| {
        let (what, why) = failure(line.text.trim())?;
        let is_over = last_success.is_some_and(|success| at < success);
        let complaint = Complaint::Watch { is_of_proxy, is_over };
        Some(Failure { line: line.number, complaint, what: what.to_owned(), why: why.to_owned() })
    });
    named.collect()
}

/// What a line says that failed, and why: `Failed to watch *v1.EndpointSlice: failed to list *v1.EndpointSlice: Unauthorized`.
fn failure(text: &str) -> Option<(&str, &str)> {
    let start = STARTS.iter().filter_map(|start| text.find(start)).min()?;
    let (what, why) = text[start..].split_once(": ")?;
    let kind = what.rsplit('.').next()?;
    if !KINDS.contains(&kind) {
        return None;
    }
    // The kind is named again before the reason.
    let why = why.strip_prefix("failed to list ").and_then(|rest| Some(rest.split_once(": ")?.1)).unwrap_or(why);
    let why = why.split("\" logger=").next().unwrap_or(why).trim_end_matches(['"', '}']);
    Some((what, why))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::watch(
        "E0614 12:34:56.789012 1 reflector.go:150] k8s.io/client-go/informers/factory.go:150: Failed to watch *v1.EndpointSlice: failed to list *v1.EndpointSlice: Unauthorized",
        Some(("Failed to watch *v1.EndpointSlice", "Unauthorized"))
    )]
    #[case::structured(
        "E0614 12:34:56.789012 1 reflector.go:200] \"Failed to watch\" err=\"failed to list *v1.Service: Get \\\"https://10.0.0.1:6443/api\\\": connect: connection refused\" logger=\"UnhandledError\"",
        Some(("failed to list *v1.Service", "Get \\\"https://10.0.0.1:6443/api\\\": connect: connection refused"))
    )]
    #[case::older(
        "E0614 12:34:56.789012 1 reflector.go:126] k8s.io/client-go/informers/factory.go:133: Failed to list *v1.Endpoints: Unauthorized",
        Some(("Failed to list *v1.Endpoints", "Unauthorized"))
    )]
    #[case::other_kind(
        "E0614 12:34:56.789012 1 reflector.go:150] x.go:1: Failed to watch *v1.ConfigMap: Unauthorized",
        None
    )]
    #[case::other_line(
        "I0614 12:34:56.789012 1 shared_informer.go:320] Caches are synced for endpoint slice config",
        None
    )]
    fn kinds_and_reasons_are_read(#[case] line: &str, #[case] expected: Option<(&str, &str)>) {
        assert_eq!(failure(line), expected);
    }
}
