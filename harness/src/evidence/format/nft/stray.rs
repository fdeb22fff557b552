//! Lines of nft's text whose chain or set is not known, because `grep` or scissors left out where it begins or ends.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use svclab_rules::cluster::Family;
use svclab_rules::coverage::{Coverage, nft_table};
use svclab_rules::nftables::{self, Parsed};

use super::super::super::blocks::Depth;
use super::super::super::line::Line;
use super::super::super::model::{Contents, Format};
use super::super::super::repairs::{Repair, RepairSet};
use super::super::{Block, command, run};
use super::{is_part, is_table};

/// Why a line is not read in front of which a heading is missing.
pub(super) const HEADLESS: &str = "the heading of its chain or set is not shown";

/// Why a line is not read that may be of another chain.
const ASTRAY: &str = "the end of the chain before it is not shown, so it may be of another one";

/// Whether a line outside of any table is a rule of kube-proxy's, or an element of a set or map. Those of iptables, which leads to chains in capitals,
/// are something else.
pub(super) fn is_bare(line: &str) -> bool {
    const STARTS: [&str; 19] = [
        "ip daddr ",
        "ip saddr ",
        "ip6 daddr ",
        "ip6 saddr ",
        "meta l4proto ",
        "meta mark ",
        "meta nfproto ",
        "ct state ",
        "ct status ",
        "fib daddr ",
        "fib saddr ",
        "numgen random ",
        "elements = {",
        "update @",
        "type filter hook ",
        "type nat hook ",
        "type ipv4_addr",
        "type ipv6_addr",
        "type inet_proto ",
    ];
    let line = line.trim_start();
    (STARTS.iter().any(|start| line.starts_with(start)) || is_element(line)) && !line.contains(" KUBE-")
}

/// `10.96.0.1 . tcp . 443 : goto service-2QRHZV4L-default/kubernetes/tcp/https,`
fn is_element(line: &str) -> bool {
    let Some((key, verdict)) = line.split_once(" : ") else { return false };
    let protocol = key.split(" . ").nth(usize::from(!is_protocol(key)));
    protocol.is_some_and(is_protocol) && ["goto ", "drop"].iter().any(|start| verdict.starts_with(start))
}

fn is_protocol(key: &str) -> bool {
    matches!(key.split(" . ").next(), Some("tcp" | "udp" | "sctp"))
}

/// Lines outside of any table, none of which says what chain or set it is of.
pub(super) fn bare(lines: &[Line<'_>]) -> Option<Block> {
    let leads_on = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        matches!(words.as_slice(), ["jump" | "goto", _] | ["}"])
    };
    if !is_bare(&lines.first()?.text) {
        return None;
    }
    let taken = run(lines, |line| is_bare(line) || leads_on(line));
    let elements = (0..taken).filter_map(|at| Some((at, Bare::of(&lines[at].text)?)));
    let (known, elements): (HashSet<usize>, Vec<Bare<'_>>) = elements.unzip();
    let (rules, known) = match tables_of(&elements) {
        Some(rules) => (rules, known),
        None => (Parsed::default(), HashSet::new()),
    };
    let mut coverage = Coverage::default();
    for table in &rules.rules.tables {
        table.sets.iter().for_each(|set| coverage.add_truncated(nft_table(table.family), &set.name));
    }
    let contents = Contents::Nftables { rules, count: 0, coverage, cut: None };
    let unread = (0..taken).filter(|at| !lines[*at].is_blank() && !known.contains(at));
    let unread = unread.map(|at| (at, HEADLESS.to_owned())).collect();
    let heading = RepairSet::default().with(Repair::Heading);
    let mends = Vec::from_iter((!known.is_empty()).then_some((lines[0].number, heading)));
    Some(Block { unread, mends, ..Block::new(Format::Nft, taken, contents) })
}

/// An element of a map of kube-proxy's, without the heading of the map.
struct Bare<'t> {
    map: &'static str,
    family: Option<Family>,
    text: &'t str,
}

impl<'t> Bare<'t> {
    /// What a line has besides braces and commas; nothing unless it is one element.
    fn of(line: &'t str) -> Option<Self> {
        let text = line.trim().trim_start_matches("elements = {").trim_end_matches('}').trim().trim_end_matches(',');
        let (key, verdict) = text.split_once(" : ").filter(|(_, verdict)| !verdict.contains(" : "))?;
        is_element(text).then_some(())?;
        let rejects = ["drop", "goto reject-chain"].contains(&verdict.trim());
        let (family, map) = match (is_protocol(key), rejects) {
            (true, true) => (None, "no-endpoint-nodeports"),
            (true, false) => (None, "service-nodeports"),
            (false, true) => (Some(family(key)), "no-endpoint-services"),
            (false, false) if verdict.starts_with("goto firewall-") => (Some(family(key)), "firewall-ips"),
            (false, false) => (Some(family(key)), "service-ips"),
        };
        Some(Self { map, family, text })
    }
}

