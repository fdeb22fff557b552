//! A self-contained HTML report: it needs no other file and no network, and works without its script too.

mod case;
mod chart;
mod page;
mod picture;
mod timeline;
mod words;

pub use page::render;
