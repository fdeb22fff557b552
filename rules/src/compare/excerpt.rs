//! Completion of an excerpt to the rules of a whole node: what the text contains stays as it is, and the rest is added as kube-proxy writes
//! it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::mem::{Discriminant, discriminant};

use super::made_up::MadeUp;
use super::missing_rules::{OmittedRules, is_share};
use crate::chains::iptables::{NAMING, frontend};
use crate::chains::nftables::kind_of;
use crate::cluster::Family;
use crate::coverage::{Coverage, nft_table};
use crate::iptables::{self, Chain, Match, Rule, RuleSet, TableName, Target, canonical_key};
use crate::nftables::{self, Condition, Key, Name, Statement};
use crate::ruleset::Rules;

/// Completed rules, and what was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The rules.
    pub rules: Rules,
    /// The tables of which the text contains nothing.
    pub tables: Vec<String>,
    /// The number of chains, sets and maps of the other tables that the text does not contain.
    pub chains: usize,
    /// The chains that the text contains only in part, with their tables.
    pub partial: Vec<(String, String)>,
}

/// Completes the rules of a text with those that kube-proxy writes for the same objects.
///
/// Chains that the text covers completely stay as they are: a rule that is missing there is missing on the node. Other chains get the rules
/// that they lack, except rules that the text would contain if they were on the node (`OmittedRules`). Rules that could not be read are
/// removed.
pub fn completed(shown: &Rules, coverage: &Coverage, written: Rules, assumed: &MadeUp) -> Completed {
    let mut completed = Completed { rules: shown.clone(), tables: Vec::new(), chains: 0, partial: Vec::new() };
    match (&mut completed.rules, written) {
        (Rules::Iptables(_), Rules::Iptables(written)) => {
            complete_iptables(&mut completed, coverage, written.rules, assumed)
        }
        (Rules::Nftables(_), Rules::Nftables(written)) => complete_nftables(&mut completed, coverage, written.rules),
        _ => {}
    }
    completed
}

fn complete_iptables(completed: &mut Completed, coverage: &Coverage, written: RuleSet, assumed: &MadeUp) {
    let Rules::Iptables(own) = &mut completed.rules else { return };
    let family = own.rules.family;
    let mut added: BTreeSet<(TableName, String)> = BTreeSet::new();
    for table in written.tables {
        let name = table.name;
        if coverage.has_table(name.as_str()) {
            continue;
        }
        let is_shown = own.rules.table(name).is_some();
        if !is_shown {
            completed.tables.push(name.to_string());
        }
        let at = own.table(name);
        own.rules.tables[at].chains.iter_mut().for_each(|chain| {
            if !name.builtin_chains().contains(&&*chain.name) {
                chain.policy = None;
            }
        });
        let left_out = OmittedRules::of(&own.rules.tables[at], (coverage, assumed), &table, family);
        let positions: HashMap<String, usize> = own.rules.tables[at]
            .chains
            .iter()
            .zip(0..)
            .map(|(chain, position)| (chain.name.to_string(), position))
            .collect();
        for chain in table.chains {
            let position = positions.get(&*chain.name);
            if let Some(position) = position.filter(|_| coverage.is_unordered()) {
                put_in_order(own, (at, *position), &chain);
            }
            match position {
                None => {
                    let Some(chain) = left_out.rest_of(chain) else { continue };
                    added.insert((name, chain.name.to_string()));
                    own.rules.tables[at].chains.push(chain);
                }
                Some(position) if !coverage.has_chain(name.as_str(), &chain.name) => {
                    let is_cut = coverage.is_cut(name.as_str(), &chain.name);
                    if merge(own, (at, *position), chain, is_cut, &left_out) {
                        let names = (name.to_string(), own.rules.tables[at].chains[*position].name.to_string());
                        completed.partial.push(names);
                    }
                }
                Some(_) => {}
            }
        }
        for hook in name.builtin_chains() {
            if own.rules.tables[at].chain(hook).is_none() {
                own.rules.tables[at].chains.push(Chain::builtin(*hook));
            }
        }
    }
    drop_unread(own);
    drop_unused(&mut own.rules, &mut added);
    let is_of_shown = |(table, _): &&(TableName, String)| !completed.tables.contains(&table.to_string());
    completed.chains = added.iter().filter(is_of_shown).count();
}

