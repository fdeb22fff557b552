//! Rules published in articles, compared with the generated ones: every published line must be among them.

use serde::Deserialize;
use svclab_rules::cluster::objects::{Object, assemble, proxy_config};
use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::iptables::{
    Match, Negatable, Network, Rule, RuleSet, TableName, Target, generate, parse_rule, print,
};

/// Reads a cluster of one node from a configuration and objects in flow style, one per line.
fn cluster(version: &str, cluster_cidr: &str, objects: &str) -> Cluster {
    let node = "{kind: Node, metadata: {name: here}, status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}}";
    let documents = [node].into_iter().chain(objects.lines().map(str::trim).filter(|line| !line.is_empty()));
    let objects: Vec<Object> =
        documents.map(|text| Object::deserialize(serde_yaml::Deserializer::from_str(text)).unwrap()).collect();
    let config = serde_yaml::from_str(&format!("clusterCIDR: {cluster_cidr}")).unwrap();
    assemble(&objects, proxy_config(&config, version).unwrap()).unwrap().cluster
}

fn rules(cluster: &Cluster) -> RuleSet {
    generate(cluster, &cluster.nodes[0], Family::Ipv4).unwrap()
}

/// Asserts that the lines, in the format of `iptables-save` or `iptables-restore`, are all among the rules.
fn assert_rules(rules: &RuleSet, table: TableName, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (chain, text) = line.strip_prefix("-A ").unwrap().split_once(' ').unwrap();
        let shown = parse_rule(text, Family::Ipv4).unwrap();
        let there = rules.rules(table, chain).contains(&shown);
        assert!(there, "missing: {line}\n{}", print(rules));
    }
}

/// Prints a rule as `iptables -L -n` does, with single blanks.
fn listed(rule: &Rule) -> String {
    let network = |network: &Option<Negatable<Network>>| match network {
        None => "0.0.0.0/0".to_owned(),
        Some(Negatable { negated, value: Network::Prefix(range) }) => {
            let text = if range.prefix_len() == 32 { range.addr().to_string() } else { range.to_string() };
            format!("{}{text}", if *negated { "!" } else { "" })
        }
        Some(other) => panic!("no listing for {other:?}"),
    };
    let target = match &rule.target {
        Some(Target::Jump(chain)) => chain.to_string(),
        Some(Target::Dnat(_)) => "DNAT".to_owned(),
        other => panic!("no listing for {other:?}"),
    };
    let protocol = rule.protocol.and_then(|protocol| protocol.value.name()).unwrap_or("all");
    let mut text = format!("{target} {protocol} -- {} {}", network(&rule.source), network(&rule.destination));
    for condition in &rule.matches {
        match condition {
            Match::Comment(comment) => text += &format!(" /* {comment} */"),
            Match::Ports(ports) => {
                text += &format!(" {}", ports.protocol);
                text += &ports.destination.map(|port| format!(" dpt:{}", port.value.first)).unwrap_or_default();
            }
            other => panic!("no listing for {other:?}"),
        }
    }
    if let Some(Target::Dnat(nat)) = &rule.target {
        text += &format!(" to:{}:{}", nat.addresses.unwrap().0, nat.ports.unwrap().first);
    }
    text
}

fn assert_listed(rules: &RuleSet, chain: &str, lines: &str) {
    let all: Vec<String> = rules
        .rules(TableName::Nat, chain)
        .iter()
        .filter(|rule| rule.comment().is_some_and(|comment| comment.contains('/')))
        .map(listed)
        .collect();
    for line in lines.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")) {
        assert!(line.is_empty() || all.contains(&line), "missing: {line}\nin {chain}: {all:#?}");
    }
}

/// The tutorial's "FOO" is an alias: the chain's name contains the hash of `kube-system/coredns:metrics` over TCP.
#[test]
fn a_tutorial_on_the_cascade_of_three_endpoints() {
    let cluster = cluster(
        "1.20",
        "100.96.0.0/17",
        "{kind: Service, metadata: {name: coredns, namespace: kube-system}, spec: {clusterIP: 100.96.128.2, ports: [{name: metrics, port: 9153}]}}
         {kind: EndpointSlice, metadata: {name: coredns-1, namespace: kube-system, labels: {kubernetes.io/service-name: coredns}}, addressType: IPv4, ports: [{name: metrics, port: 9153}], endpoints: [{addresses: [100.96.0.2]}, {addresses: [100.96.32.2]}, {addresses: [100.96.64.2]}]}",
    );
    let rules = rules(&cluster);
    assert_listed(
        &rules,
        "KUBE-SERVICES",
        "KUBE-MARK-MASQ  tcp  --  !100.96.0.0/17        100.96.128.2         /* kube-system/coredns:metrics cluster IP */ tcp dpt:9153
         KUBE-SVC-QKJQYQZXY3DRLPVB  tcp  --  0.0.0.0/0             100.96.128.2         /* kube-system/coredns:metrics cluster IP */ tcp dpt:9153",
    );
    let text = print(&rules);
    let chances: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("-A KUBE-SVC-QKJQYQZXY3DRLPVB "))
        .map(|line| line.split_once("--probability ").map_or("always", |(_, rest)| &rest[..13]))
        .collect();
    assert_eq!(chances, ["0.33333333349", "0.50000000000", "always"]);
}

