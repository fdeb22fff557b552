//! Turns planned interfaces, addresses, neighbours and routes into netlink requests.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use rtnetlink::packet_route::link::{InfoBridge, InfoBridgePort, InfoData, InfoVeth, LinkAttribute, LinkMessage};
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use rtnetlink::packet_route::route::{RouteMessage, RouteScope, RouteType};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::{
    AddressMessageBuilder, LinkBridge, LinkBridgePort, LinkMessageBuilder, LinkUnspec, LinkVeth, LinkVxlan,
    RouteMessageBuilder,
};
use svclab_rules::cluster::Impairment;

use super::LabError;
use super::impairments::impair;
use super::namespaces::Namespace;
use super::netlink::Netlink;
use crate::kernel::patience;
use crate::topology::{Carrier, Fdb, Hop, Interface, InterfaceKind, LOOPBACK, Neighbour, Netns, Route, Topology};
use crate::wire::VXLAN_PORT;

/// The routing table for local addresses, RT_TABLE_LOCAL.
const LOCAL_TABLE: u32 = 255;
/// The VXLAN network identifier that flannel uses.
const VXLAN_VNI: u32 = 1;

/// Creates the interfaces that a namespace owns and brings all of its interfaces up, except bridges (see [`configure`]) and the ends of
/// links that are down.
///
/// The peers of its veth pairs are created in their namespaces, still down.
pub(super) async fn make_interfaces(
    netlink: &mut Netlink,
    topology: &Topology,
    netns: &Netns,
    namespaces: &[&Namespace],
) -> Result<(), LabError> {
    if netns.has_stack() {
        let up = LinkUnspec::new_with_index(LOOPBACK).up().build();
        netlink.change("bringing lo up".to_owned(), RouteNetlinkMessage::SetLink(up)).await?;
    }
    for interface in &netns.interfaces {
        match &interface.kind {
            InterfaceKind::VethPeer(_) => {
                if interface.mtu != interface.kind.usual_mtu() {
                    resize(netlink, interface).await?;
                }
                if interface.carrier != Carrier::Down {
                    switch(netlink, interface).await?;
                }
                if interface.impairment != Impairment::default() {
                    impair(netlink, interface).await?;
                }
            }
            kind => {
                let message = new_link(topology, interface, kind, namespaces);
                let operation = format!("creating interface {}", interface.name);
                netlink.create(operation, RouteNetlinkMessage::NewLink(message)).await?;
                if interface.hairpin {
                    hairpin(netlink, interface).await?;
                }
                // A bridge adopts its MTU from its ports.
                if interface.mtu != interface.kind.usual_mtu() && interface.kind != InterfaceKind::Bridge {
                    resize(netlink, interface).await?;
                }
                if interface.impairment != Impairment::default() {
                    impair(netlink, interface).await?;
                }
            }
        }
    }
    Ok(())
}

/// Brings bridges up, and sets addresses, neighbours, forwarding entries and routes.
///
/// A bridge is brought up only once its ports have a carrier: if it is up before, the kernel logs a state change of each port on the host.
pub(super) async fn configure(netlink: &mut Netlink, netns: &Netns) -> Result<(), LabError> {
    for bridge in netns.interfaces.iter().filter(|interface| interface.kind == InterfaceKind::Bridge) {
        let up = LinkUnspec::new_with_index(bridge.index).up().build();
        netlink.change(format!("bringing {} up", bridge.name), RouteNetlinkMessage::SetLink(up)).await?;
    }
    for (index, prefix) in &netns.addresses {
        let message = RouteNetlinkMessage::NewAddress(address(*index, prefix.addr(), prefix.prefix_len()));
        netlink.create(format!("adding address {prefix}"), message).await?;
        if let IpAddr::V6(address) = prefix.addr() {
            let message = RouteNetlinkMessage::NewRoute(local_route(*index, address));
            netlink.replace(format!("adding the local route of {address}"), message).await?;
        }
    }
    for neighbour in netns.neighbours() {
        let message = RouteNetlinkMessage::NewNeighbour(permanent_neighbour(neighbour));
        netlink.replace(format!("adding neighbour {}", neighbour.address), message).await?;
    }
    for entry in netns.fdb() {
        let message = RouteNetlinkMessage::NewNeighbour(forwarding_entry(entry));
        netlink.replace(format!("adding forwarding entry {}", entry.mac), message).await?;
    }
    for entry in netns.routes() {
        add_route(netlink, entry).await?;
    }
    Ok(())
}

/// Brings an interface up or down.
async fn switch(netlink: &mut Netlink, interface: &Interface) -> Result<(), LabError> {
    let link = LinkUnspec::new_with_index(interface.index);
    let (operation, link) = match interface.carrier {
        Carrier::Down => (format!("taking {} down", interface.name), link.down()),
        Carrier::Up | Carrier::Lost => (format!("bringing {} up", interface.name), link.up()),
    };
    netlink.change(operation, RouteNetlinkMessage::SetLink(link.build())).await
}

