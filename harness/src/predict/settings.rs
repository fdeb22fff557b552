//! The effective values of the kernel settings of a plan.

use crate::topology::{LOOPBACK, Netns, Sysctl};

const IP_FORWARD: &str = "ipv4.ip_forward";
const FORWARDING: &str = "ipv4.conf.*.forwarding";
const IPV6_FORWARDING: &str = "ipv6.conf.all.forwarding";
const RP_FILTER: &str = "ipv4.conf.*.rp_filter";
const ROUTE_LOCALNET: &str = "ipv4.conf.*.route_localnet";
const ACCEPT_LOCAL: &str = "ipv4.conf.*.accept_local";
const BRIDGE_CALLS: [&str; 2] = ["bridge.bridge-nf-call-iptables", "bridge.bridge-nf-call-ip6tables"];

/// The settings that predictions follow; `*` is an interface, `all` or `default`.
const FOLLOWED: [&str; 8] = [
    IP_FORWARD,
    FORWARDING,
    IPV6_FORWARDING,
    RP_FILTER,
    ROUTE_LOCALNET,
    ACCEPT_LOCAL,
    BRIDGE_CALLS[0],
    BRIDGE_CALLS[1],
];

/// The settings that change no prediction: IPv6 is forwarded as `all` says, and windows of TCP are not predicted.
const NEUTRAL: [&str; 2] = ["ipv6.conf.*.forwarding", "netfilter.nf_conntrack_tcp_be_liberal"];

/// Whether predictions hold for any value of a setting of a node, given by its dotted name.
pub(crate) fn is_predicted(name: &str) -> bool {
    let name = name.strip_prefix("net.").unwrap_or(name);
    FOLLOWED.iter().chain(&NEUTRAL).any(|known| match known.split_once('*') {
        None => name == *known,
        Some((start, end)) => {
            let interface = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            interface.is_some_and(|interface| !interface.is_empty() && !interface.contains('.'))
        }
    })
}

/// The name of a setting of an interface. In it, a slash stands for a dot of the interface's name.
fn of_interface(setting: &str, interface: &str) -> String {
    setting.replace('*', &interface.replace('.', "/"))
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
    /// The value written last to a setting; 0 if there is none.
    fn last(self, name: &str) -> u8 {
        let written = self.0.sysctls.iter().rev().find(|sysctl| sysctl.name == name);
        written.map_or(0, value)
    }

    /// An interface's own value of a setting: the value written to it, otherwise that of `default` when the interface was created.
    fn own(self, interface: &str, setting: &str) -> u8 {
        let specific = of_interface(setting, interface);
        let is_set = self.0.sysctls.iter().any(|sysctl| sysctl.name == specific);
        self.last(&if is_set { specific } else { of_interface(setting, "default") })
    }

    fn all(self, setting: &str) -> u8 {
        self.last(&of_interface(setting, "all"))
    }

    /// Whether packets that arrive by an interface are forwarded: for IPv4 its own setting decides, for IPv6 that of
    /// `all` (`ip6_forward`).
    fn forwards(self, ipv4: bool, interface: &str) -> bool {
        if !ipv4 {
            return self.last(IPV6_FORWARDING) != 0;
        }
        let [all_forwarding, default, specific] =
            ["all", "default", interface].map(|name| of_interface(FORWARDING, name));
        let (mut all, mut own) = (0, 0);
        // In the order of writing: settings of interfaces are written when all are up.
        let (late, early): (Vec<_>, Vec<_>) = self.0.sysctls.iter().partition(|sysctl| sysctl.name == specific);
        for sysctl in early.into_iter().chain(late) {
            let value = value(sysctl);
            match sysctl.name.as_str() {
                // A changed value is also written to `default` and to every interface (`inet_forward_change`); an unchanged one is not.
                name if name == IP_FORWARD || name == all_forwarding => {
                    own = if value == all { own } else { value };
                    all = value;
                }
                name if name == default || name == specific => own = value,
                _ => {}
            }
        }
        own != 0
    }

    /// `rp_filter`: the maximum of the interface's value and that of `all`.
    fn reverse_path(self, interface: &str) -> u8 {
        self.own(interface, RP_FILTER).max(self.all(RP_FILTER))
    }

    /// `route_localnet`: set for the interface or for `all`.
    fn routes_loopback(self, interface: &str) -> bool {
        self.own(interface, ROUTE_LOCALNET) != 0 || self.all(ROUTE_LOCALNET) != 0
    }

    /// `accept_local`: set for the interface or for `all`.
    fn accepts_own(self, interface: &str) -> bool {
        self.own(interface, ACCEPT_LOCAL) != 0 || self.all(ACCEPT_LOCAL) != 0
    }

    /// `bridge-nf-call-iptables`, or `bridge-nf-call-ip6tables`.
    pub(super) fn bridges_call(self, ipv4: bool) -> bool {
        self.last(BRIDGE_CALLS[usize::from(!ipv4)]) != 0
    }
}

/// The value of a setting as a small number.
fn value(sysctl: &Sysctl) -> u8 {
    sysctl.value.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::whole("net.ipv4.ip_forward", true)]
    #[case::all("net.ipv4.conf.all.rp_filter", true)]
    #[case::vlan("net.ipv4.conf.eth0/100.accept_local", true)]
    #[case::bridge("net.bridge.bridge-nf-call-ip6tables", true)]
    #[case::other_family("net.ipv6.conf.eth0.rp_filter", false)]
    #[case::of_no_interface("net.ipv4.conf.rp_filter", false)]
    #[case::ignored("net.ipv4.conf.all.arp_ignore", false)]
    #[case::without_prefix("ipv4.ip_forward", true)]
    #[case::without_effect("net.ipv6.conf.eth0.forwarding", true)]
    fn settings_that_predictions_read_or_need_not_read_are_predicted(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_predicted(name), expected);
    }
}
