//! Whether a namespace has the rules that a program says it has installed.
//!
//! Of iptables, whose rules another implementation may have taken, or none at all, chains, policies and the number of rules of each
//! chain are compared. nft's transactions succeed or fail as a whole, so its tables and chains show whether there was one.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::cluster::ProxyMode;

use super::namespaces::Namespace;
use super::{Backend, LabError, programs};
use crate::documents::Document;

/// Reads back what a document installs.
///
/// # Errors
///
/// [`LabError::NotInstalled`] with the first thing that is missing, and where the program that lists rules fails.
pub(super) fn check(namespace: &Namespace, document: &Document, backend: Backend) -> Result<(), LabError> {
    let missing = match document.mode {
        ProxyMode::Iptables => {
            let wanted = Chains::read(&document.text);
            if wanted.0.is_empty() {
                return Ok(());
            }
            let listed = programs::listing(namespace, backend.saver(document.family), &[])?;
            wanted.first_missing(&Chains::read(&listed))
        }
        ProxyMode::Nftables => {
            let wanted = nft_chains(&document.text);
            if wanted.is_empty() {
                return Ok(());
            }
            let listed = nft_chains(&programs::listing(namespace, "nft", &["list", "chains"])?);
            wanted.difference(&listed).next().map(|(table, chain)| (table.clone(), chain_or_table(chain)))
        }
    };
    missing.map_or(Ok(()), |(table, what)| {
        let program = backend.program(document.mode, document.family).to_owned();
        Err(LabError::NotInstalled { program, space: document.space.clone(), table, what })
    })
}

/// The chains of a text of iptables, each by its table and name.
#[derive(Debug, Default)]
struct Chains<'a>(BTreeMap<(&'a str, &'a str), Chain<'a>>);

#[derive(Debug, Default)]
struct Chain<'a> {
    /// `-` or nothing for a chain that has none.
    policy: Option<&'a str>,
    /// Its lines, from `-A` on.
    rules: Vec<&'a str>,
}

impl<'a> Chains<'a> {
    fn read(text: &'a str) -> Self {
        let (mut chains, mut table) = (Self::default(), "");
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('*') {
                table = name;
            } else if let Some(declared) = line.strip_prefix(':') {
                let mut words = declared.split_whitespace();
                let Some(name) = words.next() else { continue };
                chains.0.entry((table, name)).or_default().policy = words.next().filter(|policy| *policy != "-");
            } else {
                // `iptables-save -c` writes counters first.
                let rule = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(line, |(_, rule)| rule);
                let rule = rule.trim_start();
                let mut words = rule.split_whitespace();
                if let (Some("-A" | "--append" | "-I" | "--insert"), Some(name)) = (words.next(), words.next()) {
                    chains.0.entry((table, name)).or_default().rules.push(rule);
                }
            }
        }
        chains
    }

    /// The first thing that others lack, with its table. One line may stand for several rules, so more of them are no fault.
    fn first_missing(&self, listed: &Self) -> Option<(String, String)> {
        self.0.iter().find_map(|(place @ (table, name), wanted)| {
            let found = listed.0.get(place);
            Some(((*table).to_owned(), wanted.missing_from(name, found)?))
        })
    }
}

impl Chain<'_> {
    fn missing_from(&self, name: &str, found: Option<&Self>) -> Option<String> {
        let rules = found.map(|chain| chain.rules.as_slice()).unwrap_or_default();
        if rules.len() < self.rules.len() {
            let first = self.rules.iter().find(|rule| !rules.contains(rule)).or(self.rules.last());
            return first.map(|rule| (*rule).to_owned());
        }
        match (self.policy, found) {
            // A chain of the kernel's own that does nothing need not be there.
            (Some("ACCEPT"), None) => None,
            (_, None) => Some(format!("chain {name}")),
            (Some(policy), Some(found)) if found.policy != Some(policy) => {
                Some(format!("policy {policy} of chain {name}"))
            }
            (_, Some(_)) => None,
        }
    }
}

