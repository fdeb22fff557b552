//! The size of a datagram, and how it is sent.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The size of a datagram, and how it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Shape {
    /// The size of the IP packet in bytes, including headers; `None` for a small one.
    pub size: Option<u16>,
    /// Whether routers may fragment it: the DF flag of IPv4 is not set.
    pub may_fragment: bool,
    /// The number of fragments that the sender splits it into; `None` if it is not fragmented.
    pub fragments: Option<u16>,
}

impl Shape {
    /// Returns the size of the largest fragment that the sender sends, including headers; `None` if it does not fragment.
    pub(crate) fn largest_fragment(self, to: IpAddr) -> Option<u16> {
        let (ip, header) = if to.is_ipv4() { (20, 20) } else { (40, 48) };
        let (size, fragments) = (self.size?, self.fragments?);
        // The payload of all fragments except the last is a multiple of eight bytes.
        let content = size.saturating_sub(ip).div_ceil(fragments.max(1)).next_multiple_of(8);
        Some(content.saturating_add(header))
    }
}

/// Displayed after a probe: `, 1500 bytes, may be fragmented`; nothing for a small datagram.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(size) = self.size {
            write!(f, ", {size} bytes")?;
        }
        match self.fragments {
            Some(fragments) => write!(f, " in {fragments} fragments"),
            None if self.may_fragment => f.write_str(", may be fragmented"),
            None => Ok(()),
        }
    }
}
