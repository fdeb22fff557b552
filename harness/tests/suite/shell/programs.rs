//! Real programs in pods and on nodes, and the servers of pods.

use std::fs;
use std::path::Path;

use rstest::rstest;

use super::{SCENARIO, once, text, typed};

/// Standard input belongs to the shell, not to its programs.
#[test]
fn programs_do_not_take_the_lines() {
    let output = typed(Path::new(SCENARIO), "pod/client cat\npod/client echo after\n");
    assert_eq!(text(&output.stdout), "after\n");
}

#[rstest]
#[case::short("pod/client", "nginx")]
#[case::with_namespace("pod/client", "nginx.default")]
#[case::with_service("pod/client", "nginx.default.svc")]
#[case::whole("pod/client", "http://nginx.default.svc.cluster.local:80/")]
#[case::address("pod/client", "10.96.34.82")]
#[case::node("node/cluster-worker", "nginx")]
fn services_are_reached_by_name(#[case] place: &str, #[case] url: &str) {
    let output = once(&[place, "get", url]);
    let said = text(&output.stdout);
    assert!(said.starts_with("pod/nginx at 10.244.2.2:80, client "), "{said}{}", text(&output.stderr));
}

#[rstest]
#[case::its_own("pod/client", "client 10.244.1.3:", "(pod/client)\n")]
#[case::masqueraded("pod/nginx", "client 172.18.0.3:", "(node/cluster-worker2)\n")]
#[case::of_a_node("node/cluster-worker", "client 172.18.0.2:", "(node/cluster-worker)\n")]
fn a_server_names_its_client(#[case] place: &str, #[case] address: &str, #[case] name: &str) {
    let said = text(&once(&[place, "get", "nginx"]).stdout);
    let first = said.lines().next().unwrap_or_default().to_owned() + "\n";
    assert!(first.contains(address) && first.ends_with(name), "{said}");
}

/// Probes and real connections in one lab: kernels of pods are silent only while a probe is running.
#[test]
fn probes_and_programs_do_not_disturb_each_other() {
    let one = "pod/client get nginx\nprobe pod/client service/nginx:80\nprobe node/cluster-worker service/nginx:80\n";
    let output = typed(Path::new(SCENARIO), &format!("{}rules diff\n", one.repeat(5)));
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert_eq!(said.matches("pod/nginx at 10.244.2.2:80, client 10.244.1.3:").count(), 5, "{said}");
    assert_eq!(said.matches("delivered to pod/nginx at 10.244.2.2:80").count(), 10, "{said}");
    assert!(said.ends_with("no difference: the rules are those that svclab has installed\n"), "{said}");
}

#[test]
fn a_host_network_pod_serves_real_clients_between_probes() {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/host-network/endpoint.yaml");
    let lines = "pod/client get exporter\nprobe pod/client service/exporter:80\npod/client get exporter\ntest\n";
    let output = typed(&scenario, lines);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert_eq!(said.matches("pod/exporter at 172.18.0.3:9100, client ").count(), 2, "{said}");
}

/// A pod serves on a Service's targetPort, whether or not its containers declare it; an undeclared name is not a port.
#[test]
fn pods_serve_on_target_ports() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("ports.yaml");
    let services = "\
nodes: [{name: n1}]
pods: [{name: web, node: n1, labels: {app: web}}, {name: client, node: n1}]
services:
  - {name: number, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
  - {name: name, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
";
    fs::write(&scenario, format!("name: target ports\n{services}")).expect("its own file");
    let output = typed(&scenario, "pod/client get number\npod/client get name\n");
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(said.starts_with("pod/web at ") && said.contains(":8080, client "), "{said}{errors}");
    assert!(
        errors.contains("no pod that default/name selects has a tcp port `http`, so its port 80 has no endpoints"),
        "{errors}"
    );
    assert_eq!(output.status.code(), Some(7), "{errors}");
}
