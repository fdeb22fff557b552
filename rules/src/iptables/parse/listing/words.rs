//! The words of a row after its columns: matches, options of the target, and unknown words.

use crate::iptables::ast::Rule;
use crate::iptables::matches::{LISTED, Match, Other, Probability, Statistic, parse_listed};
use crate::iptables::targets::Listed;
use crate::iptables::text::values;
use crate::iptables::values::Negatable;

/// Number of decimals that determine a threshold of 31 bits.
const EXACT_DIGITS: usize = 10;

/// Returns whether unknown words are the start of known ones.
fn is_begun(word: &str, rest: &[&str]) -> bool {
    match word {
        "/*" => true,
        "statistic" => rest.len() < 4,
        "recent:" | "to:" => rest.is_empty(),
        _ => false,
    }
}

/// Returns whether a word starts what a person wrote behind a row: `← 1`, `<-- here`, `# the first one`.
fn is_remark(word: &str) -> bool {
    word.starts_with(['←', '⇐', '⟵', '⬅', '◀', '◄', '👈', '#'])
        || ["<-", "<="].iter().any(|start| word.starts_with(start))
}

/// A reader of the words of extensions.
pub(super) struct Words<'a, 'r> {
    pub(super) words: &'a [&'a str],
    pub(super) rule: &'r mut Rule,
    /// The name of the rule's target, and its options.
    pub(super) target: Option<&'a str>,
    pub(super) action: Listed,
    /// Whether all words are known, and whether the last ones are the start of known ones.
    pub(super) is_known: bool,
    pub(super) is_cut: bool,
    pub(super) rounded_digits: &'r mut Option<usize>,
}

impl Words<'_, '_> {
    pub(super) fn read(&mut self) {
        while let [word, rest @ ..] = self.words {
            if is_remark(word) {
                return;
            }
            let taken = self.extension().unwrap_or_else(|| {
                self.is_known = false;
                self.is_cut |= is_begun(word, rest);
                // A comment that does not end takes the rest.
                let taken = if *word == "/*" { self.words.len() } else { 1 };
                self.words[..taken].iter().for_each(|word| self.unknown(word));
                taken
            });
            self.words = self.words.get(taken..).unwrap_or_default();
        }
    }

    /// Reads the next match or target options. Returns the number of words; nothing if they are unknown.
    fn extension(&mut self) -> Option<usize> {
        let Some((found, length)) = parse_listed(self.words) else {
            return self.action.read(self.target, self.words);
        };
        if let Match::Statistic(Statistic::Random(probability)) = found {
            self.check_digits(self.words[length - 1], probability.value);
        }
        self.rule.matches.push(found);
        Some(length)
    }

    /// Records a probability with too few digits to determine its threshold.
    fn check_digits(&mut self, number: &str, probability: Probability) {
        let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len());
        let follows = digits >= EXACT_DIGITS || probability.threshold().trailing_zeros() >= 24;
        if !follows {
            *self.rounded_digits = Some(self.rounded_digits.map_or(digits, |short| short.min(digits)));
        }
    }

    /// Reads a source or destination; `anywhere` is no match.
    pub(super) fn place(&mut self, word: &str, is_source: bool) {
        let (negated, text) = word.strip_prefix('!').map_or((false, word), |rest| (true, rest));
        if matches!(text, "anywhere" | "0.0.0.0/0" | "::/0") {
            return;
        }
        // Names that are the same on every machine, in a listing without `-n`.
        let text = match text {
            "localhost" => "127.0.0.1",
            "loopback/8" => "127.0.0.0/8",
            text => text,
        };
        let network = values::network(text).map(|value| Negatable { negated, value });
        match network {
            // A host or network name, which only the listed machine can resolve.
            None => self.unknown(&format!("{} {word}", if is_source { "source" } else { "destination" })),
            Some(network) if is_source => self.rule.source = Some(network),
            Some(network) => self.rule.destination = Some(network),
        }
    }

    pub(super) fn unknown(&mut self, word: &str) {
        self.rule.matches.push(Match::Other(Box::new(Other { name: LISTED.into(), text: word.into() })));
    }
}
