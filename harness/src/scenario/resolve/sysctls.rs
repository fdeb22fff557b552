//! Kernel settings of nodes: checks that they are per network namespace.

use std::collections::BTreeMap;

use super::findings::Findings;
use crate::input::did_you_mean;
use crate::scenario::model::Setting;
use crate::scenario::schema::{RawNode, Scalar};
use crate::yaml::At;

mod known;

/// Settings that all network namespaces share with the host's, and that can only be written there: net/core/sysctl_net_core.c
/// (`net_core_table`), net/ipv4/sysctl_net_ipv4.c (`ipv4_table`), and those that net/netfilter/nf_conntrack_standalone.c makes read-only.
/// `nf_hooks_lwtunnel` is one switch for the machine, which every namespace can turn on and none can turn off
/// (net/netfilter/nf_hooks_lwtunnel.c).
const OF_THE_MACHINE: [&str; 33] = [
    "core.bpf_jit_enable",
    "core.bpf_jit_harden",
    "core.busy_poll",
    "core.busy_read",
    "core.default_qdisc",
    "core.dev_weight",
    "core.flow_limit_cpu_bitmap",
    "core.flow_limit_table_len",
    "core.gro_normal_batch",
    "core.max_skb_frags",
    "core.netdev_budget",
    "core.netdev_budget_usecs",
    "core.netdev_max_backlog",
    "core.rmem_default",
    "core.rmem_max",
    "core.rps_sock_flow_entries",
    "core.wmem_default",
    "core.wmem_max",
    "ipv4.fib_sync_mem",
    "ipv4.inet_peer_maxttl",
    "ipv4.inet_peer_minttl",
    "ipv4.inet_peer_threshold",
    "ipv4.tcp_allowed_congestion_control",
    "ipv4.tcp_congestion_control",
    "ipv4.tcp_max_orphans",
    "ipv4.tcp_mem",
    "ipv4.udp_mem",
    "netfilter.nf_conntrack_buckets",
    "netfilter.nf_conntrack_expect_max",
    "netfilter.nf_conntrack_max",
    "netfilter.nf_hooks_lwtunnel",
    "netfilter.nf_log_all_netns",
    "nf_conntrack_max",
];

/// Resolves the settings of nodes, by node and dotted name.
pub(crate) fn sysctls(
    raw: &[RawNode],
    at: At<'_>,
    findings: &mut Findings,
) -> BTreeMap<String, BTreeMap<String, Setting>> {
    let mut all = BTreeMap::new();
    for (index, node) in raw.iter().enumerate() {
        let Some(settings) = &node.sysctls else { continue };
        let at = at.item(index).field("sysctls");
        let of_node: &mut BTreeMap<String, Setting> = all.entry(node.name.clone()).or_default();
        for (name, value) in settings {
            let at = at.field(name);
            let value = text(value);
            check(name, at, findings);
            check_value(name, &value, at, findings);
            of_node.insert(name.clone(), Setting { value, span: at.key_span() });
        }
    }
    all
}

fn text(value: &Scalar) -> String {
    match value {
        Scalar::Number(number) => number.to_string(),
        Scalar::Bool(value) => u8::from(*value).to_string(),
        Scalar::Text(text) => text.clone(),
    }
}

