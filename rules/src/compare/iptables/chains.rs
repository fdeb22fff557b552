//! What chains are for, by their names.

use crate::compare::finding::Policy;
use crate::compare::kind::Kind;
use crate::iptables::ChainHash;

/// What a service's chain is for, by its name, and the hash in it; that of `KUBE-SEP` is the endpoint's.
pub(crate) fn kind_of(chain: &str) -> Option<(Kind, ChainHash)> {
    const KINDS: [(&str, Kind); 6] = [
        ("KUBE-SVC-", Kind::Group(Policy::Cluster)),
        ("KUBE-SVL-", Kind::Group(Policy::Local)),
        ("KUBE-XLB-", Kind::Group(Policy::Local)),
        ("KUBE-EXT-", Kind::External),
        ("KUBE-FW-", Kind::Firewall),
        ("KUBE-SEP-", Kind::Endpoint),
    ];
    KINDS.iter().find_map(|(prefix, kind)| Some((*kind, ChainHash::parse(chain.strip_prefix(prefix)?)?)))
}

/// The service port of a chain, unless it is an endpoint's.
pub(super) fn service_of(chain: &str) -> Option<ChainHash> {
    kind_of(chain).filter(|(kind, _)| *kind != Kind::Endpoint).map(|(_, hash)| hash)
}
