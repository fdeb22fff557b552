//! Known filters of saved rules, found by the text that they look for.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

/// A filter of lines of saved rules, such as `grep`.
pub trait Lines: Any + fmt::Debug + Send + Sync {
    /// Returns whether the filter selects a line.
    fn shows(&self, line: &str) -> bool;

    /// Returns whether the filter selects all lines with this prefix; if so, it also selects the prefix itself.
    fn shows_all(&self, start: &str) -> bool;

    /// Returns texts of which each line that the filter selects has at least one, if there are any. They only save time.
    fn texts(&self) -> Option<&[String]>;

    /// Returns whether another filter is equal.
    fn equals(&self, other: &dyn Lines) -> bool;
}

/// A filter.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    /// The table to which it applies; all tables if none is named.
    table: Option<String>,
    pub(super) lines: Arc<dyn Lines>,
    /// The output that it made, by its first line.
    pub(super) origin: usize,
}

impl Filter {
    pub(super) fn new(table: Option<&str>, lines: impl Lines + 'static) -> Self {
        Self { table: table.map(str::to_owned), lines: Arc::new(lines), origin: 0 }
    }

    pub(super) fn is_of(&self, table: &str) -> bool {
        self.table.as_ref().is_none_or(|own| own == table)
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.table == other.table && self.origin == other.origin && self.lines.equals(&*other.lines)
    }
}

impl Eq for Filter {}

/// Filters with an index. A page may have a thousand outputs, each of another filter, and each of their lines is looked up.
#[derive(Debug, Clone, Default)]
pub(super) struct Filters {
    all: Vec<Filter>,
    /// The filters by the ends of their texts, which differ more than the starts: `KUBE-SVC-`.
    by_end: HashMap<Box<[u8]>, Vec<usize>>,
    /// The lengths of these ends.
    lengths: BTreeSet<usize>,
    /// The filters whose texts are unknown.
    others: Vec<usize>,
}

/// The length of the ends by which filters are found.
const LONGEST_END: usize = 8;

impl Filters {
    pub(super) fn push(&mut self, filter: Filter) {
        let at = self.all.len();
        match filter.lines.texts() {
            Some(texts) if texts.iter().all(|text| !text.is_empty()) => {
                for text in texts {
                    let end = &text.as_bytes()[text.len().saturating_sub(LONGEST_END)..];
                    self.lengths.insert(end.len());
                    self.by_end.entry(end.into()).or_default().push(at);
                }
            }
            _ => self.others.push(at),
        }
        self.all.push(filter);
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Filter> {
        self.all.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Filter> {
        self.all.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The filters of a table that may select a line, in the order in which they were added.
    pub(super) fn candidates<'f>(&'f self, table: &'f str, line: &str) -> impl Iterator<Item = &'f Filter> {
        let windows = self.lengths.iter().flat_map(|length| line.as_bytes().windows(*length));
        let found = windows.filter_map(|window| self.by_end.get(window)).flatten();
        let numbers: BTreeSet<usize> = found.chain(&self.others).copied().collect();
        numbers.into_iter().map(|at| &self.all[at]).filter(move |filter| filter.is_of(table))
    }
}

impl Extend<Filter> for Filters {
    fn extend<I: IntoIterator<Item = Filter>>(&mut self, filters: I) {
        filters.into_iter().for_each(|filter| self.push(filter));
    }
}

impl IntoIterator for Filters {
    type Item = Filter;
    type IntoIter = std::vec::IntoIter<Filter>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.into_iter()
    }
}

impl PartialEq for Filters {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Filters {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Having {
        texts: Vec<String>,
        is_indexed: bool,
    }

    impl Lines for Having {
        fn shows(&self, line: &str) -> bool {
            self.texts.iter().any(|text| line.contains(text))
        }

        fn shows_all(&self, start: &str) -> bool {
            self.shows(start)
        }

        fn texts(&self) -> Option<&[String]> {
            Some(self.texts.as_slice()).filter(|_| self.is_indexed)
        }

        fn equals(&self, _: &dyn Lines) -> bool {
            false
        }
    }

    /// Short texts, long ones with the same start, several, and none.
    #[test]
    fn the_index_finds_all_filters_that_select_a_line() {
        let all: [&[&str]; 6] =
            [&["a"], &["KUBE-SVC-AAAA"], &["KUBE-SVC-BBBB", "web"], &["web"], &[""], &["no such text"]];
        for is_indexed in [true, false] {
            let filter = |texts: &&[&str]| {
                let texts = texts.iter().map(|text| (*text).to_owned()).collect();
                Filter::new(None, Having { texts, is_indexed })
            };
            let mut filters = Filters::default();
            filters.extend(all.iter().map(filter));
            for line in ["", "a", "-A KUBE-SVC-AAAA -j X", "-A KUBE-SVC-BBBB", "shop/web", "KUBE-SVC-"] {
                let selected = filters.iter().filter(|filter| filter.lines.shows(line)).count();
                let found = filters.candidates("nat", line).filter(|filter| filter.lines.shows(line)).count();
                assert_eq!(found, selected, "{line} {is_indexed}");
            }
            let candidates = filters.candidates("nat", "-A KUBE-SVC-AAAA -j X").count();
            assert_eq!(candidates, if is_indexed { 2 } else { all.len() });
        }
    }
}
