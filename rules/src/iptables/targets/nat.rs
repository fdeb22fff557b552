//! `DNAT`, `SNAT`, `MASQUERADE` and `REDIRECT`: translations of addresses and ports.

use std::net::{IpAddr, SocketAddrV6};
use std::sync::Arc;

use super::{Action, Parsed, Target};
use crate::cluster::Family;
use crate::iptables::PortRange;
use crate::iptables::text::{Fault, Options, Printer, values};
use crate::walk::{Destination, Source, SourceAddress};

/// The addresses and ports of `DNAT` and `SNAT`.
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

#[derive(Default)]
struct Flags {
    random: bool,
    random_fully: bool,
    persistent: bool,
}

impl Flags {
    /// Sets a flag; returns false if there is no such flag.
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

/// `MASQUERADE`.
pub(super) fn parse_masquerade(options: &Options<'_>) -> Parsed {
    let found = to_ports(options)?;
    Ok(found.map(|(ports, Flags { random, random_fully, .. })| Target::Masquerade { ports, random, random_fully }))
}

/// `REDIRECT`.
pub(super) fn parse_redirect(options: &Options<'_>) -> Parsed {
    let found = to_ports(options)?.filter(|(_, flags)| !flags.random_fully);
    Ok(found.map(|(ports, flags)| Target::Redirect { ports, random: flags.random }))
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

/// Parses the options of `DNAT` or `SNAT`; `to` is the name of the option with the address.
pub(super) fn parse(options: &Options<'_>, to: &str) -> Result<Option<Nat>, Fault> {
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

/// `--to-ports`.
pub(super) fn print_ports(ports: Option<PortRange>, out: &mut Printer) {
    if let Some(ports) = ports {
        out.push(" --to-ports ");
        out.port_range(ports, "-");
    }
}

impl Nat {
    pub(super) fn print(&self, name: &str, out: &mut Printer) {
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

    /// Returns the address of the translation. The kernel chooses one of several by an internal hash.
    fn address(&self) -> Result<Option<IpAddr>, Arc<str>> {
        match self.addresses {
            Some((first, last)) if first != last => {
                Err(format!("the kernel chooses an address from {first} to {last}").into())
            }
            addresses => Ok(addresses.map(|(first, _)| first)),
        }
    }

    pub(super) fn compile_destination(&self) -> Action {
        let ports = self.ports.map(PortRange::inclusive);
        let destination = |address| Action::Dnat(Destination { address, ports, random: self.random });
        self.address().map_or_else(Action::Unknown, destination)
    }

    pub(super) fn compile_source(&self) -> Action {
        let source = |address: Option<IpAddr>| {
            let address = address.map_or(SourceAddress::Same, SourceAddress::Fixed);
            let random = self.random || self.random_fully;
            Action::Snat(Source { address, ports: self.ports.map(PortRange::inclusive), random })
        };
        self.address().map_or_else(Action::Unknown, source)
    }
}
