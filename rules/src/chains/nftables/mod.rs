//! kube-proxy's chains and maps of nftables.

mod names;
mod reading;
mod rule;
mod structure;

use super::{Kind, Naming, Policy};

pub(crate) use self::names::{Known, Names, ServiceKey, is_base, kind_of, name_of, protocol_of};
pub(crate) use self::reading::{Table, completed, endpoint_of_base};
pub(crate) use self::rule::{Target, address, balance, frontend, frontend_of_key, marks, source_ranges, text};
pub(crate) use self::structure::{effect, structure_defects};

/// The chains of every release.
pub(crate) const NAMING: Naming = Naming(&[
    ("service-", Kind::Group(Policy::Cluster)),
    ("local-", Kind::Group(Policy::Local)),
    ("external-", Kind::External),
    ("firewall-", Kind::Firewall),
    ("endpoint-", Kind::Endpoint),
]);
