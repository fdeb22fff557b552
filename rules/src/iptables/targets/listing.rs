//! Targets in listings, word for word as the `print` functions of their extensions write them.

use super::nat::{NatRange, nat_range};
use super::required::{is_known_extension, required};
use super::{Nat, RejectWith, Target, built_in, mark};
use crate::iptables::text::values;
use crate::iptables::{Masked, Other, PortRange};

/// The options of a target read so far.
#[derive(Debug, Default)]
pub(in crate::iptables) struct Listed {
    /// `to:10.0.0.1:80`.
    to: Option<NatRange>,
    /// `masq ports: 1024-2048`, `redir ports 8080`.
    ports: Option<PortRange>,
    mark: Option<Masked>,
    reject: Option<RejectWith>,
    random: bool,
    random_fully: bool,
    persistent: bool,
    is_untracked: bool,
    is_goto: bool,
}

impl Listed {
    /// Reads the target's options at the start of some words. Returns the number of words; nothing if they are not options.
    pub(in crate::iptables) fn read(&mut self, name: Option<&str>, words: &[&str]) -> Option<usize> {
        match (name, words) {
            (_, ["[goto]", ..]) => {
                self.is_goto = true;
                Some(1)
            }
            (Some("MARK"), ["MARK", how, bits, ..]) => {
                self.mark = Some(mark::parse_listed(how, bits)?);
                Some(3)
            }
            (Some("REJECT"), ["reject-with", with, ..]) => {
                self.reject = Some(RejectWith::parse_listed(with)?);
                Some(2)
            }
            (Some("CT"), ["NOTRACK", ..]) => {
                self.is_untracked = true;
                Some(1)
            }
            (Some("CT"), ["CT", "notrack", ..]) => {
                self.is_untracked = true;
                Some(2)
            }
            (Some("MASQUERADE"), ["masq", "ports:", ports, ..]) | (Some("REDIRECT"), ["redir", "ports", ports, ..]) => {
                self.ports = Some(values::ports(ports, '-')?);
                Some(3)
            }
            (
                Some("DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT"),
                [flag @ ("random" | "random-fully" | "persistent"), ..],
            ) => {
                match *flag {
                    "random" => self.random = true,
                    "random-fully" => self.random_fully = true,
                    _ => self.persistent = true,
                }
                Some(1)
            }
            (Some("DNAT" | "SNAT"), [word, ..]) => {
                self.to = Some(nat_range(word.strip_prefix("to:")?)?);
                Some(1)
            }
            _ => None,
        }
    }

    /// Returns whether a target of this name lacks required words.
    pub(in crate::iptables) fn lacks(&self, name: &str) -> bool {
        let needs = name == "REJECT" || required(name).is_some();
        needs && self.to.is_none() && self.mark.is_none() && self.reject.is_none()
    }

    /// Returns the target of this name; `is_known` is whether all words of the rule are known.
    pub(in crate::iptables) fn target(&self, name: &str, is_known: bool) -> Target {
        if let Some(target) = built_in(name) {
            return target;
        }
        if self.is_goto {
            return Target::Goto(name.into());
        }
        let &Self { ports, random, random_fully, persistent, .. } = self;
        let nat = self.to.map(|(addresses, ports)| Nat { addresses, ports, random, random_fully, persistent });
        let known = match name {
            "DNAT" => nat.map(Target::Dnat),
            "SNAT" => nat.map(Target::Snat),
            "MARK" => self.mark.map(Target::Mark),
            "REJECT" => self.reject.map(Target::Reject),
            "MASQUERADE" if is_known => Some(Target::Masquerade { ports, random, random_fully }),
            "REDIRECT" if is_known => Some(Target::Redirect { ports, random }),
            "TRACE" if is_known => Some(Target::Trace),
            "NOTRACK" if is_known => Some(Target::NoTrack { by_ct: false }),
            "CT" if self.is_untracked => Some(Target::NoTrack { by_ct: true }),
            "MASQUERADE" | "REDIRECT" | "TRACE" | "NOTRACK" => None,
            _ if is_known_extension(name) => None,
            _ => Some(Target::Jump(name.into())),
        };
        known.unwrap_or_else(|| Target::Other(Box::new(Other { name: name.into(), text: Box::default() })))
    }
}
