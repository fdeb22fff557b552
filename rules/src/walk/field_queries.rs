//! How conditions compare a packet. Every comparison goes to the walk's trace as well, which may be walking for a set of packets.

use super::address::bits;
use super::environment::Environment;
use super::field::Field;
use super::intervals::Intervals;
use super::match_result::Held;
use super::packet::Transport;
use super::trace::Trace;
use super::walker::Walker;

/// The protocols that have ports.
const WITH_PORTS: [u8; 3] = [6, 17, 132];

/// How many intervals a mask may make of a field.
const MAX_INTERVALS: u32 = 12;

impl<T: Trace> Walker<T> {
    /// Whether a number of the packet is from `first` to `last`.
    pub(crate) fn is_between(&self, field: Field, first: u128, last: u128) -> bool {
        let value = field.of(&self.packet);
        self.trace.asked(field, value, || Intervals::between(first, last));
        (first..=last).contains(&value)
    }

    /// Whether a number of the packet is in one of some ranges.
    pub(crate) fn is_among<I: Iterator<Item = (u128, u128)>>(&self, field: Field, ranges: impl Fn() -> I) -> bool {
        let value = field.of(&self.packet);
        self.trace.asked(field, value, || ranges().collect());
        ranges().any(|(first, last)| (first..=last).contains(&value))
    }

    /// Whether an address is `wanted` under a mask. Unknown for sets of packets where that makes very many ranges.
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

    /// Whether the packet is of one of some protocols.
    pub(crate) fn is_protocol(&self, numbers: &[u8]) -> bool {
        self.is_among(Field::Protocol, || numbers.iter().map(|number| (u128::from(*number), u128::from(*number))))
    }

    /// Its ports, if its protocol has them.
    pub(crate) fn ports(&self) -> Option<(u16, u16)> {
        self.is_protocol(&WITH_PORTS).then(|| self.packet.transport.ports()).flatten()
    }

    /// Its flags, if it is of TCP: whether those of a mask are as wanted. No other protocol has them.
    pub(crate) fn has_flags(&self, mask: u8, wanted: u8, negated: bool) -> bool {
        let Transport::Tcp { flags, .. } = self.packet.transport else {
            // A question all the same: TCP would answer otherwise.
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

    /// Whether one of its addresses is the machine's own, and no broadcast address.
    pub(crate) fn is_local(&self, field: Field, environment: &Environment) -> bool {
        let table = &environment.addresses;
        let address = if field == Field::Source { self.packet.source } else { self.packet.destination };
        self.is_alike(field, |address| table.is_local(address), || table.edges());
        table.is_local(address)
    }

    /// Records in the trace which addresses give the same result as one of the packet's own. `edges` has the lowest address of each part
    /// of which all get the same.
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

/// The numbers that are `wanted` under a mask whose lowest bit is this; at most as many as [`MAX_INTERVALS`] bits allow.
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
