//! `tcp`, `udp`, `sctp`: the header's ports and flags.

use super::{Condition, Extension, Listed, Match, Parsed};
use crate::cluster::{Protocol, ProtocolNumber};
use crate::iptables::text::{Options, Printer, values};
use crate::iptables::{Negatable, PortRange};
use crate::walk::{Edges, Field, Held, Trace, Transport, Walker};

/// Options of `tcp`, `udp` and `sctp`. Without any, the match only requires the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// The extension; `-p` names the same protocol.
    pub protocol: Protocol,
    /// `--sport`.
    pub source: Option<Negatable<PortRange>>,
    /// `--dport`.
    pub destination: Option<Negatable<PortRange>>,
    /// `--tcp-flags`.
    pub flags: Option<Negatable<TcpFlags>>,
}

/// Flags of the TCP header: of those in `mask`, exactly those in `set` are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TcpFlags {
    /// The flags to compare, as bits of the header's byte (FIN is 1, URG 32).
    pub mask: u8,
    /// The flags that must be set.
    pub set: u8,
}

/// One of a packet's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::iptables) enum PortField {
    Source,
    Destination,
}

pub(super) const TCP: Extension = Extension {
    name: "tcp",
    options: &["--dport", "--sport", "--destination-port", "--source-port", "--tcp-flags", "--syn"],
    parse: |options| parse(Protocol::Tcp, options),
    parse_listed: |words, negated| parse_listed(Protocol::Tcp, words, negated),
};

pub(super) const UDP: Extension = Extension {
    name: "udp",
    options: &["--dport", "--sport", "--destination-port", "--source-port"],
    parse: |options| parse(Protocol::Udp, options),
    parse_listed: |words, negated| parse_listed(Protocol::Udp, words, negated),
};

pub(super) const SCTP: Extension = Extension {
    name: "sctp",
    options: UDP.options,
    parse: |options| parse(Protocol::Sctp, options),
    parse_listed: |words, negated| parse_listed(Protocol::Sctp, words, negated),
};

fn parse(protocol: Protocol, options: &Options<'_>) -> Parsed {
    let mut ports = Ports::any(protocol);
    for option in options.iter() {
        let range = || option.negatable("port or range of ports", |text| values::ports(text, ':')).map(Some);
        match option.name {
            "--dport" | "--destination-port" => ports.destination = range()?,
            "--sport" | "--source-port" => ports.source = range()?,
            "--syn" => {
                // The flags of `--syn`.
                let value = TcpFlags { mask: 0b1_0111, set: 0b10 };
                ports.flags = Some(Negatable { negated: option.negated, value });
            }
            _ => {
                let (mask, set) = option.pair()?;
                let read = |text| {
                    flags(text).ok_or_else(|| option.fault(&format!("`{text}` is not a valid list of TCP flags")))
                };
                let value = TcpFlags { mask: read(mask)?, set: read(set)? };
                ports.flags = Some(Negatable { negated: option.negated, value });
            }
        }
    }
    Ok(Some(Match::Ports(ports)))
}

/// `FIN,SYN`, `ALL`, `NONE`.
fn flags(text: &str) -> Option<u8> {
    text.split(',').try_fold(0, |all, word| {
        let bits = match word {
            "ALL" => 0x3f,
            "NONE" => 0,
            _ => Transport::FLAGS.into_iter().find(|(name, _)| *name == word)?.1,
        };
        Some(all | bits)
    })
}

/// `tcp dpt:80`, `udp spts:1000:2000 dpt:!53`, `tcp flags:0x17/0x02`, or the protocol alone.
fn parse_listed(protocol: Protocol, words: &[&str], negated: bool) -> Listed {
    if negated || words[0] != protocol.as_str() {
        return None;
    }
    let mut ports = Ports::any(protocol);
    let mut taken = 1;
    while let Some((side, text)) = words.get(taken).and_then(|word| word.split_once(':')) {
        let (negated, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
        match side {
            "dpt" | "dpts" => ports.destination = Some(Negatable { negated, value: listed_range(text)? }),
            "spt" | "spts" => ports.source = Some(Negatable { negated, value: listed_range(text)? }),
            "flags" => ports.flags = Some(Negatable { negated, value: listed_flags(text)? }),
            _ => break,
        }
        taken += 1;
    }
    Some((Match::Ports(ports), taken))
}

/// `80`, `http`, `1000:2000`.
fn listed_range(text: &str) -> Option<PortRange> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    Some(PortRange { first: listed_port(first)?, last: listed_port(last)? })
}

/// `0x17/0x02`, or without `-n` `FIN,SYN,RST,ACK/SYN`.
fn listed_flags(text: &str) -> Option<TcpFlags> {
    let (mask, set) = text.split_once('/')?;
    let bits = |text: &str| match text.starts_with("0x") {
        true => u8::try_from(values::number(text)?).ok(),
        false => flags(text),
    };
    Some(TcpFlags { mask: bits(mask)?, set: bits(set)? })
}

