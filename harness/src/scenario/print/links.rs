//! Links that are not as usual.

use svclab_rules::cluster::{Link, LinkOwner};

use super::field;
use crate::scenario::model::short_name;
use crate::yaml::{Fields, Item};

/// A link; `None` if nothing of it is to be said.
pub(super) fn link(owner: &LinkOwner, link: Link) -> Option<Item> {
    let properties = [
        (!link.state.is_up()).then(|| field("state", "down")),
        link.mtu.map(|mtu| field("mtu", Item::Bare(mtu.to_string()))),
    ];
    let properties: Fields = properties.into_iter().flatten().collect();
    let owner = match owner {
        LinkOwner::Node(name) => field("node", name.as_str()),
        LinkOwner::Pod(name) => field("pod", short_name(name)),
        LinkOwner::Host(name) => field("host", name.as_str()),
    };
    (!properties.is_empty()).then(|| std::iter::once(owner).chain(properties).collect::<Fields>().into())
}
