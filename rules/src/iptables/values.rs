//! Values in rules: names of chains, conditions and their opposites, addresses.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;

use arrayvec::ArrayString;
use ipnet::IpNet;

use crate::cluster::Family;

/// The name of a chain. Cheap to clone and to compare: it needs no allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct ChainName(Text);

/// The bytes that the kernel has for the name of a chain (`XT_EXTENSION_MAXNAMELEN` without the end).
const LONGEST_NAME: usize = 28;

#[derive(Clone, PartialEq, Eq)]
enum Text {
    InPlace(ArrayString<LONGEST_NAME>),
    /// A name that no kernel accepts, as in an edited dump.
    TooLong(Arc<str>),
}

impl ChainName {
    /// The name that starts so and ends so.
    pub(super) fn joined(start: &str, end: &str) -> Self {
        let mut name = ArrayString::new();
        let fits = name.try_push_str(start).and_then(|()| name.try_push_str(end)).is_ok();
        Self(if fits { Text::InPlace(name) } else { Text::TooLong(format!("{start}{end}").into()) })
    }
}

impl<T: AsRef<str>> From<T> for ChainName {
    fn from(name: T) -> Self {
        Self::joined(name.as_ref(), "")
    }
}

impl Deref for ChainName {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Text::InPlace(name) => name,
            Text::TooLong(name) => name,
        }
    }
}

impl Borrow<str> for ChainName {
    fn borrow(&self) -> &str {
        self
    }
}

impl Hash for ChainName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        str::hash(self, state);
    }
}

impl PartialOrd for ChainName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ChainName {
    fn cmp(&self, other: &Self) -> Ordering {
        str::cmp(self, other)
    }
}

impl fmt::Debug for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// A condition, or with `!` its opposite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Negatable<T> {
    /// True after a `!`.
    pub negated: bool,
    /// The condition.
    pub value: T,
}

impl<T> Negatable<T> {
    /// The condition itself.
    pub fn is(value: T) -> Self {
        Self { negated: false, value }
    }

    /// The opposite of the condition.
    pub(crate) fn not(value: T) -> Self {
        Self { negated: true, value }
    }

    /// `not ` for an opposite, else nothing: for sentences.
    pub fn negation(&self) -> &'static str {
        if self.negated { "not " } else { "" }
    }
}

/// Ports from first to last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest, not below the first.
    pub last: u16,
}

impl PortRange {
    /// A single port.
    pub(crate) fn one(port: u16) -> Self {
        Self { first: port, last: port }
    }

    pub(super) fn contains(self, port: u16) -> bool {
        self.inclusive().contains(&port)
    }

    pub(super) fn inclusive(self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    /// `80` or `80 to 90`.
    pub(super) fn explain(self) -> String {
        if self.first == self.last { self.first.to_string() } else { format!("{} to {}", self.first, self.last) }
    }
}

/// A 32-bit value of which only the bits of a mask count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Masked {
    /// The bits.
    pub value: u32,
    /// Which of them count; all for `0xffffffff`.
    pub mask: u32,
}

impl Masked {
    /// Exactly these bits.
    pub(crate) fn bits(bits: u32) -> Self {
        Self { value: bits, mask: bits }
    }

    /// `0x4000`, or with its mask where they differ: `0x1 in the bits 0x3`.
    pub fn explain(self) -> String {
        let Self { value, mask } = self;
        if mask == value || mask == u32::MAX {
            format!("{value:#x}")
        } else {
            format!("{value:#x} in the bits {mask:#x}")
        }
    }
}

/// Addresses that `-s` and `-d` compare with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Network {
    /// A prefix, without bits after its length.
    Prefix(IpNet),
    /// An address under a mask that is not a prefix length.
    Masked(Box<(IpAddr, IpAddr)>),
}

impl Network {
    /// One address.
    pub(crate) fn host(address: IpAddr) -> Self {
        Self::Prefix(IpNet::from(address))
    }

    /// A range; bits after its length are dropped, as iptables does.
    pub fn range(range: IpNet) -> Self {
        Self::Prefix(range.trunc())
    }

    /// The family of the addresses.
    pub(crate) fn family(&self) -> Family {
        match self {
            Self::Prefix(range) => Family::of(range.addr()),
            Self::Masked(masked) => Family::of(masked.0),
        }
    }
}
