//! Lines of kube-proxy's log about ports of Services and their endpoints: klog's text of all releases, and its JSON.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use svclab_rules::cluster::Family;

use super::is_json;
use crate::evidence::logged::{PortChange, PortEvent};

/// How messages about a new or changed frontend start: `Adding new service` up to 1.16, `Adding new service port` later.
const SET: [&str; 2] = ["Adding new service", "Updating existing service port"];

const REMOVED: &str = "Removing service port";
const ENDPOINTS: &str = "Setting endpoints for ";
const NO_ENDPOINTS: &str = "Removing endpoints for ";

/// What a line says of a port of a Service. A list of endpoints that cannot be read whole says nothing, not that there are none.
pub(super) fn event(line: &str) -> Option<PortEvent> {
    if is_json(line) { event_of_json(line) } else { event_of_text(line) }
}

/// `"Adding new service port" portName="a/b:c" servicePort="10.96.0.9:80/TCP"`; up to 1.19 `Adding new service port "a/b:c" at 10.96.0.9:80/TCP`.
/// `"Setting endpoints for service port name" portName="a/b:c" endpoints=["10.244.0.2:80"]`; up to 1.19 `Setting endpoints for "a/b:c" to [...]`.
fn event_of_text(line: &str) -> Option<PortEvent> {
    let after = |start: &str| line.split_once(start).map(|(_, rest)| rest);
    if let Some(rest) = SET.iter().find_map(|start| after(start)) {
        let at = value(rest, "servicePort=").or_else(|| Some(rest.split_once("\" at ")?.1))?;
        return of_port(named(rest)?, set(at)?);
    }
    if let Some(rest) = after(REMOVED) {
        return of_port(named(rest)?, PortChange::Removed);
    }
    if let Some(rest) = after(ENDPOINTS) {
        let (all, _) = rest.split_once('[')?.1.rsplit_once(']')?;
        let all = all.split([' ', ',']).map(|one| one.trim_matches('"')).filter(|one| !one.is_empty());
        return of_port(named(rest)?, endpoints(all.map(Some))?);
    }
    of_port(named(after(NO_ENDPOINTS)?)?, endpoints([])?)
}

/// `{"ts":1654528123.4,"caller":"proxy/service.go:304","msg":"Adding new service port","v":1,"portName":"a/b:c","servicePort":"10.96.0.9:80/TCP"}`
fn event_of_json(line: &str) -> Option<PortEvent> {
    if !line.contains("\"portName\":") {
        return None;
    }
    let fields: Value = serde_json::from_str(line).ok()?;
    let message = fields["msg"].as_str()?;
    let change = match message {
        _ if SET.iter().any(|start| message.starts_with(start)) => set(fields["servicePort"].as_str()?)?,
        _ if message.starts_with(REMOVED) => PortChange::Removed,
        _ if message.starts_with(ENDPOINTS) => endpoints(fields["endpoints"].as_array()?.iter().map(Value::as_str))?,
        _ if message.starts_with(NO_ENDPOINTS) => endpoints([])?,
        _ => return None,
    };
    of_port(fields["portName"].as_str()?, change)
}

/// The name of the service port in the rest of a line.
fn named(rest: &str) -> Option<&str> {
    value(rest, "portName=").or_else(|| rest.split('"').nth(1))
}

/// The value of a key, which is in quotes.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.split_once(key)?.1.strip_prefix('"')?.split('"').next()
}

/// An event of a port by its name, `NAMESPACE/NAME:PORT`.
fn of_port(name: &str, change: PortChange) -> Option<PortEvent> {
    let (namespace, own) = name.split_once('/')?;
    let (service, port) = own.split_once(':').unwrap_or((own, ""));
    let is_named = !namespace.is_empty() && !service.is_empty();
    is_named.then(|| PortEvent { service: format!("{namespace}/{service}"), port: port.to_owned(), change })
}

/// A frontend: `10.96.0.9:80/TCP`, and `fd00:10:96::9:80/TCP` without brackets.
fn set(text: &str) -> Option<PortChange> {
    let (at, protocol) = text.trim().split_once('/')?;
    let (ip, port) = at.rsplit_once(':')?;
    let ip: IpAddr = ip.trim_matches(['[', ']']).parse().ok()?;
    let protocol = protocol.split(|letter: char| !letter.is_ascii_alphanumeric()).next()?;
    Some(PortChange::Set(SocketAddr::new(ip, port.parse().ok()?), protocol.to_owned()))
}

