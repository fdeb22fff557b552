//! The matches of a rule as conditions.

use super::condition::{AddressTypes, Condition, Field, MaskedField, Name, PhysdevPorts, PortField, SetLookup};
use super::extension;
use crate::cluster::Family;
use crate::iptables::{
    AddressType, IpSet, Match, Negatable, Network, PortRange, Ports, Probability, Recent, RecentAction, RouteType,
    Rule, Statistic,
};
use crate::walk::{Interface, bits};

/// The conditions of a rule, in an order that gives the same result as the rule's own.
///
/// The kernel stops at the first condition that does not hold. Conditions that chance decides are moved behind those
/// that only look, so that a packet's way is not split before it must be; conditions with effects are never passed.
pub(super) fn conditions(rule: &Rule, family: Family, out: &mut Vec<Condition>) {
    let start = out.len();
    out.extend(rule.source.as_ref().and_then(|network| address(Field::Source, network, family)));
    out.extend(rule.destination.as_ref().and_then(|network| address(Field::Destination, network, family)));
    out.extend(rule.in_interface.as_ref().and_then(|name| interface(Field::Input, name)));
    out.extend(rule.out_interface.as_ref().and_then(|name| interface(Field::Output, name)));
    let protocol = rule.protocol.filter(|protocol| protocol.value.0 != 0);
    out.extend(protocol.map(|Negatable { negated, value }| Condition::Protocol { negated, number: value.0 }));
    if let Some(fragment) = rule.fragment
        && !fragment.negated
    {
        out.push(Condition::Never);
    }
    rule.matches.iter().for_each(|found| of_match(found, rule, family, out));
    delay_chance(&mut out[start..]);
}

fn delay_chance(conditions: &mut [Condition]) {
    for start in (0..conditions.len()).rev().filter(|at| conditions[*at].is_chance()).collect::<Vec<_>>() {
        let rest = &conditions[start + 1..];
        let passed = rest.iter().take_while(|next| !next.is_chance() && !next.has_effect()).count();
        conditions[start..=start + passed].rotate_left(1);
    }
}

fn address(field: Field, network: &Negatable<Network>, family: Family) -> Option<Condition> {
    let negated = network.negated;
    match &network.value {
        Network::Prefix(range) => {
            let shift = family.bits().saturating_sub(range.prefix_len());
            prefix(field, negated, shift, bits(range.addr()), family.bits())
        }
        Network::Masked(pair) => {
            let (value, mask) = (bits(pair.0), bits(pair.1));
            Some(Condition::Masked(Box::new(MaskedField { field, negated, value: value & mask, mask })))
        }
    }
}

/// Nothing where the condition always holds.
fn prefix(field: Field, negated: bool, shift: u8, value: u128, bits: u8) -> Option<Condition> {
    match (shift == bits, negated) {
        (true, false) => None,
        (true, true) => Some(Condition::Never),
        _ => Some(Condition::Field { field, negated, shift, value }),
    }
}

fn interface(field: Field, name: &Negatable<Box<str>>) -> Option<Condition> {
    let (shift, value) = name_bits(&name.value);
    prefix(field, name.negated, shift, value, 128)
}

/// A name, and how many of its lowest bits do not count: the `+` at the end and all behind it.
fn name_bits(name: &str) -> (u8, u128) {
    let Some(start) = name.strip_suffix('+') else { return (0, Interface::number_of_text(name)) };
    (128 - 8 * start.len().min(16) as u8, Interface::number_of_text(start))
}

fn name(text: &str) -> Name {
    let (shift, value) = name_bits(text);
    Name { value, mask: u128::MAX.checked_shl(u32::from(shift)).unwrap_or(0) }
}

