//! Rules of other programs that decide about packets to Services before kube-proxy's rules do.

use std::collections::BTreeSet;
use std::net::IpAddr;

use svclab_rules::cluster::Protocol;
use svclab_rules::infer::InferredPort;
use svclab_rules::iptables::{
    Chain, Match, Multiport, Negatable, Network, PortRange, RouteType, Rule, Side, States, TableName, Target,
};

use super::finding::Finding;
use super::forwarding::excludes_first;
use super::port_names::port_name;
use super::severity::Severity;
use super::view::{Tables, View};
use crate::infer::is_api_server;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    view.tables_with_ports().flat_map(|(tables, ports)| of_node(tables, ports)).collect()
}

/// The destination of packets to a Service or an endpoint.
struct Socket<'p> {
    service: &'p InferredPort,
    /// `None` for a node port: any address of the node.
    ip: Option<IpAddr>,
    port: u16,
}

fn of_node(tables: Tables<'_>, ports: &[InferredPort]) -> Vec<Finding> {
    let frontends: Vec<Socket<'_>> = ports.iter().flat_map(frontends).collect();
    // Its endpoints are processes of nodes, to which packets are not forwarded on their own node.
    let endpoints: Vec<Socket<'_>> =
        ports.iter().filter(|port| !is_api_server(&port.full_name())).flat_map(endpoints).collect();
    let places = [
        (TableName::Raw, "PREROUTING", &frontends),
        (TableName::Mangle, "PREROUTING", &frontends),
        (TableName::Nat, "PREROUTING", &frontends),
        (TableName::Nat, "OUTPUT", &frontends),
        (TableName::Mangle, "FORWARD", &endpoints),
        (TableName::Filter, "FORWARD", &endpoints),
    ];
    places.into_iter().filter_map(|(table, chain, sockets)| first(tables, table, chain, sockets)).collect()
}

/// The addresses and ports to which clients connect.
fn frontends(service: &InferredPort) -> Vec<Socket<'_>> {
    let ips = service.cluster_ips.iter().chain(&service.external_ips).chain(&service.load_balancer);
    let of_addresses = ips.filter_map(|ip| Some(Socket { service, ip: Some(*ip), port: service.port? }));
    let on_nodes = service.node_port.map(|port| Socket { service, ip: None, port });
    of_addresses.chain(on_nodes).collect()
}

fn endpoints(service: &InferredPort) -> Vec<Socket<'_>> {
    let all: BTreeSet<_> = service.endpoints.iter().chain(&service.local).collect();
    all.into_iter().map(|to| Socket { service, ip: Some(to.ip()), port: to.port() }).collect()
}

/// The first rule of a built-in chain that takes packets to one of the sockets away from kube-proxy's rules.
fn first(tables: Tables<'_>, table: TableName, name: &str, sockets: &[Socket<'_>]) -> Option<Finding> {
    let chain = tables.chain(table, name).filter(|_| !tables.hides_interfaces(table, name))?;
    let end = end(tables, table, chain)?;
    for (at, rule) in chain.rules[..end].iter().enumerate() {
        let action = rule.target.as_ref().and_then(|target| action(table, target));
        let covered = || sockets.iter().find_map(|socket| Some((socket, covers(rule, socket)?)));
        if let Some(action) = action
            && let Some((socket, is_of_all)) = covered()
        {
            return Some(finding(tables, (table, name, at), socket, &action, is_of_all));
        }
        // What another program's rule accepts does not come to the rules behind it.
        if table != TableName::Nat && may_accept(rule) {
            return None;
        }
    }
    None
}

/// The number of a chain's rules that are in front of kube-proxy's.
fn end(tables: Tables<'_>, table: TableName, chain: &Chain) -> Option<usize> {
    let own = match (table, &*chain.name) {
        (TableName::Nat, _) => "KUBE-SERVICES",
        (TableName::Filter, _) => "KUBE-FORWARD",
        // kube-proxy translates packets in table nat, behind these.
        _ => return tables.shows(table, &chain.name).then_some(chain.rules.len()),
    };
    let jump = chain.rules.iter().position(|rule| rule.next_chain().is_some_and(|next| **next == *own));
    jump.filter(|_| table == TableName::Nat || tables.shows(table, &chain.name))
}

/// What a rule does to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Drops,
    /// They do not come to KUBE-SERVICES.
    Skips,
    /// They get another destination.
    Translates,
}

