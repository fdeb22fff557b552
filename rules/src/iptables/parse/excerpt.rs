//! Parsing of single lines, as in issues and terminals: parts of `iptables-save`, with or without declarations, and `iptables -S`.

use super::super::ast::{Policy, Rule};
use super::super::chain_name::{ChainHash, ChainKind, FIXED_CHAINS};
use super::super::matches::{Match, Other, UNREAD};
use super::super::table_name::TableName;
use super::super::targets::Target;
use super::super::text::Fault;
use super::complete_chains::LineTracker;
use super::tables;
use super::{Document, ParseError, Parsed, counters_of};
use crate::cluster::Family;
use crate::coverage::Coverage;

/// The result of parsing lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The rules. A rule that cannot be read is replaced by one with the match `unread`, which is not modelled.
    pub parsed: Parsed,
    /// The number of rules read.
    pub rules: usize,
    /// The tables and chains that the lines contain with all their rules.
    pub coverage: Coverage,
    /// Whether the lines end within a table.
    pub is_cut: bool,
    /// The lines that cannot be read.
    pub unread: Vec<ParseError>,
}

/// What an iptables prints instead of options of a newer revision: a part of the rule is unknown.
pub const OLDER: [&str; 2] = ["[unsupported revision]", "--to-destination :0 --persistent"];

/// The line that stands for omitted lines.
pub const ELLIPSIS: &str = "...";

/// What is known about the end of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The output ends there, as before the next prompt of a terminal.
    OfOutput,
    /// The output may have more lines.
    Unknown,
}

/// Parses lines, each with its number; `table` is the one named in a command before them. [`ELLIPSIS`] stands for omitted lines.
///
/// Chains need no declaration. If no heading names a rule's table, it is inferred: the table in which kube-proxy writes, or the kernel
/// allows, such a rule. If the text is not known to end with the output ([`End::Unknown`]), a chain of kube-proxy that ends early may be cut off.
pub fn parse_excerpt<'a>(
    lines: impl IntoIterator<Item = (usize, &'a str)>,
    family: Family,
    table: Option<TableName>,
    end: End,
) -> Excerpt {
    let lines: Vec<(usize, &str)> = lines.into_iter().collect();
    let mut reader = Reader {
        document: Document::new(family),
        heading: tables::headless(&lines),
        has_gap: false,
        table,
        rules: 0,
        tracker: LineTracker::default(),
        skips: false,
        unread: Vec::new(),
        last: None,
    };
    for (number, line) in lines {
        if line == ELLIPSIS {
            reader.tracker.gap();
            reader.has_gap = true;
            // Who omits lines omits whole ones, so the line before is complete.
            reader.last = None;
            continue;
        }
        if let Err(Fault { column, message }) = reader.line(number, line) {
            let column = line.get(..column).map_or(0, |before| before.chars().count()) + 1;
            reader.unread.push(ParseError { line: number, column, text: line.to_owned(), message });
            // The rule before it is followed by a line, so it is whole.
            reader.last = None;
        }
    }
    let ends_within_rule = reader.ends_within_rule();
    if end == End::Unknown && reader.ends_within_chain() || ends_within_rule {
        reader.tracker.gap();
    }
    if reader.tracker.is_open() || ends_within_rule {
        reader.replace_incomplete_last();
    }
    let (coverage, is_cut) = reader.tracker.finish();
    Excerpt { parsed: reader.document.parsed(), rules: reader.rules, coverage, is_cut, unread: reader.unread }
}

struct Reader<'a> {
    document: Document<'a>,
    /// The table that a heading opened, and whether lines were omitted since.
    heading: Option<TableName>,
    has_gap: bool,
    /// The table that a command names.
    table: Option<TableName>,
    rules: usize,
    /// The coverage of the lines so far.
    tracker: LineTracker,
    /// Whether lines belong to a table that svclab does not know.
    skips: bool,
    unread: Vec<ParseError>,
    /// The line of the last rule.
    last: Option<(usize, &'a str)>,
}

