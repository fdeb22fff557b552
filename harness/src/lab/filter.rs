//! Packet socket filters, which let counting taps receive only what they count.

use socket2::{SockFilter, SockRef};

use super::{Channel, LabError};

/// Attaches a filter to a channel.
pub(crate) fn attach(channel: &Channel, filter: &[SockFilter]) -> Result<(), LabError> {
    let attached = SockRef::from(&channel.socket()).attach_filter(filter);
    attached.map_err(|source| channel.error("filtering a packet socket", source))
}

/// Detaches the filter of a channel, which then receives everything again.
pub(crate) fn detach(channel: &Channel) -> Result<(), LabError> {
    let detached = SockRef::from(&channel.socket()).detach_filter();
    detached.map_err(|source| channel.error("detaching a packet socket's filter", source))
}

/// Passes the first bytes of packets that leave through an interface with at least this index and, if a CPU is given,
/// are processed by this CPU.
///
/// Classic BPF with Linux' ancillary data (linux/filter.h).
pub(crate) fn outgoing_from(first: u32, cpu: Option<usize>, bytes: usize) -> Vec<SockFilter> {
    const OUTGOING: u32 = 4;
    let mut conditions = vec![(PACKET_TYPE, JUMP_EQUAL, OUTGOING), (INTERFACE, JUMP_GREATER_EQUAL, first)];
    conditions.extend(cpu.map(|cpu| (CPU, JUMP_EQUAL, cpu as u32)));
    all_of(&conditions, bytes)
}

/// Passes whole packets that this CPU processes.
pub(crate) fn processed_by(cpu: usize) -> Vec<SockFilter> {
    const ALL: usize = 0xffff;
    all_of(&[(CPU, JUMP_EQUAL, cpu as u32)], ALL)
}

const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_EQUAL: u16 = 0x35;
const ANCILLARY: u32 = 0xffff_f000;
const PACKET_TYPE: u32 = ANCILLARY + 4;
const INTERFACE: u32 = ANCILLARY + 8;
const CPU: u32 = ANCILLARY + 36;

/// Passes the first bytes of packets for which all conditions hold: the load offset, the comparison, and the value to compare with.
fn all_of(conditions: &[(u32, u16, u32)], bytes: usize) -> Vec<SockFilter> {
    const LOAD_WORD: u16 = 0x20;
    let mut filter = Vec::with_capacity(2 * conditions.len() + 2);
    for (at, (what, jump, value)) in conditions.iter().enumerate() {
        // On failure, jump over the remaining conditions, two instructions each, and over the first return.
        let to_the_end = 2 * (conditions.len() - at - 1) as u8 + 1;
        filter.push(SockFilter::new(LOAD_WORD, 0, 0, *what));
        filter.push(SockFilter::new(*jump, 0, to_the_end, *value));
    }
    filter.extend([return_bytes(bytes as u32), return_bytes(0)]);
    filter
}

/// Passes nothing.
pub(crate) fn nothing() -> [SockFilter; 1] {
    [return_bytes(0)]
}

/// The instruction that ends a filter and passes this many bytes of the packet.
fn return_bytes(count: u32) -> SockFilter {
    const RETURN: u16 = 0x06;
    SockFilter::new(RETURN, 0, 0, count)
}
