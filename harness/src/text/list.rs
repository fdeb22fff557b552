//! Lists in sentences.

use std::fmt::Display;

/// A list, cut after `most` items: `a, b, c` or `a, b, c and 44 more`.
pub fn list<T: Display>(items: impl IntoIterator<Item = T>, most: usize) -> String {
    let items: Vec<T> = items.into_iter().collect();
    // "and 1 more" is no shorter than the last item.
    let listed = if items.len() > most.saturating_add(1) { most } else { items.len() };
    let words: Vec<String> = items[..listed].iter().map(T::to_string).collect();
    match items.len() - listed {
        0 => words.join(", "),
        more => format!("{} and {more} more", words.join(", ")),
    }
}
