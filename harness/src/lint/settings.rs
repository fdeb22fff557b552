//! Settings of the kernel that Services depend on.

use super::finding::Finding;
use super::view::View;

pub(super) fn find(view: &View<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let node_ports: Vec<u16> = view.ports.iter().flatten().filter_map(|port| port.node_port).collect();
    for (place, name, value) in &view.settings {
        let finding = match (*name, *value) {
            ("net.bridge.bridge-nf-call-iptables" | "net.bridge.bridge-nf-call-ip6tables", "0") => Some((
                "bridge-call",
                format!("{name} is 0"),
                "on nodes with a bridge CNI, pods reach no Service whose endpoint is on the same node: the reply is not translated back".to_owned(),
            )),
            ("net.ipv4.ip_forward" | "net.ipv4.conf.all.forwarding", "0") => {
                Some(("ip-forward", format!("{name} is 0"), "the node forwards nothing: pods reach no endpoint on other nodes".to_owned()))
            }
            ("net.ipv4.conf.all.route_localnet", "1") => localnet(view, name),
            ("net.ipv4.ip_local_port_range", range) => local_range(range, &node_ports),
            (name, "1") if name.starts_with("net.ipv4.conf.") && name.ends_with(".rp_filter") && has_rules(view) => Some((
                "rp-filter",
                format!("{name} is 1, and the node has policy routing"),
                "packets are dropped if the reply would leave through another interface".to_owned(),
            )),
            _ => None,
        };
        // Both names of forwarding are those of one setting.
        let is_known = |id: &str| {
            id == "ip-forward" && found.iter().any(|known: &Finding| known.id == id && known.place.file == place.file)
        };
        let finding = finding.filter(|(id, ..)| !is_known(id));
        found.extend(finding.map(|(id, message, effect)| Finding::new(id, place.clone(), message, effect)));
    }
    found
}

type Found = (&'static str, String, String);

fn localnet(view: &View<'_>, name: &str) -> Option<Found> {
    let mut whole = view.tables().filter(super::view::Tables::is_whole).peekable();
    whole.peek()?;
    let drops = whole
        .flat_map(|tables| tables.rules().collect::<Vec<_>>())
        .any(|placed| &*placed.chain.name == "KUBE-FIREWALL" && placed.rule.destination.is_some());
    (!drops).then(|| {
        let message = format!("{name} is 1, and KUBE-FIREWALL does not drop packets to 127.0.0.0/8 from other hosts");
        (
            "route-localnet",
            message,
            "neighbours on the same link reach what listens on 127.0.0.1 of the node".to_owned(),
        )
    })
}

fn local_range(range: &str, node_ports: &[u16]) -> Option<Found> {
    let mut bounds = range.split_whitespace().filter_map(|word| word.parse::<u16>().ok());
    let (first, last) = (bounds.next()?, bounds.next()?);
    let port = node_ports.iter().find(|port| (first..=last).contains(*port))?;
    let message = format!("node port {port} is in ip_local_port_range, {first} to {last}");
    Some((
        "node-port-range",
        message,
        "the node's own connections may use it as their source port; their replies then go to the Service".to_owned(),
    ))
}

/// Whether `ip rule` shows other rules than the kernel's three.
fn has_rules(view: &View<'_>) -> bool {
    let rules = view.evidence.pieces.iter().filter(|piece| piece.format == crate::evidence::Format::IpRule);
    rules.map(|piece| piece.contents.entries()).max().is_some_and(|count| count > 3)
}

#[cfg(test)]
mod tests {
    use crate::evidence::read;
    use crate::lint::lint;

    #[test]
    fn a_setting_is_found_once_and_at_its_line() {
        let text = "$ sysctl -a\nnet.ipv4.conf.all.forwarding = 0\nnet.ipv4.tcp_sack = 1\nnet.bridge.bridge-nf-call-iptables = 0\nnet.ipv4.ip_forward = 0\n";
        let found = lint(&read(text));
        let found: Vec<_> = found.iter().map(|one| (one.id, one.place.line)).collect();
        assert_eq!(found, [("bridge-call", 4), ("ip-forward", 2)]);
    }
}