fn action(table: TableName, target: &Target) -> Option<Action> {
    match (table, target) {
        (_, Target::Drop | Target::Reject(_)) => Some(Action::Drops),
        (TableName::Nat, Target::Accept | Target::Return) => Some(Action::Skips),
        (TableName::Nat, Target::Dnat(_) | Target::Redirect { .. }) => Some(Action::Translates),
        _ => None,
    }
}

/// Whether a rule may let packets of pods pass the rules behind it.
fn may_accept(rule: &Rule) -> bool {
    match &rule.target {
        _ if excludes_first(rule) => false,
        Some(Target::Accept | Target::Return | Target::Goto(_) | Target::Other(_)) => true,
        Some(Target::Jump(next)) => !next.starts_with("KUBE-"),
        _ => false,
    }
}

/// Whether a rule takes first packets to a socket: those of all clients, or of some by their source. `None` for others, and where it is not known.
fn covers(rule: &Rule, socket: &Socket<'_>) -> Option<bool> {
    let protocol = socket.service.protocol;
    let is_of_protocol = rule.protocol.is_none_or(|asked| (asked.value.0 == protocol.number()) != asked.negated);
    let is_to = match (&rule.destination, socket.ip) {
        (None, _) => true,
        (Some(to), Some(ip)) => contains(&to.value, ip)? != to.negated,
        (Some(_), None) => false,
    };
    // Most such rules are for the bridge of another program.
    let has_interface = rule.in_interface.is_some() || rule.out_interface.is_some();
    let holds = rule.matches.iter().all(|one| holds(one, protocol, socket));
    (is_of_protocol && is_to && !has_interface && holds).then_some(rule.source.is_none())
}

fn contains(network: &Network, ip: IpAddr) -> Option<bool> {
    match network {
        Network::Prefix(range) => Some(range.contains(&ip)),
        Network::Masked(_) => None,
    }
}

/// Whether a match surely holds for the first packet to a socket.
fn holds(one: &Match, protocol: Protocol, socket: &Socket<'_>) -> bool {
    let has = |range: &PortRange| (range.first..=range.last).contains(&socket.port);
    match one {
        Match::Ports(ports) => {
            let is_to = |asked: &Negatable<PortRange>| has(&asked.value) != asked.negated;
            let is_free = ports.source.is_none() && ports.flags.is_none();
            ports.protocol == protocol && is_free && ports.destination.as_ref().is_none_or(is_to)
        }
        Match::Multiport(multiport) => {
            let Multiport { side, ports } = &**multiport;
            *side == Side::Destination && ports.value.iter().any(has) != ports.negated
        }
        Match::State { states, .. } => states.value.includes(States::NEW) != states.negated,
        Match::AddressType(types) => {
            let is_local = |to: &Negatable<RouteType>| !to.negated && to.value == RouteType::Local;
            types.source.is_none() && socket.ip.is_none() && types.destination.as_ref().is_none_or(is_local)
        }
        other => other.always_holds(),
    }
}

