//! What a rule does to packets.

use svclab_rules::cluster::Family;

use super::Reading;

impl Reading {
    /// What is done to the packet.
    pub(super) fn effect(&mut self, words: &[&str], chain: &str, family: Family) -> Result<usize, String> {
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
                return Err(format!("`{word}` in chain {chain} is not a statement that iptables-nft writes"));
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
        ["reject", "with", ..] => return Err("its reject type is unknown".to_owned()),
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
    let unknown = || "its change of the mark is not a known one".to_owned();
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
