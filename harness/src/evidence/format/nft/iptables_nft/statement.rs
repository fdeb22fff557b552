//! A rule in nft's words → the same rule in those of `iptables-save`.

use std::fmt::Write;

use svclab_rules::cluster::Family;
use svclab_rules::iptables::ChainKind;

/// A rule that does not say all that it asks or does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hidden {
    /// Why: a fragment in lower case.
    pub(super) why: String,
    /// The chain that it jumps to, where it asks what it asks.
    pub(super) next: Option<String>,
}

/// A rule that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Saved {
    /// What `iptables-save` prints of it.
    pub(super) text: String,
    /// What nft does not print of it, and is assumed: a fragment in lower case.
    pub(super) assumed: Option<&'static str>,
}

/// What kube-proxy writes into the chains of a Service with session affinity.
const RECENT: &str =
    "nft does not print the options of match recent: taken for kube-proxy's, with its default timeout of 10800 s";

/// What is read of a rule. The matches of iptables come in the order in which it has them.
#[derive(Default)]
struct Reading {
    /// The chain that the rule jumps to.
    next: Option<String>,
    counters: Option<(String, String)>,
    /// Addresses, interfaces and the protocol, which come first.
    head: String,
    matches: String,
    target: Option<String>,
    protocol: Option<String>,
    assumed: Option<&'static str>,
}

/// A rule of a chain as `iptables-save` prints it, without its comment.
///
/// # Errors
///
/// A match or target that nft only names, or that is not known.
pub(super) fn saved(text: &str, chain: &str, family: Family) -> Result<Saved, Hidden> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut reading = Reading { next: next(&words), ..Reading::default() };
    let mut rest = words.as_slice();
    while !rest.is_empty() && !is_handle(rest) {
        let read = reading.step(rest, chain, family);
        match read {
            Ok(taken) => rest = &rest[taken..],
            Err(why) => return Err(Hidden { why, next: reading.next }),
        }
    }
    // kube-proxy writes one rule without a target, which says why packets are dropped behind it. nft prints others without one
    // where it does not know their target.
    if reading.target.is_none() && !chain.starts_with("KUBE-FW-") {
        return Err(Hidden { why: "nft does not print its target".to_owned(), next: None });
    }
    // `-m tcp` without ports, which nft leaves out, asks nothing.
    let is_nat = reading.target.as_deref().is_some_and(|target| target.starts_with("DNAT "));
    let has_ports = reading.matches.contains("port");
    if let Some(protocol) = reading.protocol.filter(|_| is_nat && !has_ports) {
        write_to(&mut reading.matches, format_args!(" -m {protocol}"));
    }
    let counters = reading.counters.map(|(packets, bytes)| format!("[{packets}:{bytes}] ")).unwrap_or_default();
    let target = reading.target.map(|target| format!(" -j {target}")).unwrap_or_default();
    let text = format!("{counters}-A {chain}{}{}{target}", reading.head, reading.matches);
    Ok(Saved { text, assumed: reading.assumed })
}

/// ` # handle 12`, as `nft -a` prints it.
fn is_handle(words: &[&str]) -> bool {
    matches!(words, ["#", "handle", ..])
}

/// The chain that the last words jump to.
fn next(words: &[&str]) -> Option<String> {
    let at = words.iter().rposition(|word| matches!(*word, "jump" | "goto"))?;
    words.get(at + 1).map(|name| (*name).to_owned())
}

impl Reading {
    /// Reads what the next words say. Returns how many these are.
    fn step(&mut self, words: &[&str], chain: &str, family: Family) -> Result<usize, String> {
        // `!=` is where iptables has its `!`.
        let (not, taken) = match words.iter().take(4).position(|word| *word == "!=") {
            Some(_) if !matches!(words[0], "counter" | "meta") => ("! ", 1),
            Some(2) if words[0] == "meta" => ("! ", 1),
            _ => ("", 0),
        };
        let plain: Vec<&str> = match taken {
            0 => words.iter().take(8).copied().collect(),
            _ => words.iter().filter(|word| **word != "!=").take(8).copied().collect(),
        };
        let read = self.condition(&plain, not, words, (chain, family))?;
        match read {
            Some(count) => Ok(count + taken),
            None => self.effect(words, chain, family),
        }
    }

