//! One HTML file to look at: no other file, no network; it works without its script too.

mod case;
mod chart;
mod page;
mod picture;
mod timeline;
mod words;

pub use page::render;