/// Sets an interface's MTU.
async fn resize(netlink: &mut Netlink, interface: &Interface) -> Result<(), LabError> {
    let link = LinkUnspec::new_with_index(interface.index).mtu(interface.mtu.into()).build();
    netlink.change(format!("setting the MTU of {}", interface.name), RouteNetlinkMessage::SetLink(link)).await
}

/// Changes the links of a namespace to those of another plan: interfaces go up or down, and their MTU changes.
pub(super) async fn change_links(netlink: &mut Netlink, old: &Netns, new: &Netns) -> Result<(), LabError> {
    let is_down = |interface: &Interface| interface.carrier == Carrier::Down;
    // First what the kernel may lack: if it fails, nothing has changed yet.
    for (old, new) in old.interfaces.iter().zip(&new.interfaces) {
        if old.impairment != new.impairment {
            impair(netlink, new).await?;
        }
    }
    for (old, new) in old.interfaces.iter().zip(&new.interfaces) {
        if old.mtu != new.mtu && new.kind != InterfaceKind::Bridge {
            resize(netlink, new).await?;
        }
        if is_down(old) != is_down(new) {
            switch(netlink, new).await?;
        }
    }
    netlink.finish().await
}

/// Changes the routes of a namespace to those of another plan.
pub(super) async fn reroute(netlink: &mut Netlink, old: &Netns, new: &Netns) -> Result<(), LabError> {
    let [before, after]: [HashSet<&Route>; 2] = [old, new].map(|netns| netns.routes().collect());
    for entry in old.routes().filter(|entry| !after.contains(entry)) {
        let operation = format!("deleting route {}", entry.destination);
        let message = route(entry).map_err(|error| netlink.broken(&format_args!("{operation}: {error}")))?;
        netlink.change(operation, RouteNetlinkMessage::DelRoute(message)).await?;
    }
    for entry in new.routes().filter(|entry| !before.contains(entry)) {
        add_route(netlink, entry).await?;
    }
    netlink.finish().await
}

async fn add_route(netlink: &mut Netlink, entry: &Route) -> Result<(), LabError> {
    let operation = format!("adding route {}", entry.destination);
    let message = route(entry).map_err(|error| netlink.broken(&format_args!("{operation}: {error}")))?;
    netlink.replace(operation, RouteNetlinkMessage::NewRoute(message)).await
}

/// Waits until interfaces can send.
///
/// A veth end that is brought up before its peer, and a bridge brought up after its first port, get their queue a moment later: a kernel
/// worker sets the operational state, then the queue, both under the RTNL lock. Once the state is seen, one more request that takes the
/// lock ensures that the queue is there; until then the kernel silently drops what is sent.
pub(super) async fn wait_until_ready(netlink: &mut Netlink, indices: &[u32]) -> Result<(), LabError> {
    wait_until_up(netlink, indices, indices.len(), "come up").await
}

/// Waits until interfaces have lost their carrier, so that packets sent there are dropped without an error.
pub(super) async fn wait_until_lost(netlink: &mut Netlink, indices: &[u32]) -> Result<(), LabError> {
    wait_until_up(netlink, indices, 0, "lose their carrier").await
}

/// Waits until this number of the interfaces is up.
async fn wait_until_up(netlink: &mut Netlink, indices: &[u32], number: usize, event: &str) -> Result<(), LabError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let begin = Instant::now();
    while netlink.count_up(indices).await? != number {
        if begin.elapsed() > patience(PATIENCE) {
            let what = format!("the interfaces of {} did not {event}", netlink.netns());
            return Err(LabError::Stalled { millis: patience(PATIENCE).as_millis(), what });
        }
        tokio::task::yield_now().await;
    }
    let unchanged = LinkUnspec::new_with_index(LOOPBACK).build();
    netlink.change("waiting for the RTNL lock".to_owned(), RouteNetlinkMessage::SetLink(unchanged)).await?;
    netlink.finish().await
}

fn new_link(
    topology: &Topology,
    interface: &Interface,
    kind: &InterfaceKind,
    namespaces: &[&Namespace],
) -> LinkMessage {
    let name = &interface.name;
    match kind {
        InterfaceKind::VethOwner(end) => {
            let peer = LinkMessageBuilder::<LinkUnspec>::new().index(end.index);
            let mut peer = one_queue(peer.setns_by_fd(namespaces[end.netns].fd()));
            if let Some(other) = topology.namespaces[end.netns].interface(end.index) {
                peer = peer.name(other.name.clone()).address(other.mac.0.to_vec());
            }
            let veth = InfoData::Veth(InfoVeth::Peer(peer.build()));
            common(one_queue(LinkVeth::new(name, "").set_info_data(veth)), interface)
        }
        InterfaceKind::Vxlan { over, local } => {
            let device = LinkVxlan::new(name, VXLAN_VNI).dev(*over).port(VXLAN_PORT).learning(false);
            let device = match local {
                IpAddr::V4(local) => device.local(*local),
                IpAddr::V6(local) => device.local6(*local),
            };
            common(device, interface)
        }
        InterfaceKind::Bridge | InterfaceKind::VethPeer(_) => {
            let quiet = InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)]);
            common(LinkBridge::new(name).set_info_data(quiet), interface)
        }
    }
}

