//! Checks that a namespace has the rules that a program reported as installed.
//!
//! iptables rules may have gone to another implementation or nowhere, so chains, policies, and the number of rules of each chain and their
//! negated ports are compared. nft's transactions succeed or fail as a whole, so comparing its tables and chains is enough.

use std::collections::{BTreeMap, BTreeSet};

use svclab_rules::nftables;

use super::namespaces::Namespace;
use super::{Backend, LabError, programs};
use crate::documents::Document;

/// Reads back what a document installs. `text` is the document's rules as loaded.
///
/// # Errors
///
/// [`LabError::NotInstalled`] with the first item that is missing, and the errors of the program that lists rules.
pub(super) fn check(namespace: &Namespace, document: &Document, text: &str, backend: Backend) -> Result<(), LabError> {
    let missing = match document.rules.nftables() {
        None => {
            let wanted = Chains::read(text);
            if wanted.0.is_empty() {
                return Ok(());
            }
            let listed = programs::listing(namespace, backend.saver(document.family), &[])?;
            wanted.first_missing(&Chains::read(&listed))
        }
        Some(tables) => {
            let wanted = nft_wanted(tables);
            if wanted.is_empty() {
                return Ok(());
            }
            let listed = nft_listed(&programs::listing(namespace, "nft", &["list", "chains"])?);
            wanted.difference(&listed).next().map(|(table, chain)| (table.clone(), chain_or_table(chain)))
        }
    };
    missing.map_or(Ok(()), |(table, what)| {
        let program = backend.program(document.rules.mode(), document.family).to_owned();
        Err(LabError::NotInstalled { program, netns: document.netns.clone(), table, what })
    })
}

/// The chains in the output of [`iptables::print`](svclab_rules::iptables::print) or `iptables-save`, by table and name. Rules are not
/// parsed: a listing may contain rules of other programs that svclab cannot read.
#[derive(Debug, Default)]
struct Chains<'a>(BTreeMap<(&'a str, &'a str), Chain<'a>>);

#[derive(Debug, Default)]
struct Chain<'a> {
    /// The policy: `-` or `None` for a chain without one.
    policy: Option<&'a str>,
    /// Its rules, from `-A` on.
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
                if let (Some("-A"), Some(name)) = (words.next(), words.next()) {
                    chains.0.entry((table, name)).or_default().rules.push(rule);
                }
            }
        }
        chains
    }

    /// The first item that a listing lacks, with its table. A loaded line may expand to several rules, so a listing may have more.
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
        if let Some(changed) = self.first_weakened(rules) {
            return Some(format!(
                "the ports or flags of `{changed}` (iptables-nft omits conditions that no packet can match: remove the rule)"
            ));
        }
        match (self.policy, found) {
            // A built-in chain that does nothing need not be there.
            (Some("ACCEPT"), None) => None,
            (_, None) => Some(format!("chain {name}")),
            (Some(policy), Some(found)) if found.policy != Some(policy) => {
                Some(format!("policy {policy} of chain {name}"))
            }
            (_, Some(_)) => None,
        }
    }
}

impl<'a> Chain<'a> {
    /// The first rule that has lost a condition that no packet meets. iptables-nft 1.8.9 omits `! --sport 0:65535`, `! --tcp-flags NONE NONE`
    /// and `--tcp-flags NONE SYN`, so the rule matches all packets. Other words are not compared: programs leave out defaults, and write
    /// values in their own formats.
    fn first_weakened(&self, listed: &[&str]) -> Option<&'a str> {
        const OPTIONS: [&str; 3] = ["--sport", "--dport", "--tcp-flags"];
        let is_never_met = |rule: &str, option: &str| {
            let is_impossible = || rule.contains("--tcp-flags NONE ") && !rule.contains("--tcp-flags NONE NONE");
            rule.contains(&format!("! {option} ")) || option == "--tcp-flags" && is_impossible()
        };
        let has_lost = |(wanted, found): &(&&str, &&str)| {
            OPTIONS.iter().any(|option| is_never_met(wanted, option) && !found.contains(option))
        };
        let mut pairs = self.rules.iter().zip(listed).filter(|_| listed.len() == self.rules.len());
        pairs.find(has_lost).map(|(wanted, _)| *wanted)
    }
}

/// An nft table and a chain in it, as messages name them: `ip kube-proxy` and `services`. Each table also has an entry with an empty chain
/// name, for tables without chains.
type NftChain = (String, String);

/// The tables and chains that an nft document installs.
fn nft_wanted(parsed: &nftables::Parsed) -> BTreeSet<NftChain> {
    let mut chains = BTreeSet::new();
    for name in &parsed.names {
        let of_table = parsed.rules.tables.iter().filter(|table| name.is_of(table)).flat_map(|table| &table.chains);
        chains.extend(of_table.map(|chain| (name.to_string(), chain.name.to_string())));
        chains.insert((name.to_string(), String::new()));
    }
    chains
}