/// Removes the rules that could not be read, in whose place those of kube-proxy are now.
fn drop_unread(own: &mut iptables::Parsed) {
    for table in 0..own.rules.tables.len() {
        for chain in 0..own.rules.tables[table].chains.len() {
            let rules = &own.rules.tables[table].chains[chain].rules;
            if !rules.iter().any(Rule::is_unread) {
                continue;
            }
            let lines = own.lines_of((table, chain));
            let lines = lines.into_iter().chain(std::iter::repeat(0));
            let rules = std::mem::take(&mut own.rules.tables[table].chains[chain].rules);
            let (rules, lines) = rules.into_iter().zip(lines).filter(|(rule, _)| !rule.is_unread()).unzip();
            own.rules.tables[table].chains[chain].rules = rules;
            own.set_lines((table, chain), lines);
        }
    }
}

/// Removes added chains of services and endpoints that no rule jumps to.
fn drop_unused(rules: &mut RuleSet, added: &mut BTreeSet<(TableName, String)>) {
    loop {
        let before = added.len();
        for table in &mut rules.tables {
            let of_table = table.chains.iter().flat_map(|chain| &chain.rules);
            let used: HashSet<String> =
                of_table.filter_map(|rule| rule.next_chain()).map(ToString::to_string).collect();
            let is_unused = |name: &str| {
                added.contains(&(table.name, name.to_owned())) && NAMING.of(name).is_some() && !used.contains(name)
            };
            let unused: HashSet<String> =
                table.chains.iter().map(|chain| chain.name.to_string()).filter(|name| is_unused(name)).collect();
            table.chains.retain(|chain| !unused.contains(&*chain.name));
            unused.into_iter().for_each(|name| _ = added.remove(&(table.name, name)));
        }
        if added.len() == before {
            return;
        }
    }
}

/// Puts the rules of a chain in the order in which kube-proxy writes them; rules that it does not write keep their place.
fn put_in_order(own: &mut iptables::Parsed, at: (usize, usize), written: &Chain) {
    let lines = own.lines_of(at);
    let rules = std::mem::take(&mut own.rules.tables[at.0].chains[at.1].rules);
    let lines = lines.into_iter().chain(std::iter::repeat(0));
    let mut shown: Vec<Option<(Rule, usize)>> = rules.into_iter().zip(lines).map(Some).collect();
    let by_text: HashMap<String, usize> =
        shown.iter().enumerate().rev().filter_map(|(at, rule)| Some((canonical_key(&rule.as_ref()?.0), at))).collect();
    let mut known = HashSet::new();
    let order = written.rules.iter().filter_map(|rule| by_text.get(&canonical_key(rule)).copied());
    let order: Vec<usize> = order.filter(|at| known.insert(*at)).collect();
    let mut sorted = order.iter();
    let ordered: Vec<(Rule, usize)> = (0..shown.len())
        .filter_map(|at| {
            let from = if known.contains(&at) { sorted.next().copied().unwrap_or(at) } else { at };
            shown[from].take()
        })
        .collect();
    let (rules, lines) = ordered.into_iter().unzip();
    own.rules.tables[at.0].chains[at.1].rules = rules;
    own.set_lines(at, lines);
}