impl<'a> Reader<'a> {
    fn line(&mut self, number: usize, line: &'a str) -> Result<(), Fault> {
        let start = line.len() - line.trim_start().len();
        let text = line.trim();
        match text.as_bytes().first() {
            None | Some(b'#') => Ok(()),
            Some(b'*') => self.open(&text[1..], start + 1),
            _ if text == "COMMIT" => {
                self.skips = false;
                self.last = None;
                // A text that starts within a table contains only its end.
                let current = self.document.table.map(|at| self.document.rules.tables[at].name);
                if let Some(table) = self.heading.take().or(current) {
                    self.tracker.commit(table);
                }
                self.document.table = None;
                Ok(())
            }
            _ if self.skips => Err(Fault::new(start, "the line belongs to an unknown table")),
            Some(b':') => {
                let name = text[1..].split_whitespace().next().unwrap_or_default();
                let table = self.heading.or_else(|| tables::alone(name)).or(self.table);
                let table = table.unwrap_or_else(|| tables::usual(name));
                self.enter(table);
                self.tracker.heading(table, name);
                self.document.declare(&text[1..], start + 1)
            }
            Some(b'[') => match text.split_once("] ") {
                Some((counters, rest)) if counters_of(&counters[1..]).is_some() => {
                    self.command(number, line, start, rest)
                }
                _ => Err(Fault::new(start, "counters without a rule")),
            },
            _ => self.command(number, line, start, text),
        }
    }

    fn open(&mut self, name: &str, column: usize) -> Result<(), Fault> {
        let known = TableName::ALL.into_iter().find(|table| table.as_str() == name.trim());
        self.skips = known.is_none();
        let table = known.ok_or_else(|| Fault::new(column, format!("unknown table `{name}`")))?;
        self.heading = Some(table);
        self.has_gap = false;
        self.tracker.open(table);
        self.enter(table);
        Ok(())
    }

