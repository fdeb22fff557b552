//! A buffer for printing rules.

use std::fmt::Write;
use std::net::IpAddr;

use crate::cluster::Family;
use crate::digits;
use crate::iptables::{Negatable, PortRange};

/// The text so far, and its family.
pub(in crate::iptables) struct Printer {
    pub(in crate::iptables) text: String,
    pub(in crate::iptables) family: Family,
}

impl Printer {
    pub(in crate::iptables) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Prints an option's name with a leading blank, after a `!` if negated.
    pub(in crate::iptables) fn option(&mut self, name: &str, negated: bool) {
        if negated {
            self.push(" !");
        }
        self.push(name);
    }

    /// Prints an option without a value, if given.
    pub(in crate::iptables) fn flag(&mut self, name: &str, given: bool) {
        if given {
            self.push(name);
        }
    }

    /// Prints an option whose value is a word, if given.
    pub(in crate::iptables) fn word(&mut self, name: &str, word: Option<&Negatable<Box<str>>>) {
        if let Some(word) = word {
            self.option(name, word.negated);
            self.push(&word.value);
        }
    }

    /// Prints names separated by commas; `none` if there are none.
    pub(in crate::iptables) fn list(&mut self, names: impl Iterator<Item = &'static str>, none: &str) {
        let start = self.text.len();
        for name in names {
            if self.text.len() > start {
                self.push(",");
            }
            self.push(name);
        }
        if self.text.len() == start {
            self.push(none);
        }
    }

    pub(in crate::iptables) fn port_range(&mut self, range: PortRange, separator: &str) {
        self.number(u64::from(range.first));
        if range.last != range.first {
            self.push(separator);
            self.number(u64::from(range.last));
        }
    }

    pub(in crate::iptables) fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.push(&digits::ipv4(address)),
            IpAddr::V6(address) => self.display(address),
        }
    }

    pub(in crate::iptables) fn number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number));
    }

    pub(in crate::iptables) fn hex(&mut self, number: u32) {
        self.display(format_args!("{number:#x}"));
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        // Writing to a buffer in memory cannot fail.
        let _ = write!(self.text, "{value}");
    }

    /// Prints text as `xtables_save_string` does: a plain word without quotes, anything else with them.
    pub(in crate::iptables) fn quoted(&mut self, text: &str) {
        let bare = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        if !text.is_empty() && text.bytes().all(bare) {
            return self.push(text);
        }
        self.push("\"");
        if text.contains(['"', '\\', '\'']) {
            for character in text.chars() {
                if matches!(character, '"' | '\\' | '\'') {
                    self.text.push('\\');
                }
                self.text.push(character);
            }
        } else {
            self.push(text);
        }
        self.push("\"");
    }
}
