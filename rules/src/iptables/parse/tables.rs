//! Which table a chain or rule is in where no heading and no command says it.

use super::super::chain_name::ChainKind;
use super::super::table_name::TableName;

/// The starts of names of chains that are in one table alone; those of [`ChainKind`] are in nat too.
const ALONE: [(&str, TableName); 11] = [
    ("KUBE-MARK-", TableName::Nat),
    ("KUBE-POSTROUTING", TableName::Nat),
    ("KUBE-PORTALS-", TableName::Nat),
    ("CNI-HOSTPORT-", TableName::Nat),
    ("KUBE-FORWARD", TableName::Filter),
    ("KUBE-EXTERNAL-SERVICES", TableName::Filter),
    ("KUBE-PROXY-FIREWALL", TableName::Filter),
    ("KUBE-FIREWALL", TableName::Filter),
    ("KUBE-NWPLCY", TableName::Filter),
    ("KUBE-POD-FW", TableName::Filter),
    ("WEAVE-NPC", TableName::Filter),
];

/// The starts of names of chains that are mostly in filter, and may be in other tables as well.
const MOSTLY_FILTER: [&str; 8] = [
    "KUBE-ROUTER",
    "DOCKER-USER",
    "DOCKER-FORWARD",
    "DOCKER-ISOLATION-STAGE-",
    "FLANNEL-FWD",
    "cali-FORWARD",
    "cali-INPUT",
    "cali-OUTPUT",
];

/// The table of a chain that is in one alone, by its name.
pub(super) fn alone(chain: &str) -> Option<TableName> {
    let named = ALONE.iter().find(|(start, _)| chain.starts_with(start)).map(|(_, table)| *table);
    named.or_else(|| ChainKind::of(chain).map(|_| TableName::Nat))
}

/// The table that a chain is mostly in, by its name.
pub(super) fn usual(chain: &str) -> TableName {
    let is_filter = TableName::Filter.builtin_chains().contains(&chain)
        || MOSTLY_FILTER.iter().any(|start| chain.starts_with(start));
    alone(chain).unwrap_or(if is_filter { TableName::Filter } else { TableName::Nat })
}

/// The table of a rule by its chain and the name of its target, where a kernel or kube-proxy has such a rule in one alone.
pub(super) fn by_target(chain: &str, target: &str) -> Option<TableName> {
    match (chain, target) {
        (_, "DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT") => Some(TableName::Nat),
        (_, "REJECT") | ("KUBE-SERVICES" | "KUBE-NODEPORTS", "DROP" | "ACCEPT") => Some(TableName::Filter),
        _ => alone(target),
    }
}

/// The table of a rule, by its line.
pub(super) fn by_line(chain: &str, line: &str) -> TableName {
    let target = target_of(line).unwrap_or_default();
    by_target(chain, target).unwrap_or_else(|| match (chain, target) {
        ("OUTPUT", "KUBE-SERVICES") if line.contains("--ctstate NEW") => TableName::Filter,
        ("OUTPUT", "KUBE-SERVICES" | "DOCKER") => TableName::Nat,
        _ => usual(chain),
    })
}

/// The name of the target or chain that a line leads to.
pub(super) fn target_of(line: &str) -> Option<&str> {
    line.split_whitespace().skip_while(|word| !matches!(*word, "-j" | "--jump" | "-g" | "--goto")).nth(1)
}
