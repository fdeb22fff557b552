//! Statements.

use std::net::{IpAddr, SocketAddr};

use super::super::super::super::numgen::{Numgen, NumgenMode};
use super::super::super::super::print::REFUSALS;
use super::super::super::super::statement::{MarkChange, Statement, Verdict};
use super::Line;
use super::scalars::{number, verdict};
use crate::cluster::Family;
use crate::walk::RejectResponse;

impl Line<'_, '_> {
    /// Behind `meta mark set`: a number, or `meta mark` with bits that are kept, set or turned over.
    pub(super) fn mark_change(&mut self) -> Option<MarkChange> {
        self.take("meta");
        if !self.take("mark") {
            return number(self.next()).map(|set| MarkChange::Write { kept: 0, set });
        }
        let word = self.next();
        let bits = number(self.next())?;
        Some(match word {
            "|" | "or" => MarkChange::Set(bits),
            "^" | "xor" => MarkChange::Flip(bits),
            "&" | "and" if self.take("|") || self.take("or") => {
                MarkChange::Write { kept: bits, set: number(self.next())? }
            }
            "&" | "and" => MarkChange::Write { kept: bits, set: 0 },
            _ => return None,
        })
    }

    pub(super) fn verdict(&mut self) -> Option<Verdict> {
        verdict(self.next(), || self.next())
    }

    /// Behind `numgen`: `random mod 2 map { 0 : a, 1 : b }`.
    pub(super) fn numgen<T>(&mut self, map: &str, read: impl Fn(&mut Self) -> Option<T>) -> Option<Numgen<T>> {
        let mode = NumgenMode::of(self.next())?;
        self.take("mod").then_some(())?;
        let modulus = self.next().parse().ok()?;
        (self.take(map) && self.take("{")).then_some(())?;
        let mut elements = Vec::new();
        loop {
            let number = self.next();
            let (first, last) = number.split_once('-').unwrap_or((number, number));
            let numbers = first.parse().ok()?..=last.parse().ok()?;
            self.take(":").then_some(())?;
            elements.push((numbers, read(self)?));
            if !self.take(",") {
                break;
            }
        }
        self.take("}").then_some(())?;
        Numgen::new(mode, modulus, elements)
    }

    /// Behind `dnat`: `to 10.0.0.1:80`, or `ip to numgen random mod 1 map { 0 : 10.0.0.1 . 80 }`. Earlier releases of nft
    /// show `ip addr . port to` there.
    pub(super) fn dnat(&mut self) -> Option<Statement> {
        if self.take("ip") || self.take("ip6") {
            let _ = self.take("addr") && self.take(".") && self.take("port");
        }
        self.take("to").then_some(())?;
        if !self.take("numgen") {
            let word = self.next();
            let to_address = || word.parse().ok().map(Statement::DnatAddress);
            return word.parse().ok().map(Statement::Dnat).or_else(to_address).filter(|_| !self.has_more());
        }
        let destinations = self.numgen("map", |line| {
            let address: IpAddr = line.next().parse().ok()?;
            line.take(".").then_some(())?;
            Some(SocketAddr::new(address, line.next().parse().ok()?))
        });
        destinations.map(Statement::BalanceDnat)
    }

    /// Behind `snat`: `to 10.0.0.1`, `to 10.0.0.1:80`.
    pub(super) fn snat(&mut self) -> Option<Statement> {
        let _ = self.take("ip") || self.take("ip6");
        self.take("to").then_some(())?;
        let word = self.next();
        let with_port = || word.parse::<SocketAddr>().ok().map(|to| Statement::Snat(to.ip(), Some(to.port())));
        let to = word.parse().ok().map(|address| Statement::Snat(address, None));
        to.or_else(with_port).filter(|_| !self.has_more())
    }

    pub(super) fn reject(&mut self) -> Option<Statement> {
        if !self.take("with") {
            return Some(Statement::Reject(RejectResponse::PortUnreachable));
        }
        let kind = self.next();
        self.take("type");
        let word = self.next();
        let of = |family: Family| {
            let is = |(of, _, known): &&(Family, RejectResponse, &str)| *of == family && *known == word;
            REFUSALS.iter().find(is).map(|(_, rejection, _)| *rejection)
        };
        let rejection = match kind {
            "tcp" => (word == "reset").then_some(RejectResponse::TcpReset),
            "icmp" => of(Family::Ipv4),
            "icmpv6" => of(Family::Ipv6),
            // What both families have, by names of its own (`nft_reject_icmpv6_code`).
            "icmpx" => match word {
                "port-unreachable" | "admin-prohibited" | "no-route" => of(Family::Ipv6),
                "host-unreachable" => Some(RejectResponse::HostUnreachable),
                _ => None,
            },
            _ => None,
        };
        rejection.map(Statement::Reject)
    }

    /// Whether a translation has more options: ports, or how they are chosen.
    pub(super) fn has_more(&self) -> bool {
        matches!(self.peek(), "," | "to" | ":" | "random" | "fully-random" | "persistent")
    }
}
