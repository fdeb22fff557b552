//! Targets (`-j` and `-g`). Each extension has a file with its value, its parsing from options and from listings, its printing and
//! evaluation. [`parse`] lists them.
//!
//! A [`Target`] is the value in a rule; an [`Action`] is its compiled form.

mod listing;
mod mark;
mod nat;
mod reject;
mod required;

use std::sync::Arc;

pub(super) use self::listing::Listed;
pub(super) use self::mark::ConnmarkChange;
pub use self::nat::Nat;
pub use self::reject::RejectWith;
pub(super) use self::required::{is_known_extension, lacking};
use super::matches::Other;
use super::table_name::TableName;
use super::text::{Fault, Options, Printer};
use super::values::{ChainName, Masked, PortRange};
use crate::walk::{Destination, Hook, RejectResponse, Source, SourceAddress, Trace, Walker};

/// The target of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `-j CHAIN`: continues in that chain, then returns.
    Jump(ChainName),
    /// `-g CHAIN`: continues in that chain, then returns to the caller of the current one.
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
    /// `REDIRECT` to the local machine.
    Redirect {
        /// `--to-ports`.
        ports: Option<PortRange>,
        /// `--random`.
        random: bool,
    },
    /// `NOTRACK`, and its newer spelling `CT --notrack`.
    NoTrack {
        /// True if written as `CT --notrack`.
        by_ct: bool,
    },
    /// `TRACE`.
    Trace,
    /// An extension, or an option of one, that is not modelled. Its effect is unknown.
    Other(Box<Other>),
}

/// The target of a compiled rule.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// No modelled effect: continues with the next rule.
    Continue,
    /// The same, if omitted conditions decide whether the rule matches.
    Maybe,
    Accept,
    Drop,
    Return,
    Reject(RejectResponse),
    /// The bits of the mask are cleared, then those of the value flipped.
    Mark(Masked),
    Connmark(ConnmarkChange),
    /// Continues in the chain at this position, then returns.
    Jump(u32),
    /// Continues there, then returns to the caller of the current chain.
    Goto(u32),
    Dnat(Destination),
    Redirect(Destination),
    Snat(Source),
    NoTrack,
    /// Not modelled, for the given reason.
    Unknown(Arc<str>),
}

/// The result of parsing a target; nothing if it or one of its options is not modelled.
type Parsed = Result<Option<Target>, Fault>;

/// Returns a built-in target.
pub(super) fn built_in(name: &str) -> Option<Target> {
    match name {
        "ACCEPT" => Some(Target::Accept),
        "DROP" => Some(Target::Drop),
        "RETURN" => Some(Target::Return),
        _ => None,
    }
}

/// Parses an extension; nothing if it, or one of its options, is not modelled.
pub(super) fn parse(name: &str, options: &Options<'_>) -> Parsed {
    match name {
        "REJECT" => reject::parse(options),
        "MARK" => mark::parse(options),
        "MASQUERADE" => nat::parse_masquerade(options),
        "REDIRECT" => nat::parse_redirect(options),
        "DNAT" => Ok(nat::parse(options, "--to-destination")?.map(Target::Dnat)),
        "SNAT" => Ok(nat::parse(options, "--to-source")?.map(Target::Snat)),
        "TRACE" if options.is_empty() => Ok(Some(Target::Trace)),
        "NOTRACK" if options.is_empty() => Ok(Some(Target::NoTrack { by_ct: false })),
        "CT" => {
            let names: Vec<&str> = options.iter().map(|option| option.name).collect();
            Ok((names == ["--notrack"]).then_some(Target::NoTrack { by_ct: true }))
        }
        _ => Ok(None),
    }
}

