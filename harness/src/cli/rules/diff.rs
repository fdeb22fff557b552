//! `svclab rules --diff`: saved rules compared with generated ones.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use svclab_rules::cluster::{Family, ProxyMode};
use svclab_rules::compare::{Comparison, MadeUp, Others, Subject, compare_nodes, completed};
use svclab_rules::coverage::Coverage;
use svclab_rules::profile::{Profile, releases};
use svclab_rules::ruleset::Rules;

use super::Written;
use crate::cli::failure::Failure;
use crate::cli::inputs::evidence_of;
use svclab::evidence::{Format, NodeRules, Unread, node_rules, not_judged};
use svclab::input::{Diagnostic, Diagnostics};
use svclab::text::{counted, printable};

/// The rules of a file.
pub(super) struct Found<'s> {
    /// The file's name in messages.
    file: PathBuf,
    /// Not copied, because the rules of a large cluster take most of this command's memory.
    rules: Cow<'s, Rules>,
    /// The tables and chains that it contains completely.
    coverage: Coverage,
    /// Whether it is an excerpt.
    is_part: bool,
}

/// The differences between the rules of a file and generated ones.
pub(super) struct Diff {
    file: PathBuf,
    /// The node and release whose rules it was compared with.
    written: String,
    mode: ProxyMode,
    /// Whether only an excerpt was compared.
    is_part: bool,
    pub(super) comparison: Comparison,
}

impl Diff {
    /// Returns a line with what was compared and the number of differences in kube-proxy's rules; only these affect the exit code.
    pub(super) fn summary(&self) -> String {
        let (file, written) = (printable(&self.file), &self.written);
        let whose = if self.has_others() { " in kube-proxy's own rules" } else { "" };
        match self.comparison.own.len() {
            0 if self.is_part => {
                format!(
                    "no difference{whose}: the excerpt {file} matches the rules that svclab generates for {written}"
                )
            }
            0 => format!("no difference{whose}: {file} matches the rules that svclab generates for {written}"),
            count => {
                let differences = counted(count, "difference");
                format!("{differences}{whose} in {file} from the rules that svclab generates for {written}:")
            }
        }
    }

    /// Returns a line on the rules that are not kube-proxy's, if there are any; with `compared`, a list of their differences follows.
    pub(super) fn rest(&self, compared: bool) -> Option<String> {
        let Comparison { in_others, others: Others { rules, chains, tables }, .. } = &self.comparison;
        let holders = if *tables > 0 { counted(*tables, "other table") } else { counted(*chains, "chain") };
        let (verb, past) = if *rules == 1 { ("is", "was") } else { ("are", "were") };
        let counted_others =
            (*rules > 0).then(|| format!("{} of {holders} {verb} not kube-proxy's", counted(*rules, "rule")));
        let differences =
            || format!("{} in other rules, without effect on the exit code:", counted(in_others.len(), "difference"));
        match counted_others {
            Some(counted_others) if compared && !in_others.is_empty() => {
                Some(format!("{counted_others}; {}", differences()))
            }
            // Other tables are never compared.
            Some(counted_others) if compared && *tables == 0 => {
                Some(format!("{counted_others}; no difference in them"))
            }
            Some(counted_others) => Some(format!("{counted_others} and {past} not compared")),
            None => (compared && !in_others.is_empty()).then(differences),
        }
    }

    /// Returns whether either side has rules that are not kube-proxy's.
    fn has_others(&self) -> bool {
        self.comparison.others.rules > 0 || !self.comparison.in_others.is_empty()
    }

    /// Returns possible causes that concern the file as a whole.
    pub(super) fn hints(&self) -> Vec<&'static str> {
        let missing = self.comparison.own.iter().any(|finding| matches!(finding.subject, Subject::Table(_)));
        let hint = match self.mode {
            ProxyMode::Iptables => "iptables-save without `-t` saves all tables.",
            ProxyMode::Nftables => "`nft list ruleset` shows all tables.",
        };
        if missing { vec![hint] } else { Vec::new() }
    }
}

impl Found<'_> {
    /// Takes the rules that a program has written.
    pub(super) fn from_program(program: &str, rules: Rules) -> Self {
        Self { file: PathBuf::from(program), rules: Cow::Owned(rules), coverage: Coverage::all(), is_part: false }
    }

    /// Compares these rules with those written; `missing` means missing here.
    pub(super) fn diff(&self, written: &Written) -> Diff {
        let comparison = match self.is_part {
            true => compare_nodes(
                &written.rules,
                &completed(&self.rules, &self.coverage, written.rules.clone(), &MadeUp::default()).rules,
            ),
            false => compare_nodes(&written.rules, &*self.rules),
        };
        Diff {
            is_part: self.is_part,
            file: self.file.clone(),
            written: written.whose.clone(),
            mode: written.rules.mode(),
            comparison,
        }
    }
}

