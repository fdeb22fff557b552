//! Comparisons of packet fields by conditions. Every comparison is also reported to the walk's trace, which may represent a set of packets.

use super::address::bits;
use super::environment::Environment;
use super::field::Field;
use super::intervals::Intervals;
use super::match_result::Held;
use super::packet::Transport;
use super::trace::Trace;
use super::walker::Walker;

/// The protocols with ports.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// The maximum number of intervals (log2) that a mask may split a field into.
const MAX_INTERVALS: u32 = 12;

impl<T: Trace> Walker<T> {
    /// Returns whether a field of the packet is from `first` to `last`.
    pub(crate) fn is_between(&self, field: Field, first: u128, last: u128) -> bool {
        let value = field.of(&self.packet);
        self.trace.asked(field, value, || Intervals::between(first, last));
        (first..=last).contains(&value)
    }

    /// Returns whether a field of the packet is in one of several ranges.
    pub(crate) fn is_among<I: Iterator<Item = (u128, u128)>>(&self, field: Field, ranges: impl Fn() -> I) -> bool {
        let value = field.of(&self.packet);
        self.trace.asked(field, value, || ranges().collect());
        ranges().any(|(first, last)| (first..=last).contains(&value))
    }

    /// Returns whether an address is `wanted` under a mask. Unknown for sets of packets if that needs too many ranges.
    pub(crate) fn is_masked(&self, field: Field, address: u128, wanted: u128, mask: u128, width: u8) -> Held {
        let holds = address & mask == wanted;
        if self.trace.is_open(field, address) {
            let all = u128::MAX >> (128 - u32::from(width));
            let low = mask.trailing_zeros().min(width.into());
            let above = (!mask & all) >> low;
            if above.count_ones() > MAX_INTERVALS {
                return Held::Unknown("its mask covers too many ranges".into());
            }
            self.trace.asked(field, address, || ranges_of_mask(wanted, mask, low, all));
        }
        holds.into()
    }

    /// Returns whether the packet has one of several protocols.
    pub(crate) fn is_protocol(&self, numbers: &[u8]) -> bool {
        self.is_among(Field::Protocol, || numbers.iter().map(|number| (u128::from(*number), u128::from(*number))))
    }

    /// Returns its ports, if its protocol has ports.
    pub(crate) fn ports(&self) -> Option<(u16, u16)> {
        self.is_protocol(&WITH_PORTS).then(|| self.packet.transport.ports()).flatten()
    }

    /// Returns whether it is a TCP packet whose flags under a mask are as wanted.
    pub(crate) fn has_flags(&self, mask: u8, wanted: u8, negated: bool) -> bool {
        let Transport::Tcp { flags, .. } = self.packet.transport else {
            // It is reported as a comparison all the same: a TCP packet could have a different result.
            return self.is_protocol(&[6]);
        };
        self.is_protocol(&[6]);
        let holds = |flags: u8| (flags & mask == wanted) ^ negated;
        self.trace.asked(Field::Flags, Field::Flags.of(&self.packet), || {
            let fits = (0..=Field::FLAGS).filter(|flags| holds(*flags));
            fits.map(|flags| (flags.into(), flags.into())).collect()
        });
        holds(flags)
    }

    /// Returns whether one of its addresses is local and not a broadcast address.
    pub(crate) fn is_local(&self, field: Field, environment: &Environment) -> bool {
        let table = &environment.addresses;
        let address = if field == Field::Source { self.packet.source } else { self.packet.destination };
        self.is_alike(field, |address| table.is_local(address), || table.edges());
        table.is_local(address)
    }

    /// Records in the trace which addresses give the same result as one of the packet's addresses. `edges` has the lowest address of each
    /// range with the same result.
    pub(crate) fn is_alike<A: PartialEq>(
        &self,
        field: Field,
        answer: impl Fn(std::net::IpAddr) -> A,
        edges: impl FnOnce() -> Vec<u128>,
    ) {
        let address = if field == Field::Source { self.packet.source } else { self.packet.destination };
        let family = self.packet.family();
        self.trace.asked(field, bits(address), || {
            Intervals::alike(&edges(), family, bits(address), |number| {
                answer(super::address::address_from_bits(number, family))
            })
        });
    }
}

/// Returns the ranges of numbers that are `wanted` under a mask with this lowest bit; at most as many as [`MAX_INTERVALS`] bits allow.
fn ranges_of_mask(wanted: u128, mask: u128, low: u32, all: u128) -> Intervals {
    if wanted & !mask != 0 {
        return Intervals::default();
    }
    let span = if low == 128 { u128::MAX } else { (1 << low) - 1 };
    let free = !mask & all & !span;
    let mut ranges = Vec::new();
    let mut chosen = 0;
    loop {
        ranges.push((wanted | chosen, wanted | chosen | span & all));
        // The next subset of the free bits.
        chosen = chosen.wrapping_sub(free) & free;
        if chosen == 0 {
            return ranges.into_iter().collect();
        }
    }
}
