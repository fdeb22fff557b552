//! Traces of iptables-legacy: lines of its namespace's log, which `nfnetlink_log` sends to group 0.

use std::io;

use super::event::{Event, TraceSource, TracedWhat};
use super::headers::Header;
use crate::lab::netfilter::{Message, Socket, encode};

/// NFNL_SUBSYS_ULOG with NFULNL_MSG_PACKET, NFULNL_MSG_CONFIG (`linux/netfilter/nfnetlink_log.h`).
const PACKET: u16 = 4 << 8;
const CONFIG: u16 = 4 << 8 | 1;
/// The attributes of a configuration, and its commands.
const COMMAND: u16 = 1;
const MODE: u16 = 2;
const THRESHOLD: u16 = 5;
const BIND: u8 = 1;
const BIND_FAMILY: u8 = 3;
/// The attributes of a packet.
const PAYLOAD: u16 = 9;
const PREFIX: u16 = 10;
/// NFULNL_COPY_PACKET, and the number of bytes to copy: at least both headers.
const COPY_PACKET: u8 = 2;
const COPIED: u32 = 128;
/// The families of addresses: AF_INET, AF_INET6.
const FAMILIES: [u8; 2] = [2, 10];

/// Opens a socket that receives traces from the log of the calling thread's namespace.
pub(super) fn listen() -> io::Result<Socket> {
    let socket = Socket::open(0)?;
    for family in FAMILIES {
        socket.request(CONFIG, family, 0, &encode(COMMAND, &[BIND_FAMILY]))?;
    }
    socket.request(CONFIG, 0, 0, &encode(COMMAND, &[BIND]))?;
    let mode = [&COPIED.to_be_bytes()[..], &[COPY_PACKET, 0]].concat();
    // Each message is sent at once, not batched with others.
    let attributes = [encode(MODE, &mode), encode(THRESHOLD, &1_u32.to_be_bytes())].concat();
    socket.request(CONFIG, 0, 0, &attributes)?;
    Ok(socket)
}

/// Returns all events since the last call.
pub(super) fn receive(socket: &Socket) -> io::Result<Vec<Event>> {
    let messages = socket.messages()?;
    Ok(messages.iter().filter(|message| message.kind == PACKET).filter_map(event).collect())
}

fn event(message: &Message) -> Option<Event> {
    let header = message.attribute(PAYLOAD).and_then(Header::read);
    let (table, chain, what) = read(&message.text(PREFIX)?)?;
    Some(Event { header, table, chain, what, trace_source: TraceSource::Legacy })
}

/// Parses a line of the log: `TRACE: nat:KUBE-SERVICES:rule:3 `.
fn read(line: &str) -> Option<(String, String, TracedWhat)> {
    let mut words = line.strip_prefix("TRACE: ")?.trim_end().split(':');
    let (table, chain, kind, number) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let what = match kind {
        "rule" => TracedWhat::Rule(number.parse().ok()),
        "return" => TracedWhat::Return,
        "policy" => TracedWhat::Policy,
        _ => return None,
    };
    Some((table.to_owned(), chain.to_owned(), what))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::rule("TRACE: nat:KUBE-SERVICES:rule:3 ", Some(("nat", "KUBE-SERVICES", TracedWhat::Rule(Some(3)))))]
    #[case::end("TRACE: filter:KUBE-FORWARD:return:4 ", Some(("filter", "KUBE-FORWARD", TracedWhat::Return)))]
    #[case::policy("TRACE: filter:FORWARD:policy:2 ", Some(("filter", "FORWARD", TracedWhat::Policy)))]
    #[case::of_others("dropped by a rule: ", None)]
    fn lines_of_the_log_are_read(#[case] line: &str, #[case] expected: Option<(&str, &str, TracedWhat)>) {
        let expected = expected.map(|(table, chain, what)| (table.to_owned(), chain.to_owned(), what));
        assert_eq!(read(line), expected);
    }
}