    /// A condition, without its `!=`.
    fn condition(
        &mut self,
        plain: &[&str],
        not: &str,
        words: &[&str],
        (chain, family): (&str, Family),
    ) -> Result<Option<usize>, String> {
        let count = match plain {
            ["ip" | "ip6", direction @ ("saddr" | "daddr"), address, ..] => {
                let option = if *direction == "saddr" { "-s" } else { "-d" };
                write_to(&mut self.head, format_args!(" {not}{option} {address}"));
                3
            }
            ["iifname" | "oifname", name, ..] => {
                let option = if plain[0] == "iifname" { "-i" } else { "-o" };
                let name = name.trim_matches('"').replace('*', "+");
                write_to(&mut self.head, format_args!(" {not}{option} {name}"));
                2
            }
            ["meta", "l4proto", protocol, ..] | ["ip", "protocol", protocol, ..] => {
                write_to(&mut self.head, format_args!(" {not}-p {protocol}"));
                self.protocol = Some((*protocol).to_owned());
                3
            }
            [protocol @ ("tcp" | "udp" | "sctp" | "dccp"), side @ ("dport" | "sport"), ..] => {
                return self.ports(protocol, side, not, words).map(Some);
            }
            ["ct", "state", states, ..] => {
                let states = states.to_uppercase();
                write_to(&mut self.matches, format_args!(" -m conntrack {not}--ctstate {states}"));
                3
            }
            // Of `! --ctstate RELATED,ESTABLISHED,DNAT` this is all that is printed.
            ["ct", "status", ..] => {
                return Err("nft prints `ct status` of a match conntrack, and not all that it asks".to_owned());
            }
            ["fib", side @ ("saddr" | "daddr"), "type", kind, ..] => {
                let option = if *side == "saddr" { "--src-type" } else { "--dst-type" };
                let kind = kind.to_uppercase();
                write_to(&mut self.matches, format_args!(" -m addrtype {not}{option} {kind}"));
                4
            }
            ["meta", "random", "&", "2147483647", "<", threshold, ..] => {
                let threshold: u32 = threshold.parse().map_err(|_| format!("`{threshold}` is not a number"))?;
                let probability = f64::from(threshold) / 2_147_483_648.0;
                write_to(
                    &mut self.matches,
                    format_args!(" -m statistic --mode random --probability {probability:.11}"),
                );
                6
            }
            ["meta", "mark", "&" | "and", mask, relation @ ("==" | "!="), value, ..] => {
                let not = if *relation == "!=" { "! " } else { "" };
                write_to(&mut self.matches, format_args!(" -m mark {not}--mark {value}/{mask}"));
                6
            }
            ["meta", "mark", value, ..] if value.starts_with(|first: char| first.is_ascii_digit()) => {
                write_to(&mut self.matches, format_args!(" -m mark {not}--mark {value}"));
                3
            }
            ["counter", "packets", packets, "bytes", bytes, ..] => {
                self.counters = Some(((*packets).to_owned(), (*bytes).to_owned()));
                5
            }
            ["counter", ..] => 1,
            ["xt", "match", name, ..] if name.trim_matches('"') == "comment" => 3,
            ["#", "xt_comment", ..] => 2,
            ["xt", "match", "recent" | "\"recent\"", ..] if self.affinity(chain, family) => 3,
            ["xt", kind @ ("match" | "target"), name, ..] => {
                return Err(format!("nft names the {kind} {} and does not print what it says", name.trim_matches('"')));
            }
            ["#", name, ..] if name.starts_with("xt_") => {
                return Err(format!("nft names {} and does not print what it says", &name[3..]));
            }
            _ => return Ok(None),
        };
        Ok(Some(count))
    }

    /// A match of which nothing is printed, where kube-proxy has it for session affinity: in the chain of an endpoint, and in that of a service
    /// where it leads to an endpoint. Returns whether it is one.
    fn affinity(&mut self, chain: &str, family: Family) -> bool {
        let mask = if family == Family::Ipv4 { "255.255.255.255" } else { "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" };
        let is_endpoint = |name: &str| ChainKind::Endpoint.is_of(name);
        let (name, asks) = match self.next.as_deref().filter(|next| is_endpoint(next)) {
            _ if is_endpoint(chain) => (chain, "--set"),
            Some(next) if ChainKind::of(chain).is_some() => (next, "--rcheck --seconds 10800 --reap"),
            _ => return false,
        };
        write_to(&mut self.matches, format_args!(" -m recent {asks} --name {name} --mask {mask} --rsource"));
        self.assumed = Some(RECENT);
        true
    }

    /// `tcp dport 80`, `tcp dport 80-90`, `tcp dport { 80, 443 }`
    fn ports(&mut self, protocol: &str, side: &str, not: &str, words: &[&str]) -> Result<usize, String> {
        if self.protocol.is_none() {
            write_to(&mut self.head, format_args!(" -p {protocol}"));
            self.protocol = Some(protocol.to_owned());
        }
        let first = 2 + usize::from(!not.is_empty());
        let cut = || "the ports are cut off".to_owned();
        if words.get(first) == Some(&"{") {
            let end = words.iter().position(|word| *word == "}").ok_or_else(cut)?;
            let ports = words[first + 1..end].concat().replace('-', ":");
            write_to(&mut self.matches, format_args!(" -m multiport {not}--{side}s {ports}"));
            return Ok(end + 1 - usize::from(!not.is_empty()));
        }
        let ports = words.get(first).ok_or_else(cut)?.replace('-', ":");
        write_to(&mut self.matches, format_args!(" -m {protocol} {not}--{side} {ports}"));
        Ok(3)
    }

