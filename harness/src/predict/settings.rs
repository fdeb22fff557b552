//! What kernel settings come to, as a plan writes them.

use crate::topology::{Netns, Sysctl};

/// The settings of a namespace that decide about packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a>(pub(super) &'a Netns);

impl Settings<'_> {
    /// What was written last to any of several settings; 0 where nothing was.
    fn last(self, names: &[String]) -> u8 {
        let written = self.0.sysctls.iter().rev().find(|sysctl| names.contains(&sysctl.name));
        written.map_or(0, value)
    }

    /// An interface's own value of a setting: what was written to it, else what `default` had when it was made.
    fn own(self, family: &str, interface: &str, name: &str) -> u8 {
        // In a setting's name a dot of an interface's name is a slash.
        let interface = interface.replace('.', "/");
        let specific = format!("{family}.conf.{interface}.{name}");
        let is_set = self.0.sysctls.iter().any(|sysctl| sysctl.name == specific);
        self.last(&[if is_set { specific } else { format!("{family}.conf.default.{name}") }])
    }

    fn all(self, name: &str) -> u8 {
        self.last(&[format!("ipv4.conf.all.{name}")])
    }

    /// Whether packets that come in by an interface are passed on: in IPv4 by its own setting, in IPv6 by that of `all`
    /// (`ip6_forward`).
    pub(super) fn forwards(self, ipv4: bool, interface: &str) -> bool {
        if !ipv4 {
            return self.last(&["ipv6.conf.all.forwarding".to_owned()]) != 0;
        }
        let specific = format!("ipv4.conf.{}.forwarding", interface.replace('.', "/"));
        let (mut all, mut own) = (0, 0);
        // In the order of writing: what is of an interface comes when all are up.
        let (late, early): (Vec<_>, Vec<_>) = self.0.sysctls.iter().partition(|sysctl| sysctl.name == specific);
        for sysctl in early.into_iter().chain(late) {
            let value = value(sysctl);
            match sysctl.name.as_str() {
                // A new value is that of `default` and of every interface too (`inet_forward_change`); the same again changes nothing.
                "ipv4.ip_forward" | "ipv4.conf.all.forwarding" => {
                    own = if value == all { own } else { value };
                    all = value;
                }
                "ipv4.conf.default.forwarding" => own = value,
                name if name == specific => own = value,
                _ => {}
            }
        }
        own != 0
    }

    /// `rp_filter`: the greater of an interface's own and that of `all`.
    pub(super) fn reverse_path(self, interface: &str) -> u8 {
        self.own("ipv4", interface, "rp_filter").max(self.all("rp_filter"))
    }

    /// `route_localnet`: that of an interface or of `all`.
    pub(super) fn routes_loopback(self, interface: &str) -> bool {
        self.own("ipv4", interface, "route_localnet") != 0 || self.all("route_localnet") != 0
    }

    /// `accept_local`: that of an interface or of `all`.
    pub(super) fn accepts_own(self, interface: &str) -> bool {
        self.own("ipv4", interface, "accept_local") != 0 || self.all("accept_local") != 0
    }

    /// `bridge-nf-call-iptables` and its IPv6 twin.
    pub(super) fn bridges_call(self, ipv4: bool) -> bool {
        let table = if ipv4 { "iptables" } else { "ip6tables" };
        self.last(&[format!("bridge.bridge-nf-call-{table}")]) != 0
    }
}

/// What is written: a small number, as scenarios have it.
fn value(sysctl: &Sysctl) -> u8 {
    sysctl.value.parse().unwrap_or(0)
}
