//! What people send → a scenario.

use std::path::Path;

use svclab_rules::cascade::Extent;

use super::objects::{Assumed, from_objects};
use super::rules::from_rules;
use crate::evidence::{manifest, node_rules, read};
use crate::input::{Diagnostic, Diagnostics, Span};

/// Builds a scenario from a text that quotes rules or objects: the first whole rule set in it, else its Kubernetes objects, also those that
/// tables and descriptions show.
///
/// # Errors
///
/// A text with neither, and what the rules or objects make impossible.
pub fn from_evidence(text: &str, path: &Path) -> Result<Assumed, Diagnostics> {
    let evidence = read(text);
    let nodes = node_rules(&evidence);
    if let Some(node) = nodes.iter().find(|node| node.extent == Extent::Whole) {
        let mut assumed = from_rules(&node.rules.print(), path)?;
        let words = format!("the rules are those from line {}, {}", node.first, node.format.words());
        assumed.assumptions.insert(0, words);
        return Ok(assumed);
    }
    if let Some(objects) = manifest(&evidence) {
        let mut assumed = from_objects(&objects, path)?;
        assumed
            .assumptions
            .insert(0, "the objects are those that the text shows; what tables leave out is not known".to_owned());
        return Ok(assumed);
    }
    let (message, help) = match nodes.first() {
        Some(_) => (
            "the text shows only parts of a node's rules, and no objects",
            "Use the whole output of `iptables-save` or `nft list ruleset`; `svclab cascade` and `svclab dump lint` judge parts.",
        ),
        None => {
            ("the text shows neither rules nor Kubernetes objects", "See what is recognised with `svclab dump show`.")
        }
    };
    Err(Diagnostics::of_text(vec![Diagnostic::new(Span::start_of(path), message, help)], path, text))
}
