//! Comparison of two rule sets in terms of services and endpoints.
//!
//! Both rule sets are read into the same model: the frontends of a service, the endpoints and their shares, what is masqueraded or
//! rejected. Everything else is compared rule by rule. Comments, counters, the order of services in a chain and of endpoints in a group do
//! not affect packets and are ignored; comments only provide the names of services.
//!
//! The modules `iptables` and `nftables` read the rules of a mode into `model`; `differences` depends on the model only. In iptables mode,
//! where a node may have hundreds of thousands of rules, each service is read only when it is compared: reading all at once took many times
//! the memory of the rules.

mod alternatives;
mod comments;
mod differences;
mod excerpt;
mod finding;
mod iptables;
mod led_elsewhere;
mod made_up;
mod missing_rules;
mod model;
mod nftables;
mod others;
mod shown_hashes;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

#[doc(hidden)]
pub use self::comments::differing_comments;
use self::differences::differences;
#[doc(hidden)]
pub use self::excerpt::{Completed, completed};
pub use self::finding::{Difference, Fact, Finding, Subject};
#[doc(hidden)]
pub use self::made_up::MadeUp;
pub use self::others::Others;
use self::others::Own;
#[doc(hidden)]
pub use self::others::is_own_chain;
use self::sealed::{Extent, Scope};
#[doc(hidden)]
pub use self::shown_hashes::with_shown_hashes;
use crate::chains;
pub use crate::chains::{Frontend, Policy};
use crate::cluster::Family;
use crate::iptables::{RuleSet, TableName};
use crate::nftables::Ruleset;

/// Returns the differences between found rules and expected ones, sorted by service; empty if they are equivalent.
///
/// ```
/// use svclab_rules::cluster::Family;
/// use svclab_rules::compare::compare;
/// use svclab_rules::iptables::parse;
///
/// let [expected, found] = ["", "-A INPUT -p tcp --dport 22 -j DROP\n"].map(|rule| {
///     parse(&format!("*filter\n:INPUT ACCEPT\n{rule}COMMIT\n"), Family::Ipv4).expect("rules")
/// });
/// let findings: Vec<String> = compare(&expected, &found).iter().map(ToString::to_string).collect();
/// let rule = "-A INPUT -p tcp -m tcp --dport 22 -j DROP";
/// assert_eq!(findings, [format!("chain INPUT of filter: rule `{rule}` is unexpected (line 3)")]);
/// ```
pub fn compare<R: Rules>(expected: &R, found: &R) -> Vec<Finding> {
    expected.findings(found, Extent::ALL)
}

/// The differences, separately for kube-proxy's rules and those of other programs on the same machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// The differences in kube-proxy's rules.
    pub own: Vec<Finding>,
    /// The differences in other rules, where they can be compared: in iptables, whose tables all programs share.
    pub in_others: Vec<Finding>,
    /// The number of found rules that are not kube-proxy's.
    pub others: Others,
}

/// Compares the rules of a machine on which other programs write rules too: in iptables, their rules are compared separately; in nftables,
/// only tables of the expected families are compared.
pub fn compare_nodes<R: Rules>(expected: &R, found: &R) -> Comparison {
    let own = compare_own(expected, found, usize::MAX);
    let mut in_others = expected.findings(found, Extent::ALL);
    let is_of_other_family = |finding: &Finding| {
        matches!((&finding.subject, &finding.difference), (Subject::Table(_), Difference::Unexpected(Fact::Whole)))
    };
    let known: HashSet<&Finding> = own.iter().collect();
    in_others.retain(|finding| !known.contains(finding) && !is_of_other_family(finding));
    in_others.shrink_to_fit();
    Comparison { own, in_others, others: expected.others(found) }
}

/// Returns the differences in kube-proxy's rules alone, on a machine on which other programs write rules too. Comparing stops after `most`
/// differences.
#[doc(hidden)]
pub fn compare_own<R: Rules>(expected: &R, found: &R, most: usize) -> Vec<Finding> {
    expected.findings(found, Extent { scope: Scope::Own, most })
}

/// Rules of a mode, with or without the lines that they were read from.
pub trait Rules: sealed::Rules {}

impl<R: sealed::Rules> Rules for R {}

mod sealed {
    use super::{Finding, Others};

    /// The scope of a comparison.
    #[expect(unnameable_types, reason = "sealed")]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Scope {
        /// All.
        All,
        /// The rules of kube-proxy.
        Own,
    }

    /// What is compared, and up to how many differences.
    #[expect(unnameable_types, reason = "sealed")]
    #[derive(Debug, Clone, Copy)]
    pub struct Extent {
        /// The scope.
        pub scope: Scope,
        /// The number of differences after which comparing stops.
        pub most: usize,
    }

    impl Extent {
        /// All differences in all rules.
        pub(super) const ALL: Self = Self { scope: Scope::All, most: usize::MAX };
    }

    /// Rules that can be compared with others of their mode.
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Rules {
        /// Returns the differences of `found`.
        fn findings(&self, found: &Self, extent: Extent) -> Vec<Finding>;

        /// Returns how much of `found` is not kube-proxy's, given the expected rules.
        fn others(&self, found: &Self) -> Others;
    }
}

impl sealed::Rules for RuleSet {
    fn findings(&self, found: &Self, extent: Extent) -> Vec<Finding> {
        compare_iptables([self, found].map(|rules| iptables::Source { rules, lines: None }), extent)
    }

    fn others(&self, found: &Self) -> Others {
        Own::of(self).others(found)
    }
}

