//! Targets from their options.

use std::net::{IpAddr, SocketAddrV6};

use crate::cluster::Family;
use crate::iptables::text::{Fault, Options, values};
use crate::iptables::{Masked, Nat, PortRange, RejectWith, Target};

/// A target of the kernel itself.
pub(super) fn built_in(name: &str) -> Option<Target> {
    match name {
        "ACCEPT" => Some(Target::Accept),
        "DROP" => Some(Target::Drop),
        "RETURN" => Some(Target::Return),
        _ => None,
    }
}

/// Whether a name is that of an extension which is not modelled, rather than of a chain.
pub(super) fn is_known_extension(name: &str) -> bool {
    const NAMES: [&str; 30] = [
        "AUDIT",
        "CHECKSUM",
        "CLASSIFY",
        "CLUSTERIP",
        "CONNMARK",
        "CONNSECMARK",
        "CT",
        "DNPT",
        "DSCP",
        "ECN",
        "HL",
        "HMARK",
        "IDLETIMER",
        "LED",
        "LOG",
        "MARK",
        "NETMAP",
        "NFLOG",
        "NFQUEUE",
        "QUEUE",
        "RATEEST",
        "REJECT",
        "SECMARK",
        "SET",
        "SNPT",
        "SYNPROXY",
        "TCPMSS",
        "TEE",
        "TPROXY",
        "TTL",
    ];
    NAMES.contains(&name)
}

/// Options of which a target must have one; iptables refuses it without.
const REQUIRED: [(&str, &[&str]); 22] = [
    ("AUDIT", &["--type"]),
    ("CHECKSUM", &["--checksum-fill"]),
    ("CLASSIFY", &["--set-class"]),
    (
        "CONNMARK",
        &["--set-xmark", "--set-mark", "--save-mark", "--restore-mark", "--and-mark", "--or-mark", "--xor-mark"],
    ),
    ("CONNSECMARK", &["--save", "--restore"]),
    ("DNAT", &["--to-destination"]),
    ("DNPT", &["--src-pfx"]),
    ("DSCP", &["--set-dscp", "--set-dscp-class"]),
    ("ECN", &["--ecn-tcp-remove", "--ecn-tcp-cwr", "--ecn-tcp-ece", "--ecn-ip-ect"]),
    ("HL", &["--hl-set", "--hl-dec", "--hl-inc"]),
    ("HMARK", &["--hmark-mod"]),
    ("IDLETIMER", &["--timeout"]),
    ("MARK", &["--set-xmark", "--set-mark", "--and-mark", "--or-mark", "--xor-mark"]),
    ("NETMAP", &["--to"]),
    ("SECMARK", &["--selctx"]),
    ("SET", &["--add-set", "--del-set", "--map-set"]),
    ("SNAT", &["--to-source"]),
    ("SNPT", &["--src-pfx"]),
    ("TCPMSS", &["--set-mss", "--clamp-mss-to-pmtu"]),
    ("TEE", &["--gateway"]),
    ("TPROXY", &["--on-port"]),
    ("TTL", &["--ttl-set", "--ttl-dec", "--ttl-inc"]),
];

/// The options of which a target needs one, where it does.
pub(super) fn required(name: &str) -> Option<&'static [&'static str]> {
    REQUIRED.iter().find(|(target, _)| *target == name).map(|(_, options)| *options)
}

