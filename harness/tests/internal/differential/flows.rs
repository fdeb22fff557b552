//! Random flows in a cluster.

use std::net::IpAddr;

use crate::scenario::{Destination, Flows, Probe, Scenario, Shape, Span, Vantage};
use svclab_rules::cluster::Protocol;

use super::dice::Dice;

/// The possible senders with their addresses, and the possible destination addresses and ports.
pub(crate) struct Places {
    senders: Vec<(Vantage, Vec<IpAddr>)>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) ports: Vec<u16>,
    nodes: Vec<String>,
    span: Span,
}

impl Places {
    /// The places of a scenario's first state, and some that no machine has.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let cluster = &scenario.cluster;
        let mut senders: Vec<(Vantage, Vec<IpAddr>)> =
            cluster.pods.iter().map(|pod| (Vantage::Pod(pod.name.clone()), pod.ips.clone())).collect();
        for node in &cluster.nodes {
            let own: Vec<IpAddr> = node.addresses().collect();
            senders.push((Vantage::Node(node.name.clone()), own.clone()));
            senders.push((Vantage::Localhost(node.name.clone()), own));
        }
        senders.extend(scenario.hosts.iter().map(|host| (Vantage::Host(host.name.clone()), host.ips.clone())));
        let mut addresses: Vec<IpAddr> = Vec::new();
        let mut ports = vec![80, 443, 8080, 9090, 30_999];
        for service in &cluster.services {
            addresses.extend(&service.cluster_ips);
            addresses.extend(&service.cluster_ips);
            addresses.extend(&service.external_ips);
            addresses.extend(service.load_balancer.iter().map(|ingress| ingress.ip));
            ports.extend(service.ports.iter().filter_map(|port| port.node_port));
        }
        addresses.extend(senders.iter().flat_map(|(_, own)| own));
        let unused = [
            "10.96.200.1",
            "10.244.1.200",
            "203.0.113.99",
            "127.0.0.1",
            "127.0.0.2",
            "169.254.20.10",
            "240.0.0.1",
            "fd00:10:96::c801",
            "::1",
        ];
        addresses.extend(unused.iter().map(|text| text.parse::<IpAddr>().expect("an address")));
        let nodes = cluster.nodes.iter().map(|node| node.name.clone()).collect();
        let span = Span { file: scenario.file.clone(), line: 1, column: 1 };
        Self { senders, addresses, ports, nodes, span }
    }

    /// Some flows; SCTP ones come together.
    pub(crate) fn flows(&self, dice: &mut Dice, number: usize) -> Vec<Probe> {
        let mut probes: Vec<Probe> = (0..number).map(|_| self.flow(dice)).collect();
        probes.sort_by_key(|probe| probe.protocol == Protocol::Sctp);
        probes
    }

    fn flow(&self, dice: &mut Dice) -> Probe {
        loop {
            let (from, own) = dice.pick(&self.senders);
            let address = *dice.pick(&self.addresses);
            let has_family = own.iter().any(|ip| ip.is_ipv4() == address.is_ipv4());
            // Only a process sends to a loopback address.
            let is_odd = address.is_loopback() && matches!(from, Vantage::Pod(_) | Vantage::Host(_));
            if has_family && !is_odd {
                return self.probe(dice, from, address);
            }
        }
    }

    fn probe(&self, dice: &mut Dice, from: &Vantage, address: IpAddr) -> Probe {
        let port = *dice.pick(&self.ports);
        let protocols = [Protocol::Tcp, Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::Udp, Protocol::Udp];
        let protocol = if dice.one_in(8) { Protocol::Sctp } else { *dice.pick(&protocols) };
        let is_handed = matches!(from, Vantage::Host(_)) && dice.one_in(2);
        let via = is_handed.then(|| dice.pick(&self.nodes).clone());
        let to = Destination { label: address.to_string(), address, port, via };
        let span = self.span.clone();
        Probe {
            span,
            from: from.clone(),
            to,
            protocol,
            source_port: None,
            flows: Flows::Exactly(1),
            tcp_flags: None,
            shape: Shape::default(),
        }
    }
}
