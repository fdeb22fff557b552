//! `REJECT`: sends an error to the sender.

use super::{Parsed, Target};
use crate::cluster::Family;
use crate::iptables::text::{Options, Printer};
use crate::walk::RejectResponse;

/// The response of `REJECT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectWith {
    /// A TCP reset.
    TcpReset,
    /// ICMP: the port is closed.
    PortUnreachable,
    /// ICMP: the network is unreachable; IPv6 says no route.
    NetUnreachable,
    /// ICMP: the host is unreachable; IPv6 says address unreachable.
    HostUnreachable,
    /// ICMP: the protocol is unknown; IPv4 only.
    ProtoUnreachable,
    /// ICMP: the network is prohibited; IPv4 only.
    NetProhibited,
    /// ICMP: the host is prohibited; IPv4 only.
    HostProhibited,
    /// ICMP: administratively prohibited.
    AdminProhibited,
    /// ICMPv6: the source address failed a policy.
    PolicyFail,
    /// ICMPv6: a reject route.
    RejectRoute,
}

impl RejectWith {
    /// The words of `--reject-with` for IPv4.
    pub const IPV4: [(&'static str, Self); 8] = [
        ("icmp-port-unreachable", Self::PortUnreachable),
        ("icmp-net-unreachable", Self::NetUnreachable),
        ("icmp-host-unreachable", Self::HostUnreachable),
        ("icmp-proto-unreachable", Self::ProtoUnreachable),
        ("icmp-net-prohibited", Self::NetProhibited),
        ("icmp-host-prohibited", Self::HostProhibited),
        ("icmp-admin-prohibited", Self::AdminProhibited),
        ("tcp-reset", Self::TcpReset),
    ];

    /// The words of `--reject-with` for IPv6.
    pub const IPV6: [(&'static str, Self); 7] = [
        ("icmp6-port-unreachable", Self::PortUnreachable),
        ("icmp6-no-route", Self::NetUnreachable),
        ("icmp6-addr-unreachable", Self::HostUnreachable),
        ("icmp6-adm-prohibited", Self::AdminProhibited),
        ("icmp6-policy-fail", Self::PolicyFail),
        ("icmp6-reject-route", Self::RejectRoute),
        ("tcp-reset", Self::TcpReset),
    ];

    fn words(family: Family) -> &'static [(&'static str, Self)] {
        match family {
            Family::Ipv4 => &Self::IPV4,
            Family::Ipv6 => &Self::IPV6,
        }
    }

    pub(super) fn print(self, out: &mut Printer) {
        let words = Self::words(out.family);
        let found = words.iter().find(|(_, other)| *other == self);
        out.push(" -j REJECT --reject-with ");
        // Words of one family only come from that family's parser; the generator uses none of them.
        out.push(found.unwrap_or(&words[0]).0);
    }

    pub(super) fn parse_listed(text: &str) -> Option<Self> {
        let mut all = Self::IPV4.iter().chain(&Self::IPV6);
        all.find(|(word, _)| *word == text).map(|(_, with)| *with)
    }

    /// Returns the response.
    pub(super) fn response(self) -> RejectResponse {
        match self {
            Self::TcpReset => RejectResponse::TcpReset,
            Self::PortUnreachable => RejectResponse::PortUnreachable,
            Self::NetUnreachable => RejectResponse::NetUnreachable,
            Self::HostUnreachable => RejectResponse::HostUnreachable,
            Self::ProtoUnreachable => RejectResponse::ProtocolUnreachable,
            Self::NetProhibited => RejectResponse::NetProhibited,
            Self::HostProhibited => RejectResponse::HostProhibited,
            Self::AdminProhibited => RejectResponse::AdminProhibited,
            Self::PolicyFail => RejectResponse::PolicyFail,
            Self::RejectRoute => RejectResponse::RejectRoute,
        }
    }
}

pub(super) fn parse(options: &Options<'_>) -> Parsed {
    // Spellings that iptables accepts and never prints.
    let short = |text: &str| match text {
        "port-unreach" => Some(RejectWith::PortUnreachable),
        "tcp-rst" => Some(RejectWith::TcpReset),
        _ => None,
    };
    let mut with = RejectWith::PortUnreachable;
    for option in options.iter() {
        if option.name != "--reject-with" {
            return Ok(None);
        }
        let words = RejectWith::words(options.family);
        let long = |text: &str| words.iter().find(|(word, _)| *word == text).map(|(_, with)| *with);
        with = option.read("response of REJECT", |text| long(text).or_else(|| short(text)))?;
    }
    Ok(Some(Target::Reject(with)))
}
