//! Interface names.

use std::fmt;

/// Maximum length of a name, without the terminating zero (`IFNAMSIZ` is 16).
const LONGEST: usize = 15;

/// An interface name of 1 to 15 bytes. It is cheap to copy and to compare.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Interface([u8; LONGEST + 1]);

impl Interface {
    /// The loopback interface.
    pub const LOOPBACK: Self = Self(*b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0");

    /// Creates a name; returns nothing if no interface can have it.
    pub fn new(name: &str) -> Option<Self> {
        let fits = !name.is_empty() && name.len() <= LONGEST && !name.contains(['/', '\0', ' ']);
        fits.then(|| Self(padded(name)))
    }

    /// The name.
    pub fn name(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }

    /// Returns the name as a number, with the first letter in the highest byte; zero for no interface.
    #[inline]
    pub fn number(interface: Option<Self>) -> u128 {
        interface.map_or(0, |interface| u128::from_be_bytes(interface.0))
    }

    /// Returns any text as a number, truncated to 16 bytes.
    pub(crate) fn number_of_text(text: &str) -> u128 {
        u128::from_be_bytes(padded(text))
    }
}

fn padded(name: &str) -> [u8; LONGEST + 1] {
    let mut bytes = [0; LONGEST + 1];
    bytes.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    bytes
}

impl fmt::Debug for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.name(), f)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_kernel_takes() {
        assert_eq!(Interface::new("lo"), Some(Interface::LOOPBACK));
        assert_eq!(Interface::new("abcdefghijklmno").unwrap().name(), "abcdefghijklmno");
        for name in ["", "abcdefghijklmnop", "a b", "a/b"] {
            assert_eq!(Interface::new(name), None, "{name}");
        }
    }
}