/// Requests one queue: a lab sends from one CPU, and creating a queue for each CPU takes time.
fn one_queue<T: Default>(builder: LinkMessageBuilder<T>) -> LinkMessageBuilder<T> {
    let one = [LinkAttribute::NumTxQueues(1), LinkAttribute::NumRxQueues(1)];
    one.into_iter().fold(builder, LinkMessageBuilder::append_extra_attribute)
}

fn common<T: Default>(builder: LinkMessageBuilder<T>, interface: &Interface) -> LinkMessage {
    let builder = builder.index(interface.index).address(interface.mac.0.to_vec());
    let is_down = interface.kind == InterfaceKind::Bridge || interface.carrier == Carrier::Down;
    let builder = if is_down { builder.down() } else { builder.up() };
    match interface.bridge {
        Some(bridge) => builder.controller(bridge).build(),
        None => builder.build(),
    }
}

async fn hairpin(netlink: &mut Netlink, interface: &Interface) -> Result<(), LabError> {
    let port = LinkBridgePort::new(interface.index).append_info_data(InfoBridgePort::HairpinMode(true)).build();
    let operation = format!("enabling hairpin mode on {}", interface.name);
    netlink.change(operation, RouteNetlinkMessage::NewLink(port)).await
}

fn address(index: u32, address: IpAddr, prefix_length: u8) -> AddressMessage {
    let mut message = match address {
        IpAddr::V4(v4) => {
            AddressMessageBuilder::<std::net::Ipv4Addr>::new().index(index).address(v4, prefix_length).build()
        }
        IpAddr::V6(v6) => AddressMessageBuilder::<Ipv6Addr>::new().index(index).address(v6, prefix_length).build(),
    };
    // Without duplicate address detection an address can be used at once.
    message.header.flags |= AddressHeaderFlags::Nodad;
    message.attributes.retain(|attribute| !matches!(attribute, AddressAttribute::Broadcast(_)));
    message
}

/// The route that makes an address local.
///
/// For IPv6 the kernel adds this route itself, but only once a kernel worker has found that no duplicate address detection is needed: on a
/// busy machine packets may arrive before that, be forwarded, and not count as local for `addrtype`.
fn local_route(index: u32, address: Ipv6Addr) -> RouteMessage {
    RouteMessageBuilder::<Ipv6Addr>::new()
        .output_interface(index)
        .destination_prefix(address, 128)
        .table_id(LOCAL_TABLE)
        .kind(RouteType::Local)
        .scope(RouteScope::Host)
        .build()
}

fn permanent_neighbour(neighbour: &Neighbour) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    let (family, destination) = match neighbour.address {
        IpAddr::V4(v4) => (AddressFamily::Inet, NeighbourAddress::Inet(v4)),
        IpAddr::V6(v6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(v6)),
    };
    message.header.family = family;
    message.header.ifindex = neighbour.interface;
    message.header.state = NeighbourState::Permanent;
    message.attributes.push(NeighbourAttribute::Destination(destination));
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(neighbour.mac.0.to_vec()));
    message
}

fn forwarding_entry(entry: &Fdb) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Bridge;
    message.header.ifindex = entry.interface;
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(entry.mac.0.to_vec()));
    // Entries of a bridge port belong to the bridge (`master`), those of a VXLAN device to the device itself (`self`). On a bridge,
    // "permanent" would mean that the address is the bridge's own.
    (message.header.flags, message.header.state) = match entry.remote {
        None => (NeighbourFlags::Controller, NeighbourState::Noarp),
        Some(_) => (NeighbourFlags::Own, NeighbourState::Permanent),
    };
    if let Some(remote) = entry.remote {
        let remote = match remote {
            IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
            IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
        };
        message.attributes.push(NeighbourAttribute::Destination(remote));
    }
    message
}

fn route(entry: &Route) -> Result<RouteMessage, impl std::fmt::Display> {
    let builder = RouteMessageBuilder::<IpAddr>::new()
        .destination_prefix(entry.destination.network(), entry.destination.prefix_len())?;
    match entry.hop {
        // The next hop need not be in a prefix of the link: nodes have single addresses.
        Hop::Gateway(via, interface) => {
            builder.output_interface(interface).gateway(via).map(|builder| builder.onlink().build())
        }
        Hop::Link(interface) => Ok(builder.output_interface(interface).scope(RouteScope::Link).build()),
        Hop::Nowhere => Ok(builder.kind(RouteType::BlackHole).build()),
    }
}
