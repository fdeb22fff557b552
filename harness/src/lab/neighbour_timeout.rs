//! How long a namespace tries to resolve a neighbour that does not answer.

use rtnetlink::packet_route::neighbour_table::{
    NeighbourTableAttribute, NeighbourTableMessage, NeighbourTableParameter,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::LabError;
use super::netlink::Netlink;
use crate::scenario::IPV6_MIN_MTU;
use crate::topology::Netns;

/// The number of requests, a second apart, before the kernel gives up: longer than any test.
const REQUESTS: u32 = 24 * 60 * 60;

/// Keeps the kernel from reporting an address that no host on the link has as unreachable.
///
/// By default the kernel gives up after three requests and three seconds (`neigh_timer_handler` in net/core/neighbour.c), and returns "host
/// unreachable" for the packets that waited: a test on a busy machine would observe that, one on an idle machine would not. The
/// corresponding sysctls are hidden in a user namespace, so netlink is used (`neightbl_set`).
pub(super) async fn persist(netlink: &mut Netlink, netns: &Netns, ipv6: bool) -> Result<(), LabError> {
    // The ports of a bridge have no addresses, so they resolve no neighbours.
    for interface in netns.interfaces.iter().filter(|interface| interface.bridge.is_none()) {
        let tables = [(AddressFamily::Inet, "arp_cache"), (AddressFamily::Inet6, "ndisc_cache")];
        // Below that, an interface has no settings for IPv6 neighbours.
        let has_ipv6 = ipv6 && interface.mtu >= IPV6_MIN_MTU;
        for (family, table) in tables.into_iter().take(if has_ipv6 { 2 } else { 1 }) {
            let mut message = NeighbourTableMessage::default();
            message.header.family = family;
            let parameters =
                vec![NeighbourTableParameter::Ifindex(interface.index), NeighbourTableParameter::McastProbes(REQUESTS)];
            message.attributes =
                vec![NeighbourTableAttribute::Name(table.to_owned()), NeighbourTableAttribute::Parms(parameters)];
            let operation = format!("setting the neighbour timeout of {}", interface.name);
            netlink.change(operation, RouteNetlinkMessage::SetNeighbourTable(message)).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{SocketAddr, TcpStream};
    use std::path::Path;
    use std::time::Duration;

    use rstest::rstest;

    use crate::lab::{Backend, with_lab};
    use crate::{scenario, testing, topology};

    /// Longer than the kernel's default.
    const LONG: Duration = Duration::from_millis(3500);

    #[rstest]
    fn a_host_that_is_not_there_stays_silent(#[values("10.244.0.200:9", "[fd00:10:244::c8]:9")] missing: SocketAddr) {
        let text = "name: a node and a pod
cluster: {podCIDR: [10.244.0.0/16, 'fd00:10:244::/56'], cni: bridge}
nodes: [{name: node, ips: [172.18.0.2, 'fd00:172:18::2'], podCIDRs: [10.244.0.0/24, 'fd00:10:244::/64']}]
pods: [{name: pod}]
tests: [{name: none, probe: {from: pod/pod, to: 'pod/pod:80'}, expect: {delivered: 'pod/pod:80'}}]";
        let no_files = |_: &Path| Err(ErrorKind::NotFound.into());
        let scenario = scenario::parse(text, Path::new("inline.yaml"), &no_files).unwrap_or_else(|all| panic!("{all}"));
        let connect = || TcpStream::connect_timeout(&missing, LONG);
        testing::privileged(|| {
            let received = with_lab(&topology::plan(&scenario), &[], Backend::System, |lab| {
                lab.namespaces.iter().find(|namespace| namespace.name() == "node/node").map(|node| node.run(connect))
            });
            let error = received.expect("a lab").expect("a node").expect("a namespace").expect_err("no answer");
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        });
    }
}
