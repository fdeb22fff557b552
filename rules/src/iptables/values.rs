//! Values in rules: names of chains, negatable values, addresses.

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

/// The name of a chain. It is cheap to clone and to compare, because it needs no allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct ChainName(Text);

/// The maximum length of a chain name in the kernel (`XT_EXTENSION_MAXNAMELEN` without the terminating zero).
const LONGEST_NAME: usize = 28;

#[derive(Clone, PartialEq, Eq)]
enum Text {
    InPlace(ArrayString<LONGEST_NAME>),
    /// A name that no kernel accepts, as in an edited dump.
    TooLong(Arc<str>),
}

impl ChainName {
    /// Joins two parts of a name.
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

/// A value that `!` negates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Negatable<T> {
    /// True after a `!`.
    pub negated: bool,
    /// The value.
    pub value: T,
}

impl<T> Negatable<T> {
    /// Creates a value that is not negated.
    pub fn is(value: T) -> Self {
        Self { negated: false, value }
    }

    /// Creates a negated value.
    pub(crate) fn not(value: T) -> Self {
        Self { negated: true, value }
    }

    /// Returns `not ` if negated, otherwise nothing: for sentences.
    pub fn negation(&self) -> &'static str {
        if self.negated { "not " } else { "" }
    }
}

/// A range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest, at least `first`.
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

/// A 32-bit value under a mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Masked {
    /// The bits.
    pub value: u32,
    /// The mask; `0xffffffff` for all bits.
    pub mask: u32,
}

impl Masked {
    /// Creates a value with these bits as its mask.
    pub(crate) fn bits(bits: u32) -> Self {
        Self { value: bits, mask: bits }
    }

    /// `0x4000`, or with the mask if they differ: `0x1 in the bits 0x3`.
    pub fn explain(self) -> String {
        let Self { value, mask } = self;
        if mask == value || mask == u32::MAX {
            format!("{value:#x}")
        } else {
            format!("{value:#x} in the bits {mask:#x}")
        }
    }
}

/// The addresses of `-s` and `-d`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Network {
    /// A prefix, without host bits.
    Prefix(IpNet),
    /// An address under a mask that is not a prefix length.
    Masked(Box<(IpAddr, IpAddr)>),
}

impl Network {
    /// Returns the address of a network of one.
    pub fn single(&self) -> Option<IpAddr> {
        match self {
            Self::Prefix(range) => (range.prefix_len() == range.max_prefix_len()).then(|| range.addr()),
            Self::Masked(_) => None,
        }
    }

    /// Creates a network of one address.
    pub(crate) fn host(address: IpAddr) -> Self {
        Self::Prefix(IpNet::from(address))
    }

    /// Creates a network from a range; host bits are cleared, as iptables does.
    pub fn range(range: IpNet) -> Self {
        Self::Prefix(range.trunc())
    }

    /// Returns the family of the addresses.
    pub(crate) fn family(&self) -> Family {
        match self {
            Self::Prefix(range) => Family::of(range.addr()),
            Self::Masked(masked) => Family::of(masked.0),
        }
    }
}