/// Endpoints, all of which can be read.
fn endpoints<'t>(all: impl IntoIterator<Item = Option<&'t str>>) -> Option<PortChange> {
    let mut known = Vec::new();
    for one in all {
        known.push(one?.parse().ok()?);
    }
    // Each of kube-proxy's two proxiers lists the endpoints of its family.
    let family = known.first().map(|at: &SocketAddr| Family::of(at.ip()));
    let is_of_family = known.iter().all(|at| Some(Family::of(at.ip())) == family);
    is_of_family.then(|| PortChange::Endpoints(family, known.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::structured(
        r#""Adding new service port" portName="a/b:c" servicePort="10.96.0.9:80/TCP""#,
        Some("10.96.0.9:80 TCP")
    )]
    #[case::updated(r#"Updating existing service port "a/b:c" at 10.96.0.9:80/TCP"#, Some("10.96.0.9:80 TCP"))]
    #[case::older(r#"Adding new service port "a/b:c" at 10.96.0.9:80/UDP"#, Some("10.96.0.9:80 UDP"))]
    #[case::oldest(r#"Adding new service "a/b:c" at 10.96.0.9:80/TCP"#, Some("10.96.0.9:80 TCP"))]
    #[case::ipv6(
        r#""Adding new service port" portName="a/b:c" servicePort="fd00::9:80/TCP""#,
        Some("[fd00::9]:80 TCP")
    )]
    #[case::json(
        r#"{"ts":1654528123.4,"caller":"proxy/service.go:304","msg":"Adding new service port","v":1,"portName":"a/b:c","servicePort":"fd00::9:80/TCP"}"#,
        Some("[fd00::9]:80 TCP")
    )]
    #[case::endpoints(
        r#""Setting endpoints for service port name" portName="a/b:c" endpoints=["10.244.0.2:80","10.244.0.3:80"]"#,
        Some("10.244.0.2:80 10.244.0.3:80")
    )]
    #[case::older_endpoints(
        r#"Setting endpoints for "a/b:c" to [10.244.0.2:80 10.244.0.3:80]"#,
        Some("10.244.0.2:80 10.244.0.3:80")
    )]
    #[case::endpoints_of_ipv6(
        r#""Setting endpoints for service port name" portName="a/b:c" endpoints=["[fd00::2]:8080","[fd00::3]:8080"]"#,
        Some("[fd00::2]:8080 [fd00::3]:8080")
    )]
    #[case::older_endpoints_of_ipv6(r#"Setting endpoints for "a/b:c" to [[fd00::2]:8080]"#, Some("[fd00::2]:8080"))]
    #[case::endpoints_in_json(
        r#"{"ts":1654528123.4,"caller":"proxy/endpointslicecache.go:348","msg":"Setting endpoints for service port name","v":3,"portName":"a/b:c","endpoints":["[fd00::2]:8080"]}"#,
        Some("[fd00::2]:8080")
    )]
    #[case::none(r#"Setting endpoints for "a/b:c" to []"#, Some(""))]
    #[case::removed_endpoints(r#"Removing endpoints for "a/b:c""#, Some(""))]
    #[case::unreadable_endpoint(r#"Setting endpoints for "a/b:c" to [10.244.0.2:80 10.244.0...]"#, None)]
    #[case::cut_list(r#"Setting endpoints for "a/b:c" to [10.244.0.2:80 "#, None)]
    #[case::removed(r#""Removing service port" portName="a/b:c""#, Some("removed"))]
    #[case::removed_in_json(
        r#"{"ts":1654528123.4,"caller":"proxy/service.go:330","msg":"Removing service port","v":1,"portName":"a/b:c"}"#,
        Some("removed")
    )]
    #[case::no_name(r#""Removing service port" portName="b""#, None)]
    #[case::other(r#""Syncing iptables rules" ipFamily="IPv4""#, None)]
    #[case::other_json(
        r#"{"ts":1654528123.4,"caller":"iptables/proxier.go:123","msg":"Opened local port","portName":"a/b:c"}"#,
        None
    )]
    fn lines_show_ports_and_endpoints(#[case] line: &str, #[case] expected: Option<&str>) {
        let found = event(line);
        let words = found.as_ref().map(|event| match &event.change {
            PortChange::Set(at, protocol) => format!("{at} {protocol}"),
            PortChange::Removed => "removed".to_owned(),
            PortChange::Endpoints(_, all) => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        });
        assert_eq!(words.as_deref(), expected);
        let name = found.as_ref().map(|event| (event.service.as_str(), event.port.as_str()));
        assert_eq!(name, expected.map(|_| ("a/b", "c")));
    }
}