/// The tables and chains that `nft list chains` shows.
fn nft_listed(text: &str) -> BTreeSet<NftChain> {
    let mut chains = BTreeSet::new();
    let mut inside = String::new();
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["table", family, name, "{", ..] => {
                inside = format!("{family} {name}");
                chains.insert((inside.clone(), String::new()));
            }
            ["chain", name, "{", ..] => {
                chains.insert((inside.clone(), (*name).to_owned()));
            }
            _ => {}
        }
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

    const WANTED: &str = "*filter\n:INPUT DROP [0:0]\n:KUBE-X - [0:0]\n-A INPUT -p udp -m udp ! --sport 0:65535 -j KUBE-X\n-A KUBE-X -p tcp -j DROP\nCOMMIT\n\
                          *nat\n-A POSTROUTING -s 10.0.0.1,10.0.0.2 -j MASQUERADE\nCOMMIT\n";
    const LISTED: &str = "# Generated\n*nat\n:POSTROUTING ACCEPT [7:8]\n[1:2] -A POSTROUTING -s 10.0.0.1/32 -j MASQUERADE\n\
                          [1:2] -A POSTROUTING -s 10.0.0.2/32 -j MASQUERADE\nCOMMIT\n*filter\n:INPUT DROP [0:0]\n:KUBE-X - [0:0]\n\
                          -A INPUT -p udp -m udp ! --sport 0:65535 -j KUBE-X\n-A KUBE-X -p tcp -j DROP\nCOMMIT\n";

    #[rstest]
    #[case::all_there("", "", None)]
    #[case::rule("-A KUBE-X -p tcp -j DROP\n", "", Some("-A KUBE-X -p tcp -j DROP"))]
    #[case::policy("INPUT DROP", "INPUT ACCEPT", Some("policy DROP of chain INPUT"))]
    #[case::negation(
        "-p udp -m udp ! --sport 0:65535 ",
        "",
        Some(
            "the ports or flags of `-A INPUT -p udp -m udp ! --sport 0:65535 -j KUBE-X` (iptables-nft omits conditions that no packet can match: remove the rule)"
        )
    )]
    fn what_is_missing_of_iptables_is_found(#[case] text: &str, #[case] instead: &str, #[case] expected: Option<&str>) {
        let listed = LISTED.replace(text, instead);
        let missing = Chains::read(WANTED).first_missing(&Chains::read(&listed));
        assert_eq!(
            missing.map(|(table, what)| format!("{table}: {what}")),
            expected.map(|what| format!("filter: {what}"))
        );
    }

    #[rstest]
    #[case::negated("! --tcp-flags NONE NONE", true)]
    #[case::impossible("--tcp-flags NONE SYN", true)]
    #[case::of_all_packets("--tcp-flags NONE NONE", false)]
    fn flags_that_no_packet_has_are_missed(#[case] flags: &str, #[case] is_missed: bool) {
        let rules = |flags: &str| format!("*filter\n-A INPUT -p tcp -m tcp {flags} -j DROP\nCOMMIT\n");
        let (wanted, listed) = (rules(flags), rules(""));
        let missing = Chains::read(&wanted).first_missing(&Chains::read(&listed));
        assert_eq!(missing.is_some(), is_missed, "{missing:?}");
    }

    #[test]
    fn an_empty_listing_lacks_the_first_rule() {
        let missing = Chains::read(WANTED).first_missing(&Chains::default());
        assert_eq!(
            missing,
            Some(("filter".to_owned(), "-A INPUT -p udp -m udp ! --sport 0:65535 -j KUBE-X".to_owned()))
        );
        let chain = Chains::read("*nat\n:EMPTY - [0:0]\nCOMMIT\n").first_missing(&Chains::default());
        assert_eq!(chain, Some(("nat".to_owned(), "chain EMPTY".to_owned())));
    }

    #[rstest]
    #[case::block("table ip kube-proxy {\n\tchain nat {\n\t\ttype nat hook prerouting priority -100;\n\t}\n}\n", &["ip kube-proxy|", "ip kube-proxy|nat"])]
    #[case::made_anew("table ip a {\n chain gone {\n }\n}\ndelete table ip a\ntable ip a {\n chain b {\n }\n}\n", &["ip a|", "ip a|b"])]
    #[case::emptied_first("table inet a {\n}\nflush table inet a\ntable inet a {\n chain b {\n }\n}\n", &["inet a|", "inet a|b"])]
    #[case::chain_in_a_line("table ip a {\n chain b { type filter hook input priority 0; policy drop; }\n}\n", &["ip a|", "ip a|b"])]
    #[case::no_chain("table netdev a {\n}\n", &["netdev a|"])]
    fn chains_of_nft_documents(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(in_words(nft_wanted(&nftables::parse_all(text).unwrap())), expected);
    }

    #[test]
    fn chains_that_nft_lists() {
        let listed = "# Warning: managed by others\ntable ip a {\n\tchain b {\n\t\ttype filter hook input priority filter; policy drop;\n\
                      \t}\n\tchain c {\n\t}\n}\ntable inet d {\n}\n";
        assert_eq!(in_words(nft_listed(listed)), ["inet d|", "ip a|", "ip a|b", "ip a|c"]);
    }

    fn in_words(chains: BTreeSet<NftChain>) -> Vec<String> {
        chains.into_iter().map(|(table, chain)| format!("{table}|{chain}")).collect()
    }
}
