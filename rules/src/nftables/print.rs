//! The text of rules, as `nft list ruleset` shows it (nft 1.0.6).

use std::fmt::Write;
use std::net::SocketAddr;

use super::ast::{BaseChain, Chain, Datatype, Element, Key, Rule, Ruleset, Set, SetKind, Table};
use super::statement::{Addresses, Condition, ConnectionState, LookupKey, MarkChange, Side, Statement, Verdict};
use crate::cluster::{Family, Protocol};
use crate::walk::{Hook, RejectResponse};

/// Shows tables as `nft list ruleset` does. `nft -f` loads the text as it is into a namespace that has none of them.
///
/// What is not modelled is shown as it was read; where that was JSON, `nft -f` does not take it.
///
/// The order of elements is the model's; nft shows those of maps in an order of its own.
pub fn print(rules: &Ruleset) -> String {
    let mut out = String::new();
    rules.tables.iter().for_each(|table| print_table(&mut out, table));
    out
}

/// The text with which `nft -f` makes a namespace's tables equal to these, whether or not it has them from an earlier
/// sync.
///
/// What rules remembered in dynamic sets stays, as with kube-proxy. Chains that are not used any more stay too, empty, as
/// they do in kube-proxy until a later sync.
pub fn print_sync(rules: &Ruleset) -> String {
    let mut out = String::new();
    for table in &rules.tables {
        let family = family(table.family);
        let declared = Table { chains: Vec::new(), ..without_elements(table) };
        print_table(&mut out, &declared);
        let _ = writeln!(out, "flush table {family} {}", table.name);
        for set in table.sets.iter().filter(|set| set.dynamic.is_none()) {
            let _ = writeln!(out, "flush {} {family} {} {}", set.kind.as_str(), table.name, set.name);
        }
    }
    out + &print(rules)
}

fn without_elements(table: &Table) -> Table {
    let sets = table.sets.iter().map(|set| Set { elements: Vec::new(), ..set.clone() });
    Table { sets: sets.collect(), ..table.clone() }
}

/// Shows one rule of a table of this family.
pub fn print_rule(rule: &Rule, family: Family) -> String {
    let mut out = String::new();
    write_rule(&mut out, rule, family);
    out
}

fn print_table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "table {} {} {{", family(table.family), table.name);
    if let Some(comment) = &table.comment {
        let _ = writeln!(out, "\tcomment \"{comment}\"");
    }
    for (index, set) in table.sets.iter().enumerate() {
        separate(out, index > 0);
        print_set(out, set);
    }
    for (index, chain) in table.chains.iter().enumerate() {
        separate(out, index > 0 || !table.sets.is_empty());
        print_chain(out, chain, table.family);
    }
    out.push_str("}\n");
}

fn separate(out: &mut String, needed: bool) {
    if needed {
        out.push('\n');
    }
}

fn print_set(out: &mut String, set: &Set) {
    let _ = writeln!(out, "\t{} {} {{", set.kind.as_str(), set.name);
    out.push_str("\t\ttype ");
    join(out, " . ", &set.key, |out, part| out.push_str(part.as_str()));
    out.push_str(if set.kind == SetKind::VerdictMap { " : verdict\n" } else { "\n" });
    if let Some(dynamic) = set.dynamic {
        let _ = writeln!(out, "\t\tsize {}\n\t\tflags dynamic,timeout", dynamic.size);
        let _ = writeln!(out, "\t\ttimeout {}", duration(dynamic.timeout));
    }
    if let Some(comment) = &set.comment {
        let _ = writeln!(out, "\t\tcomment \"{comment}\"");
    }
    if !set.elements.is_empty() {
        print_elements(out, set);
    }
    out.push_str("\t}\n");
}

/// Two elements a line where they are IPv4 addresses, else one.
fn print_elements(out: &mut String, set: &Set) {
    let in_line = if set.key == [Datatype::Address(Family::Ipv4)] { 2 } else { 1 };
    out.push_str("\t\telements = { ");
    for (index, element) in set.elements.iter().enumerate() {
        match index {
            0 => {}
            _ if index % in_line == 0 => out.push_str(",\n\t\t\t     "),
            _ => out.push_str(", "),
        }
        write_element(out, element);
    }
    out.push_str(" }\n");
}

/// Shows an element of a set or map.
pub(crate) fn print_element(element: &Element) -> String {
    let mut out = String::new();
    write_element(&mut out, element);
    out
}

/// Shows the key of an element.
pub fn print_key(key: &[Key]) -> String {
    let mut out = String::new();
    write_parts(&mut out, key);
    out
}

