//! The rules of a node, and what says which node's they are.

use std::sync::Arc;

use svclab_rules::coverage::{Coverage, nft_table};
use svclab_rules::iptables::{Match, Rule, TableName};
use svclab_rules::ruleset::Rules;

use super::alternatives::Alternative;
use super::machine_files::folder;
use super::model::{Format, Piece};
use crate::text::one_line;

/// A line of a file among several.
pub(crate) type FileLine = (Option<Arc<str>>, usize);

/// Rules that belong together: those of one node in one language, of a family where it is iptables.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRules {
    /// The rules.
    pub rules: Rules,
    /// The tables and chains that are shown whole.
    pub coverage: Coverage,
    /// The format of the first piece.
    pub format: Format,
    /// The file among several.
    pub(crate) file: Option<Arc<str>>,
    /// The first line.
    pub(crate) first: usize,
    /// The fewest digits of a probability whose threshold does not follow from them.
    pub(crate) rounded_digits: Option<usize>,
    /// The first line that is cut off.
    pub(crate) cut: Option<FileLine>,
    /// The lines at which the outputs start that are saved rules.
    pub(super) saved: Vec<usize>,
    /// The lines at which outputs of filters start that lack lines which other pieces show: someone shortened them.
    pub(crate) shortened: Vec<FileLine>,
    /// The machine that the prompt before the command names.
    pub(crate) host: Option<String>,
    /// The machine that the heading before them names.
    pub(crate) heading: Option<String>,
    /// Which implementation of iptables has them, by the command or file that they come from.
    pub(crate) backend: Option<&'static str>,
    /// The tables that are from other files, each with its file and first line.
    pub(crate) elsewhere: Vec<(TableName, Arc<str>, usize)>,
    /// The files that have the same rules once more.
    pub(crate) repeats: Vec<Arc<str>>,
    /// The chains that were left out because they show another policy.
    pub(crate) alternatives: Vec<Alternative>,
    /// Why they are those of other rules' node at another time, if they are: fills in `the rules from A ... those from B`.
    pub(crate) again: Option<&'static str>,
    /// Whether what follows in the text is of another time.
    pub(super) is_over: bool,
}

/// The implementation of iptables that a piece is of.
pub(super) fn backend(piece: &Piece) -> Option<&'static str> {
    let file = piece.file.as_deref().unwrap_or_default();
    let text =
        format!("{} {}", file.rsplit('/').next().unwrap_or_default(), piece.command.as_deref().unwrap_or_default());
    match () {
        () if piece.format == Format::IptablesNft => Some("iptables-nft"),
        () if text.contains("legacy") => Some("iptables-legacy"),
        () if text.contains("nft") => Some("iptables-nft"),
        () => None,
    }
}

impl NodeRules {
    /// The rules of a piece, without what is special to its format.
    pub(super) fn of_piece(piece: &Piece, rules: Rules, coverage: Coverage, cut: Option<usize>) -> Self {
        Self {
            rules,
            coverage,
            format: piece.format,
            file: piece.file.clone(),
            first: piece.first,
            rounded_digits: None,
            cut: cut.map(|line| (piece.file.clone(), line)),
            saved: Vec::new(),
            shortened: Vec::new(),
            host: piece.host.clone(),
            heading: piece.heading.clone(),
            backend: None,
            elsewhere: Vec::new(),
            repeats: Vec::new(),
            alternatives: Vec::new(),
            again: None,
            is_over: false,
        }
    }

    /// Whether others are of the same language, and family where it is iptables.
    pub(crate) fn is_of_kind(&self, other: &Self) -> bool {
        let family = |set: &Self| set.rules.iptables().map(|rules| rules.family);
        self.rules.mode() == other.rules.mode() && family(self) == family(other)
    }

    /// Their place, in words.
    pub(crate) fn place(&self) -> String {
        let file = self.file.as_ref().map(|file| format!("{} ", one_line(file))).unwrap_or_default();
        let mut others: Vec<&str> = self.elsewhere.iter().map(|(_, file, _)| &**file).collect();
        others.dedup();
        let others: String = others.iter().map(|file| format!(" and {}", one_line(file))).collect();
        format!("{file}line {}{others}, {}", self.first, self.backend.unwrap_or(self.format.words()))
    }

    /// Adds what is said of others that belong to them, apart from rules and coverage.
    pub(super) fn absorb(&mut self, other: &mut Self) {
        self.rounded_digits = self.rounded_digits.into_iter().chain(other.rounded_digits).min();
        self.cut = self.cut.take().or(other.cut.take());
        self.saved.append(&mut other.saved);
        self.shortened.append(&mut other.shortened);
        self.host = self.host.take().or(other.host.take());
    }

    /// The line at which the text of a table starts, in the file that it is from.
    pub(crate) fn line_of_table(&self, table: &str) -> FileLine {
        let elsewhere = self.elsewhere.iter().find(|(own, ..)| own.as_str() == table);
        elsewhere.map_or_else(|| (self.file.clone(), self.first), |(_, file, line)| (Some(file.clone()), *line))
    }

