//! svclab as a library in tests of another crate: the example that README names.
//!
//! A test crate needs `svclab`, `svclab-rules` and `rstest` as dependencies, and root or user namespaces to run.

use std::path::Path;
use std::sync::Arc;

use rstest::rstest;
use svclab::observation::{Observation, ObservedOutcome};
use svclab::scenario::{self, Scenario, Step};
use svclab::{Backend, documents, testing};
use svclab_rules::cluster::ProxyMode;
use svclab_rules::ruleset::Rules;

/// Two nodes, a client, a server with a service, and a machine outside.
const CLUSTER: &str = "
name: a cluster for tests
cluster: {podCIDR: 10.244.0.0/16}
nodes:
  - {name: a, ip: 172.18.0.2}
  - {name: b, ip: 172.18.0.3}
pods:
  - {name: client, node: a}
  - {name: server, node: b}
services:
  - {name: web, type: NodePort, clusterIP: 10.96.0.80, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
endpoints:
  - {service: web, pods: [server]}
hosts:
  - {name: outside, ip: 203.0.113.10}
";

fn scenario(tests: &str) -> Scenario {
    let no_files = |path: &Path| Err(std::io::Error::other(format!("{} is not read", path.display())));
    scenario::parse(&format!("{CLUSTER}{tests}"), Path::new("inline.yaml"), &no_files)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// A table of cases: each is run in its own lab, and the panic's message is the report of a failure.
#[rstest]
#[case::cluster_ip_from_a_pod("pod/client", "service/web:80", "preserved")]
#[case::cluster_ip_from_a_node("node/a", "service/web:80", "preserved")]
#[case::node_port_from_outside("host/outside", "nodeport/web:80@a", "masqueraded")]
#[case::hairpin("pod/server", "service/web:80", "masqueraded")]
fn the_server_is_reached(#[case] from: &str, #[case] to: &str, #[case] source: &str) {
    let tests = format!(
        "tests: [{{name: reached, probe: {{from: {from}, to: '{to}'}}, \
         expect: {{delivered: 'pod/server:8080', source: {source}, reply: from-vip}}}}]"
    );
    testing::privileged(|| testing::assert_scenario_holds(&scenario(&tests), Backend::System));
}

/// The stages one by one: custom rules in place of the generated ones, and the observation as a value.
#[test]
fn rules_can_be_replaced_before_they_are_installed() {
    testing::privileged(|| {
        let scenario =
            scenario("tests: [{name: any, probe: {from: pod/client, to: 'service/web:80'}, expect: {dropped: true}}]");
        let mut documents = documents::generate(&scenario, &scenario.cluster).expect("rules");
        for document in &mut documents {
            let text = document.rules.print();
            let without_endpoint = text.lines().filter(|line| !line.contains("--to-destination"));
            let text: String = without_endpoint.map(|line| format!("{line}\n")).collect();
            document.rules = Arc::new(Rules::parse(ProxyMode::Iptables, document.family, &text).expect("rules"));
        }
        let Some(Step::Probe(probe, _)) = scenario.tests[0].steps.first() else { panic!("the first step is a probe") };
        let observation = testing::in_lab(&scenario, &documents, Backend::System, |lab| lab.send(probe, 1));
        let Observation::Flow(flow) = observation.expect("a lab").expect("a probe") else { panic!("one flow") };
        let lost = ObservedOutcome::Dropped { at: "underlay".to_owned(), left_cluster: true };
        assert_eq!(flow.outcome, lost, "nothing translates the address: {:#?}", flow.path);
    });
}
