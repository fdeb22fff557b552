//! Extensions that rule sets keep as text.

use std::sync::Arc;

use super::{Condition, addrtype, conntrack, icmp, iprange};
use crate::cluster::Family;
use crate::iptables::text::{Printer, kept_options};

/// The match that stands for a rule that could not be read.
pub const UNREAD: &str = "unread";

/// The match that stands for words of a listing that are unknown or missing.
pub(in crate::iptables) const LISTED: &str = "listing";

/// Text of an extension that is not modelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// The name after `-m` or `-j`.
    pub name: Box<str>,
    /// Its options as written, trimmed; may be empty.
    pub text: Box<str>,
}

impl Other {
    /// Returns whether it stands for what could not be read, rather than for an extension.
    pub(in crate::iptables) fn is_unread(&self) -> bool {
        [UNREAD, LISTED].contains(&&*self.name)
    }

    pub(in crate::iptables) fn print(&self, out: &mut Printer) {
        out.push(&self.name);
        if !self.text.is_empty() {
            out.push(" ");
            out.push(&self.text);
        }
    }

    pub(super) fn compile(&self, family: Family) -> Condition {
        let options = kept_options(&self.text);
        let known = match (&*self.name, &options) {
            ("limit", _) => Some(Condition::Limit),
            ("conntrack", Some(options)) => conntrack::compile(options, family),
            ("addrtype", Some(options)) => addrtype::compile(options),
            ("icmp", Some(options)) if family == Family::Ipv4 => icmp::compile(options, false),
            ("icmp6" | "ipv6-icmp" | "icmpv6", Some(options)) => icmp::compile(options, true),
            ("iprange", Some(options)) => iprange::compile(options, family),
            _ => None,
        };
        known.unwrap_or_else(|| Condition::Unknown(self.reason("match")))
    }

    /// Returns why it cannot be evaluated.
    pub(in crate::iptables) fn reason(&self, what: &str) -> Arc<str> {
        let blank = if self.text.is_empty() { "" } else { " " };
        format!("{what} `{}{blank}{}` is not modelled", self.name, self.text).into()
    }
}
