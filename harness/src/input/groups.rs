//! The same error in many places, reported once.

use std::collections::HashMap;
use std::fmt;

use super::diagnostics::{Diagnostic, Diagnostics};
use crate::text::counted;

/// Maximum number of places at which the same error is printed separately.
const SEPARATE: usize = 3;

/// Errors with the same message, apart from numbers and generated names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group<'d> {
    /// The first of them.
    pub first: &'d Diagnostic,
    /// The others, in order.
    pub others: Vec<&'d Diagnostic>,
}

impl Diagnostics {
    /// Groups the errors for printing, in the order of the first of each group. An error at three places or fewer is a separate group at
    /// each.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut places: HashMap<String, usize> = HashMap::new();
        for error in &self.errors {
            *places.entry(pattern(&error.message)).or_default() += 1;
        }
        let mut groups: Vec<Group<'_>> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for error in &self.errors {
            let pattern = pattern(&error.message);
            let is_repeated = places[&pattern] > SEPARATE;
            match known.get(&pattern).filter(|_| is_repeated) {
                Some(group) => groups[*group].others.push(error),
                None => {
                    known.insert(pattern, groups.len());
                    groups.push(Group { first: error, others: Vec::new() });
                }
            }
        }
        groups
    }
}

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.elsewhere().map_or(Ok(()), |elsewhere| write!(f, "\n  {elsewhere}"))
    }
}

impl Group<'_> {
    /// Lists the other places of the error: `also at a.yaml:10:5, a.yaml:11:5 and 497 other places`.
    pub fn elsewhere(&self) -> Option<String> {
        let named: Vec<String> = self.others.iter().take(SEPARATE - 1).map(|error| error.span.to_string()).collect();
        let more = self.others.len() - named.len();
        let is_same = self.others.iter().all(|error| error.message == self.first.message);
        let what = if is_same { "also" } else { "similar errors" };
        let rest = if more == 0 { String::new() } else { format!(" and {}", counted(more, "other place")) };
        (!named.is_empty()).then(|| format!("{what} at {}{rest}", named.join(", ")))
    }
}

/// Masks words of a message that contain digits, such as addresses and names of pods.
fn pattern(message: &str) -> String {
    let words = message.split_inclusive(' ');
    words.map(|word| if word.contains(|letter: char| letter.is_ascii_digit()) { "# " } else { word }).collect()
}
