//! What rules say of themselves, without a packet.

use smallvec::smallvec;

use super::action::Action;
use super::condition::{AddressTypes, Condition, Field, PortField};
use super::program::Code;
use crate::iptables::{RecentAction, Side};
use crate::walk::{Deed, Edges, Inspect};

impl Inspect for Code {
    fn deed(&self, rule: u32) -> Deed<'_> {
        match &self.rules[rule as usize].action {
            Action::Continue | Action::Perhaps => Deed::Passes,
            Action::Mark(_) | Action::Connmark(_) => Deed::Marks,
            Action::Jump(chain) => Deed::Leads(smallvec![*chain], true),
            Action::Goto(chain) => Deed::Leads(smallvec![*chain], false),
            Action::Dnat(destination) => Deed::Translates(std::slice::from_ref(destination)),
            Action::Return => Deed::Returns,
            Action::Accept
            | Action::Drop
            | Action::Reject(_)
            | Action::Redirect(_)
            | Action::Snat(_)
            | Action::NoTrack
            | Action::Unknown(_) => Deed::Ends,
        }
    }

    fn edges(&self, rule: u32, edges: &mut Edges) {
        let rule = &self.rules[rule as usize];
        self.conditions(rule).iter().for_each(|condition| of_condition(condition, edges));
    }
}

fn of_condition(condition: &Condition, edges: &mut Edges) {
    match condition {
        Condition::Field { field, shift, value, .. } => {
            let first = value >> shift << shift;
            of_field(*field, first, first | ((1 << shift) - 1), edges);
        }
        Condition::Masked(masked) => {
            of_field(masked.field, masked.value, masked.value, edges);
            // What differs in the lowest bit of the mask alone.
            let other = masked.value ^ (masked.mask & masked.mask.wrapping_neg());
            of_field(masked.field, other, other, edges);
        }
        Condition::Between(range) => of_field(range.field, range.first, range.last, edges),
        Condition::Protocol { number, .. } => drop(edges.protocols.insert(*number)),
        Condition::Port { protocol, field, first, last, .. } => {
            edges.protocols.insert(*protocol);
            Edges::ports(edges.ports_of(*field == PortField::Source), *first, *last);
        }
        Condition::TcpFlags { .. } => drop(edges.protocols.insert(TCP)),
        Condition::Icmp { .. } => {}
        Condition::Multiport(ports) => {
            for range in &ports.ports.value {
                if ports.side != Side::Destination {
                    Edges::ports(&mut edges.source_ports, range.first, range.last);
                }
                if ports.side != Side::Source {
                    Edges::ports(&mut edges.destination_ports, range.first, range.last);
                }
            }
        }
        Condition::Mark(_) | Condition::Connmark(_) => edges.marks = true,
        Condition::AddressType(types) => of_types(types, edges),
        Condition::Recent(recent) => edges.history |= recent.action.value != RecentAction::Set,
        Condition::Limit | Condition::Nth { .. } => edges.history |= matches!(condition, Condition::Limit),
        Condition::Physdev(_) => edges.history = true,
        // The same for the first packets of all connections, or not known for any.
        Condition::State(_)
        | Condition::OldState(_)
        | Condition::Conntrack(_)
        | Condition::Random(_)
        | Condition::Set(_)
        | Condition::Never
        | Condition::Unknown(_) => {}
    }
}

const TCP: u8 = 6;

fn of_field(field: Field, first: u128, last: u128, edges: &mut Edges) {
    match field {
        Field::Source => Edges::between(&mut edges.sources, first, last),
        Field::Destination => Edges::between(&mut edges.destinations, first, last),
        Field::Input => drop(edges.inputs.insert(first)),
        Field::Output => drop(edges.outputs.insert(first)),
    }
}

fn of_types(types: &AddressTypes, edges: &mut Edges) {
    edges.local_source |= types.source.is_some();
    edges.local_destination |= types.destination.is_some();
}
