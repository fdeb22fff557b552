//! Printing of rules as `nft list ruleset` does (nft 1.0.6).

use std::fmt::Write;

use super::ast::{BaseChain, Chain, Element, Rule, Ruleset, Set, SetKind, Table};
use super::key::{Datatype, Key};
use super::text::{family, join};
use super::verdict::Verdict;
use crate::cluster::Family;
use crate::walk::Hook;

/// Prints tables as `nft list ruleset` does. `nft -f` loads the text into a network namespace that has none of them.
///
/// Expressions that are not modelled are printed as they were read; if that was JSON, `nft -f` rejects them.
///
/// Elements are in the model's order; nft prints those of maps in a different order.
pub fn print(rules: &Ruleset) -> String {
    let mut out = String::new();
    rules.tables.iter().for_each(|table| print_table(&mut out, table));
    out
}

/// Prints the input for `nft -f` that makes the tables of a network namespace equal to these, whether or not it has them from an earlier
/// sync.
///
/// Keys in dynamic sets are kept, as with kube-proxy. Chains that are no longer used stay as empty chains, as in kube-proxy until a later
/// sync.
pub fn print_sync(rules: &Ruleset) -> String {
    let mut out = String::new();
    for table in &rules.tables {
        let family = family(table.family);
        let declared = Table { chains: Vec::new(), ..without_elements(table) };
        print_table(&mut out, &declared);
        let _ = writeln!(out, "flush table {family} {}", table.name);
        for set in table.sets.iter().filter(|set| set.dynamic.is_none()) {
            let _ = writeln!(out, "flush {} {family} {} {}", set.kind.as_str(), table.name, set.name);
        }
    }
    out + &print(rules)
}

/// Prints the commands that delete the dynamic sets that a later sync no longer has, to be run with it: kube-proxy deletes the affinity set
/// of a removed endpoint at once, so that no client is sent back to it when it returns.
pub(crate) fn print_deleted_sets(before: &Ruleset, after: &Ruleset) -> String {
    let mut out = String::new();
    for table in &after.tables {
        let is_same = |old: &&Table| (old.family, &old.name) == (table.family, &table.name);
        let family = family(table.family);
        let old = before.tables.iter().filter(is_same).flat_map(|old| &old.sets);
        for set in old.filter(|old| old.dynamic.is_some() && !table.sets.iter().any(|set| set.name == old.name)) {
            let _ = writeln!(out, "delete {} {family} {} {}", set.kind.as_str(), table.name, set.name);
        }
    }
    out
}

fn without_elements(table: &Table) -> Table {
    let sets = table.sets.iter().map(|set| Set { elements: Vec::new(), ..set.clone() });
    Table { sets: sets.collect(), ..table.clone() }
}

/// Prints one rule of a table of this family.
pub fn print_rule(rule: &Rule, family: Family) -> String {
    let mut out = String::new();
    write_rule(&mut out, rule, family);
    out
}

fn print_table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "table {} {} {{", family(table.family), table.name);
    if let Some(comment) = &table.comment {
        let _ = writeln!(out, "\tcomment \"{comment}\"");
    }
    for (index, set) in table.sets.iter().enumerate() {
        separate(out, index > 0);
        print_set(out, set);
    }
    for (index, chain) in table.chains.iter().enumerate() {
        separate(out, index > 0 || !table.sets.is_empty());
        print_chain(out, chain, table.family);
    }
    out.push_str("}\n");
}

fn separate(out: &mut String, needed: bool) {
    if needed {
        out.push('\n');
    }
}

fn print_set(out: &mut String, set: &Set) {
    let _ = writeln!(out, "\t{} {} {{", set.kind.as_str(), set.name);
    out.push_str("\t\ttype ");
    join(out, " . ", &set.key, |out, part| out.push_str(part.as_str()));
    out.push_str(if set.kind == SetKind::VerdictMap { " : verdict\n" } else { "\n" });
    if let Some(dynamic) = set.dynamic {
        let _ = writeln!(
            out,
            "\t\tsize {}\n\t\tflags dynamic{}",
            dynamic.size,
            if dynamic.timeout.is_some() { ",timeout" } else { "" }
        );
        if let Some(timeout) = dynamic.timeout {
            let _ = writeln!(out, "\t\ttimeout {}", duration(timeout));
        }
    }
    if let Some(comment) = &set.comment {
        let _ = writeln!(out, "\t\tcomment \"{comment}\"");
    }
    if !set.elements.is_empty() {
        print_elements(out, set);
    }
    out.push_str("\t}\n");
}