fn of_match(found: &Match, rule: &Rule, family: Family, out: &mut Vec<Condition>) {
    match found {
        Match::Comment(_) | Match::Nfacct(_) => {}
        Match::Ports(ports) => of_ports(ports, rule, out),
        Match::Mark(mark) => out.push(Condition::Mark(*mark)),
        Match::Connmark(mark) => out.push(Condition::Connmark(*mark)),
        Match::State { old_name: false, states } => out.push(Condition::State(*states)),
        Match::State { old_name: true, states } => out.push(Condition::OldState(*states)),
        Match::AddressType(types) => out.push(Condition::AddressType(Box::new(address_types(types)))),
        Match::Statistic(statistic) => out.extend(chance(*statistic)),
        Match::Recent(recent) => out.push(of_recent(recent)),
        Match::Physdev(physdev) => {
            let side = |side: &Option<Negatable<Box<str>>>| {
                side.as_ref().map(|side| Negatable { negated: side.negated, value: name(&side.value) })
            };
            out.push(Condition::Physdev(Box::new(PhysdevPorts {
                input: side(&physdev.input),
                output: side(&physdev.output),
                is_input: physdev.is_input.map(|flag| !flag.negated),
                is_output: physdev.is_output.map(|flag| !flag.negated),
                is_bridged: physdev.is_bridged.map(|flag| !flag.negated),
            })));
        }
        Match::Multiport(ports) => out.push(Condition::Multiport(ports.clone())),
        Match::Set(set) => out.push(lookup(set)),
        Match::Other(other) => out.extend(extension::condition(other, family)),
    }
}

fn of_ports(ports: &Ports, rule: &Rule, out: &mut Vec<Condition>) {
    let protocol = ports.protocol.number();
    let sides = [(PortField::Source, ports.source), (PortField::Destination, ports.destination)];
    for (field, range) in sides {
        if let Some(Negatable { negated, value: PortRange { first, last } }) = range {
            out.push(Condition::Port { protocol, field, negated, first, last });
        }
    }
    // Without options all that is compared is the protocol, which `-p` has done before.
    let is_asked = rule.protocol == Some(Negatable::is(ports.protocol.into()));
    if ports.source.is_none() && ports.destination.is_none() && !is_asked {
        out.push(Condition::Protocol { negated: false, number: protocol });
    }
    if let Some(Negatable { negated, value }) = ports.flags {
        out.push(Condition::TcpFlags { negated, mask: value.mask, set: value.set });
    }
}

fn address_types(types: &AddressType) -> AddressTypes {
    let bits = |side: RouteType| 1 << side as u16;
    let side = |side: Option<Negatable<RouteType>>| {
        side.map(|side| Negatable { negated: side.negated, value: bits(side.value) })
    };
    AddressTypes { source: side(types.source), destination: side(types.destination), ..AddressTypes::default() }
}

/// Nothing where it always holds.
fn chance(statistic: Statistic) -> Option<Condition> {
    match statistic {
        Statistic::Random(Negatable { negated, value }) => {
            let threshold = value.threshold();
            match if negated { Probability::ONE - threshold } else { threshold } {
                0 => Some(Condition::Never),
                Probability::ONE => None,
                threshold => Some(Condition::Random(threshold)),
            }
        }
        // One packet of `every`; iptables refuses 0.
        Statistic::Nth { every: Negatable { negated, value }, .. } => match (value, negated) {
            (0 | 1, false) => None,
            (0 | 1, true) => Some(Condition::Never),
            (every, false) => Some(Condition::Nth { part: 1, every }),
            (every, true) => Some(Condition::Nth { part: every - 1, every }),
        },
    }
}

fn of_recent(recent: &Recent) -> Condition {
    if recent.same_ttl && recent.action.value != RecentAction::Set {
        return Condition::Unknown("`recent --rttl` depends on the TTL, which is not modelled".into());
    }
    Condition::Recent(Box::new(recent.clone()))
}

fn lookup(set: &Negatable<IpSet>) -> Condition {
    let sources = set.value.directions.split(',').map(|word| match word {
        "src" => Some(true),
        "dst" => Some(false),
        _ => None,
    });
    match sources.collect() {
        Some(sources) => {
            let value = SetLookup { name: set.value.name.clone(), sources };
            Condition::Set(Box::new(Negatable { negated: set.negated, value }))
        }
        None => Condition::Unknown(format!("`set` with `{}` is not modelled", set.value.directions).into()),
    }
}
