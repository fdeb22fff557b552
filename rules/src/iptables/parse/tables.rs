//! The table of a chain or rule if neither a heading nor a command names it.

use super::super::chain_name::ChainKind;
use super::super::table_name::TableName;

/// Prefixes of chain names that exist only in one table; those of [`ChainKind`] are in nat.
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

/// Prefixes of chain names that are usually in filter, and may be in other tables as well.
const MOSTLY_FILTER: [&str; 14] = [
    "KUBE-ROUTER",
    "DOCKER-USER",
    "DOCKER-FORWARD",
    "DOCKER-ISOLATION-STAGE-",
    "FLANNEL-FWD",
    "cali-FORWARD",
    "cali-INPUT",
    "cali-OUTPUT",
    "cali-fw-",
    "cali-tw-",
    "cali-pi-",
    "cali-po-",
    "cali-pri-",
    "cali-pro-",
];

/// Returns the table of a chain whose name exists only in one table.
pub(super) fn alone(chain: &str) -> Option<TableName> {
    let named = ALONE.iter().find(|(start, _)| chain.starts_with(start)).map(|(_, table)| *table);
    named.or_else(|| ChainKind::of(chain).map(|_| TableName::Nat))
}

/// Returns the usual table of a chain, by name.
pub(super) fn usual(chain: &str) -> TableName {
    let is_filter = TableName::Filter.builtin_chains().contains(&chain)
        || MOSTLY_FILTER.iter().any(|start| chain.starts_with(start));
    alone(chain).unwrap_or(if is_filter { TableName::Filter } else { TableName::Nat })
}

/// Returns the table of a rule by its chain and target, if the kernel allows or kube-proxy writes such a rule in one table only.
pub(super) fn by_target(chain: &str, target: &str) -> Option<TableName> {
    match (chain, target) {
        (_, "DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT") => Some(TableName::Nat),
        (_, "REJECT") | ("KUBE-SERVICES" | "KUBE-NODEPORTS", "DROP" | "ACCEPT") => Some(TableName::Filter),
        _ => alone(target),
    }
}

/// Returns the only table that a rule can be in, by its line: kube-proxy has its chain or target there alone, or the kernel allows its target
/// there alone.
pub(super) fn certain(chain: &str, line: &str) -> Option<TableName> {
    match target_of(line) {
        Some("DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT") => Some(TableName::Nat),
        Some("REJECT") => Some(TableName::Filter),
        target => alone(chain).or_else(|| alone(target?)),
    }
}

/// Returns the table of a rule, by its line.
pub(super) fn by_line(chain: &str, line: &str) -> TableName {
    let target = target_of(line).unwrap_or_default();
    by_target(chain, target).unwrap_or_else(|| match (chain, target) {
        ("OUTPUT", "KUBE-SERVICES") if line.contains("--ctstate NEW") => TableName::Filter,
        ("OUTPUT", "KUBE-SERVICES" | "DOCKER") => TableName::Nat,
        _ => usual(chain),
    })
}

/// Returns the name of the target or chain in a line.
pub(super) fn target_of(line: &str) -> Option<&str> {
    line.split_whitespace().skip_while(|word| !matches!(*word, "-j" | "--jump" | "-g" | "--goto")).nth(1)
}

/// Returns the table that a text starts in, if it starts after the table's heading and has its end: the table of most of its lines that can be in
/// one table alone, else that of its built-in chains.
pub(super) fn headless(lines: &[(usize, &str)]) -> Option<TableName> {
    let end = lines.iter().position(|(_, line)| line.trim() == "COMMIT" || line.trim_start().starts_with('*'))?;
    let own = &lines[..end];
    if lines[end].1.trim() != "COMMIT" {
        return None;
    }
    let certain_of = |line: &str| match heading(line) {
        Some(chain) => alone(chain),
        None => certain(line.split_once("-A ")?.1.split(' ').next()?, line),
    };
    let votes: Vec<TableName> = own.iter().filter_map(|(_, line)| certain_of(line)).collect();
    let count = |table: &TableName| votes.iter().filter(|vote| *vote == table).count();
    let most = TableName::ALL.into_iter().max_by_key(count).filter(|table| count(table) > 0);
    let has = |chain: &str| own.iter().any(|(_, line)| heading(line) == Some(chain));
    most.or_else(|| TableName::of_builtin_chains(has))
}

/// Returns the chain of a heading: `:INPUT ACCEPT [0:0]`.
fn heading(line: &str) -> Option<&str> {
    line.trim().strip_prefix(':')?.split(' ').next()
}
