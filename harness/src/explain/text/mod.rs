//! The page for a terminal: the `sections` in their order, and the `glossary` of the terms that a path uses.

mod glossary;
mod sections;

pub use sections::page;
