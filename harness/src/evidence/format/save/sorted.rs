//! Rules that `sort` put in another order: those of a chain are in the order of their letters, and tables are mixed.
//!
//! Nothing shows the order that the kernel has, so that in which kube-proxy writes rules is assumed.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use svclab_rules::iptables::{ChainKind, ELLIPSIS, TableName};

/// A line with its number.
type Numbered<'l> = (usize, Cow<'l, str>);

/// The fewest rules that are not sorted by chance.
const FEWEST: usize = 4;

/// The lines of rules without a command that `sort` printed.
pub(super) fn is_sorted(lines: &[Numbered<'_>]) -> bool {
    let texts: Vec<&str> = lines.iter().map(|(_, text)| text.trim()).filter(|text| *text != ELLIPSIS).collect();
    if texts.iter().filter(|text| chain(text).is_some()).count() < FEWEST {
        return false;
    }
    let orders: [fn(&str, &str) -> Ordering; 2] = [|one, other| one.cmp(other), by_letters];
    let is_in = |order: fn(&str, &str) -> Ordering| texts.windows(2).all(|pair| order(pair[0], pair[1]).is_le());
    orders.into_iter().any(is_in) && (has_mixed_headings(&texts) || !is_written(lines))
}

/// As many locales do: letters and digits first.
fn by_letters(one: &str, other: &str) -> Ordering {
    let letters = |text: &str| -> Vec<u8> {
        text.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect()
    };
    letters(one).cmp(&letters(other))
}

/// Whether chains are declared only after rules, or tables only after all.
fn has_mixed_headings(texts: &[&str]) -> bool {
    let first_rule = texts.iter().position(|text| chain(text).is_some()).unwrap_or_default();
    texts[first_rule..].iter().any(|text| text.starts_with([':', '*']))
}

/// Whether rules are in the order in which kube-proxy writes them.
fn is_written(lines: &[Numbered<'_>]) -> bool {
    let rules: Vec<Numbered<'_>> = lines.iter().filter(|(_, text)| chain(text).is_some()).cloned().collect();
    let mut written = rules.clone();
    put_in_order(&mut written);
    written == rules
}

/// The rules alone, in the order in which kube-proxy writes them, and their table, if there is only one.
pub(super) fn written<'l>(lines: Vec<Numbered<'l>>) -> (Vec<Numbered<'l>>, Option<TableName>) {
    let mut tables =
        TableName::ALL.into_iter().filter(|table| lines.iter().any(|(_, text)| is_heading_of(text.trim(), *table)));
    let table = tables.next().filter(|_| tables.next().is_none());
    let is_kept = |text: &str| chain(text).is_some() || text == ELLIPSIS;
    let mut rules: Vec<Numbered<'l>> = lines.into_iter().filter(|(_, text)| is_kept(text)).collect();
    put_in_order(&mut rules);
    (rules, table)
}

fn is_heading_of(text: &str, table: TableName) -> bool {
    text.strip_prefix('*').is_some_and(|name| name.trim() == table.as_str())
}

/// The chain of a rule.
fn chain(text: &str) -> Option<&str> {
    text.trim_start().split_once("-A ")?.1.split_whitespace().next()
}

/// Sorts rules by chain, in the order in which these come, and then as kube-proxy writes them.
fn put_in_order(rules: &mut [Numbered<'_>]) {
    let mut chains: HashMap<String, usize> = HashMap::new();
    for (_, text) in &*rules {
        let next = chains.len();
        chains.entry(chain(text).unwrap_or_default().to_owned()).or_insert(next);
    }
    let position = |text: &str| chains.get(chain(text).unwrap_or_default()).copied();
    let mut keyed: Vec<(Option<usize>, Rank, Numbered<'_>)> =
        rules.iter().map(|rule| (position(&rule.1), Rank::of(&rule.1), rule.clone())).collect();
    keyed.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    // Clients are looked up in the order of the endpoints.
    let mut endpoints: BTreeMap<(Option<usize>, String), usize> = BTreeMap::new();
    for (at, (chain, rank, (_, text))) in keyed.iter().enumerate() {
        if rank.kind >= Kind::Random {
            endpoints.entry((*chain, target(text).to_owned())).or_insert(at);
        }
    }
    for (chain, rank, (_, text)) in &mut keyed {
        if rank.kind == Kind::Affinity {
            rank.share = endpoints.get(&(*chain, target(text).to_owned())).copied().unwrap_or(usize::MAX) as u64;
        }
    }
    keyed.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    for (rule, (.., sorted)) in rules.iter_mut().zip(keyed) {
        *rule = sorted;
    }
}

/// Where kube-proxy puts a rule in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    kind: Kind,
    /// The order among those of a kind.
    share: u64,
}

/// The kinds of rules, in the order in which kube-proxy writes those of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Drops of invalid packets, and `-m mark ! --mark 0x4000/0x4000 -j RETURN`.
    Guard,
    /// Traffic of pods to external addresses.
    OfPods,
    /// Marks packets to masquerade.
    Mark,
    /// Traffic of the node itself, and to its loopback addresses.
    OfNode,
    /// Of source ranges.
    OfRange,
    /// Leads known clients to their endpoint.
    Affinity,
    /// Leads a share to an endpoint; the smallest one first.
    Random,
    Other,
    /// What is left: to node ports, and drops of load balancers.
    Rest,
}

impl Rank {
    fn of(text: &str) -> Self {
        let chain = chain(text).unwrap_or_default();
        let probability = option(text, "--probability").and_then(|value| value.parse::<f64>().ok());
        let share = probability.map_or(0, |probability| (probability * f64::from(u32::MAX)) as u64);
        Self { kind: kind(chain, text, probability.is_some()), share }
    }
}

fn kind(chain: &str, text: &str, is_random: bool) -> Kind {
    let target = target(text);
    let has = |part: &str| text.contains(part);
    let of_service = ChainKind::of(chain).map(|(kind, _)| kind);
    let is_external = matches!(of_service, Some(ChainKind::External | ChainKind::ExternalLocal));
    match () {
        () if target == "RETURN" || target == "DROP" && has("INVALID") => Kind::Guard,
        () if is_external && has(" -s ") => Kind::OfPods,
        () if matches!(target, "KUBE-MARK-MASQ" | "MARK") || chain == "KUBE-FORWARD" && has("--mark ") => Kind::Mark,
        () if has("! --src-type LOCAL") || is_external && has("--src-type LOCAL") => Kind::OfNode,
        () if chain == "KUBE-NODEPORTS" && has(" -d ") => Kind::OfNode,
        () if of_service == Some(ChainKind::Firewall) && has(" -s ") => Kind::OfRange,
        () if has("--rcheck") => Kind::Affinity,
        () if is_random => Kind::Random,
        () if chain == "KUBE-SERVICES" && target == "KUBE-NODEPORTS" => Kind::Rest,
        () if of_service == Some(ChainKind::Firewall) && target == "KUBE-MARK-DROP" => Kind::Rest,
        // kube-proxy inserts its jumps in front of other rules.
        () if !chain.starts_with("KUBE-") && !target.starts_with("KUBE-") => Kind::Rest,
        () => Kind::Other,
    }
}

/// The target of a rule.
fn target(text: &str) -> &str {
    option(text, "-j").unwrap_or_default()
}

/// The value of an option.
fn option<'l>(text: &'l str, name: &str) -> Option<&'l str> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()
}