/// Returns a hint at the releases with fewer differences, if there are any.
pub(super) fn likelier(diff: &Diff, found: &Found<'_>, write: impl Fn(Profile) -> Option<Written>) -> Option<String> {
    let mut fewest = diff.comparison.own.len();
    let mut likeliest: Vec<Profile> = Vec::new();
    // Consecutive releases often write the same rules.
    let mut before: Option<(Rules, usize)> = None;
    for version in Profile::kinds().filter(|_| diff.comparison.own.len() > 1) {
        let Some(written) = write(version).filter(|written| written.rules.mode() == diff.mode) else { continue };
        let count = match before.take_if(|(rules, _)| *rules == written.rules) {
            Some((_, count)) => count,
            None => found.diff(&written).comparison.own.len(),
        };
        before = Some((written.rules, count));
        if count < fewest {
            (fewest, likeliest) = (count, vec![version]);
        } else if count == fewest && !likeliest.is_empty() {
            likeliest.push(version);
        }
    }
    let count = match fewest {
        0 => "is no difference".to_owned(),
        1 => "is 1 difference".to_owned(),
        _ => format!("are {}", counted(fewest, "difference")),
    };
    let newest = likeliest.last()?;
    let others = if likeliest.len() > 1 {
        format!(" (or {})", releases::named(&likeliest[..likeliest.len() - 1]))
    } else {
        String::new()
    };
    Some(format!("With `--release {newest}`{others} there {count}."))
}

/// The rules of an input.
pub(super) struct Saved {
    /// The input's name in messages.
    file: PathBuf,
    sets: Vec<NodeRules>,
    /// The mode of the first piece in a format of rules, and its first line; it may have none.
    first: Option<(ProxyMode, usize)>,
    unread: Vec<Unread>,
    /// A description of what could not be read.
    pub(super) not_read: Option<String>,
    /// A description of rules that were not compared.
    pub(super) not_judged: Option<String>,
}

impl Saved {
    /// Reads an input of any kind; `-` is standard input.
    pub(super) fn read(file: &Path) -> Result<Self, Failure> {
        let (file, evidence) = evidence_of(file)?;
        let mut sets = node_rules(&evidence);
        let not_judged = not_judged(&evidence, &sets);
        // An excerpt without a rule contains nothing to compare.
        sets.retain(|set| !is_part(set) || set.rules.has_effect());
        let first = evidence.pieces.iter().find_map(|piece| Some((mode_of(piece.format)?, piece.first)));
        let not_read = evidence.not_read();
        Ok(Self { file, sets, first, unread: evidence.unread, not_read, not_judged })
    }

    /// Returns the families of a node's rules, if known: nft tables have a family, iptables rules have addresses. `nodes` are all nodes.
    pub(super) fn families(&self, node: &str, nodes: &[&str]) -> Vec<Family> {
        let of_node = || self.sets.iter().filter(|set| set.is_of_node(node, nodes) != Some(false));
        let has = |family: &Family| of_node().any(|set| families(set).contains(family));
        Family::ALL.into_iter().filter(has).collect()
    }

    /// Returns the mode of the rules, if all are of one.
    pub(super) fn mode(&self) -> Option<ProxyMode> {
        let mut modes = self.sets.iter().map(|set| set.rules.mode());
        let first = modes.next()?;
        modes.all(|mode| mode == first).then_some(first)
    }