    /// Reads an iptables command after counters; `iptables -S` prints `-N`, `-P` and `-A`.
    fn command(&mut self, number: usize, line: &'a str, start: usize, text: &str) -> Result<(), Fault> {
        let mut words = text.split_whitespace();
        let (command, chain) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().trim_matches('"'));
        let is_rule = matches!(command, "-A" | "--append" | "-I" | "--insert");
        if !is_rule && !matches!(command, "-N" | "--new-chain" | "-P" | "--policy") {
            return Err(Fault::new(start, format!("`{command}` is not a command of iptables-save")));
        }
        if chain.is_empty() {
            return Err(Fault::new(start, "the chain is missing"));
        }
        // The rules need not be the output of the command before them.
        let certain = || if is_rule { tables::certain(chain, text) } else { tables::alone(chain) };
        // A heading may be among omitted lines.
        let table = if self.has_gap { certain().or(self.heading) } else { self.heading.or_else(certain) };
        self.heading = self.heading.and(table);
        let table = table.or(self.table);
        let table = table.unwrap_or_else(|| if is_rule { tables::by_line(chain, text) } else { tables::usual(chain) });
        self.enter(table);
        let is_known = self.document.table.is_some_and(|at| self.document.chains[at].contains_key(chain));
        if is_rule && words.next().is_none() && !is_known {
            // The name is cut, so the rule may be one of any chain from here on.
            self.tracker.gap();
            return Err(Fault::new(line.len(), "the rule is cut off"));
        }
        self.ensure_chain(chain)?;
        let read = match OLDER.iter().find_map(|mark| line.find(mark)) {
            Some(at) if is_rule => {
                Err(Fault::new(at, "the iptables that printed this rule is older than the one that wrote it"))
            }
            _ => self.document.line(number, line),
        };
        if !is_rule {
            self.tracker.listed(table, chain);
            return read;
        }
        match read {
            Ok(()) => {
                self.rules += 1;
                self.last = Some((number, line));
                let next = self.last_rule().and_then(Rule::next_chain).cloned();
                self.tracker.rule(table, chain, next.as_deref());
                Ok(())
            }
            Err(fault) => {
                self.last = None;
                self.tracker.rule(table, chain, None);
                self.tracker.unread(table, chain);
                self.add_placeholder(number, chain, text)?;
                Err(fault)
            }
        }
    }

    /// Treats the last rule as unread if it is incomplete, as when the text was cut within it.
    fn replace_incomplete_last(&mut self) {
        let (Some((number, line)), Some((table, chain))) = (self.last, self.document.last) else { return };
        let Some(rule) = self.last_rule() else { return };
        let known = &self.document.chains[table];
        let is_whole = match &rule.target {
            None => false,
            Some(Target::Jump(next) | Target::Goto(next)) => known.contains_key(next) && !is_begun(next),
            Some(Target::Dnat(nat)) => nat.ports.is_some(),
            // The last option, or the last digit of a mark, may be missing.
            Some(Target::Mark(_) | Target::Other(_)) => false,
            Some(_) => true,
        };
        if is_whole && !rule.matches.iter().any(|one| matches!(one, Match::Other(_))) {
            return;
        }
        self.document.rules.tables[table].chains[chain].rules.pop();
        self.document.lines.0[table][chain].pop();
        self.rules -= 1;
        let name = self.document.rules.tables[table].chains[chain].name.to_string();
        let column = line.chars().count().max(1);
        let message = "the rule is cut off".to_owned();
        self.unread.push(ParseError { line: number, column, text: line.to_owned(), message });
        _ = self.add_placeholder(number, &name, line);
    }

    /// Returns whether kube-proxy's chains do not end with the last rule: a random one of a Service, or the masquerade rule of an endpoint.
    fn ends_within_chain(&self) -> bool {
        let Some((table, chain)) = self.document.last else { return false };
        let name = &self.document.rules.tables[table].chains[chain].name;
        let Some(rule) = self.last_rule().filter(|rule| self.last.is_some() && !rule.is_unread()) else { return false };
        match ChainKind::of(name) {
            Some((ChainKind::Endpoint, _)) => matches!(rule.target, Some(Target::Jump(_))),
            Some((ChainKind::Service | ChainKind::Local, _)) => {
                let is_random = rule.matches.iter().any(|one| matches!(one, Match::Statistic(_) | Match::Recent(_)));
                is_random || rule.next_chain().is_some_and(|next| !ChainKind::Endpoint.is_of(next))
            }
            _ => false,
        }
    }

    /// Returns whether the last line ends within a rule of kube-proxy, which has a target, names its chains in full, and translates to a port.
    fn ends_within_rule(&self) -> bool {
        let (Some(_), Some((table, chain)), Some(rule)) = (self.last, self.document.last, self.last_rule()) else {
            return false;
        };
        let name = &self.document.rules.tables[table].chains[chain].name;
        match &rule.target {
            // The last rule for a load balancer's source ranges only has a comment.
            None => name.starts_with("KUBE-") && !ChainKind::Firewall.is_of(name),
            Some(Target::Jump(next) | Target::Goto(next)) => is_begun(next) || self.is_shortened(table, next),
            Some(Target::Dnat(nat)) => ChainKind::Endpoint.is_of(name) && nat.ports.is_none(),
            // Options that kube-proxy writes can be read: `-j DNAT --to-desti`.
            Some(Target::Other(other)) => ChainKind::of(name).is_some() && &*other.name == "DNAT",
            Some(_) => false,
        }
    }

    /// Returns whether a chain that the text does not show has less than a hash in its name, where others have one: not so in texts whose
    /// names were edited.
    fn is_shortened(&self, table: usize, name: &str) -> bool {
        let hash = |name: &'_ str| ChainKind::of(name).map(|(_, hash)| hash.len());
        let rules = self.document.rules.tables[table].chains.iter().flat_map(|chain| &chain.rules);
        let mut named = self.document.chains[table].keys().chain(rules.filter_map(Rule::next_chain));
        hash(name).is_some_and(|length| length < ChainHash::LENGTH)
            && !self.document.chains[table].contains_key(name)
            && named.any(|name| hash(name) == Some(ChainHash::LENGTH))
    }

    /// Returns the last rule read.
    fn last_rule(&self) -> Option<&Rule> {
        let (table, chain) = self.document.last?;
        self.document.rules.tables[table].chains[chain].rules.last()
    }

    /// Makes a table the current one.
    fn enter(&mut self, name: TableName) {
        let position = self.document.rules.tables.iter().position(|table| table.name == name);
        match position {
            Some(position) if self.document.table == Some(position) => {}
            Some(position) => {
                self.document.table = Some(position);
                self.document.last = None;
            }
            // A table that does not exist yet is always opened.
            None => {
                self.document.table = None;
                _ = self.document.open_table(name.as_str(), 0);
            }
        }
    }

    /// Makes sure that the current table has a chain.
    fn ensure_chain(&mut self, chain: &str) -> Result<(), Fault> {
        let Some(table) = self.document.table else { return Ok(()) };
        let is_builtin = self.document.rules.tables[table].name.builtin_chains().contains(&chain);
        let is_known = self.document.chains[table].contains_key(chain);
        let made = self.document.chain_or_new(chain, 0)?;
        if is_builtin && !is_known {
            made.policy = Some(Policy::Accept);
        }
        Ok(())
    }

    /// Replaces a rule that cannot be read by one whose match is unknown.
    fn add_placeholder(&mut self, number: usize, chain: &str, text: &str) -> Result<(), Fault> {
        self.ensure_chain(chain)?;
        let (table, index) = self.document.chain_of_rule(chain, 0)?;
        let other = Other { name: UNREAD.into(), text: text.into() };
        let target = tables::target_of(text).filter(|name| name.starts_with("KUBE-"));
        let target = target.map(|name| Target::Jump(name.into()));
        let rule = Rule { matches: [Match::Other(Box::new(other))].into_iter().collect(), target, ..Rule::default() };
        self.document.rules.tables[table].chains[index].rules.push(rule);
        self.document.lines.0[table][index].push(number);
        Ok(())
    }
}

