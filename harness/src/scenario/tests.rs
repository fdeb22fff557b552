//! Whole scenarios, from text to model.

use std::io;
use std::net::IpAddr;
use std::path::Path;

use svclab_rules::cluster::{Cluster, ObjectName, Protocol};

use super::*;

/// The example in the format's description.
const EXAMPLE: &str = "\
name: a ClusterIP reaches a pod on another node
cluster:
  podCIDR: 10.244.0.0/16
  cni: ptp
  proxy: {mode: iptables, version: \"1.30\", detectLocalMode: ClusterCIDR}
nodes:
  - {name: worker,  ip: 172.18.0.2, podCIDR: 10.244.1.0/24}
  - {name: worker2, ip: 172.18.0.3, podCIDR: 10.244.2.0/24, labels: {topology.kubernetes.io/zone: b}}
pods:
  - {name: client, node: worker,  ip: 10.244.1.3}
  - {name: nginx,  node: worker2, ip: 10.244.2.2, replicas: 1}
  - {name: nginx-new, node: worker2}
services:
  - {name: nginx, clusterIP: 10.96.34.82, ports: [{port: 80}]}
endpoints:
  - {service: nginx, pods: [nginx]}
hosts:
  - {name: outside, ip: 203.0.113.10}
rules:
  worker:
    text: |
      *filter
      COMMIT
    install: before
tests:
  - name: the packet is translated, its source kept
    probe: {from: pod/client, to: service/nginx:80}
    expect: {delivered: \"pod/nginx:80\", source: preserved, reply: from-vip}
  - name: each replica gets its share
    probe: {from: pod/client, to: service/nginx:80, flows: auto}
    expect: {balance: even}
  - name: after a rolling update, no flow reaches the old pod
    steps:
      - apply: {endpoints: [{service: nginx, pods: [nginx-new]}]}
      - probe: {from: pod/client, to: service/nginx:80, sourcePort: 40000}
        expect: {delivered: \"pod/nginx-new:80\"}
";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn no_files(_: &Path) -> io::Result<String> {
    Err(io::ErrorKind::NotFound.into())
}

fn parsed(text: &str) -> Result<Scenario, Diagnostics> {
    parse(text, Path::new("test.yaml"), &no_files)
}

fn scenario(text: &str) -> Scenario {
    parsed(text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn steps(scenario: &Scenario) -> Vec<&Step> {
    scenario.tests.iter().flat_map(|test| &test.steps).collect()
}

fn probe<'s>(step: &&'s Step) -> Option<(&'s Probe, &'s Expectation)> {
    match step {
        Step::Probe(probe, expectation) => Some((probe, expectation)),
        Step::Change(_) | Step::During(_) | Step::Wait(_) => None,
    }
}

#[test]
fn the_example_becomes_a_model() {
    let scenario = scenario(EXAMPLE);
    assert_eq!(scenario.cluster.pod(&ObjectName::new("default", "nginx-new")).unwrap().ips, [ip("10.244.2.3")]);
    assert_eq!(scenario.rules[0].rules.print(), "*filter\nCOMMIT\n");
    assert_eq!(scenario.rules[0].origin.to_string(), "test.yaml:22:1");
    let nginx =
        |name: &str, ip_of: &str| Target { label: format!("pod/{name}:80"), address: ip(ip_of), port: Some(80) };
    let steps = steps(&scenario);
    let probes: Vec<_> = steps.iter().filter_map(probe).collect();
    assert_eq!(
        probes[0].0,
        &Probe {
            span: Span { file: "test.yaml".into(), line: 27, column: 12 },
            from: Vantage::Pod(ObjectName::new("default", "client")),
            to: Destination { label: "service/nginx:80".into(), address: ip("10.96.34.82"), port: 80, via: None },
            protocol: Protocol::Tcp,
            source_port: None,
            flows: Flows::Exactly(1),
            tcp_flags: None,
            shape: Shape::default(),
        }
    );
    assert_eq!(
        probes[0].1,
        &Expectation {
            outcome: Some(ExpectedOutcome::Delivered(vec![nginx("nginx", "10.244.2.2")])),
            source: Some(SourceExpectation::Preserved),
            reply: Some(ReplyExpectation::FromVip),
            balance: None,
            affinity: None,
            fragments: None,
            lost: None,
        }
    );
    assert_eq!(probes[1].1.balance, Some(Balance::Even));
    assert_eq!(probes[1].1.outcome, probes[0].1.outcome);
    let Step::Change(Change::State(after)) = steps[2] else { panic!("the third step is a change") };
    assert_eq!(after.slices[0].endpoints[0].addresses, [ip("10.244.2.3")]);
    assert_eq!(probes[2].1.outcome, Some(ExpectedOutcome::Delivered(vec![nginx("nginx-new", "10.244.2.3")])));
}

/// Lines may end in CRLF.
#[test]
fn line_ends_of_windows_are_accepted_in_rules() {
    for install in ["before", "after", "instead"] {
        let text = EXAMPLE.replace(
            "text: |\n      *filter\n      COMMIT\n    install: before",
            &format!("file: rules\n    install: {install}"),
        );
        let read = |_: &Path| Ok("*filter\r\n-A FORWARD -j DROP\r\nCOMMIT\r\n".to_owned());
        let scenario = parse(&text, Path::new("test.yaml"), &read).unwrap_or_else(|errors| panic!("{errors}"));
        let expected = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j DROP\nCOMMIT\n";
        assert_eq!(scenario.rules[0].rules.print(), expected);
    }
}

/// An API server allocates a health check port to load balancers with policy Local, which they keep as long as they need one.
#[test]
fn health_check_ports_are_allocated_and_kept() {
    let text = "\
name: load balancers
cluster: {podCIDR: 10.244.0.0/16}
nodes: [{name: worker, ip: 172.18.0.2, podCIDR: 10.244.1.0/24}]
pods: [{name: web, node: worker}]
services:
  - {name: a, type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80, nodePort: 32767}]}
  - {name: b, type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}
  - {name: c, type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000, ports: [{port: 80}]}
  - {name: d, type: LoadBalancer, ports: [{port: 80}]}
tests:
  - name: policies change
    steps:
      - apply: {services: [{name: a, externalTrafficPolicy: Cluster}, {name: d, externalTrafficPolicy: Local}]}
      - probe: {from: node/worker, to: pod/web:80}
        expect: {rejected: true}
";
    let scenario = parsed(text).unwrap_or_else(|errors| panic!("{errors}"));
    let ports = |state: &Cluster| -> Vec<Option<u16>> {
        state.services.iter().map(|service| service.health_check_node_port).collect()
    };
    let states: Vec<_> = scenario.states().map(ports).collect();
    assert_eq!(states[0], [Some(32766), Some(32765), Some(31000), None]);
    assert_eq!(states[1], [None, Some(32765), Some(31000), Some(32766)]);
}

/// The releases that a scenario applies to, and the one whose rules are generated.
#[test]
fn a_scenario_may_be_about_all_releases_from_one_on() {
    for (version, releases, release) in
        [("", Releases::All, "1.30"), ("1.33", Releases::Only, "1.33"), (">=1.33", Releases::From, "1.33")]
    {
        let field = if version.is_empty() { String::new() } else { format!("version: \"{version}\", ") };
        let text = EXAMPLE.replace("version: \"1.30\", ", &field);
        let scenario = parsed(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        assert_eq!((scenario.releases, scenario.cluster.proxy.version.as_str()), (releases, release));
    }
    assert!(parsed(&EXAMPLE.replace("\"1.30\"", "\"<1.30\"")).is_err());
}

/// Two nodes, a Service with one of two pods, and steps.
fn with_steps(steps: &str) -> String {
    format!(
        "name: steps\ncluster: {{podCIDR: 10.244.0.0/16}}\nnodes: [{{name: a, ip: 172.18.0.2}}, {{name: b, ip: 172.18.0.3}}]\n\
         pods: [{{name: client, node: a}}, {{name: spare, node: a}}, {{name: old, node: a}}, {{name: new, node: b}}]\n\
         hosts: [{{name: outside, ip: 203.0.113.10}}]\nservices:\n\
         - {{name: web, type: NodePort, clusterIP: 10.96.0.80, externalIPs: [198.51.100.1], externalTrafficPolicy: Local, ports: [{{port: 80, \
         targetPort: 8080, nodePort: 30080}}]}}\nendpoints: [{{service: web, pods: [old]}}]\n\
         tests:\n- name: steps\n  steps:\n{steps}"
    )
}

/// Returns whether a step sends before, during or after a change, a name is looked up in the same way.
#[test]
fn what_a_step_has_deleted_can_still_be_named() {
    let delete = "  - apply: {pods: [{name: spare, delete: true}], services: [{name: api, delete: true}]}\n";
    let apply = "  - apply: {services: [{name: api, clusterIP: 10.96.0.90, ports: [{port: 443}]}]}\n";
    let later = "  - apply: {endpoints: [{service: web, pods: [new]}]}\n";
    for probe in [
        "{from: pod/spare, to: \"pod/old:80\"}",
        "{from: pod/client, to: \"pod/spare:80\"}",
        "{from: pod/client, to: \"service/api:443\"}",
    ] {
        let plain_step = format!("  - probe: {probe}\n    expect: {{fails: true}}\n");
        let during = format!("  - during: {{restart: proxy, probe: {probe}}}\n");
        for steps in [plain_step, during] {
            let text = with_steps(&format!("{apply}{delete}{later}{steps}"));
            parsed(&text).unwrap_or_else(|errors| panic!("{errors}\n{steps}"));
        }
    }
}

/// Flows can follow a change if their promise differs, at whichever node they enter.
#[test]
fn flows_that_can_follow_a_change() {
    let new = "apply: {endpoints: [{service: web, pods: [new]}]}";
    let cases = [
        ("", new, "pod/client", "service/web:80", ""),
        ("", new, "host/outside", "198.51.100.1:80", ""),
        ("", new, "host/outside", "198.51.100.1:80@a", ""),
        ("", new, "host/outside", "nodeport/web:80@b", ""),
        (
            "  - stop: proxy@a\n  - apply: {endpoints: [{service: web, pods: [new]}]}\n",
            "start: proxy@a",
            "pod/client",
            "service/web:80",
            "",
        ),
        (
            "  - stop: proxy@a\n",
            new,
            "pod/client",
            "service/web:80",
            "the kube-proxy of node a is stopped before and after the change",
        ),
        ("  - stop: proxy@b\n", new, "pod/client", "service/web:80", ""),
        (
            "",
            "restart: proxy",
            "host/outside",
            "198.51.100.1:80",
            "the promise is the same before and after the change",
        ),
        ("", new, "pod/client", "pod/old:80", "no promise applies to them"),
    ];
    for (before, change, from, to, expected) in cases {
        let text = with_steps(&format!(
            "{before}  - during: {{{change}, probe: {{from: {from}, to: \"{to}\"}}}}\n    expect: {{followedWithin: 1s}}\n"
        ));
        let said = parsed(&text).err().map(|errors| errors.to_string()).unwrap_or_default();
        assert_eq!(said.is_empty(), expected.is_empty(), "{from} {to} {change}: {said}");
        assert!(said.contains(expected), "{from} {to} {change}: {said}");
    }
}