/// Labelled v1.21.1, but the masquerade rule is in the service's chain, as from 1.22 on.
#[test]
fn a_walk_through_one_cluster_ip_on_kind() {
    let cluster = cluster(
        "1.22",
        "10.244.0.0/16",
        "{kind: Service, metadata: {name: nginx}, spec: {clusterIP: 10.96.34.82, ports: [{port: 80}]}}
         {kind: EndpointSlice, metadata: {name: nginx-1, labels: {kubernetes.io/service-name: nginx}}, addressType: IPv4, ports: [{name: '', port: 80}], endpoints: [{addresses: [10.244.2.2]}]}",
    );
    assert_rules(
        &rules(&cluster),
        TableName::Nat,
        r#"-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
           -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
           -A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
           -A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
           -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
           -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
           -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
           -A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
           -A KUBE-SVC-2CMXP7HKUVJN7L6M ! -s 10.244.0.0/16 -d 10.96.34.82/32 -p tcp -m comment --comment "default/nginx cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ
           -A KUBE-SERVICES -d 10.96.34.82/32 -p tcp -m comment --comment "default/nginx cluster IP" -m tcp --dport 80 -j KUBE-SVC-2CMXP7HKUVJN7L6M
           -A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment --comment default/nginx -j KUBE-SEP-HUXRPHBUO34UVPEF
           -A KUBE-SEP-HUXRPHBUO34UVPEF -m comment --comment default/nginx -s 10.244.2.2/32 -j KUBE-MARK-MASQ
           -A KUBE-SEP-HUXRPHBUO34UVPEF -m comment --comment default/nginx -m tcp -p tcp -j DNAT --to-destination 10.244.2.2:80"#,
    );
}

/// k3s with three load-balancer addresses, all of which lead to one `KUBE-FW` chain per port.
#[test]
fn traefik_behind_three_load_balancer_addresses() {
    let ports = "[{name: web, port: 80, nodePort: 31898}, {name: admin, port: 8080, nodePort: 32676}, {name: keycloak, port: 8087, nodePort: 30158}, {name: websecure, port: 443, nodePort: 31879}]";
    let cluster = cluster(
        "1.18",
        "10.42.0.0/16",
        &format!(
            "{{kind: Service, metadata: {{name: traefik, namespace: traefik-ns}}, spec: {{type: LoadBalancer, clusterIP: 10.43.99.34, ports: {ports}}}, status: {{loadBalancer: {{ingress: [{{ip: 141.75.148.138}}, {{ip: 141.75.148.139}}, {{ip: 141.75.148.140}}]}}}}}}
             {{kind: EndpointSlice, metadata: {{name: traefik-1, namespace: traefik-ns, labels: {{kubernetes.io/service-name: traefik}}}}, addressType: IPv4, ports: [{{name: web, port: 80}}, {{name: admin, port: 8080}}, {{name: keycloak, port: 8087}}, {{name: websecure, port: 443}}], endpoints: [{{addresses: [10.42.2.245]}}]}}"
        ),
    );
    let rules = rules(&cluster);
    let chains = [
        ("admin", 8080, "2NGTPF5PU2OO4NFC"),
        ("websecure", 443, "CATTP5HEIU3VUDDR"),
        ("web", 80, "6R2DDDBNAG6WBID2"),
        ("keycloak", 8087, "O2EOQBSIC5NZRIQN"),
    ];
    for (name, port, hash) in chains {
        let end = |kind: &str| format!("/* traefik-ns/traefik:{name} {kind} IP */ tcp dpt:{port}");
        let (cluster_ip, balancer) = (end("cluster"), end("loadbalancer"));
        let page = format!(
            "KUBE-MARK-MASQ tcp -- !10.42.0.0/16 10.43.99.34 {cluster_ip}
             KUBE-SVC-{hash} tcp -- 0.0.0.0/0 10.43.99.34 {cluster_ip}
             KUBE-FW-{hash} tcp -- 0.0.0.0/0 141.75.148.138 {balancer}
             KUBE-FW-{hash} tcp -- 0.0.0.0/0 141.75.148.139 {balancer}
             KUBE-FW-{hash} tcp -- 0.0.0.0/0 141.75.148.140 {balancer}"
        );
        assert_listed(&rules, "KUBE-SERVICES", &page);
    }
    let keycloak = "/* traefik-ns/traefik:keycloak */";
    assert_listed(
        &rules,
        "KUBE-SVC-O2EOQBSIC5NZRIQN",
        &format!("KUBE-SEP-AFDBSPUPSG7DXKN6 all -- 0.0.0.0/0 0.0.0.0/0 {keycloak}"),
    );
    assert_listed(
        &rules,
        "KUBE-SEP-AFDBSPUPSG7DXKN6",
        &format!(
            "KUBE-MARK-MASQ all -- 10.42.2.245 0.0.0.0/0 {keycloak}
             DNAT tcp -- 0.0.0.0/0 0.0.0.0/0 {keycloak} tcp to:10.42.2.245:8087"
        ),
    );
    // The page lists "5 references" for this chain: its cluster IP, its node port, and `KUBE-FW` once per address.
    let jumps = rules.table(TableName::Nat).unwrap().chains.iter().flat_map(|chain| &chain.rules);
    let references = jumps.filter(|rule| rule.next_chain().is_some_and(|name| &**name == "KUBE-SVC-O2EOQBSIC5NZRIQN"));
    assert_eq!(references.count(), 5);
}

