//! The neighbours on the links of a machine.

use std::collections::HashMap;
use std::net::IpAddr;

use svclab_rules::cluster::Family;
use svclab_rules::walk::{Field, address_bits};

use super::set_queries::{Set, keys};
use crate::topology::Netns;
use crate::wire::Mac;

/// The neighbours of a machine's interfaces.
pub(super) struct Neighbours {
    macs: HashMap<(u32, IpAddr), Mac>,
    /// Their addresses, sorted, by interface and family.
    keys: HashMap<(u32, Family), Vec<(u128, u128)>>,
}

impl Neighbours {
    pub(super) fn of(netns: &Netns) -> Self {
        let mut addresses: HashMap<(u32, Family), Vec<IpAddr>> = HashMap::new();
        for one in netns.neighbours() {
            addresses.entry((one.interface, Family::of(one.address))).or_default().push(one.address);
        }
        let keys = addresses.into_iter().map(|(of, addresses)| (of, keys(addresses))).collect();
        // If several have the same address, the first is used.
        let macs = netns.neighbours().rev().map(|one| ((one.interface, one.address), one.mac)).collect();
        Self { macs, keys }
    }

    /// Finds the neighbour with an address on an interface's link; `to` is the packet's destination.
    pub(super) fn find(&self, interface: u32, next_hop: IpAddr, to: IpAddr, set: Set<'_>) -> Option<Mac> {
        if let Some(set) = set.filter(|_| next_hop == to) {
            let keys = self.keys.get(&(interface, Family::of(to)));
            set.look_up(Field::Destination, address_bits(to), keys.map(Vec::as_slice).unwrap_or_default());
        }
        self.macs.get(&(interface, next_hop)).copied()
    }
}
