//! The effective values of the kernel settings of a plan.

use crate::topology::{LOOPBACK, Netns, Sysctl};

/// Whether predictions follow a setting of a node, by its dotted name.
pub(crate) fn is_predicted(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let followed =
        ["ip_forward", "forwarding", "rp_filter", "route_localnet", "accept_local", "nf_conntrack_tcp_be_liberal"];
    followed.contains(&last) || last.starts_with("bridge-nf-call-")
}

/// The settings of an interface that affect packets entering or leaving through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InterfaceSettings {
    pub(super) forwards_ipv4: bool,
    pub(super) forwards_ipv6: bool,
    /// `rp_filter`.
    pub(super) reverse_path: u8,
    pub(super) routes_loopback: bool,
    pub(super) accepts_own: bool,
}

impl InterfaceSettings {
    /// The settings of the interface with an index; an unlisted index is the loopback's.
    pub(super) fn of(netns: &Netns, index: u32) -> Self {
        let name = netns.interface(index).map_or("lo", |interface| &interface.name);
        let settings = Settings(netns);
        Self {
            forwards_ipv4: settings.forwards(true, name),
            forwards_ipv6: settings.forwards(false, name),
            reverse_path: settings.reverse_path(name),
            routes_loopback: index == LOOPBACK || settings.routes_loopback(name),
            accepts_own: settings.accepts_own(name),
        }
    }

    /// The settings of all interfaces by their indices.
    pub(super) fn all(netns: &Netns) -> Vec<Self> {
        (0..=netns.interfaces.last().map_or(LOOPBACK, |last| last.index)).map(|index| Self::of(netns, index)).collect()
    }
}

/// The settings of a namespace that affect packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a>(pub(super) &'a Netns);

impl Settings<'_> {
    /// The value written last to any of several settings; 0 if there is none.
    fn last(self, names: &[String]) -> u8 {
        let written = self.0.sysctls.iter().rev().find(|sysctl| names.contains(&sysctl.name));
        written.map_or(0, value)
    }

    /// An interface's own value of a setting: the value written to it, otherwise that of `default` when the interface was created.
    fn own(self, family: &str, interface: &str, name: &str) -> u8 {
        // In the name of a setting, a slash stands for a dot of the interface's name.
        let interface = interface.replace('.', "/");
        let specific = format!("{family}.conf.{interface}.{name}");
        let is_set = self.0.sysctls.iter().any(|sysctl| sysctl.name == specific);
        self.last(&[if is_set { specific } else { format!("{family}.conf.default.{name}") }])
    }

    fn all(self, name: &str) -> u8 {
        self.last(&[format!("ipv4.conf.all.{name}")])
    }

    /// Whether packets that arrive by an interface are forwarded: for IPv4 its own setting decides, for IPv6 that of
    /// `all` (`ip6_forward`).
    fn forwards(self, ipv4: bool, interface: &str) -> bool {
        if !ipv4 {
            return self.last(&["ipv6.conf.all.forwarding".to_owned()]) != 0;
        }
        let specific = format!("ipv4.conf.{}.forwarding", interface.replace('.', "/"));
        let (mut all, mut own) = (0, 0);
        // In the order of writing: settings of interfaces are written when all are up.
        let (late, early): (Vec<_>, Vec<_>) = self.0.sysctls.iter().partition(|sysctl| sysctl.name == specific);
        for sysctl in early.into_iter().chain(late) {
            let value = value(sysctl);
            match sysctl.name.as_str() {
                // A changed value is also written to `default` and to every interface (`inet_forward_change`); an unchanged one is not.
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

    /// `rp_filter`: the maximum of the interface's value and that of `all`.
    fn reverse_path(self, interface: &str) -> u8 {
        self.own("ipv4", interface, "rp_filter").max(self.all("rp_filter"))
    }

    /// `route_localnet`: set for the interface or for `all`.
    fn routes_loopback(self, interface: &str) -> bool {
        self.own("ipv4", interface, "route_localnet") != 0 || self.all("route_localnet") != 0
    }

    /// `accept_local`: set for the interface or for `all`.
    fn accepts_own(self, interface: &str) -> bool {
        self.own("ipv4", interface, "accept_local") != 0 || self.all("accept_local") != 0
    }

    /// `bridge-nf-call-iptables`, or `bridge-nf-call-ip6tables`.
    pub(super) fn bridges_call(self, ipv4: bool) -> bool {
        let table = if ipv4 { "iptables" } else { "ip6tables" };
        self.last(&[format!("bridge.bridge-nf-call-{table}")]) != 0
    }
}

/// The value of a setting as a small number.
fn value(sysctl: &Sysctl) -> u8 {
    sysctl.value.parse().unwrap_or(0)
}