impl sealed::Rules for crate::iptables::Parsed {
    fn findings(&self, found: &Self, extent: Extent) -> Vec<Finding> {
        let sources = [self, found].map(|parsed| iptables::Source { rules: &parsed.rules, lines: Some(&parsed.lines) });
        compare_iptables(sources, extent)
    }

    fn others(&self, found: &Self) -> Others {
        Own::of(&self.rules).others(&found.rules)
    }
}

impl sealed::Rules for Ruleset {
    fn findings(&self, found: &Self, extent: Extent) -> Vec<Finding> {
        compare_nftables([self, found].map(|rules| nftables::Source { rules, lines: None }), extent)
    }

    fn others(&self, _: &Self) -> Others {
        Others::default()
    }
}

impl sealed::Rules for crate::nftables::Parsed {
    fn findings(&self, found: &Self, extent: Extent) -> Vec<Finding> {
        let sources = [self, found].map(|parsed| nftables::Source { rules: &parsed.rules, lines: Some(&parsed.lines) });
        compare_nftables(sources, extent)
    }

    fn others(&self, found: &Self) -> Others {
        let rules = found.others.iter().map(|other| other.rules).sum();
        Others { rules, tables: found.others.iter().filter(|other| other.rules > 0).count(), ..Others::default() }
    }
}

/// Rules of either mode; rules of different modes cannot be compared.
impl sealed::Rules for crate::ruleset::Rules {
    fn findings(&self, found: &Self, extent: Extent) -> Vec<Finding> {
        match (self, found) {
            (Self::Iptables(expected), Self::Iptables(found)) => expected.findings(found, extent),
            (Self::Nftables(expected), Self::Nftables(found)) => expected.findings(found, extent),
            _ => Vec::new(),
        }
    }

    fn others(&self, found: &Self) -> Others {
        match (self, found) {
            (Self::Iptables(expected), Self::Iptables(found)) => expected.others(found),
            (Self::Nftables(expected), Self::Nftables(found)) => expected.others(found),
            _ => Others::default(),
        }
    }
}

/// A missing table is one finding; the other tables are compared without it.
fn compare_iptables([expected, found]: [iptables::Source<'_>; 2], Extent { scope, most }: Extent) -> Vec<Finding> {
    let own = (scope == Scope::Own).then(|| Own::of(expected.rules));
    let own = own.as_ref();
    let has = |rules: &RuleSet, name: TableName| {
        let matters = |chain: &crate::iptables::Chain| match own {
            None => !chain.rules.is_empty() || !name.builtin_chains().contains(&&*chain.name),
            Some(own) => own.has(name, &chain.name) || chain.rules.iter().any(|rule| own.reads(name, chain, rule)),
        };
        rules.tables.iter().any(|table| table.name == name && table.chains.iter().any(matters))
    };
    let there = |name: TableName| found.rules.tables.iter().any(|table| table.name == name);
    let (missing, rest): (Vec<TableName>, Vec<TableName>) =
        TableName::ALL.into_iter().partition(|name| has(expected.rules, *name) && !there(*name));
    let names = [expected, found].map(|source| chains::iptables::Names::of(source.rules));
    let [of_expected, of_found] = &names;
    let mut findings: Vec<Finding> = missing.iter().map(|table| missing_table(table.as_str())).take(most).collect();
    let most = most - findings.len();
    findings.extend(differences(
        &iptables::read(expected, [of_expected, of_found], own, &rest).adapted_to(found.rules),
        &iptables::read(found, [of_found, of_expected], own, &rest),
        most,
    ));
    if chains::iptables::masquerade_without_chains(found.rules) {
        findings.retain(|finding| !is_of_chains_for_masquerade(finding));
    }
    findings
}

/// Whether a finding is about what marks and masquerades packets in releases from 1.2 on.
fn is_of_chains_for_masquerade(finding: &Finding) -> bool {
    let Subject::Chain { table: "nat", name } = &finding.subject else { return false };
    match name.as_str() {
        "KUBE-MARK-MASQ" | "KUBE-MARK-DROP" | "KUBE-POSTROUTING" => true,
        "POSTROUTING" => matches!(&finding.difference, Difference::Missing(Fact::Jump(..))),
        _ => false,
    }
}

/// Each table is compared with that of the same family.
fn compare_nftables([expected, found]: [nftables::Source<'_>; 2], Extent { scope, most }: Extent) -> Vec<Finding> {
    let mut findings = Vec::new();
    for family in Family::ALL {
        let name = crate::coverage::nft_table(family);
        match (expected.table(family), found.table(family)) {
            (Some(expected), Some(found)) if expected.table == found.table => {}
            (Some(expected), Some(found)) => {
                let names = [expected, found].map(|one| chains::nftables::Names::of(one.table));
                let [of_expected, of_found] = &names;
                findings.extend(differences(
                    &nftables::read(expected, [of_expected, of_found]),
                    &nftables::read(found, [of_found, of_expected]),
                    most,
                ));
            }
            (Some(_), None) => findings.push(missing_table(name)),
            (None, Some(_)) if scope == Scope::All => findings.push(Finding {
                subject: Subject::Table(name),
                difference: Difference::Unexpected(Fact::Whole),
                line: None,
            }),
            (None, _) => {}
        }
    }
    findings.truncate(most);
    findings
}

fn missing_table(name: &'static str) -> Finding {
    Finding { subject: Subject::Table(name), difference: Difference::Missing(Fact::Whole), line: None }
}
