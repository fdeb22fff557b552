//! `ip -j`: addresses, routes and rules, as the text has them.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::super::super::model::{Contents, Route};
use super::super::ip;

/// Whether the things of a list are interfaces, routes, or rules.
pub(super) fn is_list(items: &[Value]) -> bool {
    items.iter().any(|item| ["ifname", "dst", "dev"].iter().any(|key| item.get(key).is_some()) || is_rule(item))
}

/// `{"priority": 0, "src": "all", "table": "local"}`
pub(super) fn is_rule(item: &Value) -> bool {
    let has = |key: &str| item.get(key).is_some();
    has("priority") && has("src") && (has("table") || has("action") || has("goto"))
}

/// What a list says, each with the line of the text that it starts on, and which of them could not be read.
pub(super) fn contents(items: &[(Value, usize)]) -> (Contents, Vec<usize>) {
    if items.iter().any(|(item, _)| item.get("ifname").is_some()) {
        let all = items.iter().flat_map(|(item, _)| addresses(item)).filter(ip::is_own).collect();
        return (Contents::Addresses(all, items.len()), Vec::new());
    }
    if items.iter().any(|(item, _)| item.get("dst").is_none() || is_rule(item)) {
        return (Contents::Entries(items.len()), Vec::new());
    }
    let read: Vec<Option<Route>> = items.iter().map(|(item, line)| route(item, *line)).collect();
    let unread = (0..items.len()).filter(|at| read[*at].is_none()).collect();
    (Contents::Routes(read.into_iter().flatten().collect()), unread)
}

fn addresses(item: &Value) -> impl Iterator<Item = IpAddr> {
    let all = item["addr_info"].as_array().into_iter().flatten();
    all.filter_map(|own| own["local"].as_str()?.parse().ok())
}

fn route(item: &Value, line: usize) -> Option<Route> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let destination = item["dst"].as_str()?;
    let network = || destination.parse().ok().or_else(|| destination.parse::<IpAddr>().ok().map(IpNet::from));
    let to = if destination == "default" { None } else { Some(network()?) };
    let address = |value: &Value| value.as_str().and_then(|own| own.parse().ok());
    // `"via": {"family": "inet6", "host": "fe80::1"}`
    let via = address(&item["gateway"]).or_else(|| address(&item["via"]["host"]));
    let (device, source) = (word(&item["dev"]), address(&item["prefsrc"]));
    let kind = word(&item["type"]).unwrap_or_else(|| "unicast".to_owned());
    let text = text(&kind, destination, via, device.as_deref(), source);
    Some(Route { line, text, kind, to, via, device, source })
}

/// A route as `ip route` prints it.
fn text(kind: &str, destination: &str, via: Option<IpAddr>, device: Option<&str>, source: Option<IpAddr>) -> String {
    let mut text = if kind == "unicast" { destination.to_owned() } else { format!("{kind} {destination}") };
    text.extend(via.map(|via| format!(" via {via}")));
    text.extend(device.map(|device| format!(" dev {device}")));
    text.extend(source.map(|source| format!(" src {source}")));
    text
}