    /// Returns the nodes among these whose rules the input has by name.
    pub(super) fn nodes<'n>(&self, all: &[&'n str]) -> Vec<&'n str> {
        let is_there = |node: &&str| self.sets.iter().any(|set| set.is_of_node(node, all) == Some(true));
        all.iter().copied().filter(is_there).collect()
    }

    /// Returns the rules in the mode and family of the generated ones, preferring those of the node to those of no node that is named, and
    /// complete ones to an excerpt. `nodes` are all nodes.
    pub(super) fn parse(&self, written: &Written, nodes: &[&str]) -> Result<Found<'_>, Failure> {
        let (mode, family) = (written.rules.mode(), written.family);
        let fits = |set: &&NodeRules| {
            let own = families(set);
            set.rules.mode() == mode && (own.is_empty() || own.contains(&family))
        };
        let fitting: Vec<&NodeRules> = self.sets.iter().filter(fits).collect();
        let of_node = |set: &NodeRules| set.is_of_node(&written.node, nodes);
        let may_be = fitting.iter().copied().filter(|set| of_node(set) != Some(false));
        let Some(set) = may_be.min_by_key(|set| (of_node(set).is_none(), is_part(set))) else {
            let others = self.nodes(nodes);
            if fitting.is_empty() || others.is_empty() {
                return Err(self.lacking(mode, family).into());
            }
            let (node, others) = (&written.node, others.join(", "));
            let message = format!("{} has no rules of node {node}, only those of {others}", printable(&self.file));
            return Err(Failure::new(message, "Choose one of these with `--node`."));
        };
        let mut rules = Cow::Borrowed(&set.rules);
        // Rules without an address count as the requested family.
        if set.rules.iptables().is_some_and(|rules| rules.family != family)
            && let Rules::Iptables(parsed) = rules.to_mut()
        {
            parsed.rules.family = family;
        }
        let own_file = set.file().filter(|_| !set.is_of_files());
        let file = own_file.map_or_else(|| self.file.clone(), |own| self.file.join(own));
        Ok(Found { file, rules, coverage: set.coverage.clone(), is_part: is_part(set) })
    }

    /// Returns the errors for an input without rules of a mode and family.
    fn lacking(&self, mode: ProxyMode, family: Family) -> Diagnostics {
        let place = |own: Option<&str>| own.map_or_else(|| self.file.clone(), |own| self.file.join(own));
        let mut errors = Vec::new();
        let other = self.sets.iter().min_by_key(|set| set.rules.mode() != mode);
        if let Some(set) = other {
            let (message, help) = match other_mode_error(set.rules.mode(), mode) {
                Some((message, help)) => (message.to_owned(), help),
                None => {
                    let help = match family {
                        Family::Ipv4 => "Choose `--family ipv6`, or save the rules with iptables-save.",
                        Family::Ipv6 => "Choose `--family ipv4`, or save the rules with ip6tables-save.",
                    };
                    (format!("there are no {family} rules, only those of the other family"), help)
                }
            };
            errors.push(Diagnostic::at(&place(set.file()), (set.line(), 1), &message, help));
        } else if let Some((line, (message, help))) =
            self.first.and_then(|(own, line)| Some((line, other_mode_error(own, mode)?)))
        {
            errors.push(Diagnostic::at(&self.file, (line, 1), message, help));
        } else if self.unread.is_empty() {
            let help = match mode {
                ProxyMode::Iptables => {
                    "Save the rules with iptables-save, as root; `iptables-legacy-save` and `iptables-nft-save` each print \
                     the rules of their own backend."
                }
                ProxyMode::Nftables => "Save the rules with `nft list ruleset`, as root.",
            };
            errors.push(Diagnostic::at(&self.file, (1, 1), "the file contains no rules", help));
        }
        let unread = self.unread.iter().filter(|_| other.is_none()).take(MAX_UNREAD);
        errors.extend(unread.map(|unread| {
            let help = "Paste it as iptables-save or nft prints it; `svclab dump show` lists what was read.";
            Diagnostic::at(&place(unread.file.as_deref()), (unread.line, 1), &unread.reason, help)
        }));
        Diagnostics { errors, ..Diagnostics::default() }
    }
}

/// Maximum number of unread lines reported as errors.
const MAX_UNREAD: usize = 5;

/// Returns the mode of kube-proxy whose rules a format contains.
fn mode_of(format: Format) -> Option<ProxyMode> {
    match format {
        Format::IptablesSave | Format::IptablesRules | Format::IptablesList | Format::IptablesNft => {
            Some(ProxyMode::Iptables)
        }
        Format::Nft | Format::NftJson => Some(ProxyMode::Nftables),
        _ => None,
    }
}

/// Returns the error for rules of one mode if another is requested.
fn other_mode_error(own: ProxyMode, wanted: ProxyMode) -> Option<(&'static str, &'static str)> {
    match (own, wanted) {
        (ProxyMode::Nftables, ProxyMode::Iptables) => Some((
            "these are nftables rules",
            "Choose `--mode nftables` if kube-proxy runs in that mode, or save the rules with iptables-save.",
        )),
        (ProxyMode::Iptables, ProxyMode::Nftables) => Some((
            "these are iptables rules",
            "Choose `--mode iptables` if kube-proxy runs in that mode, or save the rules with `nft list ruleset`.",
        )),
        _ => None,
    }
}

/// Returns whether rules are an excerpt: missing rules may be on the node.
fn is_part(set: &NodeRules) -> bool {
    !set.is_whole()
}

/// Returns the families of rules; none if no rule has an address.
fn families(set: &NodeRules) -> Vec<Family> {
    if let Some(rules) = set.rules.iptables() {
        let mut all = rules.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
        let has_address = all.any(|rule| rule.source.is_some() || rule.destination.is_some());
        return if has_address { vec![rules.family] } else { Vec::new() };
    }
    let tables = set.rules.nftables().into_iter().flat_map(|parsed| &parsed.rules.tables);
    tables.map(|table| table.family).collect()
}