/// Shows a verdict.
pub(crate) fn print_verdict(verdict: &Verdict) -> String {
    let mut out = String::new();
    write_verdict(&mut out, verdict);
    out
}

fn write_parts(out: &mut String, key: &[Key]) {
    join(out, " . ", key, |out, part| {
        let _ = match part {
            Key::Address(address) => write!(out, "{address}"),
            Key::Addresses(range) => write!(out, "{range}"),
            Key::Protocol(protocol) => write!(out, "{protocol}"),
            Key::Port(port) => write!(out, "{port}"),
        };
    });
}

fn write_element(out: &mut String, element: &Element) {
    write_parts(out, &element.key);
    if let Some(comment) = &element.comment {
        let _ = write!(out, " comment \"{comment}\"");
    }
    if let Some(verdict) = &element.verdict {
        out.push_str(" : ");
        write_verdict(out, verdict);
    }
}

/// `1d2h3m4s`, without what is zero.
fn duration(seconds: u32) -> String {
    let parts = [(seconds / 86_400, 'd'), (seconds / 3600 % 24, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    parts.iter().filter(|(number, _)| *number > 0).map(|(number, unit)| format!("{number}{unit}")).collect()
}

fn print_chain(out: &mut String, chain: &Chain, family: Family) {
    let _ = writeln!(out, "\tchain {} {{", chain.name);
    if let Some(comment) = &chain.comment {
        let _ = writeln!(out, "\t\tcomment \"{comment}\"");
    }
    if let Some(base) = &chain.base {
        let kind = if base.nat { "nat" } else { "filter" };
        let _ = write!(out, "\t\ttype {kind} hook {} priority ", base.hook.lowercase());
        write_priority(out, base);
        out.push_str(if base.drops { "; policy drop;\n" } else { "; policy accept;\n" });
    }
    for rule in &chain.rules {
        out.push_str("\t\t");
        write_rule(out, rule, family);
        out.push('\n');
    }
    out.push_str("\t}\n");
}

/// A number, or its distance from the name that nft has for a number near it at this hook.
fn write_priority(out: &mut String, base: &BaseChain) {
    let named = match base.hook {
        Hook::Prerouting => Some(("dstnat", -100)),
        Hook::Postrouting => Some(("srcnat", 100)),
        Hook::Input | Hook::Forward | Hook::Output => None,
    };
    let named = named.into_iter().chain([("filter", 0)]);
    let near = named.map(|(name, number)| (name, base.priority - number)).find(|(_, distance)| distance.abs() <= 10);
    let _ = match near {
        Some((name, 0)) => write!(out, "{name}"),
        Some((name, distance)) if distance < 0 => write!(out, "{name} - {}", -distance),
        Some((name, distance)) => write!(out, "{name} + {distance}"),
        None => write!(out, "{}", base.priority),
    };
}

fn write_rule(out: &mut String, rule: &Rule, family: Family) {
    let conditions = rule.conditions.len();
    for (index, condition) in rule.conditions.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write_condition(out, condition, family);
    }
    for (index, statement) in rule.statements.iter().enumerate() {
        if index + conditions > 0 {
            out.push(' ');
        }
        write_statement(out, statement, family);
    }
    if let Some(comment) = &rule.comment {
        let _ = write!(out, " comment \"{comment}\"");
    }
}

fn write_condition(out: &mut String, condition: &Condition, ip: Family) {
    let not = |negated: bool| if negated { "!= " } else { "" };
    let _ = match condition {
        Condition::State { negated, states } => {
            let _ = write!(out, "ct state {}", not(*negated));
            let word = |out: &mut String, state: &ConnectionState| write!(out, "{}", state.as_str());
            // Behind `!=` several without braces would be compared with all bits at once.
            if *negated {
                several(out, states, word)
            } else {
                listed(out, states, ",", word)
            }
            Ok(())
        }
        Condition::Translated => write!(out, "ct status dnat"),
        Condition::Address { side, negated, value } => {
            let _ = write!(out, "{} {} {}", family(ip), side.as_str(), not(*negated));
            write_addresses(out, value);
            Ok(())
        }
        Condition::Ports { protocol, side, negated, ports } => {
            let field = if *side == Side::Source { "sport" } else { "dport" };
            let protocol = protocol.map_or("th", Protocol::as_str);
            let _ = write!(out, "{protocol} {field} {}", not(*negated));
            several(out, ports, |out, ports| match (ports.start(), ports.end()) {
                (first, last) if first == last => write!(out, "{first}"),
                (first, last) => write!(out, "{first}-{last}"),
            });
            Ok(())
        }
        Condition::Protocols { negated, numbers } => {
            let _ = write!(out, "meta l4proto {}", not(*negated));
            several(out, numbers, |out, number| match Protocol::of_number(*number) {
                Some(protocol) => write!(out, "{protocol}"),
                None => write!(out, "{number}"),
            });
            Ok(())
        }
        Condition::Family(Family::Ipv4) => write!(out, "meta nfproto ipv4"),
        Condition::Family(Family::Ipv6) => write!(out, "meta nfproto ipv6"),
        Condition::Interfaces { output, by_name, negated, names } => {
            let word = if *output { "oif" } else { "iif" };
            let _ = write!(out, "{word}{} {}", if *by_name { "name" } else { "" }, not(*negated));
            several(out, names, |out, name| write!(out, "\"{name}\""));
            Ok(())
        }
        Condition::Local(side) => write!(out, "fib {} type local", side.as_str()),
        Condition::Mark { negated, mask: u32::MAX, value } => {
            write!(out, "meta mark {}{value:#010x}", not(*negated))
        }
        Condition::Mark { negated, mask, value } => {
            let comparison = if *negated { "!=" } else { "==" };
            write!(out, "meta mark & {mask:#010x} {comparison} {value:#010x}")
        }
        Condition::InSet(key, set) => {
            write_key(out, key, ip);
            write!(out, " @{set}")
        }
        Condition::Other(json) => write!(out, "{json}"),
    };
}

fn write_addresses(out: &mut String, value: &Addresses) {
    let _ = match value {
        Addresses::One(address) => write!(out, "{address}"),
        Addresses::Prefix(prefix) => write!(out, "{}", super::AddressRange::from(*prefix)),
        Addresses::Set(name) => write!(out, "@{name}"),
        Addresses::Ranges(ranges) => {
            out.push_str("{ ");
            join(out, ", ", ranges, |out, range| {
                let _ = write!(out, "{range}");
            });
            write!(out, " }}")
        }
    };
}

fn write_statement(out: &mut String, statement: &Statement, ip: Family) {
    let _ = match statement {
        Statement::Verdict(verdict) => {
            write_verdict(out, verdict);
            Ok(())
        }
        Statement::Reject(RejectResponse::PortUnreachable) => write!(out, "reject"),
        Statement::Reject(RejectResponse::TcpReset) => write!(out, "reject with tcp reset"),
        Statement::Reject(rejection) => write!(out, "reject with {} {}", icmp(ip), refusal_word(*rejection, ip)),
        Statement::Lookup(key, map) => {
            write_key(out, key, ip);
            write!(out, " vmap @{map}")
        }
        Statement::Balance(chains) => {
            let _ = write!(out, "numgen random mod {} vmap {{ ", chains.len());
            numbered(out, chains, |out, chain| write!(out, "goto {chain}"));
            write!(out, " }}")
        }
        Statement::BalanceDnat(endpoints) => {
            let _ = write!(out, "dnat {} to numgen random mod {} map {{ ", family(ip), endpoints.len());
            numbered(out, endpoints, |out, endpoint| write!(out, "{} . {}", endpoint.ip(), endpoint.port()));
            write!(out, " }}")
        }
        Statement::Dnat(endpoint) => write!(out, "dnat to {endpoint}"),
        Statement::DnatAddress(address) => write!(out, "dnat to {address}"),
        Statement::Snat(address, None) => write!(out, "snat to {address}"),
        Statement::Snat(address, Some(port)) => write!(out, "snat to {}", SocketAddr::new(*address, *port)),
        Statement::Masquerade { random: true } => write!(out, "masquerade fully-random"),
        Statement::Masquerade { random: false } => write!(out, "masquerade"),
        Statement::Mark(MarkChange::Set(bit)) => write!(out, "meta mark set meta mark | {bit:#010x}"),
        Statement::Mark(MarkChange::Flip(bit)) => write!(out, "meta mark set meta mark ^ {bit:#010x}"),
        Statement::Mark(MarkChange::Write { kept: 0, set }) => write!(out, "meta mark set {set:#010x}"),
        Statement::Mark(MarkChange::Write { kept, set: 0 }) => write!(out, "meta mark set meta mark & {kept:#010x}"),
        Statement::Mark(MarkChange::Write { kept, set }) => {
            write!(out, "meta mark set meta mark & {kept:#010x} | {set:#010x}")
        }
        Statement::Remember(side, set) => write!(out, "update @{set} {{ {} {} }}", family(ip), side.as_str()),
        Statement::Other(json) => write!(out, "{json}"),
    };
}

fn write_verdict(out: &mut String, verdict: &Verdict) {
    let _ = match verdict {
        Verdict::Accept => write!(out, "accept"),
        Verdict::Drop => write!(out, "drop"),
        Verdict::Return => write!(out, "return"),
        Verdict::Jump(chain) => write!(out, "jump {chain}"),
        Verdict::Goto(chain) => write!(out, "goto {chain}"),
    };
}

fn write_key(out: &mut String, key: &[LookupKey], ip: Family) {
    join(out, " . ", key, |out, part| {
        let _ = match part {
            LookupKey::Address(side) => write!(out, "{} {}", family(ip), side.as_str()),
            LookupKey::Protocol => write!(out, "meta l4proto"),
            LookupKey::DestinationPort => write!(out, "th dport"),
        };
    });
}

/// One item as it is, several between braces.
fn several<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T) -> std::fmt::Result) {
    let (start, end) = if items.len() == 1 { ("", "") } else { ("{ ", " }") };
    out.push_str(start);
    listed(out, items, ", ", write);
    out.push_str(end);
}

