//! Checks kernel features: creates every kind of interface in a temporary lab, and sends a packet through all of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use svclab_rules::cluster::{Cluster, Family, Node, ObjectName, Pod, Protocol};

use super::{Check, families, listed};
use crate::lab::{Backend, Lab, LabError, with_lab};
use crate::observation::{Observation, ObservedOutcome};
use crate::probe::Prober;
use crate::scenario::{Cni, CniKind, Destination, Flows, Overlay, Probe, Scenario, Shape, Span, Vantage};
use crate::topology::{self, ETH0, Interface, InterfaceKind, Netns, Role, Topology};

/// A feature and a lab that cannot be built without it.
struct Trial {
    name: &'static str,
    found: &'static str,
    topology: Topology,
    /// The kernel module that provides it.
    module: &'static str,
    /// Whether the conntrack table is flushed as well.
    flushes: bool,
}

/// Tries every feature, then all together.
pub(super) fn examine() -> Vec<Check> {
    thread::scope(|scope| {
        let packets = scope.spawn(packets);
        let trials: Vec<_> = trials().into_iter().map(|trial| scope.spawn(move || trial.run())).collect();
        let checks = trials.into_iter().chain([packets]).map(|thread| thread.join());
        checks.map(|check| check.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

impl Trial {
    fn run(self) -> Check {
        let use_it = |lab: &mut Lab| if self.flushes { lab.flush_connections() } else { Ok(()) };
        let built = with_lab(&self.topology, &[], Backend::System, use_it);
        match built.and_then(|flushed| flushed) {
            Ok(()) => Check::ok(self.name, self.found),
            Err(error @ LabError::Missing { .. }) => Check::lacking(self.name, "not tried", error.help()),
            Err(error @ LabError::NoIpv6) => {
                Check::lacking(self.name, "not supported by this kernel: no scenario can use it", error.help())
                    .optional()
            }
            Err(error @ LabError::NoDiscipline { .. }) => {
                Check::lacking(self.name, "not in this kernel: few scenarios need it", error.help()).optional()
            }
            Err(error) => Check::lacking(self.name, error.to_string(), load(self.module)),
        }
    }
}

/// Returns the fix for a missing kernel feature.
pub(super) fn load(module: &str) -> String {
    format!(
        "Load the module: `sudo modprobe {module}` (with `--kernel`, add it to the folder of the kernel). If there is none, the kernel was built without the feature."
    )
}

fn trials() -> Vec<Trial> {
    let trial = |name, found, module, change: fn(&mut Topology)| {
        let mut topology = Topology::default();
        topology.add(Netns::new("one".to_owned(), Role::Underlay));
        topology.add(Netns::new("other".to_owned(), Role::Pod));
        change(&mut topology);
        Trial { name, found, topology, module, flushes: false }
    };
    vec![
        trial("veth", "pairs between namespaces", "veth", pair),
        trial("bridge", "with hairpin ports", "bridge", |topology| {
            pair(topology);
            let one = &mut topology.namespaces[0];
            let port = &mut one.interfaces[0];
            (port.index, port.bridge, port.hairpin) = (ETH0 + 1, Some(ETH0), true);
            one.interfaces.insert(0, Interface::new(0, ETH0, "br0".to_owned(), InterfaceKind::Bridge));
        }),
        trial("br_netfilter", "bridge-nf-call-iptables can be set in a namespace", "br_netfilter", |topology| {
            topology.namespaces[0].set("bridge.bridge-nf-call-iptables", 1);
            topology.namespaces[0].set("bridge.bridge-nf-call-ip6tables", 1);
        }),
        trial("vxlan", "over a veth", "vxlan", |topology| {
            pair(topology);
            let kind = InterfaceKind::Vxlan { over: ETH0, local: IpAddr::from([192, 0, 2, 1]) };
            topology.namespaces[0].interfaces.push(Interface::new(0, ETH0 + 1, "vxlan".to_owned(), kind));
        }),
        trial("sch_tbf", "links with a rate", "sch_tbf", |topology| {
            pair(topology);
            topology.namespaces[0].interfaces[0].impairment.rate = Some(1_000_000);
        }),
        trial("sch_netem", "links that lose and delay packets", "sch_netem", |topology| {
            pair(topology);
            topology.namespaces[0].interfaces[0].impairment.delay = Duration::from_millis(1);
        }),
        trial("ipv6", "addresses and forwarding", "ipv6", |topology| {
            topology.namespaces[0].quiet_ipv6();
            topology.namespaces[0].forward_packets();
            topology.namespaces[0].addresses.push((1, IpNet::from(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]))));
        }),
        Trial {
            flushes: true,
            ..trial("nf_conntrack", "tables can be set and emptied in a namespace", "nf_conntrack", |topology| {
                topology.namespaces[0].set("netfilter.nf_conntrack_tcp_be_liberal", 0);
            })
        },
    ]
}

fn pair(topology: &mut Topology) {
    topology.link((0, "eth0".to_owned()), (1, "eth0"));
}

/// Sends a packet of each family that the kernel supports to a pod on another node, over bridges and VXLAN, and waits for the reply.
fn packets() -> Check {
    const NAME: &str = "packets";
    let report =
        "Fix the other failed checks; if there are none, report this with the output of `svclab doctor --format json`.";
    let scenario = scenario();
    let plan = topology::plan(&scenario);
    let sent = with_lab(&plan, &[], Backend::System, |lab| -> Result<(), String> {
        let mut prober = Prober::new(lab, &scenario.cluster).map_err(|error| error.to_string())?;
        for address in scenario.cluster.pods[1].ips.iter().copied() {
            let probe = probe(&scenario.cluster.pods[0].name, SocketAddr::new(address, 80));
            let seen = prober.send(&probe, 1).map_err(|error| error.to_string())?;
            let Observation::Flow(flow) = seen else { return Err("no flow was followed".to_owned()) };
            match (flow.outcome, flow.reply) {
                (ObservedOutcome::Delivered(_), Some(_)) => {}
                (outcome, reply) => return Err(format!("a SYN to {address}: {outcome:?}, answer from {reply:?}")),
            }
        }
        Ok(())
    });
    match sent.map_err(|error| error.to_string()).and_then(|sent| sent) {
        Ok(()) => {
            let families = listed(families().iter().copied());
            Check::ok(NAME, format!("a pod on another node answered, {families}, over bridges and VXLAN"))
        }
        Err(what) => Check::lacking(NAME, what, report),
    }
}

/// Two nodes with a pod each.
fn scenario() -> Scenario {
    let spoken = |ip: &IpAddr| families().contains(&Family::of(*ip));
    let node = |number: u16| {
        let ranges = [IpNet::new_assert(v4([10, 244, number as u8], 0), 24), IpNet::new_assert(v6(number, 0), 64)];
        Node {
            name: format!("node{number}"),
            internal_ips: [v4([192, 0, 2], number), v6(0, number)].into_iter().filter(spoken).collect(),
            pod_cidrs: ranges.into_iter().filter(|range| spoken(&range.addr())).collect(),
            ..Node::default()
        }
    };
    let pod = |number: u16| Pod {
        name: ObjectName::new("default", format!("pod{number}")),
        node: format!("node{number}"),
        ips: [v4([10, 244, number as u8], 2), v6(number, 2)].into_iter().filter(spoken).collect(),
        host_network: false,
        labels: BTreeMap::new(),
        ports: Vec::new(),
    };
    let cluster = Cluster { nodes: vec![node(1), node(2)], pods: vec![pod(1), pod(2)], ..Cluster::default() };
    let cni = Cni { kind: CniKind::Bridge { hairpin: true, nf_call_iptables: true }, overlay: Overlay::Vxlan };
    Scenario { name: "packets get through".to_owned(), cluster, cni, ..Scenario::default() }
}

fn v4(network: [u8; 3], host: u16) -> IpAddr {
    IpAddr::from([network[0], network[1], network[2], host as u8])
}

fn v6(network: u16, host: u16) -> IpAddr {
    IpAddr::from([0xfd00, 0, 0, network, 0, 0, 0, host])
}

fn probe(from: &ObjectName, to: SocketAddr) -> Probe {
    Probe {
        span: Span { file: PathBuf::new(), line: 1, column: 1 },
        from: Vantage::Pod(from.clone()),
        to: Destination { label: to.to_string(), address: to.ip(), port: to.port(), via: None },
        protocol: Protocol::Tcp,
        source_port: None,
        flows: Flows::Exactly(1),
        tcp_flags: None,
        shape: Shape::default(),
    }
}