/// Returns whether a name is the start of one of kube-proxy's chains: `KUBE`, `KUBE-SE`.
fn is_begun(name: &str) -> bool {
    let prefixes = ChainKind::ALL.into_iter().map(ChainKind::prefix);
    name.starts_with("KUBE")
        && !FIXED_CHAINS.contains(&name)
        && prefixes.chain(FIXED_CHAINS).any(|whole| whole.starts_with(name))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn excerpt(text: &str) -> Excerpt {
        parse_excerpt((1..).zip(text.lines()), Family::Ipv4, None, End::Unknown)
    }

    const PORTAL: &str =
        "-A KUBE-SERVICES -d 10.0.0.1/32 -p tcp -m comment --comment \"default/x cluster IP\" -m tcp --dport 80 ";

    /// kube-proxy writes no such rules.
    #[rstest]
    #[case::target(PORTAL, true)]
    #[case::name("-j KUBE", true)]
    #[case::hash("-j KUBE-SVC-4N57TFCL4", true)]
    #[case::whole("-j KUBE-SVC-4N57TFCL4MD7ZTDA", false)]
    #[case::port("-A KUBE-SEP-4N57TFCL4MD7ZTDA -p tcp -m tcp -j DNAT --to-destination 10.1.0.2", true)]
    #[case::option("-A KUBE-SEP-4N57TFCL4MD7ZTDA -p tcp -m tcp -j DNAT --to", true)]
    #[case::part_of_an_option("-A KUBE-SEP-4N57TFCL4MD7ZTDA -p tcp -m tcp -j DNAT --to-desti", true)]
    #[case::translation("-A KUBE-SEP-4N57TFCL4MD7ZTDA -p tcp -m tcp -j DNAT --to-destination 10.1.0.2:80", false)]
    #[case::other("-A MY-CHAIN -p tcp", false)]
    #[case::comment(
        "-A KUBE-FW-4N57TFCL4MD7ZTDA -m comment --comment \"other traffic to default/x will be dropped\"",
        false
    )]
    fn a_rule_that_ends_early_is_cut_off(#[case] last: &str, #[case] expected: bool) {
        let last = if last.starts_with("-A ") { last.to_owned() } else { format!("{PORTAL}{last}") };
        let read = excerpt(&format!("{PORTAL}-j KUBE-SVC-NPX46M4PTMTKRN6Y\n{last}"));
        assert_eq!(read.unread.iter().map(|error| error.line).collect::<Vec<_>>(), [2][..usize::from(expected)]);
        assert_eq!(read.rules, 2 - usize::from(expected));
        // What follows is the end of the table.
        assert_eq!(excerpt(&format!("{last}\nCOMMIT")).rules, 1);
    }

    #[rstest]
    #[case::service("-A KUBE-SERVICES -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-X", TableName::Nat)]
    #[case::reject("-A KUBE-SERVICES -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j REJECT", TableName::Filter)]
    #[case::reject_of_others("-A MY-CHAIN -p tcp -j REJECT --reject-with icmp-port-unreachable", TableName::Filter)]
    #[case::translation("-A ANY -p tcp -m tcp -j DNAT --to-destination 10.0.0.1:80", TableName::Nat)]
    #[case::new_connections("-A OUTPUT -m conntrack --ctstate NEW -j KUBE-SERVICES", TableName::Filter)]
    #[case::output("-A OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES", TableName::Nat)]
    #[case::forward("-A FORWARD -j KUBE-FORWARD", TableName::Filter)]
    #[case::masquerade("-A POSTROUTING -j KUBE-POSTROUTING", TableName::Nat)]
    fn a_rule_without_a_heading_gets_its_table(#[case] line: &str, #[case] table: TableName) {
        let found = excerpt(line);
        assert_eq!((found.rules, found.unread.len()), (1, 0));
        assert_eq!(found.coverage, Coverage::default());
        assert_eq!(found.parsed.rules.tables[0].name, table);
        assert_eq!(found.parsed.lines.line(0, 0, 0), Some(1));
    }

    #[rstest]
    #[case::start("KUBE", true)]
    #[case::prefix("KUBE-SEP-", true)]
    #[case::mark("KUBE-MARK-MA", true)]
    #[case::forward("KUBE-FORW", true)]
    #[case::postrouting("KUBE-POSTROU", true)]
    #[case::firewall("KUBE-FIREW", true)]
    #[case::external("KUBE-EXTERNAL-SER", true)]
    #[case::proxy_firewall("KUBE-PROXY-FIRE", true)]
    #[case::whole_forward("KUBE-FORWARD", false)]
    #[case::kube_router("KUBE-ROUTER-FORW", false)]
    #[case::whole("KUBE-MARK-MASQ", false)]
    #[case::hash("KUBE-SEP-AAAAAAAAAAAAAAAA", false)]
    #[case::other("KUBELET-X", false)]
    fn a_target_that_is_cut_is_no_chain(#[case] target: &str, #[case] is_cut: bool) {
        let rule = "-A KUBE-SVC-X -m comment --comment \"a/b\" -j ";
        let found = excerpt(&format!("{rule}KUBE-SEP-BBBBBBBBBBBBBBBB\n{rule}{target}"));
        assert_eq!(found.unread.iter().any(|error| error.line == 2), is_cut);
    }

    /// Rules below a command for another table, or below `iptables -S` of filter, were printed by another one.
    #[rstest]
    #[case::endpoint("-A KUBE-SEP-X -p tcp -m tcp -j DNAT --to-destination 10.0.0.1:80", TableName::Nat)]
    #[case::mark("-A ANY -j KUBE-MARK-MASQ", TableName::Nat)]
    #[case::others("-A ANY -p tcp -j ACCEPT", TableName::Filter)]
    #[case::service("-A KUBE-SERVICES -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-X", TableName::Nat)]
    fn a_rule_is_not_in_a_table_that_cannot_have_it(#[case] line: &str, #[case] table: TableName) {
        let found = parse_excerpt([(1, line)].into_iter(), Family::Ipv4, Some(TableName::Filter), End::Unknown);
        assert_eq!(found.parsed.rules.tables[0].name, table);
    }

    /// Before the next prompt, no line of the output is missing.
    #[rstest]
    #[case::of_output(End::OfOutput, false)]
    #[case::unknown(End::Unknown, true)]
    fn a_chain_with_a_random_rule_at_the_end_may_be_cut(#[case] end: End, #[case] expected: bool) {
        let text = "-A KUBE-SVC-A -m statistic --mode random --probability 0.5 -j KUBE-SEP-A";
        let found = parse_excerpt([(1, text)], Family::Ipv4, None, end);
        assert_eq!((found.is_cut, found.coverage.is_cut("nat", "KUBE-SVC-A")), (expected, expected));
    }

    #[test]
    fn a_list_of_chains_alone_has_none_with_its_rules() {
        let coverage = excerpt("-P PREROUTING ACCEPT\n-P POSTROUTING ACCEPT\n-N KUBE-POSTROUTING\n").coverage;
        assert!(!coverage.has_chain("nat", "POSTROUTING") && !coverage.has_table("nat"));
    }

    #[test]
    fn the_input_of_iptables_restore_has_no_whole_table() {
        let coverage = excerpt("*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j RETURN\nCOMMIT\n").coverage;
        assert!(coverage.has_chain("nat", "KUBE-SERVICES") && !coverage.has_table("nat"));
    }

    #[test]
    fn a_line_that_cannot_be_read_gets_a_placeholder() {
        let found =
            excerpt("*nat\n:KUBE-SVC-A - [0:0]\n-A KUBE-SVC-A -m statistic --mode\n-A KUBE-SVC-A -j RETURN\nCOMMIT\n");
        assert_eq!((found.rules, found.coverage.is_cut("nat", "KUBE-SVC-A")), (1, true));
        assert_eq!(found.unread.iter().map(|error| error.line).collect::<Vec<_>>(), [3]);
        assert_eq!(found.parsed.rules.rules(TableName::Nat, "KUBE-SVC-A").len(), 2);
    }

    #[rstest]
    #[case::whole_table("*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\nCOMMIT\n", "AB", "")]
    #[case::without_its_end("*nat\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n-A A -j B\n-A B -j C\n", "A", "BC")]
    #[case::headings_alone("*nat\n:A - [0:0]\n:B - [0:0]\n", "", "AB")]
    #[case::dots(
        "*nat\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n:D - [0:0]\n-A A -j B\n...\n-A C -j D\n-A D -j DROP\nCOMMIT\n",
        "D",
        "ABC"
    )]
    #[case::dots_after_headings(
        "*nat\n:A - [0:0]\n:B - [0:0]\n:C - [0:0]\n...\n-A B -j C\n-A C -j DROP\nCOMMIT\n",
        "C",
        "AB"
    )]
    #[case::cut_in_a_name("*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A B -j A\n-A BX\n", "A", "B")]
    #[case::listed("-N A\n-N B\n-A A -j B\n-A B -j DROP\n", "AB", "")]
    #[case::listed_one_by_one("-N A\n-A A -j B\n-N B\n-A B -j DROP\n", "AB", "")]
    #[case::listed_without_the_rules_of_the_last("-N A\n-N B\n-A A -j B\n", "", "AB")]
    #[case::lost_in_the_middle("-N A\n-N B\n-N C\n-A A -j B\n-A C -j DROP\n", "ABC", "")]
    #[case::without_headings("-A A -j B\n-A B -j DROP\n", "", "")]
    #[case::filtered_headings("*nat\n-A A -j B\n-A B -j DROP\nCOMMIT\n", "", "")]
    #[case::filtered_bounds(":A - [0:0]\n:B - [0:0]\n-A A -j B\n-A B -j DROP\n", "", "")]
    #[case::without_its_start(":A - [0:0]\n:B - [0:0]\n-A A -j B\n-A B -j DROP\nCOMMIT\n", "AB", "")]
    #[case::end_alone("-A A -j B\n-A B -j DROP\nCOMMIT\n", "", "A")]
    #[case::another_table_opens("*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n*filter\n:X - [0:0]\nCOMMIT\n", "", "AB")]
    fn chains_are_whole_where_nothing_is_left_out(#[case] text: &str, #[case] whole: &str, #[case] cut: &str) {
        let coverage = excerpt(text).coverage;
        let of =
            |is: &dyn Fn(&str) -> bool| ["A", "B", "C", "D"].into_iter().filter(|name| is(name)).collect::<String>();
        let names = excerpt(text).parsed.rules.table(TableName::Nat).expect("a table").clone();
        let is_there = |name: &str| names.chain(name).is_some();
        assert_eq!(of(&|name| is_there(name) && coverage.has_chain("nat", name)), whole);
        assert_eq!(of(&|name| coverage.is_cut("nat", name)), cut);
        assert_eq!(coverage.has_table("nat"), text.starts_with("*nat") && cut.is_empty() && !whole.is_empty());
    }
}
