//! The targets of compiled rules.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::iptables::text::{kept_options, values};
use crate::iptables::{Masked, Nat, Other, PortRange, RejectWith, Target};
use crate::walk::{Connection, Destination, RejectResponse, Source, SourceAddress, Walker};

/// The target of a compiled rule.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// No effect that is modelled: on with the next rule.
    Continue,
    /// The same, where omitted conditions decide whether the rule matches.
    Perhaps,
    Accept,
    Drop,
    Return,
    Reject(RejectResponse),
    /// The bits of the mask are cleared, then those of the value flipped.
    Mark(Masked),
    Connmark(ConnmarkChange),
    /// On with the chain at this position, then back.
    Jump(u32),
    /// On with it, then back to where this one was called.
    Goto(u32),
    Dnat(Destination),
    Redirect(Destination),
    Snat(Source),
    NoTrack,
    /// Not modelled, for this reason.
    Unknown(Arc<str>),
}

/// What `CONNMARK` does (`connmark_tg_shift` in `xt_connmark.c`, without shifts).
#[derive(Debug, Clone, Copy)]
pub(super) enum ConnmarkChange {
    /// The connection's mark: bits cleared, then flipped.
    Set(Masked),
    /// From the packet's mark to the connection's.
    Save { connection: u32, packet: u32 },
    /// From the connection's mark to the packet's.
    Restore { connection: u32, packet: u32 },
}

impl ConnmarkChange {
    /// Changes the marks of a packet and its connection; nothing where it has none.
    pub(super) fn apply<T>(self, walker: &mut Walker<T>) {
        let of_packet = walker.packet.mark;
        let Some(Connection { mark, .. }) = walker.tracked_mut().map(|tracked| &mut tracked.connection) else { return };
        match self {
            Self::Set(change) => *mark = (*mark & !change.mask) ^ change.value,
            Self::Save { connection, packet } => *mark = (*mark & !connection) ^ (of_packet & packet),
            Self::Restore { connection, packet } => {
                walker.packet.mark = (of_packet & !packet) ^ (*mark & connection);
            }
        }
    }
}

impl Action {
    /// Whether a packet goes on as if the rule were not there.
    pub(super) fn is_inert(&self) -> bool {
        matches!(self, Self::Continue | Self::Perhaps)
    }

    /// The action of a target; `position` finds chains.
    pub(super) fn of(target: &Target, position: impl Fn(&str) -> Option<u32>) -> Self {
        let missing = |chain| Self::Unknown(format!("chain {chain} is not in these rules").into());
        match target {
            Target::Jump(chain) => position(chain).map_or_else(|| missing(chain), Self::Jump),
            Target::Goto(chain) => position(chain).map_or_else(|| missing(chain), Self::Goto),
            Target::Accept => Self::Accept,
            Target::Drop => Self::Drop,
            Target::Return => Self::Return,
            Target::Reject(with) => Self::Reject(rejection(*with)),
            Target::Mark(change) => Self::Mark(*change),
            Target::Masquerade { ports, random, random_fully } => {
                let random = *random || *random_fully;
                Self::Snat(Source { address: SourceAddress::Masquerade, ports: ports.map(range), random })
            }
            Target::Snat(nat) => match one_address(nat) {
                Ok(address) => {
                    let address = address.map_or(SourceAddress::Same, SourceAddress::Fixed);
                    Self::Snat(Source { address, ports: nat.ports.map(range), random: nat.random || nat.random_fully })
                }
                Err(why) => Self::Unknown(why),
            },
            Target::Dnat(nat) => match one_address(nat) {
                Ok(address) => Self::Dnat(Destination { address, ports: nat.ports.map(range), random: nat.random }),
                Err(why) => Self::Unknown(why),
            },
            Target::Redirect { ports, random } => {
                Self::Redirect(Destination { address: None, ports: ports.map(range), random: *random })
            }
            Target::NoTrack { .. } => Self::NoTrack,
            Target::Trace => Self::Continue,
            Target::Other(other) => extension(other),
        }
    }
}

