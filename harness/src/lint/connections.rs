//! The connection table against rules, or against objects where no rule is shown.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use serde_json::Value;

use super::finding::{Finding, Place};
use super::objects::ready;
use super::view::View;
use crate::evidence::Connection;

/// An address and port of a Service.
struct Front {
    service: String,
    /// Any, where it is not known.
    port: Option<u16>,
    /// Its endpoints, where all of them are known.
    endpoints: BTreeSet<IpAddr>,
    /// What shows them.
    shown_in: &'static str,
}

/// Fronts by address and protocol.
type Fronts = HashMap<(IpAddr, String), Vec<Front>>;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    if view.connections.is_empty() {
        return Vec::new();
    }
    let mut fronts = of_rules(view);
    for (key, of_objects) in of_objects(view) {
        fronts.entry(key).or_insert(of_objects);
    }
    let finding = |(place, entry): &(Place, &Connection)| {
        let own = fronts.get(&(entry.original.destination, entry.protocol.clone()))?;
        let front = own.iter().find(|front| front.port.is_none() || front.port == entry.original.destination_port)?;
        judge(place, entry, front)
    };
    view.connections.iter().filter_map(finding).collect()
}

fn of_rules(view: &View<'_>) -> Fronts {
    let mut fronts = Fronts::new();
    for port in view.ports.iter().flatten() {
        for address in port.cluster_ips.iter().chain(&port.external_ips).chain(&port.load_balancer) {
            let endpoints = port.endpoints.iter().chain(&port.local).map(std::net::SocketAddr::ip);
            fronts.entry((*address, port.protocol.as_str().to_owned())).or_default().push(Front {
                service: port.service.to_string(),
                port: port.port,
                endpoints: endpoints.collect(),
                shown_in: "rules",
            });
        }
    }
    fronts
}

fn of_objects(view: &View<'_>) -> Fronts {
    let endpoints = ready(view);
    let mut fronts = Fronts::new();
    for (_, service) in view.objects_of_kind("Service") {
        let (metadata, spec) = (&service["metadata"], &service["spec"]);
        let Some(name) = metadata["name"].as_str() else { continue };
        let name = format!("{}/{name}", metadata["namespace"].as_str().unwrap_or("default"));
        let texts = |list: &Value| list.as_array().into_iter().flatten().cloned().collect::<Vec<_>>();
        let ingress = texts(&service["status"]["loadBalancer"]["ingress"]).into_iter().map(|one| one["ip"].clone());
        let listed = texts(&spec["clusterIPs"]).into_iter().chain(texts(&spec["externalIPs"])).chain(ingress);
        let addresses: BTreeSet<IpAddr> =
            listed.chain([spec["clusterIP"].clone()]).filter_map(|text| text.as_str()?.parse().ok()).collect();
        for port in spec["ports"].as_array().into_iter().flatten() {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
            for address in &addresses {
                fronts.entry((*address, protocol.clone())).or_default().push(Front {
                    service: name.clone(),
                    port: port["port"].as_u64().and_then(|port| port.try_into().ok()),
                    endpoints: endpoints.get(&name).cloned().unwrap_or_default(),
                    shown_in: "objects",
                });
            }
        }
    }
    fronts
}

fn judge(place: &Place, entry: &Connection, front: &Front) -> Option<Finding> {
    let (to, answers) = (entry.original.destination, entry.reply.source);
    let service = &front.service;
    let client = format!("{}:{}", entry.original.source, entry.original.source_port.unwrap_or(0));
    if answers == to {
        let what = match (entry.protocol.as_str(), entry.state.as_deref()) {
            ("tcp", Some(state)) if state != "SYN_SENT" && state != "SYN_RECV" => return None,
            ("tcp", _) => "the connection was opened before the rules were there",
            _ => "packets of this client keep the entry alive",
        };
        let message = format!("an entry for {service} is not translated: its reply is expected from {to}");
        let effect = format!("{what}: packets of {client} never reach an endpoint until it expires");
        return Some(Finding::new("untranslated-entry", place.clone(), message, effect));
    }
    let is_stale = entry.protocol != "tcp" && !front.endpoints.is_empty() && !front.endpoints.contains(&answers);
    is_stale.then(|| {
        let message =
            format!("an entry for {service} leads to {answers}, which is not an endpoint in the {}", front.shown_in);
        let effect = format!("packets of {client} go to an endpoint that is gone, as long as they keep coming");
        Finding::new("stale-entry", place.clone(), message, effect)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::lint::tests::ids;

    const SERVICE: &str = "$ kubectl -n kube-system get svc,ep kube-dns
NAME               TYPE        CLUSTER-IP     EXTERNAL-IP   PORT(S)         AGE
service/kube-dns   ClusterIP   192.168.0.10   <none>        53/UDP,53/TCP   412d

NAME                 ENDPOINTS                                                    AGE
endpoints/kube-dns   10.120.0.17:53,10.120.2.200:53,10.120.0.17:53,10.120.2.200:53   412d
";

    /// kubernetes#125467: objects alone say which address is a Service's, and which endpoints it has.
    #[rstest]
    #[case::untranslated("dport=53 [UNREPLIED] src=192.168.0.10", &["untranslated-entry"])]
    #[case::stale("dport=53 src=10.120.0.99", &["stale-entry"])]
    #[case::to_an_endpoint("dport=53 src=10.120.2.200", &[])]
    #[case::other_port("dport=54 [UNREPLIED] src=192.168.0.10", &[])]
    fn entries_are_judged_by_objects_alone(#[case] entry: &str, #[case] expected: &[&str]) {
        let connections = format!(
            "$ conntrack -L\nudp      17 29 src=10.120.1.150 dst=192.168.0.10 sport=49660 {entry} dst=10.120.1.150 sport=53 dport=49660 mark=0 use=1\n\n"
        );
        assert_eq!(ids(&format!("{connections}{SERVICE}")), expected);
        // Of a list that is cut, an endpoint that is not shown may be the one.
        let cut = SERVICE.replace(",10.120.0.17:53,10.120.2.200:53   412d", " + 2 more...   412d");
        let of_cut: Vec<&str> = expected.iter().copied().filter(|id| *id != "stale-entry").collect();
        assert_eq!(ids(&format!("{connections}{cut}")), of_cut);
    }
}
