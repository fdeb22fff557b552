//! Targets as text.

use std::net::IpAddr;

use super::Printer;
use crate::cluster::Family;
use crate::iptables::matches::PortRange;
use crate::iptables::target::{Nat, RejectWith, Target};

impl Printer {
    pub(super) fn target(&mut self, target: &Target) {
        match target {
            Target::Jump(chain) => {
                self.push(" -j ");
                self.push(chain);
            }
            Target::Goto(chain) => {
                self.push(" -g ");
                self.push(chain);
            }
            Target::Accept => self.push(" -j ACCEPT"),
            Target::Drop => self.push(" -j DROP"),
            Target::Return => self.push(" -j RETURN"),
            Target::Reject(with) => {
                self.push(" -j REJECT --reject-with ");
                self.push(reject_word(self.family, *with));
            }
            Target::Mark(mark) => {
                self.push(" -j MARK --set-xmark ");
                self.hex(mark.value);
                self.push("/");
                self.hex(mark.mask);
            }
            Target::Masquerade { ports, random, random_fully } => {
                self.push(" -j MASQUERADE");
                self.port_option(*ports);
                self.flag(" --random", *random);
                self.flag(" --random-fully", *random_fully);
            }
            Target::Dnat(nat) => self.nat(" -j DNAT --to-destination ", nat),
            Target::Snat(nat) => self.nat(" -j SNAT --to-source ", nat),
            Target::Redirect { ports, random } => {
                self.push(" -j REDIRECT");
                self.port_option(*ports);
                self.flag(" --random", *random);
            }
            Target::NoTrack { by_ct: true } => self.push(" -j CT --notrack"),
            Target::NoTrack { by_ct: false } => self.push(" -j NOTRACK"),
            Target::Trace => self.push(" -j TRACE"),
            Target::Other(other) => {
                self.push(" -j ");
                self.other(other);
            }
        }
    }

    fn flag(&mut self, name: &str, given: bool) {
        if given {
            self.push(name);
        }
    }

    fn port_option(&mut self, ports: Option<PortRange>) {
        if let Some(ports) = ports {
            self.push(" --to-ports ");
            self.port_range(ports, "-");
        }
    }

    fn nat(&mut self, name: &str, nat: &Nat) {
        self.push(name);
        if let Some((first, last)) = nat.addresses {
            let bracketed = first.is_ipv6() && nat.ports.is_some();
            self.flag("[", bracketed);
            self.address_range(first, last);
            self.flag("]", bracketed);
        }
        if let Some(ports) = nat.ports {
            self.push(":");
            self.port_range(ports, "-");
        }
        self.flag(" --random", nat.random);
        self.flag(" --random-fully", nat.random_fully);
        self.flag(" --persistent", nat.persistent);
    }

    fn address_range(&mut self, first: IpAddr, last: IpAddr) {
        self.address(first);
        if last != first {
            self.push("-");
            self.address(last);
        }
    }
}

fn reject_word(family: Family, with: RejectWith) -> &'static str {
    let words = match family {
        Family::Ipv4 => &RejectWith::IPV4[..],
        Family::Ipv6 => &RejectWith::IPV6[..],
    };
    let found = words.iter().find(|(_, other)| *other == with);
    // The words that only one family has come from that family's parser; the generator uses none of them.
    found.unwrap_or(&words[0]).0
}
