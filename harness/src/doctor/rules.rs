//! Checks that the kernel and the programs accept rules: installs every match, target and table that a generator uses in a temporary lab,
//! in both families and with both implementations of iptables.

use std::sync::Arc;
use std::thread;

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::ruleset::Rules;

use super::{Check, families, kernel, listed};
use crate::documents::Document;
use crate::environment::Implementation;
use crate::lab::{Backend, LabError, programs, with_lab};
use crate::topology::{Netns, Role, Topology};

/// A feature that rules use.
struct Feature {
    /// Its name: that of the table, or that of the match or target with its option.
    name: &'static str,
    /// The table.
    table: &'static str,
    /// A rule that uses it, for both families: `ADDRESS` and `UNREACHABLE` are replaced by those of the family.
    rule: &'static str,
    /// The kernel module that provides it.
    module: &'static str,
    /// False if only `svclab explain --live` or the rules of releases before 1.21 use it.
    needed: bool,
}

const fn feature(name: &'static str, table: &'static str, rule: &'static str, module: &'static str) -> Feature {
    Feature { name, table, rule, module, needed: true }
}

const fn optional(name: &'static str, table: &'static str, rule: &'static str, module: &'static str) -> Feature {
    Feature { name, table, rule, module, needed: false }
}

const FEATURES: [Feature; 17] = [
    feature("table nat", "nat", "-A POSTROUTING -j ACCEPT", "iptable_nat"),
    feature("table filter", "filter", "-A FORWARD -j ACCEPT", "iptable_filter"),
    feature("table mangle", "mangle", "-A PREROUTING -j ACCEPT", "iptable_mangle"),
    feature("-j DNAT", "nat", "-A PREROUTING -p tcp -m tcp --dport 80 -j DNAT --to-destination ADDRESS", "xt_nat"),
    feature("-j MASQUERADE --random-fully", "nat", "-A POSTROUTING -j MASQUERADE --random-fully", "xt_MASQUERADE"),
    feature("-j REJECT", "filter", "-A FORWARD -j REJECT --reject-with UNREACHABLE", "ipt_REJECT"),
    feature("-j MARK", "nat", "-A PREROUTING -j MARK --or-mark 0x4000", "xt_mark"),
    feature("-m mark", "nat", "-A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN", "xt_mark"),
    feature("-m comment", "nat", "-A PREROUTING -m comment --comment \"default/nginx:http\" -j RETURN", "xt_comment"),
    feature("-m statistic", "nat", STATISTIC, "xt_statistic"),
    feature("-m recent", "nat", RECENT, "xt_recent"),
    feature("-m addrtype", "nat", "-A PREROUTING -m addrtype --dst-type LOCAL -j RETURN", "xt_addrtype"),
    feature(
        "-m conntrack",
        "filter",
        "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "xt_conntrack",
    ),
    feature("-m udp", "nat", "-A PREROUTING -p udp -m udp --dport 53 -j RETURN", "xt_tcpudp"),
    feature("-m sctp", "nat", "-A PREROUTING -p sctp -m sctp --dport 7777 -j RETURN", "xt_sctp"),
    optional("-m physdev", "nat", "-A PREROUTING -m physdev ! --physdev-is-in -j RETURN", "xt_physdev"),
    optional("-j TRACE", "raw", "-A PREROUTING -j TRACE", "xt_TRACE"),
];

const STATISTIC: &str = "-A PREROUTING -m statistic --mode random --probability 0.33333333349 -j RETURN";
const RECENT: &str = "-A PREROUTING -m recent --name SVCLAB --rcheck --seconds 10800 --reap --rsource -j RETURN";

/// The features that kube-proxy's nftables mode uses, in one table. `FAMILY`, `ADDRESS` and `TYPE` are replaced by those of the family.
const NFT: &str = "table FAMILY svclab {
  map endpoints { typeof FAMILY daddr . meta l4proto . th dport : verdict; }
  set affinity { type TYPE; flags dynamic,timeout; timeout 10800s; }
  chain endpoint { update @affinity { FAMILY saddr } meta l4proto tcp dnat to ADDRESS; }
  chain service { numgen random mod 2 vmap { 0 : goto endpoint, 1 : goto endpoint }; }
  chain prerouting {
    type nat hook prerouting priority -100;
    fib daddr type local return;
    FAMILY daddr . meta l4proto . th dport vmap @endpoints;
    FAMILY daddr ADDRESS_ALONE goto service;
  }
  chain postrouting { type nat hook postrouting priority 100; meta mark 0x4000 masquerade fully-random; }
  chain forward { type filter hook forward priority 0; ct state new reject; }
}
";

/// An implementation of iptables with a family.
#[derive(Clone, Copy)]
struct InstalledBackend {
    backend: Backend,
    implementation: Implementation,
    family: Family,
    /// Whether it is the system's default.
    first: bool,
}

