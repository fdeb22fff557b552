//! Where the kernel evaluates rules.

use std::fmt;

/// A place in the kernel's path of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// It came in by an interface and is not routed yet.
    Prerouting,
    /// It is for this machine.
    Input,
    /// It is for another machine.
    Forward,
    /// A process of this machine sent it.
    Output,
    /// It is routed and about to leave.
    Postrouting,
}

impl Hook {
    /// All hooks, in the order of a packet.
    pub(crate) const ALL: [Self; 5] = [Self::Prerouting, Self::Input, Self::Forward, Self::Output, Self::Postrouting];

    /// The name of the chains that iptables has there.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prerouting => "PREROUTING",
            Self::Input => "INPUT",
            Self::Forward => "FORWARD",
            Self::Output => "OUTPUT",
            Self::Postrouting => "POSTROUTING",
        }
    }

    /// nft's word for it.
    pub(crate) fn lowercase(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        }
    }

    /// Whether connections are looked up here: packets enter the machine.
    pub fn is_entry(self) -> bool {
        matches!(self, Self::Prerouting | Self::Output)
    }

    /// Whether addresses of the destination are translated here (`HOOK2MANIP` in `nf_nat_core.c`). Those of the source
    /// are in INPUT and POSTROUTING, neither in FORWARD.
    pub fn translates_destination(self) -> bool {
        self.is_entry()
    }

    /// Whether addresses of the source are translated here.
    pub(crate) fn translates_source(self) -> bool {
        matches!(self, Self::Input | Self::Postrouting)
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