impl Target {
    /// Returns the name of the target, or of the chain that the rule jumps to.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Jump(chain) | Self::Goto(chain) => chain,
            Self::Accept => "ACCEPT",
            Self::Drop => "DROP",
            Self::Return => "RETURN",
            Self::Reject(_) => "REJECT",
            Self::Mark(_) => "MARK",
            Self::Masquerade { .. } => "MASQUERADE",
            Self::Dnat(_) => "DNAT",
            Self::Snat(_) => "SNAT",
            Self::Redirect { .. } => "REDIRECT",
            Self::NoTrack { .. } => "NOTRACK",
            Self::Trace => "TRACE",
            Self::Other(other) => &other.name,
        }
    }

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
            Self::Reject(with) => with.print(out),
            Self::Mark(mark) => mark::print(*mark, out),
            Self::Masquerade { ports, random, random_fully } => {
                out.push(" -j MASQUERADE");
                nat::print_ports(*ports, out);
                out.flag(" --random", *random);
                out.flag(" --random-fully", *random_fully);
            }
            Self::Dnat(nat) => nat.print(" -j DNAT --to-destination ", out),
            Self::Snat(nat) => nat.print(" -j SNAT --to-source ", out),
            Self::Redirect { ports, random } => {
                out.push(" -j REDIRECT");
                nat::print_ports(*ports, out);
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

    /// Returns its name, if its effect is not modelled.
    #[doc(hidden)]
    pub fn unmodelled(&self) -> Option<&str> {
        let is_unknown = matches!(self, Self::Other(_)) && matches!(self.compile(|_| None), Action::Unknown(_));
        is_unknown.then(|| self.name())
    }

    /// Compiles it; `position` finds chains.
    pub(super) fn compile(&self, position: impl Fn(&str) -> Option<u32>) -> Action {
        let missing = |chain| Action::Unknown(format!("chain {chain} is not in these rules").into());
        match self {
            Self::Jump(chain) => position(chain).map_or_else(|| missing(chain), Action::Jump),
            Self::Goto(chain) => position(chain).map_or_else(|| missing(chain), Action::Goto),
            Self::Accept => Action::Accept,
            Self::Drop => Action::Drop,
            Self::Return => Action::Return,
            Self::Reject(with) => Action::Reject(with.response()),
            Self::Mark(change) => Action::Mark(*change),
            Self::Masquerade { ports, random, random_fully } => {
                let (ports, random) = (ports.map(PortRange::inclusive), *random || *random_fully);
                Action::Snat(Source { address: SourceAddress::Masquerade, ports, random })
            }
            Self::Snat(nat) => nat.compile_source(),
            Self::Dnat(nat) => nat.compile_destination(),
            Self::Redirect { ports, random } => {
                let ports = ports.map(PortRange::inclusive);
                Action::Redirect(Destination { address: None, ports, random: *random })
            }
            Self::NoTrack { .. } => Action::NoTrack,
            Self::Trace => Action::Continue,
            Self::Other(other) if INERT.contains(&&*other.name) => Action::Continue,
            Self::Other(other) => {
                let connmark = (&*other.name == "CONNMARK").then(|| mark::connmark(&other.text)).flatten();
                connmark.map_or_else(|| Action::Unknown(other.reason("target")), Action::Connmark)
            }
        }
    }

    /// Returns its name, and the only table and hooks that it is registered for (`.table` and `.hooks` of its `struct xt_target`).
    pub(super) fn restriction(&self) -> Option<(&'static str, TableName, &'static [Hook])> {
        const TO_DESTINATION: &[Hook] = &[Hook::Prerouting, Hook::Output];
        const TO_SOURCE: &[Hook] = &[Hook::Input, Hook::Postrouting];
        Some(match self {
            Self::Reject(_) => ("REJECT", TableName::Filter, &[Hook::Input, Hook::Forward, Hook::Output]),
            Self::Dnat(_) => ("DNAT", TableName::Nat, TO_DESTINATION),
            Self::Redirect { .. } => ("REDIRECT", TableName::Nat, TO_DESTINATION),
            Self::Snat(_) => ("SNAT", TableName::Nat, TO_SOURCE),
            Self::Masquerade { .. } => ("MASQUERADE", TableName::Nat, &[Hook::Postrouting]),
            Self::NoTrack { .. } => ("NOTRACK", TableName::Raw, TO_DESTINATION),
            Self::Trace => ("TRACE", TableName::Raw, TO_DESTINATION),
            _ => return None,
        })
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

impl Action {
    /// Returns whether a packet continues as if the rule did not exist.
    pub(super) fn is_inert(&self) -> bool {
        matches!(self, Self::Continue | Self::Maybe)
    }
}

/// Changes the mark of a packet.
pub(super) fn mark_packet<T: Trace>(walker: &mut Walker<T>, change: Masked) {
    walker.packet.mark = mark::apply(walker.packet.mark, change);
}