fn listed<T>(out: &mut String, items: &[T], between: &str, write: impl Fn(&mut String, &T) -> std::fmt::Result) {
    join(out, between, items, |out, item| {
        let _ = write(out, item);
    });
}

fn icmp(ip: Family) -> &'static str {
    match ip {
        Family::Ipv4 => "icmp",
        Family::Ipv6 => "icmpv6",
    }
}

/// nft's words for what ICMP says, by family.
pub(super) const REFUSALS: [(Family, RejectResponse, &str); 13] = [
    (Family::Ipv4, RejectResponse::PortUnreachable, "port-unreachable"),
    (Family::Ipv4, RejectResponse::NetUnreachable, "net-unreachable"),
    (Family::Ipv4, RejectResponse::HostUnreachable, "host-unreachable"),
    (Family::Ipv4, RejectResponse::ProtocolUnreachable, "prot-unreachable"),
    (Family::Ipv4, RejectResponse::NetProhibited, "net-prohibited"),
    (Family::Ipv4, RejectResponse::HostProhibited, "host-prohibited"),
    (Family::Ipv4, RejectResponse::AdminProhibited, "admin-prohibited"),
    (Family::Ipv6, RejectResponse::PortUnreachable, "port-unreachable"),
    (Family::Ipv6, RejectResponse::NetUnreachable, "no-route"),
    (Family::Ipv6, RejectResponse::HostUnreachable, "addr-unreachable"),
    (Family::Ipv6, RejectResponse::AdminProhibited, "admin-prohibited"),
    (Family::Ipv6, RejectResponse::PolicyFail, "policy-fail"),
    (Family::Ipv6, RejectResponse::RejectRoute, "reject-route"),
];

