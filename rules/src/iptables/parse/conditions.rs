//! Matches from their options.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::options::Options;
use super::values;
use super::words::Fault;
use crate::cluster::{Family, Protocol};
use crate::iptables::{
    AddressType, IpSet, Match, Multiport, Negatable, Physdev, Ports, Probability, Recent, RecentAction, Side,
    Statistic, TcpFlags,
};

/// A match that is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Comment,
    Ports(Protocol),
    Mark,
    Connmark,
    Conntrack,
    State,
    AddressType,
    Statistic,
    Recent,
    Physdev,
    Multiport,
    Set,
    Nfacct,
}

impl Kind {
    /// The match of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "comment" => Self::Comment,
            "tcp" => Self::Ports(Protocol::Tcp),
            "udp" => Self::Ports(Protocol::Udp),
            "sctp" => Self::Ports(Protocol::Sctp),
            "mark" => Self::Mark,
            "connmark" => Self::Connmark,
            "conntrack" => Self::Conntrack,
            "state" => Self::State,
            "addrtype" => Self::AddressType,
            "statistic" => Self::Statistic,
            "recent" => Self::Recent,
            "physdev" => Self::Physdev,
            "multiport" => Self::Multiport,
            "set" => Self::Set,
            "nfacct" => Self::Nfacct,
            _ => return None,
        })
    }

    /// Whether an option is one of its own that is modelled.
    pub(super) fn knows(self, option: &str) -> bool {
        let options: &[&str] = match self {
            Self::Comment => &["--comment"],
            Self::Ports(Protocol::Tcp) => {
                &["--dport", "--sport", "--destination-port", "--source-port", "--tcp-flags", "--syn"]
            }
            Self::Ports(_) => &["--dport", "--sport", "--destination-port", "--source-port"],
            Self::Mark | Self::Connmark => &["--mark"],
            Self::Conntrack => &["--ctstate"],
            Self::State => &["--state"],
            Self::AddressType => &["--src-type", "--dst-type"],
            Self::Statistic => &["--mode", "--probability", "--every", "--packet"],
            Self::Recent => &[
                "--set",
                "--rcheck",
                "--update",
                "--remove",
                "--seconds",
                "--reap",
                "--hitcount",
                "--rttl",
                "--name",
                "--mask",
                "--rsource",
                "--rdest",
            ],
            Self::Physdev => {
                &["--physdev-in", "--physdev-out", "--physdev-is-in", "--physdev-is-out", "--physdev-is-bridged"]
            }
            Self::Multiport => &["--sports", "--dports", "--ports", "--source-ports", "--destination-ports"],
            Self::Set => &["--match-set"],
            Self::Nfacct => &["--nfacct-name"],
        };
        options.contains(&option)
    }
}

/// The match, or nothing where it has options that are not modelled.
pub(super) fn condition(kind: Kind, options: &Options<'_>) -> Result<Option<Match>, Fault> {
    if options.iter().any(|option| !kind.knows(option.name)) {
        return Ok(None);
    }
    let first = options.iter().next();
    Ok(match (kind, first) {
        (Kind::Ports(protocol), _) => Some(Match::Ports(ports(protocol, options)?)),
        (_, None) => None,
        (Kind::Comment, Some(option)) => Some(Match::Comment(option.value()?.into())),
        (Kind::Mark, Some(option)) => Some(Match::Mark(option.negatable("mark", values::masked)?)),
        (Kind::Connmark, Some(option)) => Some(Match::Connmark(option.negatable("mark", values::masked)?)),
        (Kind::Conntrack | Kind::State, Some(option)) => {
            let states = option.negatable("list of connection states", values::states)?;
            Some(Match::State { old_name: kind == Kind::State, states })
        }
        (Kind::AddressType, _) => address_type(options)?.map(Match::AddressType),
        (Kind::Statistic, _) => statistic(options)?.map(Match::Statistic),
        (Kind::Recent, _) => recent(options)?.map(|recent| Match::Recent(Box::new(recent))),
        (Kind::Physdev, _) => Some(Match::Physdev(Box::new(physdev(options)?))),
        (Kind::Multiport, _) => multiport(options)?.map(|ports| Match::Multiport(Box::new(ports))),
        (Kind::Set, Some(option)) => {
            let (name, directions) = option.pair()?;
            let value = IpSet { name: name.into(), directions: directions.into() };
            Some(Match::Set(Box::new(Negatable { negated: option.negated, value })))
        }
        // The kernel knows no negation of it.
        (Kind::Nfacct, Some(option)) if option.negated => None,
        (Kind::Nfacct, Some(option)) => Some(Match::Nfacct(option.value()?.into())),
    })
}

