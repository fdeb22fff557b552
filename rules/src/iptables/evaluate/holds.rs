//! Whether a condition holds for a packet.

use std::net::IpAddr;

use super::condition::{Condition, Field, MaskedField, PortField};
use super::facts::{address_types, conntrack, in_set, in_state, multiport, physdev, state};
use crate::iptables::{Recent, RecentAction};
use crate::walk::{Assumptions, Effect, Environment, Held, Interface, RecentLists, Trace, Transport, Walker, bits};

impl<T: Trace> Walker<T> {
    /// Whether a condition holds. Effects of it are noted.
    pub(super) fn holds(&mut self, condition: &Condition, environment: &Environment) -> Held {
        match condition {
            Condition::Field { field, negated, shift, value } => {
                (((self.field(*field) ^ value) >> shift == 0) ^ negated).into()
            }
            Condition::Masked(masked) => {
                let MaskedField { field, negated, value, mask } = **masked;
                ((self.field(field) & mask == value) ^ negated).into()
            }
            Condition::Between(range) => {
                let within = (range.first..=range.last).contains(&self.field(range.field));
                (within ^ range.negated).into()
            }
            Condition::Protocol { negated, number } => ((self.packet.transport.protocol() == *number) ^ negated).into(),
            Condition::Port { protocol, field, negated, first, last } => {
                let transport = self.packet.transport;
                let Some((source, destination)) = transport.ports().filter(|_| transport.protocol() == *protocol)
                else {
                    return Held::No;
                };
                let port = if *field == PortField::Source { source } else { destination };
                ((*first..=*last).contains(&port) ^ negated).into()
            }
            Condition::TcpFlags { negated, mask, set } => match self.packet.transport {
                Transport::Tcp { flags, .. } => ((flags & mask == *set) ^ negated).into(),
                _ => Held::No,
            },
            Condition::Icmp { v6, negated, kind, first, last } => match self.packet.transport {
                Transport::Icmp { v6: is_v6, kind: is, code, .. } if is_v6 == *v6 => {
                    ((is == *kind && (*first..=*last).contains(&code)) ^ negated).into()
                }
                _ => Held::No,
            },
            Condition::Mark(mark) => ((self.packet.mark & mark.value.mask == mark.value.value) ^ mark.negated).into(),
            // `connmark_mt`: without a connection it never holds.
            Condition::Connmark(mark) => self
                .tracking()
                .connection()
                .is_some_and(|connection| (connection.mark & mark.value.mask == mark.value.value) ^ mark.negated)
                .into(),
            Condition::State(states) => in_state(self.tracking(), *states).into(),
            Condition::OldState(states) => (states.value.intersects(state(self.tracking())) ^ states.negated).into(),
            Condition::Conntrack(options) => conntrack(self.tracking(), options).into(),
            Condition::AddressType(types) => address_types(types, &self.packet, environment),
            Condition::Random(threshold) => Held::Sometimes(*threshold, 1 << 31),
            Condition::Nth { part, every } => {
                self.assume(Assumptions::NTH_COUNTER);
                Held::Sometimes(*part, u64::from(*every))
            }
            Condition::Limit => Held::Assuming(Assumptions::BELOW_LIMIT),
            Condition::Recent(recent) => self.recent(recent, &environment.recent).into(),
            Condition::Physdev(ports) => physdev(ports, &self.packet).into(),
            Condition::Multiport(ports) => multiport(ports, self.packet.transport).into(),
            Condition::Set(lookup) => in_set(lookup, &self.packet, environment),
            Condition::Never => Held::No,
            Condition::Unknown(why) => Held::Unknown(why.clone()),
        }
    }

    fn field(&self, field: Field) -> u128 {
        match field {
            Field::Source => bits(self.packet.source),
            Field::Destination => bits(self.packet.destination),
            Field::Input => Interface::number(self.packet.input),
            Field::Output => Interface::number(self.packet.output),
        }
    }

    /// `recent_mt` in `xt_recent.c`. `--reap` only frees entries that are too old anyway.
    fn recent(&mut self, recent: &Recent, lists: &RecentLists) -> bool {
        let side = if recent.destination { self.packet.destination } else { self.packet.source };
        let address = RecentLists::key(side, recent.mask);
        let found = || self.recent_ages(recent, address, lists);
        let list = || recent.name.clone();
        let negated = recent.action.negated;
        match recent.action.value {
            RecentAction::Set => {
                self.effects.push(Effect::Note { list: list(), address });
                !negated
            }
            RecentAction::Remove => {
                let found = found().is_some();
                if found {
                    self.effects.push(Effect::Forget { list: list(), address });
                }
                found ^ negated
            }
            RecentAction::Check | RecentAction::Update => {
                let Some(ages) = found() else { return negated };
                let young = ages.iter().filter(|age| recent.seconds.is_none_or(|seconds| **age <= seconds)).count();
                let holds = (young >= recent.hit_count.unwrap_or(1).max(1) as usize) ^ negated;
                if holds && recent.action.value == RecentAction::Update {
                    self.effects.push(Effect::Note { list: list(), address });
                }
                holds
            }
        }
    }

    /// The ages of a list's entry for an address, with what this packet did to it before.
    fn recent_ages(&self, recent: &Recent, address: IpAddr, lists: &RecentLists) -> Option<Vec<u32>> {
        let before = lists.entry(&recent.name, address).map(|entry| entry.ages.clone());
        self.effects.iter().fold(before, |ages, effect| match effect {
            Effect::Note { list, address: noted } if *list == recent.name && *noted == address => {
                Some(ages.into_iter().flatten().chain([0]).collect())
            }
            Effect::Forget { list, address: gone } if *list == recent.name && *gone == address => None,
            _ => ages,
        })
    }
}