/// The layout of 1.10: `KUBE-FW` jumps directly to the service.
#[test]
fn a_load_balancer_of_an_early_release() {
    let cluster = cluster(
        "1.10",
        "10.123.32.0/19",
        "{kind: Service, metadata: {name: sleep}, spec: {type: LoadBalancer, clusterIP: 10.123.63.85, ports: [{name: tcp-80-80-8r4el, port: 80, nodePort: 30392}]}, status: {loadBalancer: {ingress: [{ip: 118.24.224.100}]}}}
         {kind: Endpoints, metadata: {name: sleep}, subsets: [{addresses: [{ip: 10.123.32.5}], ports: [{name: tcp-80-80-8r4el, port: 80}]}]}",
    );
    let rules = rules(&cluster);
    assert_rules(
        &rules,
        TableName::Nat,
        r#"-A KUBE-SERVICES -d 118.24.224.100/32 -p tcp -m comment --comment "default/sleep:tcp-80-80-8r4el loadbalancer IP" -m tcp --dport 80 -j KUBE-FW-KHFRG3HD2BG7I4YD
           -A KUBE-FW-KHFRG3HD2BG7I4YD -m comment --comment "default/sleep:tcp-80-80-8r4el loadbalancer IP" -j KUBE-MARK-MASQ
           -A KUBE-FW-KHFRG3HD2BG7I4YD -m comment --comment "default/sleep:tcp-80-80-8r4el loadbalancer IP" -j KUBE-SVC-KHFRG3HD2BG7I4YD
           -A KUBE-FW-KHFRG3HD2BG7I4YD -m comment --comment "default/sleep:tcp-80-80-8r4el loadbalancer IP" -j KUBE-MARK-DROP
           -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
           -A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
           -A KUBE-NODEPORTS -p tcp -m comment --comment "default/sleep:tcp-80-80-8r4el" -m tcp --dport 30392 -j KUBE-SVC-KHFRG3HD2BG7I4YD
           -A KUBE-SERVICES -d 10.123.63.85/32 -p tcp -m comment --comment "default/sleep:tcp-80-80-8r4el cluster IP" -m tcp --dport 80 -j KUBE-SVC-KHFRG3HD2BG7I4YD
           -A KUBE-SVC-KHFRG3HD2BG7I4YD -m comment --comment "default/sleep:tcp-80-80-8r4el" -j KUBE-SEP-GZIIAEF444AZU3YY
           -A KUBE-SEP-GZIIAEF444AZU3YY -s 10.123.32.5/32 -m comment --comment "default/sleep:tcp-80-80-8r4el" -j KUBE-MARK-MASQ
           -A KUBE-SEP-GZIIAEF444AZU3YY -p tcp -m comment --comment "default/sleep:tcp-80-80-8r4el" -m tcp -j DNAT --to-destination 10.123.32.5:80"#,
    );
    assert_rules(
        &rules,
        TableName::Filter,
        r#"-A KUBE-FIREWALL -m comment --comment "kubernetes firewall for dropping marked packets" -m mark --mark 0x8000/0x8000 -j DROP
           -A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT"#,
    );
}
