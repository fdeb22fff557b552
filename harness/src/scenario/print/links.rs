//! Printing of links that are not in their default state.

use std::time::Duration;

use svclab_rules::cluster::{Impairment, Link, LinkOwner, LinkState};

use super::field;
use crate::scenario::model::short_name;
use crate::yaml::{Fields, Item};

/// Prints a link; `None` if there is nothing to print.
pub(super) fn link(owner: &LinkOwner, link: Link) -> Option<Item> {
    let property = |(name, value): (&'static str, String)| match name {
        "mtu" => field(name, Item::Bare(value)),
        _ => field(name, value),
    };
    let properties: Fields = properties(link).map(property).collect();
    let owner = match owner {
        LinkOwner::Node(name) => field("node", name.as_str()),
        LinkOwner::Pod(name) => field("pod", short_name(name)),
        LinkOwner::Host(name) => field("host", name.as_str()),
    };
    (!properties.is_empty()).then(|| std::iter::once(owner).chain(properties).collect::<Fields>().into())
}

/// Describes a link that is not in its default state, in a scenario's words: `down, loss 10%`, or `off` for a node that is turned off.
pub(crate) fn link_words(link: Link) -> String {
    let words = properties(link).map(|(name, value)| match name {
        "state" if link.state == LinkState::MachineOff => "off".to_owned(),
        "state" => value,
        _ => format!("{name} {value}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the properties that differ from the default, by the names of a scenario's fields.
fn properties(link: Link) -> impl Iterator<Item = (&'static str, String)> {
    let Impairment { loss, delay, jitter, duplicate, reorder, rate } = link.impairment;
    let properties = [
        ("state", (!link.state.is_up()).then(|| "down".to_owned())),
        ("mtu", link.mtu.map(|mtu| mtu.to_string())),
        ("loss", (!loss.is_zero()).then(|| loss.to_string())),
        ("delay", (!delay.is_zero()).then(|| milliseconds(delay))),
        ("jitter", (!jitter.is_zero()).then(|| milliseconds(jitter))),
        ("duplicate", (!duplicate.is_zero()).then(|| duplicate.to_string())),
        ("reorder", (!reorder.is_zero()).then(|| reorder.to_string())),
        ("rate", rate.map(bits)),
    ];
    properties.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// Prints a time in milliseconds, the shortest unit in scenarios.
fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// Prints a rate in the largest unit that is exact.
fn bits(rate: u64) -> String {
    let units = [(1_000_000_000, "g"), (1_000_000, "m"), (1_000, "k")];
    let unit = units.into_iter().find(|(size, _)| rate.is_multiple_of(*size));
    unit.map_or_else(|| format!("{rate}bit"), |(size, unit)| format!("{}{unit}bit", rate / size))
}
