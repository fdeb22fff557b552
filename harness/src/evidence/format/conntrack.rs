//! `conntrack -L`, `conntrack -E`, `/proc/net/nf_conntrack`.

use std::collections::HashSet;
use std::net::IpAddr;

use super::super::line::Line;
use super::super::model::{Connection, Contents, Format, Tuple};
use super::super::repairs::{Repair, RepairSet};
use super::{Block, Context, knows_block};

/// The most lines that a row continues on.
const MAX_LINES: usize = 3;

/// The shortest line after which a row may go on.
const SHORTEST: usize = 40;

pub(super) fn knows(line: &str) -> bool {
    line.contains('=')
        && line.contains("src=")
        && line.contains("dst=")
        && (line.contains("sport=") || line.contains("type=") || line.contains("unknown"))
        && line.split_whitespace().take(5).any(is_protocol)
}

fn is_protocol(word: &str) -> bool {
    matches!(word, "tcp" | "udp" | "sctp" | "icmp" | "icmpv6" | "udplite" | "dccp" | "unknown")
}

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    let (mut entries, mut unread, mut mends) = (Vec::new(), Vec::new(), Vec::new());
    let (mut at, mut taken) = (0, 0);
    while let Some(line) = lines.get(at) {
        if line.is_blank() {
            at += 1;
            continue;
        }
        let is_row = knows(&line.text);
        if line.is_fence() || !is_row && !line.text.starts_with("conntrack v") {
            break;
        }
        let mut count = 1;
        if is_row {
            let (entry, lines_of_row) = row(&lines[at..]);
            count = lines_of_row;
            if count > 1 {
                mends.push((line.number, RepairSet::default().with(Repair::Wrapped)));
            }
            match entry {
                Some(entry) => entries.push((is_event(&line.text), entry)),
                None => unread.push((at, "the addresses of the connection cannot be read".to_owned())),
            }
        }
        at += count;
        taken = at;
    }
    if taken == 0 {
        return None;
    }
    mark_superseded(&mut entries);
    let entries = entries.into_iter().map(|(_, entry)| entry).collect();
    Some(Block { unread, mends, ..Block::new(Format::Conntrack, taken, Contents::Connections(entries)) })
}

/// Whether a line is one of `conntrack -E`.
fn is_event(line: &str) -> bool {
    ["[NEW]", "[UPDATE]", "[DESTROY]"].iter().any(|event| line.contains(event))
}

/// Marks all events of a connection but the last one as not current: that says what became of it.
fn mark_superseded(entries: &mut [(bool, Connection)]) {
    let mut later = HashSet::new();
    for (_, entry) in entries.iter_mut().rev().filter(|(is_event, _)| *is_event) {
        let is_last = later.insert((entry.protocol.clone(), entry.original.clone(), entry.reply.clone()));
        entry.is_current &= is_last;
    }
}

/// The entry that starts on the first line, and how many lines it takes: a terminal may have wrapped it.
fn row(lines: &[Line<'_>]) -> (Option<Connection>, usize) {
    let first = &lines[0];
    let is_rest = |line: &&Line<'_>| {
        let text = line.text.trim();
        // The first word may be the rest of anything.
        let is_field = |word: &str| word.contains('=') || word.ends_with(']');
        let may_be_rest = !line.is_blank() && !line.is_fence() && !knows_block(text);
        may_be_rest && text.split_whitespace().skip(1).all(is_field)
    };
    let may_go_on = first.text.len() >= SHORTEST;
    let rest: Vec<&Line<'_>> =
        lines[1..].iter().take(MAX_LINES).take_while(|line| may_go_on && is_rest(line)).collect();
    for count in (1..=rest.len()).rev() {
        // A break cut the text at the width of a terminal, or stood for a blank.
        for between in ["", " "] {
            let mut text = first.text.to_string();
            rest[..count].iter().for_each(|line| text = [text.as_str(), line.text.as_ref()].join(between));
            if let Some(entry) = connection(first.number, &text).filter(Connection::has_all_ports) {
                return (Some(entry), count + 1);
            }
        }
    }
    (connection(first.number, &first.text), 1)
}

impl Connection {
    /// Whether both directions have ports, or none has.
    fn has_all_ports(&self) -> bool {
        let ports = [&self.original, &self.reply].map(|tuple| [tuple.source_port, tuple.destination_port]);
        let all = || ports.iter().flatten();
        all().all(Option::is_some) || all().all(Option::is_none)
    }
}

fn connection(line: usize, text: &str) -> Option<Connection> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let protocol = words.iter().find(|word| is_protocol(word) && **word != "unknown")?;
    let values = |key: &str| words.iter().filter_map(|word| word.strip_prefix(key)).collect::<Vec<_>>();
    let (sources, destinations) = (values("src="), values("dst="));
    let (source_ports, destination_ports) = (values("sport="), values("dport="));
    let tuple = |at: usize| {
        let ip = |of: &[&str]| of.get(at)?.parse::<IpAddr>().ok();
        let port = |of: &[&str]| of.get(at)?.parse().ok();
        Some(Tuple {
            source: ip(&sources)?,
            destination: ip(&destinations)?,
            source_port: port(&source_ports),
            destination_port: port(&destination_ports),
        })
    };
    let is_state = |word: &&&str| word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let state = words.iter().find(|word| is_state(word) && !word.starts_with('[')).map(|word| (**word).to_owned());
    Some(Connection {
        line,
        protocol: (*protocol).to_owned(),
        state,
        is_unreplied: text.contains("[UNREPLIED]"),
        is_current: !text.contains("[DESTROY]"),
        original: tuple(0)?,
        reply: tuple(1)?,
    })
}
