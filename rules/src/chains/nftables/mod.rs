//! kube-proxy's chains and maps of nftables.

mod frame;
mod names;
mod reading;
mod rule;

use super::{Kind, Naming, Policy};

pub(crate) use self::frame::{effect, frame_defects};
pub(crate) use self::names::{Known, Names, ServiceKey, is_base, kind_of, name_of, protocol_of};
pub(crate) use self::reading::{Table, completed};
pub(crate) use self::rule::{Balance, address, balance, frontend, frontend_of_key, marks, source_ranges, text};

/// The chains of every release.
pub(crate) const NAMING: Naming = Naming(&[
    ("service-", Kind::Group(Policy::Cluster)),
    ("local-", Kind::Group(Policy::Local)),
    ("external-", Kind::External),
    ("firewall-", Kind::Firewall),
    ("endpoint-", Kind::Endpoint),
]);
