//! The conditions of a rule.

use svclab_rules::cluster::Family;
use svclab_rules::iptables::ChainKind;

use super::{Reading, write_to};

/// The addresses of the rule in KUBE-FIREWALL, before its conntrack match.
const OF_FIREWALL: &str = " ! -s 127.0.0.0/8 -d 127.0.0.0/8";

impl Reading {
    /// A condition, without its `!=`. Returns how many words it has, if it is one.
    pub(super) fn condition(
        &mut self,
        plain: &[&str],
        not: &str,
        words: &[&str],
        (chain, family): (&str, Family),
    ) -> Result<Option<usize>, String> {
        if let [protocol @ ("tcp" | "udp" | "sctp" | "dccp"), side @ ("dport" | "sport"), ..] = plain {
            return self.ports(protocol, side, not, words).map(Some);
        }
        if let Some(count) = self.header(plain, not) {
            return Ok(Some(count));
        }
        match self.module(plain, not, chain)? {
            None => self.extension(plain, chain, family),
            count => Ok(count),
        }
    }

    /// Addresses, interfaces and the protocol, for which iptables needs no module.
    fn header(&mut self, plain: &[&str], not: &str) -> Option<usize> {
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
            _ => return None,
        };
        Some(count)
    }

    /// A match of one of iptables' modules that nft prints in its own words.
    fn module(&mut self, plain: &[&str], not: &str, chain: &str) -> Result<Option<usize>, String> {
        let count = match plain {
            ["ct", "state", states, ..] => {
                let states = states.to_uppercase();
                write_to(&mut self.matches, format_args!(" -m conntrack {not}--ctstate {states}"));
                3
            }
            // Of `! --ctstate RELATED,ESTABLISHED,DNAT` this is all that is printed.
            ["ct", "status", "dnat", ..] if chain == "KUBE-FIREWALL" && self.head == OF_FIREWALL => {
                self.matches.push_str(" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT");
                self.is_assumed = true;
                3
            }
            ["ct", "status", ..] => {
                return Err(
                    "nft prints only the `ct status` of this conntrack match, not all of its conditions".to_owned()
                );
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
            _ => return Ok(None),
        };
        Ok(Some(count))
    }

    /// Counters, and modules that nft names without what they ask.
    fn extension(&mut self, plain: &[&str], chain: &str, family: Family) -> Result<Option<usize>, String> {
        let count = match plain {
            ["counter", "packets", packets, "bytes", bytes, ..] => {
                self.counters = Some(((*packets).to_owned(), (*bytes).to_owned()));
                5
            }
            ["counter", ..] => 1,
            ["xt", "match", name, ..] if name.trim_matches('"') == "comment" => 3,
            ["#", "xt_comment", ..] => 2,
            ["xt", "match", "recent" | "\"recent\"", ..] if self.affinity(chain, family) => 3,
            ["xt", "match", name, ..] if self.is_protocol_of_endpoint(name.trim_matches('"'), chain) => 3,
            ["xt", kind @ ("match" | "target"), name, ..] => {
                return Err(format!("nft names the {kind} {} but does not print its options", name.trim_matches('"')));
            }
            ["#", name, ..] if name.starts_with("xt_") => {
                return Err(format!("nft names {} but does not print its options", &name[3..]));
            }
            _ => return Ok(None),
        };
        Ok(Some(count))
    }

    /// Returns whether a match is that of the rule's protocol in the chain of an endpoint, where kube-proxy has it without options: `-m sctp`.
    fn is_protocol_of_endpoint(&mut self, name: &str, chain: &str) -> bool {
        let is_one = ChainKind::Endpoint.is_of(chain) && self.protocol.as_deref() == Some(name);
        self.is_assumed |= is_one;
        is_one
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
        self.is_assumed = true;
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
}