/// Tries every feature with every implementation and family.
pub(super) fn examine() -> Vec<Check> {
    let ways = ways();
    let rejections: Vec<Vec<Option<String>>> = thread::scope(|scope| {
        let threads: Vec<_> = ways.iter().map(|way| scope.spawn(move || way.rejections())).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let by_feature = FEATURES.iter().enumerate().map(|(number, feature)| {
        let rejections = rejections.iter().map(|of_way| of_way[number].as_deref());
        judge(feature, ways.iter().zip(rejections))
    });
    by_feature.filter(|_| !ways.is_empty()).chain(nftables()).collect()
}

/// Returns the implementations and families that this machine has programs for, the system's default first.
fn ways() -> Vec<InstalledBackend> {
    let Some(system) = Implementation::installed() else { return Vec::new() };
    let other = match system {
        Implementation::Nft => (Backend::Legacy, Implementation::Legacy),
        Implementation::Legacy => (Backend::Nft, Implementation::Nft),
    };
    let all = [(Backend::System, system), other].into_iter().flat_map(|(backend, implementation)| {
        let first = backend == Backend::System;
        families().iter().map(move |family| InstalledBackend { backend, implementation, family: *family, first })
    });
    all.filter(|way| programs::find(way.backend.program(ProxyMode::Iptables, way.family)).is_some()).collect()
}

impl InstalledBackend {
    /// Returns why each feature is rejected. Features are tried one by one only if all of them together are rejected.
    fn rejections(self) -> Vec<Option<String>> {
        let all: Vec<&Feature> = FEATURES.iter().collect();
        match self.rejection(&all) {
            None => vec![None; FEATURES.len()],
            Some(_) => FEATURES.iter().map(|feature| self.rejection(&[feature])).collect(),
        }
    }

    /// Returns why rules with these features are rejected, if they are.
    fn rejection(self, features: &[&Feature]) -> Option<String> {
        let text = document(features, self.family);
        install(self.backend, self.family, iptables_rules(self.family, &text)).err().map(|error| what_was_said(&error))
    }
}

/// Installs a document in a temporary lab.
pub(super) fn install(backend: Backend, family: Family, rules: Rules) -> Result<(), LabError> {
    let mut topology = Topology::default();
    topology.add(Netns::new("alone".to_owned(), Role::Underlay));
    let document = Document { netns: "alone".to_owned(), family, rules: Arc::new(rules) };
    with_lab(&topology, &[document], backend, |_| ())
}

/// Parses iptables rules from doctor's own text.
#[expect(clippy::expect_used, reason = "the text is a constant of this program, which its tests parse")]
pub(super) fn iptables_rules(family: Family, text: &str) -> Rules {
    Rules::parse(ProxyMode::Iptables, family, text).expect("doctor installs only rules that svclab parses")
}

/// Returns the features' rules, table by table.
fn document(features: &[&Feature], family: Family) -> String {
    let (address, unreachable) = match family {
        Family::Ipv4 => ("192.0.2.1:80", "icmp-port-unreachable"),
        Family::Ipv6 => ("[2001:db8::1]:80", "icmp6-port-unreachable"),
    };
    let mut text = String::new();
    for table in ["raw", "mangle", "nat", "filter"] {
        let rules: Vec<&str> = features.iter().filter(|used| used.table == table).map(|used| used.rule).collect();
        if !rules.is_empty() {
            text += &format!("*{table}\n{}\nCOMMIT\n", rules.join("\n"));
        }
    }
    text.replace("ADDRESS", address).replace("UNREACHABLE", unreachable)
}

/// Returns the program's message, without its name and version.
pub(super) fn what_was_said(error: &LabError) -> String {
    match error {
        LabError::Rules { message, .. } => {
            let first = message.lines().map(str::trim).find(|line| !line.is_empty() && !line.ends_with(':'));
            first.unwrap_or("rejected without a message").to_owned()
        }
        other => other.to_string(),
    }
}

/// Sums up the results of a feature.
fn judge<'a>(feature: &Feature, ways: impl Iterator<Item = (&'a InstalledBackend, Option<&'a str>)>) -> Check {
    let mut works = Vec::new();
    let mut rejected = Vec::new();
    let mut first_rejects = false;
    for (way, rejection) in ways {
        match rejection {
            None => works.push(*way),
            Some(message) => {
                first_rejects |= way.first;
                rejected.push(format!("{} {}: {message}", way.implementation.name(), way.family));
            }
        }
    }
    if rejected.is_empty() {
        return Check::ok(feature.name, describe(&works));
    }
    let check = Check::lacking(feature.name, rejected.join("; "), kernel::load(feature.module));
    if feature.needed && first_rejects { check } else { check.optional() }
}

/// `IPv4 and IPv6, iptables-nft and iptables-legacy`.
fn describe(ways: &[InstalledBackend]) -> String {
    let families = Family::ALL.into_iter().filter(|family| ways.iter().any(|way| way.family == *family));
    let mut implementations: Vec<&str> = ways.iter().map(|way| way.implementation.name()).collect();
    implementations.dedup();
    format!("{}, {}", listed(families), implementations.join(" and "))
}

/// Checks rules in the nftables language, if `nft` is installed.
#[expect(clippy::expect_used, reason = "the text is a constant of this program, which its tests parse")]
fn nftables() -> Option<Check> {
    const NAME: &str = "nftables";
    programs::find(Backend::System.program(ProxyMode::Nftables, Family::Ipv4))?;
    let rejected: Vec<String> = families()
        .iter()
        .filter_map(|&family| {
            let tables =
                Rules::parse_other_tables(&nft_tables(family)).expect("doctor installs only tables that svclab parses");
            let error = install(Backend::System, family, tables).err()?;
            Some(format!("{family}: {}", what_was_said(&error)))
        })
        .collect();
    Some(match rejected.is_empty() {
        true => {
            let families = listed(families().iter().copied());
            Check::ok(NAME, format!("numgen, fib, verdict maps, sets with timeouts, {families}"))
        }
        false => {
            Check::lacking(NAME, rejected.join("; "), kernel::load("nf_tables nft_numgen nft_fib_inet")).optional()
        }
    })
}

/// Returns the nftables tables to try.
fn nft_tables(family: Family) -> String {
    let (word, kind, address, port) = match family {
        Family::Ipv4 => ("ip", "ipv4_addr", "192.0.2.1", "192.0.2.1:80"),
        Family::Ipv6 => ("ip6", "ipv6_addr", "2001:db8::1", "[2001:db8::1]:80"),
    };
    let text = NFT.replace("ADDRESS_ALONE", address).replace("ADDRESS", port);
    text.replace("FAMILY", word).replace("TYPE", kind)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_rules_to_try_can_be_parsed() {
        let all: Vec<&Feature> = FEATURES.iter().collect();
        for family in Family::ALL {
            assert!(!iptables_rules(family, &document(&all, family)).print().is_empty());
        }
        assert!(Rules::parse_other_tables(&nft_tables(Family::Ipv4)).is_ok());
        assert!(Rules::parse_other_tables(&nft_tables(Family::Ipv6)).is_ok());
    }

    fn way(first: bool, family: Family) -> InstalledBackend {
        let (backend, implementation) = match first {
            true => (Backend::System, Implementation::Nft),
            false => (Backend::Legacy, Implementation::Legacy),
        };
        InstalledBackend { backend, implementation, family, first }
    }

    #[rstest]
    #[case::works_everywhere("-m statistic", [None; 4], Check::ok("-m statistic", "IPv4 and IPv6, iptables-nft and iptables-legacy"))]
    #[case::the_systems_own_rejects(
        "-m statistic",
        [Some("no"), None, None, None],
        Check::lacking("-m statistic", "iptables-nft IPv4: no", kernel::load("xt_statistic"))
    )]
    #[case::another_rejects(
        "-m statistic",
        [None, None, Some("no"), Some("never")],
        Check::lacking("-m statistic", "iptables-legacy IPv4: no; iptables-legacy IPv6: never", kernel::load("xt_statistic")).optional()
    )]
    #[case::few_need_it(
        "-j TRACE",
        [None, Some("no"), None, None],
        Check::lacking("-j TRACE", "iptables-nft IPv6: no", kernel::load("xt_TRACE")).optional()
    )]
    fn a_feature_is_needed_of_the_systems_own(
        #[case] name: &str,
        #[case] rejections: [Option<&str>; 4],
        #[case] expected: Check,
    ) {
        let feature = FEATURES.iter().find(|feature| feature.name == name).expect("the table names it");
        let ways: Vec<InstalledBackend> =
            [true, false].into_iter().flat_map(|first| Family::ALL.map(|family| way(first, family))).collect();
        assert_eq!(judge(feature, ways.iter().zip(rejections)), expected);
    }

    #[test]
    fn documents_are_grouped_by_table() {
        let named = |names: &[&str]| FEATURES.iter().filter(|one| names.contains(&one.name)).collect::<Vec<_>>();
        let text = document(&named(&["-j DNAT", "-j REJECT", "-m mark"]), Family::Ipv6);
        let expected = "*nat\n\
            -A PREROUTING -p tcp -m tcp --dport 80 -j DNAT --to-destination [2001:db8::1]:80\n\
            -A POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
            COMMIT\n\
            *filter\n\
            -A FORWARD -j REJECT --reject-with icmp6-port-unreachable\n\
            COMMIT\n";
        assert_eq!(text, expected);
    }

    #[rstest]
    #[case(
        "iptables-restore v1.8.9 (nf_tables): \nline 2: RULE_APPEND failed (No such file)",
        "line 2: RULE_APPEND failed (No such file)"
    )]
    #[case("", "rejected without a message")]
    fn the_programs_message_is_kept(#[case] message: &str, #[case] expected: &str) {
        let (program, netns) = ("iptables-restore".to_owned(), "alone".to_owned());
        let error = LabError::Rules { program, netns, message: message.to_owned(), rule: None };
        assert_eq!(what_was_said(&error), expected);
    }
}