/// Those options, where it has none of them.
pub(super) fn lacking(name: &str, options: &Options<'_>) -> Option<&'static [&'static str]> {
    let required = required(name)?;
    // iptables takes options that are cut short, and values behind `=`.
    let is_short = |name: &str, long: &str| name.len() > 2 && long.starts_with(name.split('=').next().unwrap_or(name));
    let given = |long: &str| options.iter().any(|option| is_short(option.name, long));
    (!required.iter().any(|long| given(long))).then_some(required)
}

/// An extension; nothing where it, or one of its options, is not modelled.
pub(super) fn extension(name: &str, options: &Options<'_>) -> Result<Option<Target>, Fault> {
    match name {
        "REJECT" => reject(options),
        "MARK" => mark(options),
        "MASQUERADE" => {
            let Some((ports, flags)) = to_ports(options)? else { return Ok(None) };
            Ok(Some(Target::Masquerade { ports, random: flags.random, random_fully: flags.random_fully }))
        }
        "REDIRECT" => {
            let redirect = to_ports(options)?.filter(|(_, flags)| !flags.random_fully);
            Ok(redirect.map(|(ports, flags)| Target::Redirect { ports, random: flags.random }))
        }
        "DNAT" => Ok(nat(options, "--to-destination")?.map(Target::Dnat)),
        "SNAT" => Ok(nat(options, "--to-source")?.map(Target::Snat)),
        "TRACE" if options.is_empty() => Ok(Some(Target::Trace)),
        "NOTRACK" if options.is_empty() => Ok(Some(Target::NoTrack { by_ct: false })),
        "CT" => {
            let names: Vec<&str> = options.iter().map(|option| option.name).collect();
            Ok((names == ["--notrack"]).then_some(Target::NoTrack { by_ct: true }))
        }
        _ => Ok(None),
    }
}

fn reject(options: &Options<'_>) -> Result<Option<Target>, Fault> {
    let words = match options.family {
        Family::Ipv4 => &RejectWith::IPV4[..],
        Family::Ipv6 => &RejectWith::IPV6[..],
    };
    // What iptables takes beside the words that it shows.
    let short = |text: &str| match (options.family, text) {
        (Family::Ipv4, "port-unreach") | (Family::Ipv6, "port-unreach") => Some(RejectWith::PortUnreachable),
        (_, "tcp-rst") => Some(RejectWith::TcpReset),
        _ => None,
    };
    let mut with = RejectWith::PortUnreachable;
    for option in options.iter() {
        if option.name != "--reject-with" {
            return Ok(None);
        }
        let long = |text: &str| words.iter().find(|(word, _)| *word == text).map(|(_, with)| *with);
        with = option.read("answer that REJECT knows", |text| long(text).or_else(|| short(text)))?;
    }
    Ok(Some(Target::Reject(with)))
}

/// All spellings end as `--set-xmark`: clear the mask's bits, flip the value's.
fn mark(options: &Options<'_>) -> Result<Option<Target>, Fault> {
    let mut found = None;
    for option in options.iter() {
        let bits = || option.read("mark", values::number);
        let masked = || option.read("mark", values::masked);
        found = Some(match option.name {
            "--set-xmark" => masked()?,
            "--set-mark" => masked().map(|mark| Masked { mask: mark.mask | mark.value, ..mark })?,
            "--or-mark" => bits().map(Masked::bits)?,
            "--xor-mark" => bits().map(|value| Masked { value, mask: 0 })?,
            "--and-mark" => bits().map(|kept| Masked { value: 0, mask: !kept })?,
            _ => return Ok(None),
        });
    }
    Ok(found.map(Target::Mark))
}

#[derive(Default)]
struct Flags {
    random: bool,
    random_fully: bool,
    persistent: bool,
}

impl Flags {
    /// Sets a flag; false where there is none of this name.
    fn set(&mut self, name: &str) -> bool {
        match name {
            "--random" => self.random = true,
            "--random-fully" => self.random_fully = true,
            "--persistent" => self.persistent = true,
            _ => return false,
        }
        true
    }
}

fn to_ports(options: &Options<'_>) -> Result<Option<(Option<PortRange>, Flags)>, Fault> {
    let (mut ports, mut flags) = (None, Flags::default());
    for option in options.iter() {
        if option.name == "--to-ports" {
            ports = Some(option.read("port or range of ports", |text| values::ports(text, '-'))?);
        } else if !flags.set(option.name) || flags.persistent {
            return Ok(None);
        }
    }
    Ok(Some((ports, flags)))
}

fn nat(options: &Options<'_>, to: &str) -> Result<Option<Nat>, Fault> {
    let (mut found, mut flags) = (None, Flags::default());
    for option in options.iter() {
        if option.name == to && found.is_none() {
            let what = match options.family {
                Family::Ipv4 => "IPv4 address, port or range of them",
                Family::Ipv6 => "IPv6 address, port or range of them",
            };
            found = Some(option.read(what, |text| nat_range(text).filter(|range| is_of(range, options.family)))?);
        } else if !flags.set(option.name) {
            return Ok(None);
        }
    }
    let Flags { random, random_fully, persistent } = flags;
    Ok(found.map(|(addresses, ports)| Nat { addresses, ports, random, random_fully, persistent }))
}

fn is_of((addresses, _): &NatRange, family: Family) -> bool {
    addresses.is_none_or(|(first, last)| [first, last].into_iter().all(|address| Family::of(address) == family))
}

pub(super) type NatRange = (Option<(IpAddr, IpAddr)>, Option<PortRange>);

/// `10.0.0.1:80`, `[fd00::1]:80`, `10.0.0.1-10.0.0.5:80-90`, `fd00::1`, `:80`.
pub(super) fn nat_range(text: &str) -> Option<NatRange> {
    let (addresses, ports) = if let Some(rest) = text.strip_prefix('[') {
        let (addresses, rest) = rest.split_once(']')?;
        (addresses, Some(rest.strip_prefix(':')?))
    } else if text.matches(':').count() > 1 && text.parse::<SocketAddrV6>().is_err() {
        (text, None)
    } else {
        text.split_once(':').map_or((text, None), |(addresses, ports)| (addresses, Some(ports)))
    };
    let ports = match ports {
        Some(ports) => Some(values::ports(ports, '-')?),
        None => None,
    };
    if addresses.is_empty() {
        return ports.map(|ports| (None, Some(ports)));
    }
    let (first, last) = addresses.split_once('-').unwrap_or((addresses, addresses));
    Some((Some((first.parse().ok()?, last.parse().ok()?)), ports))
}
