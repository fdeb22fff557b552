//! The kinds of findings.

use super::severity::Severity::{self, Error, Info, Warning};

/// What is known of a kind of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which stays the same.
    pub id: &'static str,
    /// The usual severity of such findings.
    pub severity: Severity,
    /// A known issue with the same cause, if there is one.
    pub issue: Option<&'static str>,
    /// What to ask a reporter for.
    pub ask: &'static str,
}

const fn entry_of(id: &'static str, severity: Severity, issue: &'static str, ask: &'static str) -> Entry {
    Entry { id, severity, issue: if issue.is_empty() { None } else { Some(issue) }, ask }
}

const SAVE: &str = "the whole output of `iptables-save` on that node";
const SLICES: &str = "`kubectl get endpointslices,pods -o wide` of the namespace, taken at the same time as the rules";

/// All kinds.
pub const CATALOG: [Entry; 61] = [
    entry_of("dnat-protocol", Error, "", "`kubectl get service NAME -o yaml` and the unedited rules"),
    entry_of("dnat-source", Error, "kubernetes/kubernetes#45790", "the rules as `iptables-save` prints them, unedited"),
    entry_of(
        "hash-comment",
        Warning,
        "kubernetes/kubernetes#44516",
        "the rules as `iptables-save` prints them, unedited",
    ),
    entry_of(
        "hash-endpoint",
        Warning,
        "kubernetes/kubernetes#44516",
        "the rules as `iptables-save` prints them, unedited",
    ),
    entry_of("undefined-chain", Error, "kubernetes/kubernetes#121362", SAVE),
    entry_of("chain-loop", Error, "", SAVE),
    entry_of("rejected-rule", Error, "", SAVE),
    entry_of("missing-rule", Error, "", SAVE),
    entry_of("conflicting-rules", Error, "kubernetes/kubernetes#70493", SAVE),
    entry_of("deviation", Warning, "", "what else changes kube-proxy's rules, and kube-proxy's log of that node"),
    entry_of(
        "assumed-setting",
        Info,
        "",
        "kube-proxy's configuration: `kubectl -n kube-system get configmap kube-proxy -o yaml`",
    ),
    entry_of("rules-not-read", Warning, "", SAVE),
    entry_of("cut-off", Info, "", SAVE),
    entry_of("unmodelled-rule", Warning, "", "which program writes these rules"),
    entry_of("ipset-rules", Info, "", "`ipset save` on that node"),
    entry_of("unreferenced-chain", Info, "kubernetes/kubernetes#110334", SAVE),
    entry_of("uneven-shares", Error, "kubernetes/kubernetes#37932", SAVE),
    entry_of(
        "even-shares",
        Info,
        "kubernetes/kubernetes#37932",
        "how many connections were counted, and with which client",
    ),
    entry_of("five-digits", Info, "kubernetes/kubernetes#34321", "the release of kube-proxy"),
    entry_of("broken-balancing", Error, "kubernetes/kubernetes#37932", SAVE),
    entry_of("affinity", Warning, "kubernetes/kubernetes#103000", SAVE),
    entry_of(
        "missing-jump",
        Error,
        "rancher/rke2#10469",
        "whether a firewall was reloaded, and kube-proxy's log since then",
    ),
    entry_of(
        "duplicate-rules",
        Warning,
        "kubernetes/kubernetes#82361",
        "`iptables --version` on the host and in kube-proxy's image",
    ),
    entry_of("nodes-differ", Warning, "kubernetes/kubernetes#38372", "kube-proxy's log of the node whose rules differ"),
    entry_of("endpoints-differ", Warning, "kubernetes/kubernetes#70493", SLICES),
    entry_of("no-endpoints", Error, "kubernetes/kubernetes#110301", SLICES),
    entry_of(
        "no-local-endpoints",
        Error,
        "kubernetes/kubernetes#71851",
        "kube-proxy's `--hostname-override` and `kubectl get nodes`",
    ),
    entry_of("local-drop", Info, "kubernetes/kubernetes#125810", "on which nodes the Service's pods run"),
    entry_of(
        "own-traffic-dropped",
        Info,
        "kubernetes/kubernetes#131765",
        "the release of kube-proxy, and which clients on that node are affected",
    ),
    entry_of("rejected-service", Info, "", SLICES),
    entry_of("no-services", Error, "kubernetes/kubeadm#784", "kube-proxy's log of that node, from its start on"),
    entry_of(
        "sync-failed",
        Error,
        "kubernetes/kubernetes#36652",
        "kube-proxy's log of that node with the rules that it tried to write, and `iptables --version` on the host and in kube-proxy's image",
    ),
    entry_of(
        "watch-failed",
        Warning,
        "kubernetes/kubernetes#38372",
        "kube-proxy's whole log of that node, and the rules and endpoints taken at the same time",
    ),
    entry_of(
        "node-port-in-use",
        Warning,
        "kubernetes/kubernetes#97360",
        "`ss -tulpn` on that node, and which Service has this node port",
    ),
    entry_of("host-port-first", Warning, "containernetworking/plugins#577", "the pods with `hostPort` on that node"),
    entry_of(
        "accept-before-reject",
        Warning,
        "kubernetes/kubernetes#78994",
        "which program writes the rules before kube-proxy's",
    ),
    entry_of("preceding-rule", Error, "", "which program writes the rules before kube-proxy's"),
    entry_of(
        "forward-drop",
        Warning,
        "kubernetes/kubernetes#39823",
        "which program sets the policy of FORWARD, and the pod range",
    ),
    entry_of(
        "firewall-drops-all",
        Error,
        "kubernetes/kubernetes#114549",
        "`iptables --version` on the host and in kube-proxy's image",
    ),
    entry_of(
        "two-backends",
        Error,
        "kubernetes/kubernetes#109811",
        "`iptables-legacy-save` and `iptables-nft-save` on that node",
    ),
    entry_of(
        "legacy-tables",
        Info,
        "kubernetes/kubernetes#109811",
        "`iptables-legacy-save` and `iptables-nft-save` on that node",
    ),
    entry_of("mark-bits", Warning, "kubernetes/kubernetes#113659", "which program sets these marks"),
    entry_of(
        "double-masquerade",
        Warning,
        "kubernetes/kubernetes#88986",
        "`ip -d link` on that node, and the kernel's release",
    ),
    entry_of("cni-masquerade", Info, "flannel-io/flannel#1679", "the CNI plugin's configuration"),
    entry_of("no-masquerade", Info, "kubernetes/kubernetes#124587", "kube-proxy's `clusterCIDR` and `detectLocalMode`"),
    entry_of("pod-address", Warning, "", "`ip route` on both nodes, and the ranges that the CNI plugin has given them"),
    entry_of(
        "cidr-mismatch",
        Warning,
        "kubernetes/kubernetes#52783",
        "kube-proxy's `clusterCIDR` and the nodes' `podCIDR`",
    ),
    entry_of(
        "invalid-not-dropped",
        Info,
        "kubernetes/kubernetes#74839",
        "`sysctl net.netfilter.nf_conntrack_tcp_be_liberal`",
    ),
    entry_of(
        "reader-skew",
        Warning,
        "kubernetes/kubernetes#95409",
        "`iptables --version` on the host and in kube-proxy's image",
    ),
    entry_of(
        "stale-entry",
        Error,
        "kubernetes/kubernetes#19029",
        "`conntrack -L` before and after the endpoint changed",
    ),
    entry_of(
        "untranslated-entry",
        Error,
        "kubernetes/kubernetes#48370",
        "`conntrack -L -p udp` and when kube-proxy was started",
    ),
    entry_of("bridge-call", Error, "flannel-io/flannel#1702", "`lsmod | grep br_netfilter` on that node"),
    entry_of(
        "node-port-address",
        Error,
        "kubernetes/kubernetes#111863",
        "`kubectl get node NAME -o yaml`, and kube-proxy's `nodePortAddresses`",
    ),
    entry_of("node-port-range", Warning, "kubernetes/kubernetes#111682", "`sysctl net.ipv4.ip_local_reserved_ports`"),
    entry_of("route-localnet", Warning, "kubernetes/kubernetes#92315", "the rules of KUBE-FIREWALL on that node"),
    entry_of("rp-filter", Warning, "cilium/cilium#13130", "`ip rule` and `ip route show table all` on that node"),
    entry_of("ip-forward", Error, "", "what sets `net.ipv4.ip_forward` on that node"),
    entry_of("external-ip-of-node", Warning, "kubernetes/kubernetes#97076", "who may set `externalIPs`"),
    entry_of("source-ranges", Warning, "kubernetes/kubernetes#122614", "kube-proxy's release and mode"),
    entry_of(
        "mixed-layouts",
        Info,
        "kubernetes/kubernetes#110334",
        "which kube-proxy releases ran on that node since it was booted",
    ),
    entry_of(
        "other-mode",
        Info,
        "kubernetes/kubernetes#88698",
        "in which modes kube-proxy ran on that node since it was booted",
    ),
];

/// What is known of a kind.
pub(super) fn entry(id: &str) -> Option<&'static Entry> {
    CATALOG.iter().find(|entry| entry.id == id)
}