/// The tables and chains that nft has when it has read a text, each by its table: `ip kube-proxy`. A table is there with an empty
/// chain too.
fn nft_chains(text: &str) -> BTreeSet<(String, String)> {
    let mut chains = BTreeSet::new();
    let mut inside = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split([' ', '\t', '{', '}', ';']).filter(|word| !word.is_empty()).collect();
        let (is_gone, words) = match words.as_slice() {
            ["add" | "create", rest @ ..] => (false, rest),
            ["delete" | "destroy", rest @ ..] => (true, rest),
            all => (false, all),
        };
        let (table, chain) = match words {
            ["table", family @ ("ip" | "ip6" | "inet" | "arp" | "bridge" | "netdev"), name, ..] => {
                (format!("{family} {name}"), String::new())
            }
            ["table", name, ..] => (format!("ip {name}"), String::new()),
            ["chain", family @ ("ip" | "ip6" | "inet" | "arp" | "bridge" | "netdev"), table, name, ..] => {
                (format!("{family} {table}"), (*name).to_owned())
            }
            ["chain", name] => (inside.clone(), (*name).to_owned()),
            ["chain", table, name, ..] => (format!("ip {table}"), (*name).to_owned()),
            ["flush", "ruleset", ..] => {
                chains.clear();
                continue;
            }
            _ => continue,
        };
        if is_gone {
            chains.retain(|(own, name): &(String, String)| *own != table || !chain.is_empty() && *name != chain);
            continue;
        }
        if chain.is_empty() {
            inside.clone_from(&table);
        }
        chains.insert((table, chain));
    }
    chains
}

fn chain_or_table(chain: &str) -> String {
    if chain.is_empty() { "the whole table".to_owned() } else { format!("chain {chain}") }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const WANTED: &str = "*filter\n:INPUT DROP [0:0]\n:KUBE-X - [0:0]\n-A INPUT -j KUBE-X\n-A KUBE-X -p tcp -j DROP\nCOMMIT\n\
                          *nat\n--append POSTROUTING -s 10.0.0.1,10.0.0.2 -j MASQUERADE\nCOMMIT\n";
    const LISTED: &str = "# Generated\n*nat\n:POSTROUTING ACCEPT [7:8]\n[1:2] -A POSTROUTING -s 10.0.0.1/32 -j MASQUERADE\n\
                          [1:2] -A POSTROUTING -s 10.0.0.2/32 -j MASQUERADE\nCOMMIT\n*filter\n:INPUT DROP [0:0]\n:KUBE-X - [0:0]\n\
                          -A INPUT -j KUBE-X\n-A KUBE-X -p tcp -j DROP\nCOMMIT\n";

    #[rstest]
    #[case::all_there("", "", None)]
    #[case::rule("-A KUBE-X -p tcp -j DROP\n", "", Some("-A KUBE-X -p tcp -j DROP"))]
    #[case::policy("INPUT DROP", "INPUT ACCEPT", Some("policy DROP of chain INPUT"))]
    fn what_is_missing_of_iptables_is_found(#[case] text: &str, #[case] instead: &str, #[case] expected: Option<&str>) {
        let listed = LISTED.replace(text, instead);
        let missing = Chains::read(WANTED).first_missing(&Chains::read(&listed));
        assert_eq!(
            missing.map(|(table, what)| format!("{table}: {what}")),
            expected.map(|what| format!("filter: {what}"))
        );
    }

    #[test]
    fn nothing_at_all_lacks_the_first_rule() {
        let missing = Chains::read(WANTED).first_missing(&Chains::default());
        assert_eq!(missing, Some(("filter".to_owned(), "-A INPUT -j KUBE-X".to_owned())));
        let chain = Chains::read("*nat\n:EMPTY - [0:0]\nCOMMIT\n").first_missing(&Chains::default());
        assert_eq!(chain, Some(("nat".to_owned(), "chain EMPTY".to_owned())));
    }

    #[rstest]
    #[case::block("table ip kube-proxy {\n\tchain nat {\n\t\ttype nat hook prerouting priority -100;\n\t}\n}\n", &["ip kube-proxy|", "ip kube-proxy|nat"])]
    #[case::made_anew("table ip a\ndelete table ip a\ntable ip a {\n chain b {\n }\n}\n", &["ip a|", "ip a|b"])]
    #[case::flat("add table inet a\nadd chain inet a b { type filter hook input priority 0; }\nadd chain ip6 c d", &["inet a|", "inet a|b", "ip6 c|d"])]
    #[case::without_family("table a {\n}\nadd chain a b\n", &["ip a|", "ip a|b"])]
    #[case::gone("table ip a {\n chain b {\n }\n}\ndelete chain ip a b\ndestroy table ip c\n", &["ip a|"])]
    #[case::rules_alone("add rule ip a b drop\nflush set ip a s\n", &[])]
    fn chains_of_nft(#[case] text: &str, #[case] expected: &[&str]) {
        let chains: Vec<String> =
            nft_chains(text).into_iter().map(|(table, chain)| format!("{table}|{chain}")).collect();
        assert_eq!(chains, expected);
    }
}