/// Adds the rules that a chain lacks, in the order in which kube-proxy writes them. Returns whether any were added.
fn merge(
    own: &mut iptables::Parsed,
    at: (usize, usize),
    written: Chain,
    is_cut: bool,
    left_out: &OmittedRules<'_>,
) -> bool {
    let lines = own.lines_of(at);
    let chain = &mut own.rules.tables[at.0].chains[at.1];
    let mut shown = std::mem::take(&mut chain.rules);
    let mut lines: Vec<usize> = lines.into_iter().chain(std::iter::repeat(0)).take(shown.len()).collect();
    // If some shares may be hidden, the rest are as kube-proxy writes them for the endpoints in the text.
    let hides_shares = left_out.hides_shares(&written, &shown, is_cut);
    if hides_shares {
        let slots: HashSet<Option<String>> = written.rules.iter().filter(|own| is_share(own)).map(slot).collect();
        let is_kept: Vec<bool> = shown.iter().map(|rule| !is_share(rule) || !slots.contains(&slot(rule))).collect();
        let mut kept = is_kept.iter();
        shown.retain(|_| kept.next() == Some(&true));
        let mut kept = is_kept.iter();
        lines.retain(|_| kept.next() == Some(&true));
    }
    let place = |find: &dyn Fn(&Rule) -> Option<String>| -> HashMap<String, usize> {
        shown.iter().enumerate().rev().filter_map(|(at, rule)| Some((find(rule)?, at))).collect()
    };
    let (by_text, by_slot) = (place(&|rule| Some(canonical_key(rule))), place(&slot));
    let mut anchors: Vec<Option<usize>> =
        written.rules.iter().map(|rule| by_text.get(&canonical_key(rule)).copied()).collect();
    // A rule that equals a written one does not replace another one.
    let taken: HashSet<usize> = anchors.iter().flatten().copied().collect();
    for (anchor, rule) in anchors.iter_mut().zip(&written.rules).filter(|(anchor, _)| anchor.is_none()) {
        *anchor = slot(rule).and_then(|slot| by_slot.get(&slot)).copied().filter(|at| !taken.contains(at));
    }
    let last_shown = anchors.iter().rposition(Option::is_some);
    let is_missing = |at: usize, rule: &Rule| match is_cut {
        true => Some(at) < last_shown && left_out.is_missing_at_start(&written.name, rule),
        false => !(hides_shares && is_share(rule)) && left_out.is_missing(&written.name, rule),
    };
    let mut gaps = Gaps::of(shown.len());
    let mut is_changed = false;
    // Rules of other programs come first if no kube-proxy rule determines their place.
    let mut after_written = if last_shown.is_none() { shown.len() } else { 0 };
    for (at, rule) in written.rules.iter().enumerate() {
        match anchors[at] {
            Some(anchor) => after_written = after_written.max(anchor + 1),
            None if is_missing(at, rule) => {}
            None => {
                is_changed = true;
                gaps.add(beside_frontend(&written.rules, &anchors, at).unwrap_or(after_written), rule.clone());
            }
        }
    }
    let merged = gaps.filled(shown.into_iter().zip(lines));
    let (rules, lines) = merged.into_iter().unzip();
    own.rules.tables[at.0].chains[at.1].rules = rules;
    own.set_lines(at, lines);
    is_changed
}

/// The rules to insert before each rule of the text, and after the last one.
struct Gaps(Vec<Vec<Rule>>);

impl Gaps {
    fn of(shown: usize) -> Self {
        Self(vec![Vec::new(); shown + 1])
    }

    fn add(&mut self, gap: usize, rule: Rule) {
        self.0[gap].push(rule);
    }

    /// Returns all rules; added ones have no line.
    fn filled(self, shown: impl Iterator<Item = (Rule, usize)>) -> Vec<(Rule, usize)> {
        let mut shown = shown.peekable();
        let mut all = Vec::new();
        for gap in self.0 {
            all.extend(gap.into_iter().map(|rule| (rule, 0)));
            all.extend(shown.next());
        }
        all
    }
}

/// Returns before which rule of the text to insert a rule that only kube-proxy writes, if the other rule of its frontend is there: next to
/// it, whatever the order of frontends. `anchors` are the positions of written rules among those in the text.
fn beside_frontend(written: &[Rule], anchors: &[Option<usize>], at: usize) -> Option<usize> {
    let is_same = |other: usize| frontend(&written[at]).is_some_and(|own| frontend(&written[other]) == Some(own));
    let after = (at + 1..written.len()).take_while(|other| is_same(*other)).find_map(|other| anchors[other]);
    let before = (0..at).rev().take_while(|other| is_same(*other)).find_map(|other| anchors[other]);
    after.or(before.map(|before| before + 1))
}