fn ports(protocol: Protocol, options: &Options<'_>) -> Result<Ports, Fault> {
    let mut ports = Ports::any(protocol);
    for option in options.iter() {
        let range = || option.negatable("port or range of ports", |text| values::ports(text, ':')).map(Some);
        match option.name {
            "--dport" | "--destination-port" => ports.destination = range()?,
            "--sport" | "--source-port" => ports.source = range()?,
            "--syn" => {
                // The flags that `--syn` is short for.
                let value = TcpFlags { mask: 0b1_0111, set: 0b10 };
                ports.flags = Some(Negatable { negated: option.negated, value });
            }
            _ => {
                let (mask, set) = option.pair()?;
                let read = |text| {
                    values::tcp_flags(text).ok_or_else(|| option.fault(&format!("`{text}` is no list of TCP flags")))
                };
                let value = TcpFlags { mask: read(mask)?, set: read(set)? };
                ports.flags = Some(Negatable { negated: option.negated, value });
            }
        }
    }
    Ok(ports)
}

/// Nothing where several types are given for one side.
fn address_type(options: &Options<'_>) -> Result<Option<AddressType>, Fault> {
    let mut types = AddressType::default();
    for option in options.iter() {
        if option.value()?.contains(',') {
            return Ok(None);
        }
        let kind = option.negatable("route type", values::route_type)?;
        match option.name {
            "--src-type" => types.source = Some(kind),
            _ => types.destination = Some(kind),
        }
    }
    Ok(Some(types))
}

fn statistic(options: &Options<'_>) -> Result<Option<Statistic>, Fault> {
    let (mut probability, mut every, mut packet) = (None, None, 0);
    for option in options.iter() {
        match option.name {
            "--probability" => {
                let read = |text: &str| text.parse().ok().and_then(Probability::from_number);
                probability = Some(option.negatable("probability from 0 to 1", read)?);
            }
            "--every" => every = Some(option.negatable("number", values::number)?),
            "--packet" => packet = option.read("number", values::number)?,
            _ => {
                option.read("mode: `random` or `nth`", |text| matches!(text, "random" | "nth").then_some(()))?;
            }
        }
    }
    let random = probability.map(Statistic::Random);
    Ok(random.or(every.map(|every| Statistic::Nth { every, packet })))
}

fn recent(options: &Options<'_>) -> Result<Option<Recent>, Fault> {
    let all: IpAddr = match options.family {
        Family::Ipv4 => Ipv4Addr::BROADCAST.into(),
        Family::Ipv6 => Ipv6Addr::from_bits(u128::MAX).into(),
    };
    let mut action = None;
    let mut recent = Recent {
        action: Negatable::is(RecentAction::Set),
        seconds: None,
        reap: false,
        hit_count: None,
        same_ttl: false,
        name: "DEFAULT".into(),
        mask: all,
        destination: false,
    };
    for option in options.iter() {
        let number = || option.read("number", values::number).map(Some);
        let flag = |value| Some(Negatable { negated: option.negated, value });
        match option.name {
            "--set" => action = flag(RecentAction::Set),
            "--rcheck" => action = flag(RecentAction::Check),
            "--update" => action = flag(RecentAction::Update),
            "--remove" => action = flag(RecentAction::Remove),
            "--seconds" => recent.seconds = number()?,
            "--hitcount" => recent.hit_count = number()?,
            "--reap" => recent.reap = true,
            "--rttl" => recent.same_ttl = true,
            "--name" => recent.name = option.value()?.into(),
            "--mask" => recent.mask = option.read("mask", |text| text.parse().ok())?,
            "--rdest" => recent.destination = true,
            _ => recent.destination = false,
        }
    }
    Ok(action.map(|action| Recent { action, ..recent }))
}

fn physdev(options: &Options<'_>) -> Result<Physdev, Fault> {
    let mut physdev = Physdev::default();
    for option in options.iter() {
        let interface = || option.negatable("interface", |text| Some(Box::from(text))).map(Some);
        match option.name {
            "--physdev-in" => physdev.input = interface()?,
            "--physdev-out" => physdev.output = interface()?,
            "--physdev-is-in" => physdev.is_input = Some(option.flag()),
            "--physdev-is-out" => physdev.is_output = Some(option.flag()),
            _ => physdev.is_bridged = Some(option.flag()),
        }
    }
    Ok(physdev)
}

fn multiport(options: &Options<'_>) -> Result<Option<Multiport>, Fault> {
    let mut found = None;
    for option in options.iter() {
        let list = |text: &str| text.split(',').map(|part| values::ports(part, ':')).collect();
        let ports = option.negatable("list of ports", list)?;
        let side = match option.name {
            "--sports" | "--source-ports" => Side::Source,
            "--dports" | "--destination-ports" => Side::Destination,
            _ => Side::Either,
        };
        found = Some(Multiport { side, ports });
    }
    Ok(found)
}
