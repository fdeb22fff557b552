//! Fast formatting of addresses, which rules contain in large numbers: `Display` takes several times as long.

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};

use arrayvec::ArrayString;

/// Formats an address as `10.244.1.2`.
pub(crate) fn ipv4(address: Ipv4Addr) -> ArrayString<15> {
    let mut text = ArrayString::new();
    push_ipv4(&mut text, address);
    text
}

/// Formats an address and port as `10.244.1.2:8080` or `[fd00::2]:8080`.
pub(crate) fn socket(address: SocketAddr) -> ArrayString<47> {
    let mut text = ArrayString::new();
    match address {
        SocketAddr::V4(address) => {
            push_ipv4(&mut text, *address.ip());
            text.push(':');
            text.push_str(itoa::Buffer::new().format(address.port()));
        }
        SocketAddr::V6(address) => {
            // It fits: eight groups of four digits with colons, two brackets, a colon and five digits.
            let _ = write!(text, "[{}]:{}", address.ip(), address.port());
        }
    }
    text
}

fn push_ipv4<const SIZE: usize>(text: &mut ArrayString<SIZE>, address: Ipv4Addr) {
    let [first, rest @ ..] = address.octets();
    let mut digits = itoa::Buffer::new();
    text.push_str(digits.format(first));
    for octet in rest {
        text.push('.');
        text.push_str(digits.format(octet));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn addresses_are_printed_as_display_prints_them(address: Ipv4Addr, socket: SocketAddr) {
            let socket = SocketAddr::new(socket.ip(), socket.port());
            prop_assert_eq!(&*ipv4(address), &address.to_string());
            prop_assert_eq!(&*super::socket(socket), &socket.to_string());
        }
    }

    #[test]
    fn the_longest_fit() {
        let longest = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
        assert_eq!(socket(longest.parse().unwrap()).as_str(), longest);
    }
}