fn finding(
    tables: Tables<'_>,
    (table, chain, at): (TableName, &str, usize),
    socket: &Socket<'_>,
    action: &Action,
    is_of_all: bool,
) -> Finding {
    let service = socket.service.full_name();
    let (does, effect) = match action {
        Action::Drops => ("drops or rejects", "these connections are lost, whatever kube-proxy's rules do"),
        Action::Skips => (
            "accepts or returns",
            "these connections are not translated to an endpoint: they are lost, or reach another program",
        ),
        Action::Translates => {
            ("translates", "these connections reach what this rule translates to, not the Service's endpoints")
        }
    };
    let before = match table {
        TableName::Filter => "KUBE-FORWARD accepts them",
        _ => "KUBE-SERVICES gets them",
    };
    let to = match (table, chain) {
        (_, "FORWARD") => "endpoints of ",
        _ => "",
    };
    let some = if is_of_all { "" } else { " from some sources" };
    let message = format!(
        "a rule of {chain} in table {} {does} packets{some} to {to}{} before {before}",
        table.as_str(),
        port_name(&service)
    );
    let severity = match action {
        // Another program may be meant to serve this address.
        Action::Translates => Severity::Warning,
        _ if is_of_all => Severity::Error,
        _ => Severity::Warning,
    };
    let place = tables.place(tables.line(table, chain, at));
    Finding::new("preceding-rule", place, message, effect).graded(severity)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

    use rstest::rstest;

    use crate::evidence::read;
    use crate::lint::Severity::{self, Error, Warning};
    use crate::lint::lint;

    /// Of the rules of a node with the Service `web`: 10.96.0.10:80 and node port 30080, which leads to port 8080 of pods.
    fn findings(before: &str, rule: &str) -> Vec<Severity> {
        let path = "../rules/tests/golden/nodeport-cluster/v1.30-iptables/iptables-save.txt";
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(before), "{before}");
        let text = text.replacen(before, &format!("{rule}\n{before}"), 1);
        let found = lint(&read(&text)).into_iter().filter(|one| one.id == "preceding-rule");
        found.map(|one| one.severity).collect()
    }

    const NAT: &str = "-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES";

    #[rstest]
    #[case::all("-A PREROUTING -j ACCEPT", &[Error])]
    #[case::port("-A PREROUTING -p tcp -m tcp --dport 80 -j ACCEPT", &[Error])]
    #[case::ports("-A PREROUTING -p tcp -m multiport --dports 22,80 -j RETURN", &[Error])]
    #[case::node_port("-A PREROUTING -p tcp -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j ACCEPT", &[Error])]
    #[case::address("-A PREROUTING -d 10.96.0.0/12 -j ACCEPT", &[Error])]
    #[case::source("-A PREROUTING -s 10.244.0.0/16 -p tcp -m tcp --dport 80 -j ACCEPT", &[Warning])]
    #[case::redirected("-A PREROUTING -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 8080", &[Warning])]
    #[case::other_port("-A PREROUTING -p tcp -m tcp --dport 22 -j ACCEPT", &[])]
    #[case::other_protocol("-A PREROUTING -p udp -m udp --dport 80 -j ACCEPT", &[])]
    #[case::other_address("-A PREROUTING -d 169.254.169.254/32 -p tcp -m tcp --dport 80 -j ACCEPT", &[])]
    #[case::no_address("-A PREROUTING ! -d 10.96.0.0/12 -p tcp -m tcp --dport 80 -j ACCEPT", &[])]
    #[case::interface("-A PREROUTING -i docker0 -j RETURN", &[])]
    #[case::marked("-A PREROUTING -m mark --mark 0x1/0x1 -j ACCEPT", &[])]
    #[case::known("-A PREROUTING -m conntrack --ctstate ESTABLISHED -j ACCEPT", &[])]
    #[case::chain("-A PREROUTING -j CNI-HOSTPORT-DNAT", &[])]
    fn rules_before_the_translation_are_found(#[case] rule: &str, #[case] expected: &[Severity]) {
        assert_eq!(findings(NAT, rule), expected);
    }

    const FORWARD: &str = "-A FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer";

    /// What is forwarded has an endpoint's address.
    #[rstest]
    #[case::all("-A FORWARD -j DROP", &[Error])]
    #[case::pods("-A FORWARD -d 10.244.0.0/16 -j REJECT", &[Error])]
    #[case::port("-A FORWARD -p tcp -m tcp --dport 8080 -j DROP", &[Error])]
    #[case::port_of_service("-A FORWARD -p tcp -m tcp --dport 80 -j DROP", &[])]
    #[case::source("-A FORWARD -s 203.0.113.0/24 -j DROP", &[Warning])]
    #[case::invalid("-A FORWARD -m conntrack --ctstate INVALID -j DROP", &[])]
    #[case::after_others("-A FORWARD -j DOCKER-USER\n-A FORWARD -j DROP", &[])]
    #[case::after_accepted("-A FORWARD -d 10.244.0.0/16 -j ACCEPT\n-A FORWARD -j DROP", &[])]
    #[case::accepted("-A FORWARD -j ACCEPT", &[])]
    #[case::after_known("-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A FORWARD -j DROP", &[Error])]
    fn rules_before_the_forwarding_are_found(#[case] rule: &str, #[case] expected: &[Severity]) {
        assert_eq!(findings(FORWARD, rule), expected);
    }

    /// Table mangle sees packets before table nat translates them.
    #[rstest]
    #[case::dropped("-A PREROUTING -p tcp -m tcp --dport 80 -j DROP", &[Error])]
    #[case::accepted("-A PREROUTING -p tcp -m tcp --dport 80 -j ACCEPT", &[])]
    #[case::by_path("-A PREROUTING -m rpfilter --invert -j DROP", &[])]
    #[case::forwarded("-A FORWARD -d 10.244.0.0/16 -j DROP", &[Error])]
    #[case::sent("-A OUTPUT -d 10.96.0.0/12 -j DROP", &[])]
    fn dropped_packets_are_found_in_table_mangle(#[case] rule: &str, #[case] expected: &[Severity]) {
        // The end of the first table, mangle.
        assert_eq!(findings("COMMIT", rule), expected);
    }
}
