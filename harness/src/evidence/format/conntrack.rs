//! `conntrack -L`, `conntrack -E`, `/proc/net/nf_conntrack`.

use std::net::IpAddr;

use super::super::line::Line;
use super::super::model::{Connection, Contents, Format, Tuple};
use super::{Block, Context, run};

pub(super) fn knows(line: &str) -> bool {
    line.contains('=')
        && line.contains("src=")
        && line.contains("dst=")
        && (line.contains("sport=") || line.contains("type=") || line.contains("unknown"))
}

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    let taken = run(lines, |line| knows(line) || line.starts_with("conntrack v"));
    if taken == 0 {
        return None;
    }
    let mut entries = Vec::new();
    let mut unread = Vec::new();
    for (at, line) in lines[..taken].iter().enumerate().filter(|(_, line)| knows(&line.text)) {
        match connection(line.number, &line.text) {
            Some(entry) => entries.push(entry),
            None => unread.push((at, "the addresses of the connection cannot be read".to_owned())),
        }
    }
    Some(Block { unread, ..Block::new(Format::Conntrack, taken, Contents::Connections(entries)) })
}

fn connection(line: usize, text: &str) -> Option<Connection> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let protocol =
        words.iter().find(|word| matches!(**word, "tcp" | "udp" | "sctp" | "icmp" | "icmpv6" | "udplite" | "dccp"))?;
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
        original: tuple(0)?,
        reply: tuple(1)?,
    })
}
