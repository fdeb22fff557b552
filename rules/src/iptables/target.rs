//! What `-j` and `-g` do.

use std::net::IpAddr;

use super::matches::Other;
use super::text::Printer;
use super::values::{ChainName, Masked, PortRange};
use crate::cluster::Family;

/// What happens to a packet that a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `-j CHAIN`: on with that chain, then back.
    Jump(ChainName),
    /// `-g CHAIN`: on with that chain, then back to where this one was called.
    Goto(ChainName),
    /// `ACCEPT`.
    Accept,
    /// `DROP`.
    Drop,
    /// `RETURN`: back to the calling chain, or the policy.
    Return,
    /// `REJECT`.
    Reject(RejectWith),
    /// `MARK --set-xmark`: the bits of the mask are cleared, then those of the value flipped.
    Mark(Masked),
    /// `MASQUERADE`.
    Masquerade {
        /// `--to-ports`.
        ports: Option<PortRange>,
        /// `--random`.
        random: bool,
        /// `--random-fully`.
        random_fully: bool,
    },
    /// `DNAT`.
    Dnat(Nat),
    /// `SNAT`.
    Snat(Nat),
    /// `REDIRECT`, to the machine itself.
    Redirect {
        /// `--to-ports`.
        ports: Option<PortRange>,
        /// `--random`.
        random: bool,
    },
    /// `NOTRACK`, and its newer spelling `CT --notrack`.
    NoTrack {
        /// True where written as `CT --notrack`.
        by_ct: bool,
    },
    /// `TRACE`.
    Trace,
    /// An extension, or an option of one, that is not modelled. What it does is unknown.
    Other(Box<Other>),
}

/// Where `DNAT` and `SNAT` send to or from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nat {
    /// First and last address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port.
    pub ports: Option<PortRange>,
    /// `--random`.
    pub random: bool,
    /// `--random-fully` (SNAT only).
    pub random_fully: bool,
    /// `--persistent`.
    pub persistent: bool,
}

/// What `REJECT` answers.
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
}

impl Target {
    pub(super) fn print(&self, out: &mut Printer) {
        match self {
            Self::Jump(chain) => {
                out.push(" -j ");
                out.push(chain);
            }
            Self::Goto(chain) => {
                out.push(" -g ");
                out.push(chain);
            }
            Self::Accept => out.push(" -j ACCEPT"),
            Self::Drop => out.push(" -j DROP"),
            Self::Return => out.push(" -j RETURN"),
            Self::Reject(with) => {
                out.push(" -j REJECT --reject-with ");
                out.push(reject_word(out.family, *with));
            }
            Self::Mark(mark) => {
                out.push(" -j MARK --set-xmark ");
                out.hex(mark.value);
                out.push("/");
                out.hex(mark.mask);
            }
            Self::Masquerade { ports, random, random_fully } => {
                out.push(" -j MASQUERADE");
                print_ports(*ports, out);
                out.flag(" --random", *random);
                out.flag(" --random-fully", *random_fully);
            }
            Self::Dnat(nat) => nat.print(" -j DNAT --to-destination ", out),
            Self::Snat(nat) => nat.print(" -j SNAT --to-source ", out),
            Self::Redirect { ports, random } => {
                out.push(" -j REDIRECT");
                print_ports(*ports, out);
                out.flag(" --random", *random);
            }
            Self::NoTrack { by_ct: true } => out.push(" -j CT --notrack"),
            Self::NoTrack { by_ct: false } => out.push(" -j NOTRACK"),
            Self::Trace => out.push(" -j TRACE"),
            Self::Other(other) => {
                out.push(" -j ");
                other.print(out);
            }
        }
    }
}

fn print_ports(ports: Option<PortRange>, out: &mut Printer) {
    if let Some(ports) = ports {
        out.push(" --to-ports ");
        out.port_range(ports, "-");
    }
}

impl Nat {
    fn print(&self, name: &str, out: &mut Printer) {
        out.push(name);
        if let Some((first, last)) = self.addresses {
            let bracketed = first.is_ipv6() && self.ports.is_some();
            out.flag("[", bracketed);
            out.address(first);
            if last != first {
                out.push("-");
                out.address(last);
            }
            out.flag("]", bracketed);
        }
        if let Some(ports) = self.ports {
            out.push(":");
            out.port_range(ports, "-");
        }
        out.flag(" --random", self.random);
        out.flag(" --random-fully", self.random_fully);
        out.flag(" --persistent", self.persistent);
    }
}

fn reject_word(family: Family, with: RejectWith) -> &'static str {
    let words = match family {
        Family::Ipv4 => &RejectWith::IPV4[..],
        Family::Ipv6 => &RejectWith::IPV6[..],
    };
    let found = words.iter().find(|(_, other)| *other == with);
    // The words that only one family has come from that family's parser; the generator uses none of them.
    found.unwrap_or(&words[0]).0
}
