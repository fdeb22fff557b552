//! A rule in nft's words → the same rule in those of `iptables-save`.

mod condition;
mod target;

use std::fmt::Write;

use svclab_rules::cluster::Family;

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
    /// Whether nft does not print all of it, and the rest is assumed to be as kube-proxy writes it.
    pub(super) is_assumed: bool,
}

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
    is_assumed: bool,
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
    // kube-proxy writes one rule without a target, which says why packets are dropped after it. nft prints others without one
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
    Ok(Saved { text, is_assumed: reading.is_assumed })
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
}

fn write_to(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    _ = text.write_fmt(what);
}
