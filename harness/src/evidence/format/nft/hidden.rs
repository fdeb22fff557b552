//! Lines that something left out of nft's text, known by what every table of kube-proxy has and this text lacks.

use std::collections::HashSet;

use svclab_rules::coverage::{Coverage, nft_table};
use svclab_rules::nftables::{Chain, Table};

/// Words of which each stands in several lines of any table of kube-proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hidden {
    /// The table, its sets and some rules and elements have comments.
    Comments,
    /// A service that has a chain has an element that leads to it.
    Elements,
    /// Base chains have a type, a hook and a priority.
    Hooks,
}

/// Takes back that tables, and their chains and sets of which a line may have been left out, are shown whole.
pub(super) fn limit<'l>(lines: impl Iterator<Item = &'l str> + Clone, tables: &[Table], coverage: &mut Coverage) {
    let lacked = lacked(lines.clone());
    if lacked.is_empty() {
        return;
    }
    let targets: HashSet<&str> = lines.flat_map(targets).collect();
    // Nothing is known about a chain that only hidden lines lead to.
    let is_reached = |chain: &Chain| chain.base.is_some() || targets.contains(&*chain.name);
    for table in tables {
        let hidden: Vec<Hidden> = lacked.iter().copied().filter(|one| one.is_in_table(table)).collect();
        if hidden.is_empty() {
            continue;
        }
        let name = nft_table(table.family);
        coverage.remove_table(name);
        let is_hidden = |chain: &Chain| !is_reached(chain) || hidden.iter().any(|one| one.is_in_chain(&chain.name));
        let chains = table.chains.iter().filter(|chain| is_hidden(chain));
        let sets = table.sets.iter().filter(|set| hidden.iter().any(|one| one.is_in_set(&set.name)));
        let names = chains.map(|chain| &chain.name).chain(sets.map(|set| &set.name));
        names.for_each(|own| coverage.add_truncated(name, own));
    }
}

/// The chains that a line leads to.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split([' ', ',', '\t']);
    words.clone().zip(words.skip(1)).filter(|(word, _)| matches!(*word, "goto" | "jump")).map(|(_, name)| name)
}

/// Whether a whole text lacks any of it.
pub(super) fn is_in(text: &str, tables: &[Table]) -> bool {
    let lacked = lacked(text.lines());
    tables.iter().any(|table| lacked.iter().any(|one| one.is_in_table(table)))
}

/// Returns the kinds of lines of which the text has none.
fn lacked<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<Hidden> {
    let mut lacked = vec![Hidden::Comments, Hidden::Elements, Hidden::Hooks];
    for line in lines {
        lacked.retain(|one| !line.contains(one.word()));
    }
    lacked
}

impl Hidden {
    /// What each line of the kind contains.
    fn word(self) -> &'static str {
        match self {
            Self::Comments => "comment \"",
            Self::Elements => "elements = ",
            Self::Hooks => " hook ",
        }
    }

    /// Whether kube-proxy writes such a line into a table that has these chains. A part of one, as `nft list chain` prints it, need not have it.
    fn is_in_table(self, table: &Table) -> bool {
        let has_chain =
            |starts: &[&str]| table.chains.iter().any(|chain| starts.iter().any(|start| chain.name.starts_with(start)));
        !table.chains.is_empty()
            && !table.sets.is_empty()
            && match self {
                Self::Comments => true,
                Self::Elements => has_chain(&["service-"]),
                Self::Hooks => has_chain(&["filter-", "nat-"]),
            }
    }

    /// Whether kube-proxy writes such a line into a chain.
    fn is_in_chain(self, name: &str) -> bool {
        match self {
            Self::Comments => matches!(name, "services" | "cluster-ips-check") || name.starts_with("external-"),
            Self::Elements => false,
            Self::Hooks => ["filter-", "nat-"].iter().any(|start| name.starts_with(start)),
        }
    }

    /// Whether it writes such a line into a set or map.
    fn is_in_set(self, name: &str) -> bool {
        match self {
            // An address that is not in `service-ips` may be in `no-endpoint-services`, whose elements have comments.
            Self::Comments => {
                let maps = [
                    "no-endpoint-services",
                    "no-endpoint-nodeports",
                    "firewall-ips",
                    "service-ips",
                    "service-nodeports",
                ];
                maps.contains(&name)
            }
            // Elements on several lines have the word on the first one alone, and the last one closes them.
            Self::Elements => true,
            Self::Hooks => false,
        }
    }
}
