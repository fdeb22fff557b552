//! The connection table against rules, or against objects where no rule is shown.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::finding::{Finding, Place};
use super::listed::{Listed, ready};
use super::view::View;
use crate::evidence::Connection;
use crate::infer::accessors;

/// An address and port of a Service.
struct Frontend {
    service: String,
    /// The port; `None` if unknown, which matches any.
    port: Option<u16>,
    /// Its endpoints, where all of them are known.
    endpoints: BTreeSet<IpAddr>,
    /// What shows them.
    shown_in: &'static str,
}

/// Frontends by address and protocol; those of node ports have no address.
type Frontends = HashMap<(Option<IpAddr>, String), Vec<Frontend>>;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    if view.connections.is_empty() {
        return Vec::new();
    }
    let mut frontends = of_rules(view);
    for (key, of_objects) in of_objects(view) {
        let known = frontends.entry(key).or_default();
        let new =
            of_objects.into_iter().filter(|one| !known.iter().any(|own| own.port.is_none() || own.port == one.port));
        let new: Vec<Frontend> = new.collect();
        known.extend(new);
    }
    let finding = |(place, entry): &(Place, &Connection)| {
        let (to, protocol) = (&entry.original, &entry.protocol);
        let of = |address: Option<IpAddr>| {
            let mut own = frontends.get(&(address, protocol.clone()))?.iter();
            own.find(|frontend| frontend.port.is_none() || frontend.port == to.destination_port)
        };
        // Connections to the node ports of other nodes are not translated here.
        let on_node = || of(None).filter(|_| entry.reply.source != to.destination);
        judge(place, entry, of(Some(to.destination)).or_else(on_node)?)
    };
    view.connections.iter().filter_map(finding).collect()
}

fn of_rules(view: &View<'_>) -> Frontends {
    let mut frontends = Frontends::new();
    for port in view.ports.iter().flatten() {
        let addresses = port.cluster_ips.iter().chain(&port.external_ips).chain(&port.load_balancer);
        let of_addresses = addresses.map(|address| (Some(*address), port.port));
        for (address, number) in of_addresses.chain(port.node_port.map(|number| (None, Some(number)))) {
            let endpoints = port.endpoints.iter().chain(&port.local).map(std::net::SocketAddr::ip);
            frontends.entry((address, port.protocol.as_str().to_owned())).or_default().push(Frontend {
                service: port.service.to_string(),
                port: number,
                endpoints: endpoints.collect(),
                shown_in: "rules",
            });
        }
    }
    frontends
}

fn of_objects(view: &View<'_>) -> Frontends {
    let endpoints = ready(view);
    let all = |listed: &Listed| listed.ready.union(&listed.possible).copied().collect::<BTreeSet<_>>();
    let mut frontends = Frontends::new();
    for (_, service) in view.objects_of_kind("Service") {
        let name = accessors::name(service);
        let addresses: BTreeSet<IpAddr> = accessors::service_ips(service).into_iter().collect();
        for port in service["spec"]["ports"].as_array().into_iter().flatten() {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
            let number = |field: &str| port[field].as_u64().and_then(|port| u16::try_from(port).ok());
            let of_addresses = addresses.iter().map(|address| (Some(*address), number("port")));
            let on_nodes = number("nodePort").filter(|port| *port > 0).map(|port| (None, Some(port)));
            for (address, number) in of_addresses.chain(on_nodes) {
                frontends.entry((address, protocol.clone())).or_default().push(Frontend {
                    service: name.clone(),
                    port: number,
                    endpoints: endpoints.get(&name).map(all).unwrap_or_default(),
                    shown_in: "objects",
                });
            }
        }
    }
    frontends
}

fn judge(place: &Place, entry: &Connection, frontend: &Frontend) -> Option<Finding> {
    let (to, answers) = (entry.original.destination, entry.reply.source);
    let service = &frontend.service;
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
    let is_stale = entry.protocol != "tcp" && !frontend.endpoints.is_empty() && !frontend.endpoints.contains(&answers);
    is_stale.then(|| {
        let message =
            format!("an entry for {service} leads to {answers}, which is not an endpoint in the {}", frontend.shown_in);
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

    /// What another node's port gets is translated there.
    #[rstest]
    #[case::stale("172.18.0.5", "30053", "10.120.0.99", &["stale-entry"])]
    #[case::to_an_endpoint("172.18.0.5", "30053", "10.120.2.200", &[])]
    #[case::other_port("172.18.0.5", "30054", "10.120.0.99", &[])]
    #[case::other_node("172.18.0.6", "30053", "172.18.0.6", &[])]
    fn entries_of_node_ports_are_judged(
        #[case] to: &str,
        #[case] port: &str,
        #[case] from: &str,
        #[case] expected: &[&str],
    ) {
        let connections = format!(
            "$ conntrack -L\nudp      17 29 src=203.0.113.7 dst={to} sport=49660 dport={port} src={from} dst=203.0.113.7 sport=53 dport=49660 mark=0 use=1\n\n"
        );
        let service =
            SERVICE.replace("ClusterIP   192", "NodePort    192").replace("53/UDP,53/TCP  ", "53:30053/UDP  ");
        assert_eq!(ids(&format!("{connections}{service}")), expected);
    }

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
        // What `conntrack -E` reports as removed is no entry any more.
        let removed = connections.replace("udp      17", "[DESTROY] udp      17");
        assert_eq!(ids(&format!("{removed}{SERVICE}")), [""; 0]);
        // Of a list that is cut, an endpoint that is not shown may be the one.
        let cut = SERVICE.replace(",10.120.0.17:53,10.120.2.200:53   412d", " + 2 more...   412d");
        let of_cut: Vec<&str> = expected.iter().copied().filter(|id| *id != "stale-entry").collect();
        assert_eq!(ids(&format!("{connections}{cut}")), of_cut);
    }
}
