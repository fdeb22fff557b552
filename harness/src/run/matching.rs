//! The rules of a document that are about one destination.

mod nftables;

use std::net::IpAddr;

use svclab_rules::cluster::{Family, Protocol, ProxyMode};

use crate::documents::Document;

/// Chains that every service jumps to and that say nothing about one.
const COMMON: [&str; 3] = ["KUBE-MARK-MASQ", "KUBE-MARK-DROP", "KUBE-NODEPORTS"];

/// The lines of a document that name a destination, each followed by those of the chains that it leads to: in the order in
/// which a packet would meet them.
///
/// This is a search in the text for a person to read, not a prediction: a line is listed where its address and port are
/// the destination's, whatever else it asks for.
pub fn matching_rules(document: &Document, address: IpAddr, port: u16, protocol: Protocol) -> Vec<String> {
    if Family::of(address) != document.family {
        return Vec::new();
    }
    if document.mode == ProxyMode::Nftables {
        return nftables::matching(&document.text, address, port, protocol);
    }
    let lines: Vec<&str> = document.text.lines().filter(|line| line.starts_with("-A ")).collect();
    let entry = |line: &&&str| names(line, address, port, protocol) && chain(line).is_some_and(is_entry);
    let mut found = Vec::new();
    for line in lines.iter().filter(entry) {
        follow(line, &lines, &mut found);
    }
    found.into_iter().map(str::to_owned).collect()
}

/// Adds a line and, once, the lines of the chain that it jumps to.
fn follow<'a>(line: &'a str, lines: &[&'a str], found: &mut Vec<&'a str>) {
    found.push(line);
    let Some(target) = jump(line) else { return };
    let known = found.iter().any(|line| chain(line) == Some(target));
    if !known {
        for next in lines.iter().filter(|line| chain(line) == Some(target)) {
            follow(next, lines, found);
        }
    }
}

/// Chains that are looked through for every packet, and not only for those of one service.
fn is_entry(chain: &str) -> bool {
    const PER_SERVICE: [&str; 6] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-EXT-", "KUBE-XLB-", "KUBE-FW-"];
    !PER_SERVICE.iter().any(|prefix| chain.starts_with(prefix))
}

/// Whether a rule asks for this address and port, or for this port alone.
fn names(line: &str, address: IpAddr, port: u16, protocol: Protocol) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let after = |option: &str| words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1)).copied();
    let same_port = after("--dport") == Some(&port.to_string());
    let same_address = after("-d").is_none_or(|range| range.split('/').next() == Some(&address.to_string()));
    same_port && same_address && after("-p") == Some(protocol.as_str())
}

fn chain(line: &str) -> Option<&str> {
    line.split(' ').nth(1)
}

fn jump(line: &str) -> Option<&str> {
    let target = line.split(" -j ").nth(1)?.split(' ').next()?;
    (target.starts_with("KUBE-") && !COMMON.contains(&target)).then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "*nat\n\
        -A PREROUTING -j KUBE-SERVICES\n\
        -A KUBE-SEP-A -p tcp -m tcp -j DNAT --to-destination 10.244.2.2:80\n\
        -A KUBE-SEP-B -p tcp -m tcp -j DNAT --to-destination 10.244.2.3:80\n\
        -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A\n\
        -A KUBE-SERVICES -d 10.96.0.2/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-B\n\
        -A KUBE-SVC-A ! -s 10.244.0.0/16 -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-MARK-MASQ\n\
        -A KUBE-SVC-A -j KUBE-SEP-A\n\
        COMMIT\n";

    #[test]
    fn follows_the_jumps_of_one_service() {
        let document = Document {
            space: "node/a".to_owned(),
            family: Family::Ipv4,
            mode: ProxyMode::Iptables,
            text: TEXT.to_owned(),
        };
        let rules = matching_rules(&document, "10.96.0.1".parse().expect("an address"), 80, Protocol::Tcp);
        let chains: Vec<&str> = rules.iter().filter_map(|line| chain(line)).collect();
        assert_eq!(chains, ["KUBE-SERVICES", "KUBE-SVC-A", "KUBE-SVC-A", "KUBE-SEP-A"]);
        assert!(matching_rules(&document, "10.96.0.1".parse().expect("an address"), 80, Protocol::Udp).is_empty());
    }
}
