//! The page for a terminal: `sections` in their order, and the `glossary` of the words that a path uses.

mod glossary;
mod sections;

pub use sections::page;