    /// Whether they, or tables of them, are from a file among several.
    pub(crate) fn has_file(&self, file: Option<&str>) -> bool {
        self.file() == file || self.elsewhere.iter().any(|(_, own, _)| Some(&**own) == file)
    }

    /// Whether they are from several files.
    pub fn is_of_files(&self) -> bool {
        !self.elsewhere.is_empty()
    }

    /// The file among several; that of table `nat` if its tables are from several files.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Whether they are those of a node, by the machine that the prompt names, or the file's name; `None` if neither names any of the nodes.
    pub fn is_of_node(&self, node: &str, nodes: &[&str]) -> Option<bool> {
        let is_in_file = |name: &&str| self.file().is_some_and(|file| has_word(file, name));
        let by_file = || nodes.iter().copied().filter(is_in_file).max_by_key(|name| name.len());
        self.host.as_ref().and_then(|host| find_host(nodes, host)).or_else(by_file).map(|own| own == node)
    }

    /// The folder with the files of the machine whose file it is; empty for a file that is in none.
    pub(crate) fn folder(&self) -> Option<&str> {
        self.file().map(folder)
    }

    /// Whether they may be those of a machine that a prompt names: unless prompts name two.
    pub(crate) fn may_be_of_host(&self, host: Option<&String>) -> bool {
        self.host.as_ref().zip(host).is_none_or(|(own, other)| own == other)
    }

    /// The mode of kube-proxy that writes them, if it is neither iptables nor nftables.
    pub(crate) fn other_mode(&self) -> Option<&'static str> {
        let tables = self.rules.iptables()?.tables.iter();
        let mut chains = tables.flat_map(|table| &table.chains);
        chains.find_map(|chain| chain.rules.iter().find_map(|rule| other_mode(rule, &chain.name)))
    }

    /// The line at which they start.
    pub fn line(&self) -> usize {
        self.first
    }

    /// Whether all of their tables are shown whole.
    pub fn is_whole(&self) -> bool {
        match &self.rules {
            Rules::Iptables(parsed) => {
                let tables = &parsed.rules.tables;
                !tables.is_empty() && tables.iter().all(|table| self.coverage.has_table(table.name.as_str()))
            }
            Rules::Nftables(parsed) => {
                let tables = &parsed.rules.tables;
                !tables.is_empty() && tables.iter().all(|table| self.coverage.has_table(nft_table(table.family)))
            }
            Rules::OtherTables(_) => false,
        }
    }

    /// Whether the table in which kube-proxy translates is shown whole.
    pub fn has_translations(&self) -> bool {
        match &self.rules {
            Rules::Iptables(_) => self.coverage.has_table(TableName::Nat.as_str()),
            _ => self.is_whole(),
        }
    }
}

/// The mode of kube-proxy, other than iptables and nftables, that writes a rule of a chain.
pub(crate) fn other_mode(rule: &Rule, chain: &str) -> Option<&'static str> {
    let of_set = |one: &Match| matches!(one, Match::Set(set) if set.value.name.starts_with("KUBE-"));
    match () {
        () if rule.matches.iter().any(of_set) => Some("IPVS"),
        () if chain.starts_with("KUBE-PORTALS-") => Some("userspace"),
        () => None,
    }
}

/// The node of a host: that of the same name, else the only one whose name differs in having a domain.
pub(crate) fn find_host<'n>(nodes: &[&'n str], host: &str) -> Option<&'n str> {
    let mut same = nodes.iter().copied().filter(|name| is_same_host(name, host));
    let only = || same.next().filter(|_| same.next().is_none());
    nodes.iter().copied().find(|name| *name == host).or_else(only)
}

/// Whether two names are of one host, with and without a domain.
pub(super) fn is_same_host(one: &str, other: &str) -> bool {
    let is_short_of =
        |short: &str, long: &str| long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    is_short_of(one, other) || is_short_of(other, one)
}

/// Whether a text has a name that stands apart.
pub(crate) fn has_word(text: &str, name: &str) -> bool {
    let is_apart = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_ascii_alphanumeric());
    let mut places = text.match_indices(name);
    places.any(|(at, _)| is_apart(text[..at].chars().next_back()) && is_apart(text[at + name.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::find_host;

    const NODES: [&str; 5] =
        ["node1.dc1.example", "node1.dc2.example", "node2.dc1.example", "node3", "node3.dc1.example"];

    #[rstest]
    #[case::exact("node1.dc2.example", Some("node1.dc2.example"))]
    #[case::short("node2", Some("node2.dc1.example"))]
    #[case::long("node3.dc3.example", Some("node3"))]
    #[case::short_and_exact("node3", Some("node3"))]
    #[case::of_several("node1", None)]
    #[case::of_another_domain("node2.dc2.example", None)]
    #[case::start("node", None)]
    fn a_host_is_found_with_and_without_its_domain(#[case] host: &str, #[case] expected: Option<&str>) {
        assert_eq!(find_host(&NODES, host), expected);
    }
}
