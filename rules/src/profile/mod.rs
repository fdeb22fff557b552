//! Releases of kube-proxy, and the differences between their rules.
//!
//! Every difference between releases is a named predicate of [`Profile`]; no other code depends on a version. The basis of each release is
//! either recorded output of that kube-proxy (by recording), or its source code and documentation (by description):
//!
//! | releases | iptables mode | nftables mode |
//! | --- | --- | --- |
//! | 1.10 to 1.13 | by description: the layout of rules that users showed (`KUBE-FW` straight to `KUBE-SVC`) | no such mode |
//! | 1.14 to 1.17 | by description | no such mode |
//! | 1.18 | by recording | no such mode |
//! | 1.19, 1.20 | by description | no such mode |
//! | 1.21 | by recording | no such mode |
//! | 1.22 to 1.24 | by description | no such mode |
//! | 1.25 | by recording | no such mode |
//! | 1.26 to 1.28 | by description | no such mode |
//! | 1.29 | by description | not modelled (alpha) |
//! | 1.30 | by recording | by recording |
//! | 1.31 | by description | by description |
//! | 1.32 to 1.36 | by recording of 1.32.5, 1.33.2, 1.34.1, 1.35.2 and 1.36.2 | by recording of the same |
//! | 1.37 | by description | by description |
//!
//! The basis of each feature, with its clusters in `tests/golden`; a test compares this table with them. The last two columns are for all
//! five releases from 1.32 on, in iptables mode and nftables mode:
//!
//! | feature | clusters | 1.18 | 1.21 | 1.25 | 1.30 | 1.30 nftables | 1.32 on | 1.32 on, nftables |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | cluster IPs, ports, protocols, slices | `clusterip-*` `duplicate-endpoints` `empty` `host-network-endpoint` `long-names` `many-slices` `nothing` `odd-slices` `small-cluster` `two-namespaces` | recording | recording | recording | recording | recording | recording | recording |
//! | Services without rules | `external-name` `headless` `service-proxy-name` | recording | recording | recording | recording | recording | recording | recording |
//! | node ports and their addresses | `nodeport-*` `config-nodeport-addresses*` `config-no-localhost-nodeports` | recording | recording | recording | recording | recording | recording | recording |
//! | external IPs | `external-ips*` | recording | recording | recording | recording | recording | recording | recording |
//! | load balancers: source ranges, ipMode, health checks | `loadbalancer-*` | recording | recording | recording | recording | recording | recording | recording |
//! | source ranges with blanks | `loadbalancer-source-ranges-sloppy` | description | recording | recording | recording | recording | recording | recording |
//! | traffic policies, affinity | `both-policies-local` `internal-local*` `affinity-*` | recording | recording | recording | recording | recording | recording | recording |
//! | endpoints that are not ready or terminating | `publish-not-ready` `terminating-*` | recording | recording | recording | recording | recording | recording | recording |
//! | topology hints | `topology-hints*` | recording | recording | recording | recording | recording | recording | recording |
//! | `trafficDistribution` | `traffic-distribution` | description | description | description | recording | recording | recording | recording |
//! | IPv6 | `ipv6-only` | recording | recording | recording | recording | recording | recording | recording |
//! | dual stack | `dual-stack*` `config-dual-stack-node` | description | recording | recording | recording | recording | recording | recording |
//! | masquerading, `clusterCIDR`, detectLocalMode NodeCIDR | `config-masquerade-*` `config-no-cluster-cidr` `config-local-nodecidr` | recording | recording | recording | recording | recording | recording | recording |
//! | detectLocalMode BridgeInterface, InterfaceNamePrefix | `config-local-bridge` `config-local-prefix` | description | description | recording | recording | recording | recording | recording |
//! | `conntrack` settings, a node that goes | `config-conntrack-timeouts` `config-tcp-be-liberal` `config-node-to-be-deleted` | recording | recording | recording | recording | recording | recording | recording |
//! | 1,000 endpoints and more | `endpoints-*` | description | description | description | recording | description | recording | description |
//! | conditions and `ipFamilies` left out | `conditions-unset` `ip-families-empty` | description | description | description | description | description | recording | recording |
//! | hints for nodes, all values of `trafficDistribution` | `node-hints*` `traffic-distribution-values` | description | description | description | description | description | recording | recording |
//! | the word `primary`, IPv6 loopback in `nodePortAddresses` | `config-nodeport-addresses-primary` `config-nodeport-addresses-ipv6-loopback` | description | description | description | description | description | recording | recording |
//! | external IPs that a gate turns off, or that are a node's | `external-ips-off` `external-is-node-address` `external-ips-loadbalancer-local-none-here` | description | description | description | description | description | recording | recording |
//! | source ranges of length 0, ipMode with policy Local | `loadbalancer-source-ranges-all` `loadbalancer-ipmode-proxy-local` | description | description | description | description | description | recording | recording |
//! | affinity with UDP, both policies and many endpoints | `affinity-many` `affinity-policies` `affinity-udp` | description | description | description | description | description | recording | recording |
//! | more policies, protocols and families | `config-masquerade-all-local` `dual-stack-healthcheck` `hairpin-shared-endpoint` `internal-local-terminating` `long-names-no-endpoints` `nodeport-udp-local-none-here` `sctp-everything` | description | description | description | description | description | recording | recording |
//!
//! All features of the other releases are by description. So are the exact patch release of a change between two recorded ones, and the
//! effect of ServiceCIDR objects. Changes of objects are by recording of 1.30 in iptables mode; the conntrack entries deleted with them are
//! by recording of 1.30 in iptables mode and of 1.32 to 1.36 in both modes (`tests/golden-updates`).
//!
//! A version without a patch number is the newest patch release of that minor release, including backports.

mod backports;
mod conntrack;
mod endpoints;
#[doc(hidden)]
pub mod gates;
mod iptables;
mod nftables;
#[doc(hidden)]
pub mod releases;
mod version;

pub use version::{Profile, UnknownVersion};
