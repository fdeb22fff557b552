//! What match extensions say of a rule that is listed, word for word as their `print` functions have it.

use super::super::values;
use crate::iptables::{
    AddressType, IpSet, Masked, Match, Multiport, Negatable, Physdev, PortRange, RouteType, Side, States, Statistic,
};

/// The condition that words begin with, and how many words it has. Ports, comments, chance and lists of clients are read elsewhere.
pub(super) fn condition(words: &[&str]) -> Option<(Match, usize)> {
    let (negated, rest) = match words {
        ["!", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let before = usize::from(negated);
    let is = |condition, length: usize| Some((condition, before + length));
    match rest {
        [name @ ("ctstate" | "state"), states, ..] => {
            let states: States = values::states(states)?;
            is(Match::State { old_name: *name == "state", states: Negatable { negated, value: states } }, 2)
        }
        ["match-set", name, directions, ..] => {
            let value = IpSet { name: (*name).into(), directions: (*directions).into() };
            is(Match::Set(Box::new(Negatable { negated, value })), 3)
        }
        _ if negated => None,
        ["mark", "match", rest @ ..] => marked(rest).map(|(mark, length)| (Match::Mark(mark), 2 + length)),
        ["connmark", "match", rest @ ..] => marked(rest).map(|(mark, length)| (Match::Connmark(mark), 2 + length)),
        ["ADDRTYPE", "match", rest @ ..] => address_type(rest).map(|(kind, length)| (kind, 2 + length)),
        ["PHYSDEV", "match", rest @ ..] => physdev(rest).map(|(port, length)| (port, 2 + length)),
        ["multiport", side, ports, ..] => Some((multiport(side, ports)?, 3)),
        ["nfacct-name", name, ..] => is(Match::Nfacct((*name).into()), 2),
        ["statistic", "mode", "nth", rest @ ..] => nth(rest).map(|(nth, length)| (Match::Statistic(nth), 3 + length)),
        _ => None,
    }
}

/// A word, with whether a `!` stands before it, alone or at its beginning; and how many words that is.
fn negatable<'a>(words: &[&'a str]) -> Option<(bool, &'a str, usize)> {
    match words {
        ["!", word, ..] => Some((true, word, 2)),
        [word, ..] => Some(word.strip_prefix('!').map_or((false, *word, 1), |word| (true, word, 1))),
        [] => None,
    }
}

/// `0x4000/0x4000`, `! 0x4000/0x4000`.
fn marked(words: &[&str]) -> Option<(Negatable<Masked>, usize)> {
    let (negated, text, length) = negatable(words)?;
    Some((Negatable { negated, value: values::masked(text)? }, length))
}

/// `src-type !LOCAL dst-type LOCAL`.
fn address_type(words: &[&str]) -> Option<(Match, usize)> {
    let mut found = AddressType::default();
    let mut taken = 0;
    while let Some([side @ ("src-type" | "dst-type"), rest @ ..]) = words.get(taken..) {
        let (negated, text, length) = negatable(rest)?;
        let value: RouteType = values::route_type(text)?;
        let own = if *side == "src-type" { &mut found.source } else { &mut found.destination };
        *own = Some(Negatable { negated, value });
        taken += 1 + length;
    }
    // What else `addrtype` compares is not modelled.
    let is_more = words.get(taken).is_some_and(|word| word.starts_with("limit-"));
    (taken > 0 && !is_more).then_some((Match::AddressType(found), taken))
}

/// `--physdev-is-in`, `! --physdev-in veth0`.
fn physdev(words: &[&str]) -> Option<(Match, usize)> {
    let mut found = Physdev::default();
    let mut taken = 0;
    loop {
        let rest = words.get(taken..).unwrap_or_default();
        let (negated, rest) = match rest {
            ["!", rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let flag = Some(Negatable { negated, value: () });
        let port = |name: &str| Some(Negatable { negated, value: Box::from(name) });
        let length = match rest {
            ["--physdev-in", name, ..] => {
                found.input = port(name);
                2
            }
            ["--physdev-out", name, ..] => {
                found.output = port(name);
                2
            }
            ["--physdev-is-in", ..] => {
                found.is_input = flag;
                1
            }
            ["--physdev-is-out", ..] => {
                found.is_output = flag;
                1
            }
            ["--physdev-is-bridged", ..] => {
                found.is_bridged = flag;
                1
            }
            _ => break,
        };
        taken += usize::from(negated) + length;
    }
    (taken > 0).then(|| (Match::Physdev(Box::new(found)), taken))
}

/// `dports 80,8000:8080`, `sports !53`.
fn multiport(side: &str, ports: &str) -> Option<Match> {
    let side = match side {
        "sports" => Side::Source,
        "dports" => Side::Destination,
        "ports" => Side::Either,
        _ => return None,
    };
    let (negated, ports) = ports.strip_prefix('!').map_or((false, ports), |ports| (true, ports));
    let value: Vec<PortRange> = ports.split(',').map(|range| values::ports(range, ':')).collect::<Option<_>>()?;
    Some(Match::Multiport(Box::new(Multiport { side, ports: Negatable { negated, value } })))
}

/// `every 3 packet 1`, `! every 3`.
fn nth(words: &[&str]) -> Option<(Statistic, usize)> {
    let (negated, rest) = match words {
        ["!", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (every, packet, length) = match rest {
        ["every", every, "packet", packet, ..] => (every, packet.parse().ok()?, 4),
        ["every", every, ..] => (every, 0, 2),
        _ => return None,
    };
    let every = Negatable { negated, value: every.parse().ok()? };
    Some((Statistic::Nth { every, packet }, usize::from(negated) + length))
}
