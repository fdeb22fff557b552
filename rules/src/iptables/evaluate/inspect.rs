//! What rules say of themselves, without a packet.

use smallvec::smallvec;

use super::action::Action;
use super::condition::{AddressTypes, Condition, ConnectionPart, Field, PortField};
use super::program::Code;
use crate::iptables::{RecentAction, Side};
use crate::walk::{Direction, Edges, Inspect, RuleEffect};

impl Inspect for Code {
    fn effect(&self, rule: u32) -> RuleEffect<'_> {
        match &self.rules[rule as usize].action {
            Action::Continue | Action::Perhaps => RuleEffect::Passes,
            Action::Mark(_) | Action::Connmark(_) => RuleEffect::Marks,
            Action::Jump(chain) => RuleEffect::Leads(smallvec![*chain], true),
            Action::Goto(chain) => RuleEffect::Leads(smallvec![*chain], false),
            Action::Dnat(destination) => RuleEffect::Translates(std::slice::from_ref(destination)),
            Action::Return => RuleEffect::Returns,
            Action::Accept
            | Action::Drop
            | Action::Reject(_)
            | Action::Redirect(_)
            | Action::Snat(_)
            | Action::NoTrack
            | Action::Unknown(_) => RuleEffect::Ends,
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
            let values = match masked.field {
                Field::Source => &mut edges.sources,
                Field::Destination => &mut edges.destinations,
                Field::Input => &mut edges.inputs,
                Field::Output => &mut edges.outputs,
            };
            Edges::masked(values, masked.value, masked.mask);
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
        Condition::Mark(mark) => edges.mark(mark.value.value, mark.value.mask),
        Condition::Conntrack(options) => options.parts.iter().for_each(|part| of_part(&part.value, edges)),
        Condition::AddressType(types) => of_types(types, edges),
        Condition::Recent(recent) => edges.history |= recent.action.value != RecentAction::Set,
        Condition::Limit | Condition::Physdev(_) | Condition::Connmark(_) => edges.history = true,
        // The same for the first packets of all connections, or not known for any.
        Condition::State(_)
        | Condition::OldState(_)
        | Condition::Random(_)
        | Condition::Nth { .. }
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

/// A part of a connection, as its first packet has it.
fn of_part(part: &ConnectionPart, edges: &mut Edges) {
    let of_source = |direction: Direction, source: bool| (direction == Direction::Original) == source;
    match *part {
        ConnectionPart::Direction(_) => {}
        ConnectionPart::Protocol(number) => drop(edges.protocols.insert(number)),
        ConnectionPart::Address { direction, source, value, mask } => {
            Edges::masked(edges.addresses(of_source(direction, source)), value, mask);
        }
        ConnectionPart::Port { direction, source, range } => {
            Edges::ports(edges.ports_of(of_source(direction, source)), range.first, range.last);
        }
    }
}

fn of_types(types: &AddressTypes, edges: &mut Edges) {
    edges.local_source |= types.source.is_some();
    edges.local_destination |= types.destination.is_some();
}
