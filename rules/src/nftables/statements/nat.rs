//! `dnat to 10.0.0.1:80`, `snat to 10.0.0.1`, `masquerade`: address translation.

use std::net::{IpAddr, SocketAddr};

use super::{Action, Statement};
use crate::cluster::Family;
use crate::nftables::numgen::{Draws, Numgen};
use crate::nftables::text::{Line, family};
use crate::walk::{Destination, Source, SourceAddress};

/// Parses what follows `dnat`: `to 10.0.0.1:80`, or `ip to numgen random mod 1 map { 0 : 10.0.0.1 . 80 }`. Earlier releases of nft print
/// `ip addr . port to` there.
pub(super) fn parse_dnat(line: &mut Line<'_, '_>) -> Option<Statement> {
    if line.take("ip") || line.take("ip6") {
        let _ = line.take("addr") && line.take(".") && line.take("port");
    }
    line.take("to").then_some(())?;
    if !line.take("numgen") {
        let word = line.next();
        let to_address = || word.parse().ok().map(Statement::DnatAddress);
        return word.parse().ok().map(Statement::Dnat).or_else(to_address).filter(|_| !has_more(line));
    }
    let destinations = Numgen::parse("map", line, |line| {
        let address: IpAddr = line.next().parse().ok()?;
        line.take(".").then_some(())?;
        Some(SocketAddr::new(address, line.next().parse().ok()?))
    });
    destinations.map(Statement::BalanceDnat)
}

/// Parses what follows `snat`: `to 10.0.0.1`, `to 10.0.0.1:80`.
pub(super) fn parse_snat(line: &mut Line<'_, '_>) -> Option<Statement> {
    let _ = line.take("ip") || line.take("ip6");
    line.take("to").then_some(())?;
    let word = line.next();
    let with_port = || word.parse::<SocketAddr>().ok().map(|to| Statement::Snat(to.ip(), Some(to.port())));
    let to = word.parse().ok().map(|address| Statement::Snat(address, None));
    to.or_else(with_port).filter(|_| !has_more(line))
}

/// Parses what follows `masquerade`.
pub(super) fn parse_masquerade(line: &mut Line<'_, '_>) -> Option<Statement> {
    let random = line.take("fully-random");
    (!has_more(line)).then_some(Statement::Masquerade { random })
}

/// Returns whether more options follow: ports, or flags that control their choice.
fn has_more(line: &Line<'_, '_>) -> bool {
    matches!(line.peek(), "," | "to" | ":" | "random" | "fully-random" | "persistent")
}

pub(super) fn print_balance(destinations: &Numgen<SocketAddr>, out: &mut String, ip: Family) {
    out.extend(["dnat ", family(ip), " to "]);
    destinations.print("map", out, |to| format!("{} . {}", to.ip(), to.port()));
}

/// Prints a translation to one address, with its family where that is not the table's.
pub(super) fn print(word: &str, address: IpAddr, port: Option<u16>, out: &mut String, ip: Family) {
    let to = port.map_or_else(|| address.to_string(), |port| SocketAddr::new(address, port).to_string());
    let own = Family::of(address);
    let named = if own == ip { ["", ""] } else { [" ", family(own)] };
    out.extend([word, named[0], named[1], " to ", &to]);
}

pub(super) fn compile_balance(destinations: &Numgen<SocketAddr>) -> Action {
    Action::Dnat(Box::new(Draws::of(destinations, |to| destination(to.ip(), Some(to.port())))))
}

/// Compiles a DNAT to a single destination.
pub(super) fn compile_dnat(address: IpAddr, port: Option<u16>) -> Action {
    Action::Dnat(Box::new(Draws::only(destination(address, port))))
}

fn destination(address: IpAddr, port: Option<u16>) -> Destination {
    Destination { address: Some(address), ports: port.map(|port| port..=port), random: false }
}

pub(super) fn compile_snat(address: SourceAddress, port: Option<u16>, random: bool) -> Action {
    Action::Snat(Source { address, ports: port.map(|port| port..=port), random })
}
