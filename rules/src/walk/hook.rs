//! Netfilter hooks.

use std::fmt;

/// A netfilter hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// The packet arrived on an interface and is not routed yet.
    Prerouting,
    /// The packet is for this machine.
    Input,
    /// The packet is for another machine.
    Forward,
    /// The packet was sent by a local process.
    Output,
    /// The packet is routed and about to leave.
    Postrouting,
}

impl Hook {
    /// All hooks, in the order of a packet's path.
    pub(crate) const ALL: [Self; 5] = [Self::Prerouting, Self::Input, Self::Forward, Self::Output, Self::Postrouting];

    /// Returns the name of the built-in chain in iptables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prerouting => "PREROUTING",
            Self::Input => "INPUT",
            Self::Forward => "FORWARD",
            Self::Output => "OUTPUT",
            Self::Postrouting => "POSTROUTING",
        }
    }

    /// Returns nft's keyword.
    pub(crate) fn lowercase(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        }
    }

    /// Returns whether conntrack lookups happen here: packets enter the network stack.
    pub fn is_entry(self) -> bool {
        matches!(self, Self::Prerouting | Self::Output)
    }

    /// Returns whether DNAT happens here (`HOOK2MANIP` in `nf_nat_core.c`). SNAT happens in INPUT and POSTROUTING, neither in FORWARD.
    pub fn translates_destination(self) -> bool {
        self.is_entry()
    }

    /// Returns whether SNAT happens here.
    pub(crate) fn translates_source(self) -> bool {
        matches!(self, Self::Input | Self::Postrouting)
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