    /// What is done to the packet.
    fn effect(&mut self, words: &[&str], chain: &str, family: Family) -> Result<usize, String> {
        let (target, count) = match words {
            ["jump" | "goto", next, ..] if words[0] == "jump" => ((*next).to_owned(), 2),
            [verdict @ ("accept" | "drop" | "return"), ..] => (verdict.to_uppercase(), 1),
            ["dnat", "to", address, flags @ ..] => nat(format!("DNAT --to-destination {address}"), flags, 3),
            ["snat", "to", address, flags @ ..] => nat(format!("SNAT --to-source {address}"), flags, 3),
            ["masquerade", "to", ports, flags @ ..] => {
                nat(format!("MASQUERADE --to-ports {}", ports.trim_start_matches(':')), flags, 3)
            }
            ["masquerade", flags @ ..] => nat("MASQUERADE".to_owned(), flags, 1),
            ["redirect", "to", ports, flags @ ..] => {
                nat(format!("REDIRECT --to-ports {}", ports.trim_start_matches(':')), flags, 3)
            }
            ["reject", ..] => reject(words, family)?,
            ["meta", "mark", "set", ..] => mark(words)?,
            _ => {
                let word = words.iter().take(3).copied().collect::<Vec<_>>().join(" ");
                return Err(format!("`{word}` in chain {chain} is not known to be of iptables"));
            }
        };
        if self.target.replace(target).is_some() {
            return Err("it has two targets".to_owned());
        }
        Ok(count)
    }
}

/// A target that translates, with its flags, and how many words these and those before them are. Several flags are one word.
fn nat(target: String, words: &[&str], before: usize) -> (String, usize) {
    let flags: Vec<String> = words.iter().map_while(|word| word.split(',').map(option).collect()).collect();
    (target + &flags.concat(), before + flags.len())
}

/// The option of iptables that a flag stands for.
fn option(flag: &str) -> Option<&'static str> {
    match flag {
        "fully-random" => Some(" --random-fully"),
        "random" => Some(" --random"),
        "persistent" => Some(" --persistent"),
        _ => None,
    }
}

/// `reject`, `reject with icmp port-unreachable`, `reject with icmp type host-unreachable`, `reject with tcp reset`
fn reject(words: &[&str], family: Family) -> Result<(String, usize), String> {
    let start = if family == Family::Ipv4 { "icmp" } else { "icmp6" };
    let (kind, count) = match words {
        ["reject", "with", "tcp", "reset", ..] => return Ok(("REJECT --reject-with tcp-reset".to_owned(), 4)),
        ["reject", "with", "icmp" | "icmpv6" | "icmpx", "type", kind, ..] => (*kind, 5),
        ["reject", "with", "icmp" | "icmpv6" | "icmpx", kind, ..] => (*kind, 4),
        ["reject", "with", ..] => return Err("the answer of its target is not known".to_owned()),
        _ => ("port-unreachable", 1),
    };
    let kind = match kind {
        "prot-unreachable" => "proto-unreachable",
        "admin-prohibited" if family == Family::Ipv6 => "adm-prohibited",
        other => other,
    };
    Ok((format!("REJECT --reject-with {start}-{kind}"), count))
}

/// `meta mark set mark or 0x4000`, `meta mark set meta mark | 0x00004000`, `meta mark set 0x1`
fn mark(words: &[&str]) -> Result<(String, usize), String> {
    let rest = &words[3..];
    let named = if rest.first() == Some(&"meta") { 2 } else { 1 };
    let unknown = || "how it changes the mark is not known".to_owned();
    if rest.first().is_some_and(|word| word.starts_with(|first: char| first.is_ascii_digit())) {
        return Ok((format!("MARK --set-xmark {}/0xffffffff", rest[0]), 4));
    }
    let (Some(operator), Some(value)) = (rest.get(named), rest.get(named + 1)) else { return Err(unknown()) };
    let digits = value.strip_prefix("0x").ok_or_else(unknown)?;
    let bits = u32::from_str_radix(digits, 16).map_err(|_| unknown())?;
    let target = match *operator {
        "or" | "|" => format!("MARK --set-xmark {bits:#x}/{bits:#x}"),
        "xor" | "^" => format!("MARK --set-xmark {bits:#x}/0x0"),
        "and" | "&" => format!("MARK --set-xmark 0x0/{:#x}", !bits),
        _ => return Err(unknown()),
    };
    // `mark and 0xfffeffff xor 0x1`
    match words.get(3 + named + 2) {
        Some(&("xor" | "or" | "and" | "^" | "|" | "&")) => Err(unknown()),
        _ => Ok((target, 3 + named + 2)),
    }
}

fn write_to(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    _ = text.write_fmt(what);
}
