//! JSON of Kubernetes objects, of nft and of `ip`: whole, wrapped, cut, and with quotes that a text editor or a web page made.

mod ip;
mod scan;

use std::collections::HashSet;
use std::ops::Range;

use serde_json::{Value, json};

use super::super::line::Line;
use super::super::model::{Contents, Format};
use super::super::repairs::{Repair, RepairSet};
use super::manifest::flatten;
use super::{Block, Context, nft};
use scan::{DEEPEST, Kind, Scan, scan, starts_token};

/// Lines that are looked at before what starts with a brace is not JSON.
const LONGEST_OPEN: usize = 400_000;

/// Lines that look like JSON and show nothing known are taken together where there are more of them.
const MANY: usize = 64;

/// Why a line of JSON is not read.
const CUT: &str = "it belongs to an incomplete JSON value";
const NO_ROUTE: &str = "the destination of a route is not an address";

pub(super) fn read(lines: &[Line<'_>], _: &Context) -> Option<Block> {
    let first = lines.first()?.text.trim();
    if !is_start(first) {
        return None;
    }
    match strict(lines) {
        Strict::Block(block) => Some(*block),
        Strict::Other => None,
        Strict::Broken => tolerant(lines),
    }
}

/// `{"dst": "default", "dev": "eth0"},`
pub(super) fn knows(line: &str) -> bool {
    line.strip_prefix("{\"").is_some_and(|rest| rest.contains("\": \"") || rest.contains("\":\""))
}

/// Whether a line is a field of a JSON object and nothing else: no sentence starts like it.
pub(in super::super) fn is_of_json(text: &str) -> bool {
    let field = text.strip_prefix('"').and_then(|rest| rest.split_once("\": "));
    field.is_some_and(|(key, value)| {
        let is_value = value.starts_with(['"', '{', '[', '-', 't', 'f', 'n'])
            || value.starts_with(|own: char| own.is_ascii_digit());
        !key.contains([' ', '"']) && is_value
    })
}

/// A sentence in brackets, or a prompt, is not the start of a document.
fn is_start(first: &str) -> bool {
    let bare: String = first.chars().filter(|letter| !letter.is_whitespace()).take(8).collect();
    matches!(bare.as_str(), "{" | "[" | "[{" | "{}" | "{}," | "[]")
        || ["{\"", "[{\"", "{“", "[{“", "{&quot;", "[{&quot;"].iter().any(|start| bare.starts_with(start))
}

/// What JSON that is as it should be turns out to be.
enum Strict {
    Block(Box<Block>),
    /// It says nothing about Services.
    Other,
    /// It is no JSON, or is one thing of a list whose start is not shown.
    Broken,
}

fn strict(lines: &[Line<'_>]) -> Strict {
    let Some(length) = balanced(lines) else { return Strict::Broken };
    let text: String = lines[..length].iter().flat_map(|line| [line.text.as_ref(), "\n"]).collect();
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let Some(Ok(value)) = values.next() else { return Strict::Broken };
    block_of(value, &text, length, lines[0].number)
}

/// The block of a whole value, which starts on a line of this number.
fn block_of(mut value: Value, text: &str, length: usize, first: usize) -> Strict {
    if let Some(list) = value.get_mut("nftables") {
        let read = nft::read_json(text).or_else(|error| {
            let list = list.as_array_mut().map(std::mem::take).unwrap_or_default();
            nft::read_json(&json!({ "nftables": in_tables(list) }).to_string()).map_err(|_| error)
        });
        return Strict::Block(Box::new(match read {
            Ok(contents) => Block::new(Format::NftJson, length, contents),
            Err(error) => {
                Block { unread: vec![(0, error)], ..Block::new(Format::NftJson, length, Contents::Entries(0)) }
            }
        }));
    }
    if let Value::Array(items) = &value
        && ip::is_list(items)
    {
        let items: Vec<(Value, usize)> = items.iter().map(|item| (item.clone(), first)).collect();
        let (contents, unread) = ip::contents(&items);
        let unread = unread.into_iter().map(|_| (0, NO_ROUTE.to_owned())).take(1).collect();
        return Strict::Block(Box::new(Block { unread, ..Block::new(Format::IpJson, length, contents) }));
    }
    // One thing of nft's list, whose start is not shown.
    let only = value.as_object().filter(|fields| fields.len() == 1).and_then(|fields| fields.values().next());
    if only.is_some_and(|only| only.get("family").is_some()) {
        return Strict::Broken;
    }
    if is_of_ip(&value) {
        return Strict::Broken;
    }
    let mut objects = Vec::new();
    let unread: Vec<(usize, String)> = flatten(value, &mut objects).into_iter().map(|why| (0, why)).collect();
    let is_object = objects.iter().any(|object| object.get("kind").is_some() || object.get("apiVersion").is_some());
    if !is_object && unread.is_empty() {
        return Strict::Other;
    }
    Strict::Block(Box::new(Block { unread, ..Block::new(Format::Json, length, Contents::Objects(objects)) }))
}

/// Whether a value is an entry of ip's list, whose start is not shown: a link with its addresses, or a route.
fn is_of_ip(value: &Value) -> bool {
    let has = |key: &str| value.get(key).is_some();
    ip::is_rule(value)
        || has("ifname") && (has("ifindex") || has("addr_info"))
        || has("dst") && has("flags") && (has("dev") || has("gateway"))
}

/// Reads what is whole in JSON that is not.
fn tolerant(lines: &[Line<'_>]) -> Option<Block> {
    let scan = scan(lines);
    let length = scan.starts.len().max(1);
    let mut mends = RepairSet::default();
    scan.repairs.iter().for_each(|repair| mends = mends.with(*repair));
    // With what was put into it taken out, it may be whole.
    if let Some(Ok(value)) = serde_json::Deserializer::from_str(&scan.text).into_iter::<Value>().next()
        && let Strict::Block(block) = block_of(value, &scan.text, length, lines[0].number)
    {
        return Some(Block { mends: vec![(lines[0].number, mends)], ..*block });
    }
    if scan.elements.is_empty() {
        let looks_known = ["\"apiVersion\"", "\"nftables\""].iter().any(|key| scan.text.contains(key));
        if !looks_known && length <= MANY {
            return None;
        }
        let unread = rest(&scan, &[]);
        return Some(Block { unread, ..Block::new(Format::Json, length, Contents::Objects(Vec::new())) });
    }
    let mends = vec![(lines[0].number, mends), (lines[length - 1].number, RepairSet::default().with(Repair::Cut))];
    Some(Block { mends, ..elements(&scan, &lines[..length]) })
}

/// The block of elements, all of the kind that the first one is.
fn elements(scan: &Scan, lines: &[Line<'_>]) -> Block {
    let length = lines.len();
    let kind = scan.elements[0].1;
    let mut known = Vec::new();
    let mut values = Vec::new();
    let mut unread = Vec::new();
    for (range, _) in scan.elements.iter().filter(|(_, own)| *own == kind) {
        match serde_json::from_str::<Value>(&scan.text[range.clone()]) {
            Ok(value) => {
                known.push(range.clone());
                values.push(value);
            }
            Err(error) => unread.push((scan.line_of(range.start), error.to_string())),
        }
    }
    unread.extend(rest(scan, &known));
    let (format, contents) = match kind {
        Kind::Ip => {
            let places = known.iter().map(|range| scan.line_of(range.start));
            let items: Vec<(Value, usize)> =
                values.into_iter().zip(places.clone().map(|at| lines[at].number)).collect();
            let (contents, failed) = ip::contents(&items);
            let places: Vec<usize> = places.collect();
            unread.extend(failed.into_iter().map(|at| (places[at], NO_ROUTE.to_owned())));
            (Format::IpJson, contents)
        }
        Kind::Object => {
            let mut objects = Vec::new();
            for (value, range) in values.into_iter().zip(&known) {
                let line = scan.line_of(range.start);
                unread.extend(flatten(value, &mut objects).into_iter().map(|why| (line, why)));
            }
            (Format::Json, Contents::Objects(objects))
        }
        Kind::Nft => {
            let contents = match nft::read_part(&listed(values).to_string()) {
                Ok(Contents::Nftables { rules, count, coverage, .. }) => {
                    Contents::Nftables { rules, count, coverage, cut: lines.last().map(|line| line.number) }
                }
                Ok(contents) => contents,
                Err(error) => {
                    unread.extend(known.iter().map(|range| (scan.line_of(range.start), error.clone())));
                    Contents::Entries(0)
                }
            };
            (Format::NftJson, contents)
        }
    };
    unread.sort_by_key(|(at, _)| *at);
    unread.dedup_by_key(|(at, _)| *at);
    Block { unread, ..Block::new(format, length, contents) }
}

/// The lines of which something is in no element, apart from what encloses lists.
fn rest(scan: &Scan, known: &[Range<usize>]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut next = known.iter().peekable();
    for (at, start) in scan.starts.iter().enumerate() {
        let end = scan.starts.get(at + 1).copied().unwrap_or(scan.text.len());
        let mut place = *start;
        let mut is_left = false;
        while place < end {
            while next.next_if(|range| range.end <= place).is_some() {}
            let stop = next.peek().map_or(end, |range| range.start.clamp(place, end));
            is_left |= says_something(&scan.text[place..stop]);
            place = next.peek().filter(|range| range.start < end).map_or(end, |range| range.end.max(stop));
        }
        if is_left {
            found.push((at, CUT.to_owned()));
        }
    }
    found
}

/// Whether a text between elements is more than brackets and the head of a list.
fn says_something(text: &str) -> bool {
    let bare: String = text.chars().filter(|letter| !letter.is_whitespace() && !"{}[],".contains(*letter)).collect();
    let head = ["", "\"nftables\":", "\"items\":", "\"apiVersion\":\"v1\"", "\"kind\":\"List\"", "\"metadata\":"];
    let all = "\"apiVersion\":\"v1\"\"items\":";
    !(head.contains(&bare.as_str()) || bare == all || bare == "\"apiVersion\":\"v1\"\"kind\":\"List\"\"items\":")
}

/// Things of nft's list as a list, with the tables and chains that they are in and that are not among them.
fn listed(mut values: Vec<Value>) -> Value {
    values.retain(|value| value.get("metainfo").is_none());
    let mut chains: HashSet<[&str; 3]> = HashSet::new();
    let known = values.iter().map(|value| &value["chain"]).filter(|own| own.is_object());
    chains.extend(known.map(|own| ["family", "table", "name"].map(|key| name(own, key))));
    // Rules come after their chains.
    let mut missing = Vec::new();
    for own in values.iter().filter_map(content).filter(|own| own["expr"].is_array()) {
        let of @ [family, table, chain] = ["family", "table", "chain"].map(|key| name(own, key));
        if chains.insert(of) {
            missing.push(json!({"chain": {"family": family, "table": table, "name": chain, "handle": 0}}));
        }
    }
    let head = json!({"metainfo": {"json_schema_version": 1}});
    let (of_tables, others): (Vec<Value>, Vec<Value>) =
        values.into_iter().partition(|value| value["table"].is_object());
    json!({ "nftables": in_tables([vec![head], of_tables, missing, others].concat()) })
}

/// Things of nft's list, after the tables that they are in and that are not among them: `nft -j list chain` and `nft -j list map` print
/// none.
fn in_tables(values: Vec<Value>) -> Vec<Value> {
    let of_tables = values.iter().map(|value| &value["table"]).filter(|table| table.is_object());
    let mut tables: HashSet<[&str; 2]> = of_tables.map(|table| [name(table, "family"), name(table, "name")]).collect();
    let mut missing = Vec::new();
    for own in values.iter().filter_map(content).filter(|own| own["table"].is_string()) {
        let of @ [family, table] = [name(own, "family"), name(own, "table")];
        if tables.insert(of) {
            missing.push(json!({"table": {"family": family, "name": table, "handle": 0}}));
        }
    }
    let head = values.iter().take_while(|value| value.get("metainfo").is_some()).count();
    let mut all = values;
    all.splice(head..head, missing);
    all
}

/// What a thing of nft's list is, after the word for its kind.
fn content(value: &Value) -> Option<&Value> {
    value.as_object()?.values().next()
}

fn name<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// How many lines there are to the end of the first value.
fn balanced(lines: &[Line<'_>]) -> Option<usize> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    // Of an object a key or its end follows. Without this each brace of a text that is none would be followed to the end.
    let mut is_opened = false;
    for (at, line) in lines.iter().take(LONGEST_OPEN).enumerate() {
        let is_json = line.is_blank() || starts_token(line.text.trim_start());
        if line.is_fence() || !is_json || depth > DEEPEST {
            return None;
        }
        for byte in line.text.bytes() {
            if is_opened && !byte.is_ascii_whitespace() {
                if !matches!(byte, b'"' | b'}') {
                    return None;
                }
                is_opened = false;
            }
            is_opened |= byte == b'{' && !in_string;
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_string => is_escaped = true,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        // A string does not continue on the next line of a document; a value that does not start is none.
        if in_string || depth == 0 {
            return None;
        }
    }
    None
}
