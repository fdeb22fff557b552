//! `fib saddr type local`: one of the addresses is local.

use super::Condition;
use crate::nftables::key::Side;
use crate::nftables::text::Line;
use crate::walk::Edges;

/// Parses what follows `fib`.
pub(super) fn parse(line: &mut Line<'_, '_>) -> Option<Condition> {
    let side = Side::parse(line.next())?;
    // `nft -n` prints the number of `RTN_LOCAL`.
    (line.next() == "type" && matches!(line.next(), "local" | "2")).then_some(Condition::Local(side))
}

pub(super) fn print(side: Side, out: &mut String) {
    out.extend(["fib ", side.as_str(), " type local"]);
}

pub(super) fn explain(side: Side) -> String {
    format!("{} an address of this machine", side.explain())
}

pub(super) fn edges(side: Side, edges: &mut Edges) {
    match side {
        Side::Source => edges.local_source = true,
        Side::Destination => edges.local_destination = true,
    }
}