/// Returns the purpose of a kube-proxy rule, so that a rule which differs in something else replaces the one that kube-proxy writes.
fn slot(rule: &Rule) -> Option<String> {
    if rule.is_unread() {
        return None;
    }
    let recalls = rule.matches.iter().any(|one| matches!(one, Match::Recent(_)));
    match &rule.target {
        Some(Target::Dnat(_)) => Some("translates".to_owned()),
        Some(Target::Jump(next) | Target::Goto(next)) if NAMING.of(next).is_some() => {
            Some(format!("{next} {recalls} {:?}", rule.destination))
        }
        _ => None,
    }
}

fn complete_nftables(completed: &mut Completed, coverage: &Coverage, written: nftables::Ruleset) {
    let Rules::Nftables(parsed) = &mut completed.rules else { return };
    let mut is_changed = false;
    for table in written.tables {
        let name = nft_table(table.family);
        if coverage.has_table(name) {
            continue;
        }
        is_changed = true;
        let Some(own) = parsed.rules.tables.iter_mut().find(|own| own.family == table.family) else {
            completed.tables.push(name.to_owned());
            parsed.rules.tables.push(table);
            continue;
        };
        let counts = (&mut completed.chains, &mut completed.partial);
        complete_table(own, table, coverage, counts);
    }
    for table in parsed.rules.tables.iter_mut().filter(|table| !coverage.has_table(nft_table(table.family))) {
        table.add_missing();
    }
    // The lines have the same layout as the rules.
    if is_changed {
        *parsed = std::mem::take(&mut parsed.rules).into();
    }
}

/// Adds what an nftables table lacks. Counts new chains and sets, and lists those that were extended.
fn complete_table(
    own: &mut nftables::Table,
    written: nftables::Table,
    coverage: &Coverage,
    (added, partial): (&mut usize, &mut Vec<(String, String)>),
) {
    let name = nft_table(written.family);
    // Addresses and endpoints of services that appear nowhere else are dropped with these.
    let lists_services = ["service-ips", "no-endpoint-services"].iter().all(|map| coverage.has_chain(name, map));
    for name in ["cluster-ips", "hairpin-connections"].iter().filter(|_| !lists_services) {
        let Some(known) = own.sets.iter_mut().find(|set| *set.name == **name) else { continue };
        let listed = written.set(name).map(|set| set.elements.as_slice()).unwrap_or_default();
        let listed: HashSet<&[Key]> = listed.iter().map(|one| one.key.as_slice()).collect();
        known.elements.retain(|one| listed.contains(one.key.as_slice()));
    }
    let positions = positions(own.chains.iter().map(|chain| &chain.name));
    for chain in written.chains {
        match positions.get(&chain.name).map(|at| &mut own.chains[*at]) {
            None => {
                *added += 1;
                own.chains.push(chain);
            }
            Some(known) if !coverage.has_chain(name, &chain.name) => {
                known.base = known.base.or(chain.base);
                if fill(&mut known.rules, chain.rules, written.family) {
                    partial.push((name.to_owned(), known.name.to_string()));
                }
            }
            Some(_) => {}
        }
    }
    let positions = self::positions(own.sets.iter().map(|set| &set.name));
    for set in written.sets {
        match positions.get(&set.name).map(|at| &mut own.sets[*at]) {
            None => {
                *added += 1;
                own.sets.push(set);
            }
            Some(known) if !coverage.has_chain(name, &set.name) => {
                // nft prints elements last, so a set without elements may lack its flags and timeout.
                if known.elements.is_empty() {
                    known.dynamic = set.dynamic;
                }
                if add_elements(known, set.elements) {
                    partial.push((name.to_owned(), known.name.to_string()));
                }
            }
            Some(_) => {}
        }
    }
    correct_hashes(own);
}

/// The positions of chains or sets by name; of the first one where several have the same name.
fn positions<'a>(names: impl DoubleEndedIterator<Item = &'a Name> + ExactSizeIterator) -> HashMap<Name, usize> {
    names.enumerate().rev().map(|(at, name)| (name.clone(), at)).collect()
}