/// Prints elements: two per line if they are IPv4 addresses, otherwise one.
fn print_elements(out: &mut String, set: &Set) {
    let in_line = if set.key == [Datatype::Address(Family::Ipv4)] { 2 } else { 1 };
    out.push_str("\t\telements = { ");
    for (index, element) in set.elements.iter().enumerate() {
        match index {
            0 => {}
            _ if index % in_line == 0 => out.push_str(",\n\t\t\t     "),
            _ => out.push_str(", "),
        }
        write_element(out, element);
    }
    out.push_str(" }\n");
}

/// Prints an element of a set or map.
pub fn print_element(element: &Element) -> String {
    let mut out = String::new();
    write_element(&mut out, element);
    out
}

/// Prints the key of an element.
pub fn print_key(key: &[Key]) -> String {
    let mut out = String::new();
    write_parts(&mut out, key);
    out
}

/// Prints a verdict.
pub(crate) fn print_verdict(verdict: &Verdict) -> String {
    let mut out = String::new();
    verdict.print(&mut out);
    out
}

fn write_parts(out: &mut String, key: &[Key]) {
    join(out, " . ", key, |out, part| {
        let _ = write!(out, "{part}");
    });
}

fn write_element(out: &mut String, element: &Element) {
    write_parts(out, &element.key);
    if let Some(comment) = &element.comment {
        let _ = write!(out, " comment \"{comment}\"");
    }
    if let Some(verdict) = &element.verdict {
        out.push_str(" : ");
        verdict.print(out);
    }
}

/// `1d2h3m4s`, without what is zero.
fn duration(seconds: u32) -> String {
    let parts = [(seconds / 86_400, 'd'), (seconds / 3600 % 24, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    parts.iter().filter(|(number, _)| *number > 0).map(|(number, unit)| format!("{number}{unit}")).collect()
}

fn print_chain(out: &mut String, chain: &Chain, family: Family) {
    let _ = writeln!(out, "\tchain {} {{", chain.name);
    if let Some(comment) = &chain.comment {
        let _ = writeln!(out, "\t\tcomment \"{comment}\"");
    }
    if let Some(base) = &chain.base {
        let kind = if base.nat { "nat" } else { "filter" };
        let _ = write!(out, "\t\ttype {kind} hook {} priority ", base.hook.lowercase());
        write_priority(out, base);
        out.push_str(if base.drops { "; policy drop;\n" } else { "; policy accept;\n" });
    }
    for rule in &chain.rules {
        out.push_str("\t\t");
        write_rule(out, rule, family);
        out.push('\n');
    }
    out.push_str("\t}\n");
}

/// Prints a priority as a number, or as an offset from a name that nft has at this hook.
fn write_priority(out: &mut String, base: &BaseChain) {
    let named = match base.hook {
        Hook::Prerouting => Some(("dstnat", -100)),
        Hook::Postrouting => Some(("srcnat", 100)),
        Hook::Input | Hook::Forward | Hook::Output => None,
    };
    let named = named.into_iter().chain([("filter", 0)]);
    let distance = |number: i32| base.priority.saturating_sub(number);
    let near = named.map(|(name, number)| (name, distance(number))).find(|(_, distance)| (-10..=10).contains(distance));
    let _ = match near {
        Some((name, 0)) => write!(out, "{name}"),
        Some((name, distance)) if distance < 0 => write!(out, "{name} - {}", -distance),
        Some((name, distance)) => write!(out, "{name} + {distance}"),
        None => write!(out, "{}", base.priority),
    };
}

fn write_rule(out: &mut String, rule: &Rule, family: Family) {
    let conditions = rule.conditions.len();
    for (index, condition) in rule.conditions.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        condition.print(out, family);
    }
    for (index, statement) in rule.statements.iter().enumerate() {
        if index + conditions > 0 {
            out.push(' ');
        }
        statement.print(out, family);
    }
    if let Some(comment) = &rule.comment {
        let _ = write!(out, " comment \"{comment}\"");
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(10_800, "3h")]
    #[case(60, "1m")]
    #[case(90_061, "1d1h1m1s")]
    #[case(1, "1s")]
    fn times_are_printed_as_nft_prints_them(#[case] seconds: u32, #[case] shown: &str) {
        assert_eq!(duration(seconds), shown);
    }

    #[rstest]
    #[case(Hook::Prerouting, -110, "dstnat - 10")]
    #[case(Hook::Prerouting, -100, "dstnat")]
    #[case(Hook::Prerouting, i32::MAX - 99, "2147483548")]
    #[case(Hook::Output, -100, "-100")]
    #[case(Hook::Output, 0, "filter")]
    #[case(Hook::Postrouting, 100, "srcnat")]
    #[case(Hook::Forward, -110, "-110")]
    fn priorities_have_names_at_some_hooks(#[case] hook: Hook, #[case] priority: i32, #[case] shown: &str) {
        let mut out = String::new();
        write_priority(&mut out, &BaseChain { nat: false, hook, priority, drops: false });
        assert_eq!(out, shown);
    }
}
