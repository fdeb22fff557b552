//! What kube-proxy's chains are for.

use super::finding::Policy;

/// What a service's chain is for, in either mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `KUBE-SVC`, `KUBE-SVL` and `KUBE-XLB`, `service-` and `local-`: endpoints.
    Group(Policy),
    /// `KUBE-EXT`, `external-`.
    External,
    /// `KUBE-FW`, `firewall-`.
    Firewall,
    /// `KUBE-SEP`, `endpoint-`.
    Endpoint,
}
