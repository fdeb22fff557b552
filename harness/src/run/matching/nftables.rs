//! The lines of nftables tables that are about one destination.

use std::net::IpAddr;

use svclab_rules::cluster::Protocol;

/// What a table has about a destination: elements that have its address and port as their key, or its port alone, each
/// followed by the rules of the chains that they lead to. Every line begins with the name of its map or chain.
pub(super) fn matching(text: &str, address: IpAddr, port: u16, protocol: Protocol) -> Vec<String> {
    let lines = named_lines(text);
    let keys = [format!("{address} . {protocol} . {port} "), format!("{protocol} . {port} ")];
    let is_entry = |line: &&(&str, &str)| keys.iter().any(|key| line.1.starts_with(key));
    let mut found = Vec::new();
    for line in lines.iter().filter(is_entry) {
        follow(*line, &lines, &mut found);
    }
    found.into_iter().map(|(name, line)| format!("{name}: {line}")).collect()
}

/// Adds a line and, once, the rules of the chains that it goes to.
fn follow<'a>(line: (&'a str, &'a str), lines: &[(&'a str, &'a str)], found: &mut Vec<(&'a str, &'a str)>) {
    found.push(line);
    for target in line.1.split("goto ").skip(1).filter_map(|rest| rest.split([' ', ',']).next()) {
        if !found.iter().any(|(name, _)| *name == target) {
            for next in lines.iter().filter(|(name, _)| *name == target) {
                follow(*next, lines, found);
            }
        }
    }
}

/// Elements and rules, each with the name of the set, map or chain that it stands in.
fn named_lines(text: &str) -> Vec<(&str, &str)> {
    let mut name = "";
    let mut lines = Vec::new();
    for line in text.lines() {
        let inner = line.trim();
        let mut words = inner.split(' ');
        match (words.next(), words.next(), inner.ends_with('{')) {
            (Some("set" | "map" | "chain"), Some(block), true) => name = block,
            _ if line.starts_with("\t\t") => {
                let is_element = inner.starts_with("elements = { ") || line.starts_with("\t\t\t");
                let element = inner.trim_start_matches("elements = { ").trim_end_matches(',').trim_end_matches(" }");
                lines.push((name, if is_element { element } else { inner }));
            }
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "table ip kube-proxy {\n\
        \tmap service-ips {\n\
        \t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\
        \t\telements = { 10.96.0.1 . tcp . 80 : goto service-A/a/tcp/,\n\
        \t\t\t     10.96.0.2 . tcp . 80 : goto service-B/b/tcp/ }\n\
        \t}\n\
        \n\
        \tchain endpoint-X/a/tcp/__10.244.2.2/80 {\n\
        \t\tmeta l4proto tcp dnat to 10.244.2.2:80\n\
        \t}\n\
        \n\
        \tchain service-A/a/tcp/ {\n\
        \t\tnumgen random mod 1 vmap { 0 : goto endpoint-X/a/tcp/__10.244.2.2/80 }\n\
        \t}\n\
        }\n";

    #[test]
    fn follows_the_verdicts_of_one_service() {
        let found = matching(TEXT, "10.96.0.1".parse().expect("an address"), 80, Protocol::Tcp);
        let expected = [
            "service-ips: 10.96.0.1 . tcp . 80 : goto service-A/a/tcp/",
            "service-A/a/tcp/: numgen random mod 1 vmap { 0 : goto endpoint-X/a/tcp/__10.244.2.2/80 }",
            "endpoint-X/a/tcp/__10.244.2.2/80: meta l4proto tcp dnat to 10.244.2.2:80",
        ];
        assert_eq!(found, expected);
        assert!(matching(TEXT, "10.96.0.1".parse().expect("an address"), 80, Protocol::Udp).is_empty());
    }
}
