//! The list of questions.

use super::*;

/// Returns the destinations of one vantage point's questions, with the node that they go through.
fn asked(from: VantagePoint) -> Vec<String> {
    let questions = questions(&cluster(), &[from]).unwrap();
    let show = |question: &Question| {
        let via = question.via.as_ref().map(|node| format!(" via {node}")).unwrap_or_default();
        format!("{}/{}{via}", question.to, question.protocol)
    };
    questions.iter().map(show).collect()
}

#[test]
fn a_pod_asks_for_every_address_in_every_family() {
    let asked = asked(VantagePoint::Pod(ObjectName::new("default", "client")));
    for expected in [
        "10.96.0.80:80/tcp",
        "10.96.0.80:80/udp",
        "10.96.0.80:29999/tcp",
        "[fd00:96::80]:80/tcp",
        "203.0.113.80:80/tcp",
        "203.0.113.81:80/tcp",
        "172.18.0.3:30080/tcp",
        "198.51.100.3:30080/tcp",
        "[fd00:172::2]:30080/tcp",
        "172.18.0.1:32767/udp",
        // The neighbour of the cluster IP.
        "10.96.0.81:80/tcp",
    ] {
        assert!(asked.contains(&expected.to_owned()), "{expected} is not among {asked:?}");
    }
    // Four addresses of the service, nine of nodes; each with a port in two protocols and a free one in two. The cluster IPs have unused
    // neighbours; the other two addresses are neighbours of each other.
    assert_eq!(asked.len(), (4 + 9) * 4 + 2);
}

#[test]
fn an_outside_host_asks_over_every_node_in_its_family() {
    let asked = asked(VantagePoint::Outside(ip("192.0.2.9")));
    assert!(asked.contains(&"203.0.113.80:80/tcp via b".to_owned()), "{asked:?}");
    // Three addresses of the service through three nodes, six addresses of nodes, and the neighbour of the cluster IP through three nodes.
    assert_eq!(asked.len(), (3 * 3 + 6) * 4 + 3);
}

#[test]
fn localhost_asks_its_node_alone() {
    let asked = asked(VantagePoint::Localhost("b".to_owned()));
    assert!(
        asked.contains(&"127.0.0.1:30080/tcp".to_owned()) && asked.contains(&"[::1]:32767/udp".to_owned()),
        "{asked:?}"
    );
    // Two addresses of the node and two of loopback.
    assert_eq!(asked.len(), 4 * 4);
}
