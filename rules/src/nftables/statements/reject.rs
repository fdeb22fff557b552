//! `reject`: the sender gets an error.

use super::Statement;
use crate::cluster::Family;
use crate::nftables::text::Line;
use crate::walk::RejectResponse;

/// nft's keywords for ICMP codes, by family.
const WORDS: [(Family, RejectResponse, &str); 13] = [
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

/// Parses what follows `reject`: `with icmp port-unreachable`, `with tcp reset`, or nothing.
pub(super) fn parse(line: &mut Line<'_, '_>) -> Option<Statement> {
    if !line.take("with") {
        return Some(Statement::Reject(RejectResponse::PortUnreachable));
    }
    let kind = line.next();
    line.take("type");
    let word = line.next();
    let of = |family: Family| {
        let is = |(of, _, known): &&(Family, RejectResponse, &str)| *of == family && *known == word;
        WORDS.iter().find(is).map(|(_, response, _)| *response)
    };
    let response = match kind {
        "tcp" => (word == "reset").then_some(RejectResponse::TcpReset),
        "icmp" => of(Family::Ipv4),
        "icmpv6" => of(Family::Ipv6),
        // `icmpx`: codes of both families, with their own names (`nft_reject_icmpv6_code`).
        "icmpx" => match word {
            "port-unreachable" | "admin-prohibited" | "no-route" => of(Family::Ipv6),
            "host-unreachable" => Some(RejectResponse::HostUnreachable),
            _ => None,
        },
        _ => None,
    };
    response.map(Statement::Reject)
}

pub(super) fn print(response: RejectResponse, out: &mut String, ip: Family) {
    out.push_str("reject");
    match response {
        RejectResponse::PortUnreachable => {}
        RejectResponse::TcpReset => out.push_str(" with tcp reset"),
        _ => {
            let icmp = if ip == Family::Ipv4 { "icmp" } else { "icmpv6" };
            let of = |(family, known, _): &&(Family, RejectResponse, &str)| *family == ip && *known == response;
            let word = WORDS.iter().find(of).map_or("port-unreachable", |(.., word)| word);
            out.extend([" with ", icmp, " ", word]);
        }
    }
}