/// Parses a port as a number, or as a name in `/etc/services` for ports that Services often have.
fn listed_port(text: &str) -> Option<u16> {
    const NAMES: [(&str, u16); 41] = [
        ("http", 80),
        ("https", 443),
        ("domain", 53),
        ("http-alt", 8080),
        ("webcache", 8080),
        ("ssh", 22),
        ("smtp", 25),
        ("ntp", 123),
        ("imap2", 143),
        ("ldap", 389),
        ("mysql", 3306),
        ("postgresql", 5432),
        ("amqp", 5672),
        ("sip", 5060),
        ("redis", 6379),
        ("git", 9418),
        ("ftp", 21),
        ("telnet", 23),
        ("kerberos", 88),
        ("kerberos5", 88),
        ("pop3", 110),
        ("sunrpc", 111),
        ("snmp", 161),
        ("syslog", 514),
        ("submission", 587),
        ("ldaps", 636),
        ("rsync", 873),
        ("imaps", 993),
        ("pop3s", 995),
        ("ms-sql-s", 1433),
        ("nfs", 2049),
        ("svn", 3690),
        ("sip-tls", 5061),
        ("amqps", 5671),
        ("x11", 6000),
        ("http-alt", 8008),
        ("tproxy", 8081),
        ("zabbix-agent", 10050),
        ("zabbix-trapper", 10051),
        ("webmin", 10000),
        ("nut", 3493),
    ];
    let known = NAMES.iter().find(|(name, _)| *name == text);
    known.map_or_else(|| text.parse().ok(), |(_, number)| Some(*number))
}

impl Ports {
    /// Creates a match without options.
    pub(crate) fn any(protocol: Protocol) -> Self {
        Self { protocol, source: None, destination: None, flags: None }
    }

    /// Creates a match of one destination port.
    pub fn destination(protocol: Protocol, port: u16) -> Self {
        Self { destination: Some(Negatable::is(PortRange::one(port))), ..Self::any(protocol) }
    }

    pub(super) fn print(&self, out: &mut Printer) {
        out.push(" -m ");
        out.push(self.protocol.as_str());
        for (name, range) in [(" --sport ", self.source), (" --dport ", self.destination)] {
            if let Some(range) = range {
                out.option(name, range.negated);
                out.port_range(range.value, ":");
            }
        }
        if let Some(flags) = self.flags {
            out.option(" --tcp-flags ", flags.negated);
            let names =
                |bits: u8| Transport::FLAGS.iter().filter(move |(_, bit)| bits & bit != 0).map(|(name, _)| *name);
            out.list(names(flags.value.mask), "NONE");
            out.push(" ");
            out.list(names(flags.value.set), "NONE");
        }
    }

    /// Adds its conditions; `asked` is the `-p` of the rule.
    pub(super) fn compile(&self, asked: Option<Negatable<ProtocolNumber>>, out: &mut Vec<Condition>) {
        let protocol = self.protocol.number();
        let sides = [(PortField::Source, self.source), (PortField::Destination, self.destination)];
        for (field, range) in sides {
            if let Some(Negatable { negated, value: PortRange { first, last } }) = range {
                out.push(Condition::Port { protocol, field, negated, first, last });
            }
        }
        // Without options only the protocol is compared, which `-p` has already done.
        let is_asked = asked == Some(Negatable::is(self.protocol.into()));
        if self.source.is_none() && self.destination.is_none() && !is_asked {
            out.push(Condition::Protocol { negated: false, number: protocol });
        }
        if let Some(Negatable { negated, value }) = self.flags {
            out.push(Condition::TcpFlags { negated, flags: value });
        }
    }

    pub(super) fn explain(&self) -> Option<String> {
        let source = self.source.map(|port| format!("{}from port {}", port.negation(), port.value.explain()));
        let destination = self.destination.map(|port| format!("{}to port {}", port.negation(), port.value.explain()));
        let flags = self.flags.map(|flags| format!("{}with certain TCP flags", flags.negation()));
        let words: Vec<String> = [source, destination, flags].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl PortField {
    /// Returns whether the packet has this protocol and its port is in a range, or outside if negated.
    pub(super) fn holds<T: Trace>(self, walker: &Walker<T>, protocol: u8, range: PortRange, negated: bool) -> Held {
        if !walker.is_protocol(&[protocol]) {
            return Held::No;
        }
        let field = if self == Self::Source { Field::SourcePort } else { Field::DestinationPort };
        (walker.is_between(field, range.first.into(), range.last.into()) ^ negated).into()
    }

    pub(super) fn edges(self, protocol: u8, range: PortRange, edges: &mut Edges) {
        edges.protocols.insert(protocol);
        Edges::ports(edges.ports_of(self == Self::Source), range.first, range.last);
    }
}

impl TcpFlags {
    pub(super) fn holds<T: Trace>(self, walker: &Walker<T>, negated: bool) -> Held {
        walker.has_flags(self.mask, self.set, negated).into()
    }

    pub(super) fn edges(edges: &mut Edges) {
        edges.protocols.insert(Protocol::Tcp.number());
    }
}
