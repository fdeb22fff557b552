//! kube-proxy's chains of iptables.

mod names;
mod reading;
mod rule;
mod structure;

use super::{Kind, Naming, Policy};
use crate::iptables::{Chain, ChainHash, ChainKind};

pub(crate) use self::names::{Known, Names};
pub(crate) use self::reading::Table;
pub(crate) use self::rule::{
    MASQUERADE, balances, destination, frontend, host, marks_for_masquerade, masquerade_without_chains, probability,
    recall, service_in, shared_by, text, transport,
};
pub(crate) use self::structure::{effect, structure_defects};

/// The chain of all node ports.
pub(crate) const NODE_PORTS: &str = "KUBE-NODEPORTS";

/// The chains of every release.
pub(crate) const NAMING: Naming = Naming(&[
    (ChainKind::Service.prefix(), Kind::Group(Policy::Cluster)),
    (ChainKind::Local.prefix(), Kind::Group(Policy::Local)),
    (ChainKind::ExternalLocal.prefix(), Kind::Group(Policy::Local)),
    (ChainKind::External.prefix(), Kind::External),
    (ChainKind::Firewall.prefix(), Kind::Firewall),
    (ChainKind::Endpoint.prefix(), Kind::Endpoint),
]);

/// Returns the kind of a chain and the hash in its name, or what stands in its place: of the service port or, for `KUBE-SEP`, of the
/// endpoint.
pub(crate) fn kind_of(chain: &str) -> Option<(Kind, ChainHash)> {
    let (kind, base) = NAMING.of(chain)?;
    Some((kind, ChainHash::parse_edited(base)?))
}

/// The number of endpoints from which on kube-proxy does not remove chains of endpoints at once (`largeClusterEndpointsThreshold`, kubernetes#110334).
const LARGE: usize = 1000;

/// Returns whether chains of removed endpoints may be left over: kube-proxy only removes them now and then in a large cluster.
pub(crate) fn is_large(chains: &[Chain]) -> bool {
    chains.iter().filter(|chain| NAMING.is_endpoint(&chain.name)).count() >= LARGE
}

/// Returns the hash of the service port of a chain, unless it is an endpoint's chain.
pub(crate) fn service_of(chain: &str) -> Option<ChainHash> {
    kind_of(chain).filter(|(kind, _)| *kind != Kind::Endpoint).map(|(_, hash)| hash)
}
