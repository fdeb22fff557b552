//! Links that are not as usual.

use std::time::Duration;

use svclab_rules::cluster::{Impairment, Link, LinkOwner};

use super::field;
use crate::scenario::model::short_name;
use crate::yaml::{Fields, Item};

/// A link; `None` if nothing of it is to be said.
pub(super) fn link(owner: &LinkOwner, link: Link) -> Option<Item> {
    let Impairment { loss, delay, jitter, duplicate, reorder, rate } = link.impairment;
    let properties = [
        (!link.state.is_up()).then(|| field("state", "down")),
        link.mtu.map(|mtu| field("mtu", Item::Bare(mtu.to_string()))),
        (!loss.is_zero()).then(|| field("loss", loss.to_string())),
        (!delay.is_zero()).then(|| field("delay", milliseconds(delay))),
        (!jitter.is_zero()).then(|| field("jitter", milliseconds(jitter))),
        (!duplicate.is_zero()).then(|| field("duplicate", duplicate.to_string())),
        (!reorder.is_zero()).then(|| field("reorder", reorder.to_string())),
        rate.map(|rate| field("rate", format!("{rate}bit"))),
    ];
    let properties: Fields = properties.into_iter().flatten().collect();
    let owner = match owner {
        LinkOwner::Node(name) => field("node", name.as_str()),
        LinkOwner::Pod(name) => field("pod", short_name(name)),
        LinkOwner::Host(name) => field("host", name.as_str()),
    };
    (!properties.is_empty()).then(|| std::iter::once(owner).chain(properties).collect::<Fields>().into())
}

/// A time as scenarios have it: they have no shorter unit.
fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}