fn check(name: &str, at: At<'_>, findings: &mut Findings) {
    // As in sysctl(8), a slash replaces a dot in an interface's name.
    let is_word = |word: &str| {
        word.contains(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-/".contains(c))
    };
    let Some(below) = name.strip_prefix("net.").filter(|name| name.split('.').all(is_word)) else {
        let message = format!("`{name}` is not a sysctl of a network namespace");
        let help = if name.starts_with("net.") {
            "Use its dotted name, for example `net.ipv4.ip_forward`."
        } else {
            "Omit it: only sysctls under `net.` exist per network namespace, for example `net.ipv4.ip_forward`."
        };
        return findings.wrong(at.key(), message, help);
    };
    if OF_THE_MACHINE.contains(&below) {
        let message = format!("`{name}` applies to the whole machine, not to one network namespace");
        let help = format!("Omit it, or set it on the machine that runs svclab: `sudo sysctl {name}=...`.");
        findings.wrong(at.key(), message, help);
    } else if is_folder(below) {
        let message = format!("`{name}` is a group of sysctls");
        findings.wrong(at.key(), message, "Name one of them, for example `net.ipv4.conf.all.rp_filter`.");
    } else if READ_ONLY.contains(&below) || below.ends_with(".mc_forwarding") {
        findings.wrong(at.key(), format!("`{name}` is read-only"), "Omit it.");
    } else if !is_of_namespace(below) {
        let message = format!("`{name}` is not known to be per network namespace: setting it could affect the host");
        let known: Vec<String> = known::SINGLE.iter().map(|below| format!("net.{below}")).collect();
        let help = did_you_mean(name, &known)
            .unwrap_or_else(|| "Omit it: svclab sets only sysctls that Linux keeps per network namespace.".to_owned());
        findings.wrong(at.key(), message, help);
    }
}

/// Read-only settings.
const READ_ONLY: [&str; 4] = [
    "ipv4.tcp_available_congestion_control",
    "ipv4.tcp_ehash_entries",
    "ipv4.udp_hash_entries",
    "netfilter.nf_conntrack_count",
];

/// Returns whether a setting is known to be per network namespace.
fn is_of_namespace(below_net: &str) -> bool {
    let parts: Vec<&str> = below_net.split('.').collect();
    match parts.as_slice() {
        ["ipv4", "conf", _, key] => known::IPV4_CONF.binary_search(key).is_ok(),
        ["ipv6", "conf", _, key] => known::IPV6_CONF.binary_search(key).is_ok(),
        ["ipv4" | "ipv6", "neigh", _, key] => known::NEIGH.binary_search(key).is_ok(),
        _ => known::SINGLE.binary_search(&below_net).is_ok(),
    }
}

/// Returns the largest supported value of a sysctl that predictions depend on. The kernel also accepts others.
fn greatest(below_net: &str) -> Option<u8> {
    let parts: Vec<&str> = below_net.split('.').collect();
    match parts.as_slice() {
        ["ipv4", "conf", _, "rp_filter"] => Some(2),
        ["ipv4", "ip_forward"]
        | ["ipv4", "conf", _, "forwarding" | "route_localnet" | "accept_local"]
        | ["ipv6", "conf", _, "forwarding"]
        | ["bridge", "bridge-nf-call-iptables" | "bridge-nf-call-ip6tables"] => Some(1),
        _ => None,
    }
}

fn check_value(name: &str, value: &str, at: At<'_>, findings: &mut Findings) {
    let greatest = name.strip_prefix("net.").and_then(greatest);
    if value.trim().is_empty() {
        findings.wrong(at, format!("`{name}` has no value"), "Set a value, or omit the sysctl.");
    } else if value.contains(|letter: char| letter.is_control() && letter != '\t') {
        findings.wrong(at, format!("the value of `{name}` contains a control character"), "Write it on one line.");
    } else if let Some(greatest) =
        greatest.filter(|greatest| !(0..=*greatest).any(|number| number.to_string() == value))
    {
        let numbers = if greatest == 1 { "0 or 1" } else { "0, 1 or 2" };
        findings.wrong(at, format!("invalid value `{value}` for `{name}`"), format!("Use {numbers}."));
    }
}

/// Returns whether a name is a group of sysctls: of a protocol, or of an interface.
fn is_folder(below_net: &str) -> bool {
    let parts: Vec<&str> = below_net.split('.').collect();
    matches!(parts.as_slice(), [_] | ["ipv4" | "ipv6", "conf" | "neigh"] | ["ipv4" | "ipv6", "conf" | "neigh", _])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ipv4", true)]
    #[case("core", true)]
    #[case("ipv4.conf.all", true)]
    #[case("ipv6.neigh.eth0", true)]
    #[case("ipv4.ip_forward", false)]
    #[case("ipv4.conf.all.rp_filter", false)]
    #[case("ipv4.conf.flannel/1.rp_filter", false)]
    #[case("netfilter.nf_conntrack_tcp_be_liberal", false)]
    fn groups_are_distinguished_from_sysctls(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_folder(name), expected);
    }

    #[rstest]
    #[case("ipv4.ip_forward", true)]
    #[case("ipv4.conf.flannel/1.rp_filter", true)]
    #[case("ipv6.conf.all.forwarding", true)]
    #[case("ipv6.neigh.eth0.locktime", true)]
    #[case("netfilter.nf_conntrack_tcp_be_liberal", true)]
    #[case("bridge.bridge-nf-call-iptables", true)]
    #[case::switch_of_the_machine("netfilter.nf_hooks_lwtunnel", false)]
    #[case::loads_modules("ipv4.tcp_congestion_control", false)]
    #[case::unknown("ipv4.tcp_mem", false)]
    #[case::not_of_interfaces("ipv4.conf.all.gc_thresh3", false)]
    #[case::shared("ipv4.neigh.default.gc_thresh3", false)]
    #[case::deeper("ipv4.conf.all.rp_filter.x", false)]
    fn only_settings_of_namespaces_are_accepted(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_of_namespace(name), expected);
    }

    #[test]
    fn known_settings_are_sorted_and_none_is_the_machines() {
        for list in [&known::SINGLE[..], &known::IPV4_CONF, &known::IPV6_CONF, &known::NEIGH] {
            assert!(list.is_sorted());
            assert!(list.iter().all(|name| !OF_THE_MACHINE.contains(name) && !READ_ONLY.contains(name)));
        }
    }
}
