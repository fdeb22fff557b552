//! Statements as text.

use std::fmt::Write;
use std::net::SocketAddr;

use super::conditions::write_key;
use super::family;
use crate::cluster::Family;
use crate::nftables::{MarkChange, Numgen, Statement, Verdict};
use crate::walk::RejectResponse;

pub(super) fn write_statement(out: &mut String, statement: &Statement, ip: Family) {
    let _ = match statement {
        Statement::Verdict(verdict) => {
            write_verdict(out, verdict);
            Ok(())
        }
        Statement::Reject(RejectResponse::PortUnreachable) => write!(out, "reject"),
        Statement::Reject(RejectResponse::TcpReset) => write!(out, "reject with tcp reset"),
        Statement::Reject(rejection) => write!(out, "reject with {} {}", icmp(ip), refusal_word(*rejection, ip)),
        Statement::Lookup(key, map) => {
            write_key(out, key, ip);
            write!(out, " vmap @{map}")
        }
        Statement::Balance(chains) => write_numgen(out, "vmap", chains, |out, chain| write!(out, "goto {chain}")),
        Statement::BalanceDnat(endpoints) => {
            let _ = write!(out, "dnat {} to ", family(ip));
            write_numgen(out, "map", endpoints, |out, endpoint| write!(out, "{} . {}", endpoint.ip(), endpoint.port()))
        }
        Statement::Dnat(endpoint) => write!(out, "dnat to {endpoint}"),
        Statement::DnatAddress(address) => write!(out, "dnat to {address}"),
        Statement::Snat(address, None) => write!(out, "snat to {address}"),
        Statement::Snat(address, Some(port)) => write!(out, "snat to {}", SocketAddr::new(*address, *port)),
        Statement::Masquerade { random: true } => write!(out, "masquerade fully-random"),
        Statement::Masquerade { random: false } => write!(out, "masquerade"),
        Statement::Mark(MarkChange::Set(bit)) => write!(out, "meta mark set meta mark | {bit:#010x}"),
        Statement::Mark(MarkChange::Flip(bit)) => write!(out, "meta mark set meta mark ^ {bit:#010x}"),
        Statement::Mark(MarkChange::Write { kept: 0, set }) => write!(out, "meta mark set {set:#010x}"),
        Statement::Mark(MarkChange::Write { kept, set: 0 }) => write!(out, "meta mark set meta mark & {kept:#010x}"),
        Statement::Mark(MarkChange::Write { kept, set }) => {
            write!(out, "meta mark set meta mark & {kept:#010x} | {set:#010x}")
        }
        Statement::Remember(side, set) => write!(out, "update @{set} {{ {} {} }}", family(ip), side.as_str()),
        Statement::Other(json) => write!(out, "{json}"),
    };
}

pub(super) fn write_verdict(out: &mut String, verdict: &Verdict) {
    let _ = match verdict {
        Verdict::Accept => write!(out, "accept"),
        Verdict::Drop => write!(out, "drop"),
        Verdict::Return => write!(out, "return"),
        Verdict::Jump(chain) => write!(out, "jump {chain}"),
        Verdict::Goto(chain) => write!(out, "goto {chain}"),
    };
}

fn icmp(ip: Family) -> &'static str {
    match ip {
        Family::Ipv4 => "icmp",
        Family::Ipv6 => "icmpv6",
    }
}

/// nft's words for what ICMP says, by family.
pub(in crate::nftables) const REFUSALS: [(Family, RejectResponse, &str); 13] = [
    (Family::Ipv4, RejectResponse::PortUnreachable, "port-unreachable"),
    (Family::Ipv4, RejectResponse::NetUnreachable, "net-unreachable"),
    (Family::Ipv4, RejectResponse::HostUnreachable, "host-unreachable"),
    (Family::Ipv4, RejectResponse::ProtocolUnreachable, "prot-unreachable"),
    (Family::Ipv4, RejectResponse::NetProhibited, "net-prohibited"),
    (Family::Ipv4, RejectResponse::HostProhibited, "host-prohibited"),
    (Family::Ipv4, RejectResponse::AdminProhibited, "admin-prohibited"),
    (Family::Ipv6, RejectResponse::PortUnreachable, "port-unreachable"),
    (Family::Ipv6, RejectResponse::NetUnreachable, "no-route"),
    (Family::Ipv6, RejectResponse::HostUnreachable, "addr-unreachable"),
    (Family::Ipv6, RejectResponse::AdminProhibited, "admin-prohibited"),
    (Family::Ipv6, RejectResponse::PolicyFail, "policy-fail"),
    (Family::Ipv6, RejectResponse::RejectRoute, "reject-route"),
];

fn refusal_word(rejection: RejectResponse, ip: Family) -> &'static str {
    let of = |(family, known, _): &&(Family, RejectResponse, &str)| *family == ip && *known == rejection;
    REFUSALS.iter().find(of).map_or("port-unreachable", |(.., word)| word)
}

/// `numgen random mod 3 vmap { 0 : a, 1-2 : b }`.
fn write_numgen<T>(
    out: &mut String,
    map: &str,
    numgen: &Numgen<T>,
    write: impl Fn(&mut String, &T) -> std::fmt::Result,
) -> std::fmt::Result {
    write!(out, "numgen {} mod {} {map} {{ ", numgen.mode.as_str(), numgen.modulus)?;
    for ((numbers, value), index) in numgen.numbers.iter().zip(&**numgen).zip(0..) {
        let between = if index > 0 { ", " } else { "" };
        match (numbers.start(), numbers.end()) {
            (first, last) if first == last => write!(out, "{between}{first} : ")?,
            (first, last) => write!(out, "{between}{first}-{last} : ")?,
        }
        write(out, value)?;
    }
    out.write_str(" }")
}