/// The family of the address that a key starts with.
fn family(key: &str) -> Family {
    let address = key.split(' ').next().unwrap_or_default();
    if address.contains(':') { Family::Ipv6 } else { Family::Ipv4 }
}

/// The tables with these elements.
fn tables_of(elements: &[Bare<'_>]) -> Option<Parsed> {
    let first = elements.iter().find_map(|element| element.family).unwrap_or(Family::Ipv4);
    let mut tables: BTreeMap<Family, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for element in elements {
        let maps = tables.entry(element.family.unwrap_or(first)).or_default();
        maps.entry(element.map).or_default().push(element.text);
    }
    let mut text = String::new();
    for (family, maps) in tables {
        let (table, address) = if family == Family::Ipv4 { ("ip", "ipv4_addr") } else { ("ip6", "ipv6_addr") };
        text += &format!("table {table} kube-proxy {{\n");
        for (map, elements) in maps {
            let address = if map.ends_with("nodeports") { String::new() } else { format!("{address} . ") };
            let elements = elements.join(", ");
            text += &format!(
                "map {map} {{\ntype {address}inet_proto . inet_service : verdict\nelements = {{ {elements} }}\n}}\n"
            );
        }
        text += "}\n";
    }
    nftables::parse(&text).ok().filter(|_| !elements.is_empty())
}

/// The lines of a block without those of some positions.
pub(super) fn without<'b, 't>(block: &'b [Line<'t>], positions: &[usize]) -> Cow<'b, [Line<'t>]> {
    let mut kept = Cow::Borrowed(block);
    positions.iter().for_each(|at| kept.to_mut()[*at].text = Cow::Borrowed(""));
    kept
}

/// The lines of the first table that stand where only headings can, each up to the brace that closes its chain or set.
pub(super) fn headless(lines: &[Line<'_>]) -> Vec<usize> {
    let (mut found, mut depth, mut is_headless) = (Vec::new(), Depth::default(), false);
    let table = lines.first().map(indentation).unwrap_or_default();
    for (at, line) in lines.iter().enumerate() {
        let text = line.text.trim();
        let is_over = at > 0 && !line.is_blank() && (depth == Depth::default() || is_table(text));
        if line.is_fence() || line.is_group_separator() || command(text).is_some() || is_over {
            break;
        }
        if is_part(text) {
            depth.leave_part();
            is_headless = false;
        }
        if depth == Depth::IN_TABLE && text == "}" && !ends_table(&lines[at..], table) {
            found.push(at);
            is_headless = false;
            continue;
        }
        is_headless |= depth == Depth::IN_TABLE && text != "}" && !is_of_table(text);
        if is_headless && !line.is_blank() {
            found.push(at);
        }
        depth.follow(&line.text);
    }
    found
}

/// What may occur in a table by itself.
fn is_of_table(text: &str) -> bool {
    text.is_empty() || is_part(text) || ["comment ", "flags ", "#"].iter().any(|start| text.starts_with(start))
}

/// Whether the brace on the first line closes the table, whose heading is indented by so much: no other part of it follows, and the brace is
/// not indented further.
fn ends_table(lines: &[Line<'_>], table: usize) -> bool {
    let Some((first, rest)) = lines.split_first() else { return true };
    let next = rest.iter().find(|line| !line.is_blank()).map_or("", |line| line.text.trim());
    indentation(first) <= table && !(next == "}" || is_part(next) || is_bare(next))
}

/// How many blanks are in front of a line.
fn indentation(line: &Line<'_>) -> usize {
    line.text.len() - line.text.trim_start().len()
}

/// The lines after headings of chains that may be of other chains: where no line closes one, lines were picked, and only what is in the name of
/// a chain says that a line is of it. One that leads to the chain itself is of another one.
pub(super) fn astray(block: &[Line<'_>]) -> Vec<(usize, &'static str)> {
    if block.iter().any(|line| line.text.trim() == "}") {
        return Vec::new();
    }
    let (mut found, mut heading, mut headings, mut is_picked) = (Vec::new(), None, 0, false);
    for (at, line) in block.iter().enumerate() {
        if is_part(line.text.trim()) {
            (heading, headings) = (name(line), headings + 1);
            continue;
        }
        let Some(name) = heading.filter(|_| !line.is_blank()) else { continue };
        let leads_to_itself = line.text.contains(name);
        is_picked |= leads_to_itself;
        if leads_to_itself || !own_part(name).is_some_and(|own| line.text.contains(own)) {
            found.push((at, ASTRAY));
        }
    }
    if is_picked || headings > 1 { found } else { Vec::new() }
}

/// The name in a heading.
fn name<'l>(heading: &'l Line<'_>) -> Option<&'l str> {
    heading.text.split_whitespace().nth(1)
}

/// What of a chain's name its rules have: the address in `endpoint-FLXOMXXM-default/web/tcp/http__10.244.1.10/8080`, or the service.
fn own_part(name: &str) -> Option<&str> {
    name.contains('/').then_some(())?;
    match name.split_once("__") {
        Some((_, endpoint)) => endpoint.split('/').next(),
        None => name.splitn(3, '-').nth(2),
    }
}