/// Lets rules and elements whose chain is not shown lead to the one that kube-proxy writes for the same service port or endpoint: the hash in its
/// name may be made up.
fn correct_hashes(table: &mut nftables::Table) {
    let chains: HashSet<String> = table.chains.iter().map(|chain| chain.name.to_string()).collect();
    let corrected = |name: &str| {
        let (_, base) = kind_of(name).filter(|_| !chains.contains(name))?;
        let (_, hashed) = base.split_once('-')?;
        let own = format!("{}{}-{hashed}", name.strip_suffix(base)?, nftables::name_hash(hashed));
        chains.contains(&own).then_some(own)
    };
    let correct = |verdict: &mut nftables::Verdict| {
        if let nftables::Verdict::Goto(name) | nftables::Verdict::Jump(name) = verdict
            && let Some(own) = corrected(name)
        {
            *name = own.into();
        }
    };
    let elements = table.sets.iter_mut().flat_map(|set| &mut set.elements);
    elements.filter_map(|element| element.verdict.as_mut()).for_each(correct);
    for statement in table.chains.iter_mut().flat_map(|chain| &mut chain.rules).flat_map(|rule| &mut rule.statements) {
        match statement {
            Statement::Verdict(verdict) => correct(verdict),
            Statement::Balance(verdicts) => verdicts.values_mut().for_each(correct),
            _ => {}
        }
    }
}

/// Adds the elements that a set lacks. Returns whether any were added.
fn add_elements(shown: &mut nftables::Set, written: Vec<nftables::Element>) -> bool {
    let keys: HashSet<Vec<Key>> = shown.elements.iter().map(|one| one.key.clone()).collect();
    let before = shown.elements.len();
    shown.elements.extend(written.into_iter().filter(|one| !keys.contains(&one.key)));
    shown.elements.len() > before
}

/// Adds the rules that an nftables chain lacks, where kube-proxy writes them. Returns whether any were added.
fn fill(shown: &mut Vec<nftables::Rule>, written: Vec<nftables::Rule>, family: Family) -> bool {
    let mut anchors = Anchors { of_written: vec![None; written.len()], is_taken: vec![false; shown.len()] };
    anchors.add(shown, &written, |rule| nftables::print_rule(rule, family));
    anchors.add(shown, &written, shape);
    let anchors = anchors.of_written;
    let is_changed = anchors.iter().any(Option::is_none);
    let mut rest = std::mem::take(shown).into_iter().enumerate().peekable();
    for (rule, anchor) in written.into_iter().zip(anchors) {
        match anchor {
            Some(anchor) => {
                shown.extend(std::iter::from_fn(|| rest.next_if(|(at, _)| *at <= anchor)).map(|(_, rule)| rule))
            }
            None => shown.push(rule),
        }
    }
    shown.extend(rest.map(|(_, rule)| rule));
    is_changed
}

/// The matches between rules of the text and written rules.
struct Anchors {
    of_written: Vec<Option<usize>>,
    /// Which rules of the text have a match.
    is_taken: Vec<bool>,
}

impl Anchors {
    /// Matches rules with equal keys, each with the first rule that has no match yet.
    fn add<K: Hash + Eq>(
        &mut self,
        shown: &[nftables::Rule],
        written: &[nftables::Rule],
        key: impl Fn(&nftables::Rule) -> K,
    ) {
        let mut free: HashMap<K, VecDeque<usize>> = HashMap::new();
        for (at, rule) in shown.iter().enumerate().filter(|(at, _)| !self.is_taken[*at]) {
            free.entry(key(rule)).or_default().push_back(at);
        }
        for (anchor, rule) in self.of_written.iter_mut().zip(written).filter(|(anchor, _)| anchor.is_none()) {
            *anchor = free.get_mut(&key(rule)).and_then(VecDeque::pop_front);
            anchor.iter().for_each(|at| self.is_taken[*at] = true);
        }
    }
}

/// Returns the matches and statements of an nftables rule without their values: a rule that differs in a value replaces the one that
/// kube-proxy writes.
fn shape(rule: &nftables::Rule) -> (Vec<Discriminant<Condition>>, Vec<Discriminant<Statement>>) {
    (rule.conditions.iter().map(discriminant).collect(), rule.statements.iter().map(discriminant).collect())
}