fn refusal_word(rejection: RejectResponse, ip: Family) -> &'static str {
    let of = |(family, known, _): &&(Family, RejectResponse, &str)| *family == ip && *known == rejection;
    REFUSALS.iter().find(of).map_or("port-unreachable", |(.., word)| word)
}

/// `0 : a, 1 : b`.
fn numbered<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T) -> std::fmt::Result) {
    for (index, item) in items.iter().enumerate() {
        let _ = write!(out, "{}{index} : ", if index > 0 { ", " } else { "" });
        let _ = write(out, item);
    }
}

fn join<T>(out: &mut String, between: &str, items: &[T], write: impl Fn(&mut String, &T)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(between);
        }
        write(out, item);
    }
}

/// nft's word for a family.
pub(crate) fn family(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ip",
        Family::Ipv6 => "ip6",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(10_800, "3h")]
    #[case(60, "1m")]
    #[case(90_061, "1d1h1m1s")]
    #[case(1, "1s")]
    fn times_are_printed_as_nft_prints_them(#[case] seconds: u32, #[case] shown: &str) {
        assert_eq!(duration(seconds), shown);
    }

    #[rstest]
    #[case(Hook::Prerouting, -110, "dstnat - 10")]
    #[case(Hook::Prerouting, -100, "dstnat")]
    #[case(Hook::Output, -100, "-100")]
    #[case(Hook::Output, 0, "filter")]
    #[case(Hook::Postrouting, 100, "srcnat")]
    #[case(Hook::Forward, -110, "-110")]
    fn priorities_have_names_at_some_hooks(#[case] hook: Hook, #[case] priority: i32, #[case] shown: &str) {
        let mut out = String::new();
        write_priority(&mut out, &BaseChain { nat: false, hook, priority, drops: false });
        assert_eq!(out, shown);
    }
}
