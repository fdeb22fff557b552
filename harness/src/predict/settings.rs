//! What kernel settings come to, as a plan writes them.

use crate::topology::Space;

/// The settings of a namespace that decide about packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings<'a>(pub(super) &'a Space);

impl Settings<'_> {
    /// What was written last to any of several settings; 0 where nothing was.
    fn last(self, names: &[String]) -> u8 {
        let written = self.0.sysctls.iter().rev().find(|sysctl| names.contains(&sysctl.name));
        written.and_then(|sysctl| sysctl.value.trim().parse().ok()).unwrap_or(0)
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

    /// Whether packets that come in by an interface are passed on. `ip_forward` writes to every interface; IPv6 asks `all`
    /// alone (`ip6_forward`).
    pub(super) fn forwards(self, ipv4: bool, interface: &str) -> bool {
        if !ipv4 {
            return self.last(&["ipv6.conf.all.forwarding".to_owned()]) != 0;
        }
        let interface = interface.replace('.', "/");
        let names = ["ip_forward".to_owned(), "conf.all.forwarding".to_owned(), format!("conf.{interface}.forwarding")];
        self.last(&names.map(|name| format!("ipv4.{name}"))) != 0
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