fn range(ports: PortRange) -> RangeInclusive<u16> {
    ports.first..=ports.last
}

/// The address of a translation. Which of several the kernel takes depends on a hash of its own.
fn one_address(nat: &Nat) -> Result<Option<IpAddr>, Arc<str>> {
    match nat.addresses {
        Some((first, last)) if first != last => {
            Err(format!("the kernel chooses an address from {first} to {last}").into())
        }
        addresses => Ok(addresses.map(|(first, _)| first)),
    }
}

fn rejection(with: RejectWith) -> RejectResponse {
    match with {
        RejectWith::TcpReset => RejectResponse::TcpReset,
        RejectWith::PortUnreachable => RejectResponse::PortUnreachable,
        RejectWith::NetUnreachable => RejectResponse::NetUnreachable,
        RejectWith::HostUnreachable => RejectResponse::HostUnreachable,
        RejectWith::ProtoUnreachable => RejectResponse::ProtocolUnreachable,
        RejectWith::NetProhibited => RejectResponse::NetProhibited,
        RejectWith::HostProhibited => RejectResponse::HostProhibited,
        RejectWith::AdminProhibited => RejectResponse::AdminProhibited,
        RejectWith::PolicyFail => RejectResponse::PolicyFail,
        RejectWith::RejectRoute => RejectResponse::RejectRoute,
    }
}

/// Targets that continue with the next rule and change nothing that rules compare here.
const INERT: [&str; 14] = [
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CONNSECMARK",
    "DSCP",
    "ECN",
    "IDLETIMER",
    "LED",
    "LOG",
    "NFLOG",
    "RATEEST",
    "SECMARK",
    "TCPMSS",
    "TOS",
];

fn extension(other: &Other) -> Action {
    if INERT.contains(&&*other.name) {
        return Action::Continue;
    }
    let connmark = || (&*other.name == "CONNMARK").then(|| connmark(&other.text)).flatten();
    connmark().map_or_else(|| Action::Unknown(other.reason("target")), Action::Connmark)
}

/// What `--save-mark` and `--restore-mark` of `CONNMARK` may be followed by. Shifts are not modelled.
const MASKS: [&str; 3] = ["--mask", "--ctmask", "--nfmask"];

fn connmark(text: &str) -> Option<ConnmarkChange> {
    let options = kept_options(text)?;
    let masks = || {
        let of = |name: &str, fallback: u32| {
            let found = options.iter().find(|option| option.name == name);
            found.map_or(Some(fallback), |option| values::number(option.argument()?))
        };
        let both = of("--mask", u32::MAX)?;
        Some((of("--ctmask", both)?, of("--nfmask", both)?))
    };
    let first = options.first()?;
    let masked = || values::masked(first.argument()?);
    let bits = || values::number(first.argument()?);
    let more = if matches!(first.name, "--save-mark" | "--restore-mark") { &MASKS[..] } else { &[] };
    if options.iter().any(|option| option.negated) || options[1..].iter().any(|option| !more.contains(&option.name)) {
        return None;
    }
    Some(match first.name {
        "--set-xmark" => ConnmarkChange::Set(masked()?),
        "--set-mark" => ConnmarkChange::Set(masked().map(|mark| Masked { mask: mark.mask | mark.value, ..mark })?),
        "--or-mark" => ConnmarkChange::Set(Masked::bits(bits()?)),
        "--xor-mark" => ConnmarkChange::Set(Masked { value: bits()?, mask: 0 }),
        "--and-mark" => ConnmarkChange::Set(Masked { value: 0, mask: !bits()? }),
        "--save-mark" => masks().map(|(connection, packet)| ConnmarkChange::Save { connection, packet })?,
        "--restore-mark" => masks().map(|(connection, packet)| ConnmarkChange::Restore { connection, packet })?,
        _ => return None,
    })
}
