//! The table of a listed chain, which listings do not name.

use super::Shown;
use crate::iptables::parse::tables::{alone, by_target, usual as usual_table};
use crate::iptables::table_name::TableName;

/// The tables that a chain may be in.
type Candidates = Vec<TableName>;

/// The chains of one command's output.
struct Segment {
    /// Positions of chains.
    chains: Vec<usize>,
    candidates: Candidates,
    has_user_chains: bool,
}

/// The table of a chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) table: TableName,
    /// Whether all built-in chains of the table are listed.
    pub(super) has_builtins: bool,
    /// Whether the chain may as well be in another table, where kube-proxy has one of the same name.
    pub(super) is_guessed: bool,
}

/// Returns the tables of chains, in the order of the text.
///
/// A table is listed with its built-in chains first and each chain once. So a repeated chain, a built-in chain after other chains, and a
/// chain that cannot be in the table start the listing of another table.
pub(super) fn tables(chains: &[Shown]) -> Vec<Placed> {
    let mut segments: Vec<Segment> = Vec::new();
    for (at, shown) in chains.iter().enumerate() {
        let own = candidates(shown);
        let is_builtin = is_builtin(&shown.chain.name);
        let fits = |segment: &&mut Segment| {
            let is_again = segment.chains.iter().any(|other| chains[*other].chain.name == shown.chain.name);
            !(is_again || is_builtin && segment.has_user_chains)
                && segment.candidates.iter().any(|table| own.contains(table))
        };
        match segments.last_mut().filter(fits) {
            Some(segment) => {
                segment.candidates.retain(|table| own.contains(table));
                segment.has_user_chains |= !is_builtin;
                segment.chains.push(at);
            }
            None => {
                segments.push(Segment { chains: vec![at], candidates: own, has_user_chains: !is_builtin });
            }
        }
    }
    let mut all = vec![Placed { table: TableName::Filter, has_builtins: false, is_guessed: false }; chains.len()];
    for segment in &segments {
        let has = |chain: &str| segment.chains.iter().any(|at| *chains[*at].chain.name == *chain);
        let has_builtins = segment.chains.iter().any(|at| is_builtin(&chains[*at].chain.name));
        let of_segment = has_builtins.then(|| preferred(&segment.candidates));
        for at in &segment.chains {
            let shown = &chains[*at];
            let named = shown.table.filter(|table| segment.candidates.contains(table));
            let of_others = match segment.candidates.as_slice() {
                // Rows would say more.
                [only] if shown.chain.rules.is_empty() => Some(*only),
                _ => None,
            };
            let known = named.or(of_segment).or(of_others);
            let guessed = || {
                let own = candidates(shown);
                let usual = usual_table(&shown.chain.name);
                if own.contains(&usual) { usual } else { preferred(&own) }
            };
            let table = known.unwrap_or_else(guessed);
            let is_guessed = known.is_none() && candidates(shown).len() > 1;
            let has_builtins = table.builtin_chains().iter().all(|chain| has(chain));
            all[*at] = Placed { table, has_builtins, is_guessed };
        }
    }
    all
}

fn is_builtin(chain: &str) -> bool {
    TableName::ALL.iter().any(|table| table.builtin_chains().contains(&chain))
}

/// Returns the table if several are possible: that of kube-proxy's chains.
fn preferred(candidates: &[TableName]) -> TableName {
    let order = [TableName::Filter, TableName::Nat];
    let usual = order.into_iter().find(|table| candidates.contains(table));
    usual.or(candidates.first().copied()).unwrap_or(TableName::Filter)
}

/// Returns the tables that may have a chain of this name with these rules.
fn candidates(shown: &Shown) -> Candidates {
    let name = &*shown.chain.name;
    let builtin: Candidates =
        TableName::ALL.into_iter().filter(|table| table.builtin_chains().contains(&name)).collect();
    let mut all = if builtin.is_empty() { TableName::ALL.to_vec() } else { builtin };
    let mut targets = shown.chain.rules.iter().filter_map(|rule| rule.target.as_ref());
    let kept = alone(name).or_else(|| targets.find_map(|target| by_target(name, target.name())));
    if let Some(table) = kept {
        all.retain(|own| *own == table);
    }
    // Only a consistent table is possible; a rule that contradicts its chain was edited.
    if all.is_empty() { kept.into_iter().collect() } else { all }
}
