//! A lab is ready when it is returned: the first packet gets through.

use std::path::Path;

use rstest::rstest;
use svclab::scenario::{self, Scenario};
use svclab::{Backend, testing};

fn scenario(text: &str) -> Scenario {
    let no_files = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    scenario::parse(text, Path::new("inline.yaml"), &no_files).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The kernel enables the queue of a veth a moment after its other end is up, and drops packets until then.
#[rstest]
fn the_first_packet_to_the_youngest_pod_is_not_lost(#[values("ptp", "bridge")] cni: &str) {
    let text = format!(
        "name: many pods on one node
cluster: {{podCIDR: 10.244.0.0/16, cni: {cni}}}
nodes: [{{name: node, ip: 172.18.0.2, podCIDR: 10.244.0.0/24}}]
pods: [{{name: pod, replicas: 40}}]
tests: [{{name: first, probe: {{from: pod/pod-39, to: 'pod/pod-40:80'}}, expect: {{delivered: 'pod/pod-40:80'}}}}]"
    );
    let scenario = scenario(&text);
    testing::privileged(|| (0..5).for_each(|_| testing::assert_scenario_holds(&scenario, Backend::System)));
}

/// A bridge without ports never gets a carrier, so the lab must not wait for it.
#[test]
fn a_node_without_pods_has_a_bridge_without_ports() {
    let text = "name: an empty node
cluster: {podCIDR: 10.244.0.0/16, cni: bridge}
nodes:
- {name: full, ip: 172.18.0.2, podCIDR: 10.244.0.0/24}
- {name: empty, ip: 172.18.0.3, podCIDR: 10.244.1.0/24}
pods: [{name: client, node: full}]
hosts: [{name: outside, ip: 203.0.113.1}]
tests: [{name: out, probe: {from: pod/client, to: '203.0.113.1:53'}, expect: {delivered: '203.0.113.1:53'}}]";
    let scenario = scenario(text);
    testing::privileged(|| testing::assert_scenario_holds(&scenario, Backend::System));
}
