//! Traces of nftables, for its own rules and those of iptables-nft (`linux/netfilter/nf_tables.h`).

use std::collections::HashMap;
use std::io;

use super::event::{Event, TraceSource, TracedWhat};
use super::headers::Header;
use crate::lab::netfilter::{Message, Socket, encode};

/// NFNLGRP_NFTRACE, as a bit.
const GROUP: u32 = 1 << (9 - 1);
/// NFNL_SUBSYS_NFTABLES with NFT_MSG_TRACE, NFT_MSG_GETRULE.
const TRACE: u16 = 10 << 8 | 17;
const GET_RULE: u16 = 10 << 8 | 7;

/// `enum nft_trace_attributes`.
const TABLE: u16 = 1;
const CHAIN: u16 = 2;
const RULE_HANDLE: u16 = 3;
const TYPE: u16 = 4;
const ID: u16 = 6;
const NETWORK_HEADER: u16 = 8;
const TRANSPORT_HEADER: u16 = 9;
/// `enum nft_rule_attributes`.
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const HANDLE: u16 = 3;
/// `enum nft_trace_types`.
const POLICY: u32 = 1;

/// The subject of a message.
#[derive(Debug, PartialEq, Eq)]
enum Reported {
    /// The policy of a base chain.
    Policy,
    /// The end of a chain.
    Return,
    /// A rule with this handle.
    Rule(u64),
}

impl Reported {
    /// Kernels up to 6.3 report a returning rule as the end of a chain (`NFT_TRACETYPE_RETURN`), but with its handle; later ones report the
    /// end of a chain as a rule (`NFT_TRACETYPE_RULE`), but without a handle.
    fn of(kind: Option<u32>, handle: Option<u64>) -> Self {
        match (kind, handle) {
            (Some(POLICY), _) => Self::Policy,
            (_, Some(handle)) => Self::Rule(handle),
            (_, None) => Self::Return,
        }
    }
}

/// Opens a socket that receives traces.
pub(super) fn listen() -> io::Result<Socket> {
    Socket::open(GROUP)
}

/// Returns all events since the last call.
pub(super) fn receive(socket: &Socket) -> io::Result<Vec<Event>> {
    let messages = socket.messages()?;
    let mut chains: HashMap<(u8, String, String), Vec<u64>> = HashMap::new();
    // Only the first message about a packet in a base chain contains its headers.
    let mut headers: HashMap<u32, Header> = HashMap::new();
    let mut events = Vec::with_capacity(messages.len());
    for message in messages.iter().filter(|message| message.kind == TRACE) {
        let (Some(table), Some(chain)) = (message.text(TABLE), message.text(CHAIN)) else { continue };
        let id = message.word(ID).unwrap_or_default();
        if let Some(header) = header(message) {
            headers.insert(id, header);
        }
        let what = match Reported::of(message.word(TYPE), message.long(RULE_HANDLE)) {
            Reported::Policy => TracedWhat::Policy,
            Reported::Return => TracedWhat::Return,
            Reported::Rule(handle) => {
                let key = (message.family, table.clone(), chain.clone());
                if !chains.contains_key(&key) {
                    chains.insert(key.clone(), rules_of(socket, &key)?);
                }
                let position = chains[&key].iter().position(|rule| *rule == handle);
                TracedWhat::Rule(position.map(|position| position + 1))
            }
        };
        let header = headers.get(&id).cloned();
        events.push(Event { header, table, chain, what, trace_source: TraceSource::Nftables });
    }
    Ok(events)
}

fn header(message: &Message) -> Option<Header> {
    Header::of(message.attribute(NETWORK_HEADER)?, message.attribute(TRANSPORT_HEADER)?)
}

/// The handles of a chain's rules, in order.
fn rules_of(socket: &Socket, (family, table, chain): &(u8, String, String)) -> io::Result<Vec<u64>> {
    let text = |name: &str| [name.as_bytes(), &[0]].concat();
    let attributes = [encode(RULE_TABLE, &text(table)), encode(RULE_CHAIN, &text(chain))].concat();
    let rules = socket.list(GET_RULE, *family, &attributes)?;
    let of_chain = |rule: &&Message| rule.text(RULE_CHAIN).as_deref() == Some(chain);
    Ok(rules.iter().filter(of_chain).filter_map(|rule| rule.long(HANDLE)).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const RETURN: u32 = 2;
    const RULE: u32 = 3;

    #[rstest]
    #[case::policy(POLICY, None, Reported::Policy)]
    #[case::rule(RULE, Some(7), Reported::Rule(7))]
    #[case::rule_that_returns_up_to_linux_6_3(RETURN, Some(7), Reported::Rule(7))]
    #[case::end_of_chain_up_to_linux_6_3(RETURN, None, Reported::Return)]
    #[case::end_of_chain(RULE, None, Reported::Return)]
    fn kernels_report_the_same_in_different_ways(
        #[case] kind: u32,
        #[case] handle: Option<u64>,
        #[case] expected: Reported,
    ) {
        assert_eq!(Reported::of(Some(kind), handle), expected);
    }
}
