//! Evidence with other names and addresses.
//!
//! A text stays a text of the same formats, line by line:
//!
//! - `vocabulary`: words that cannot identify anyone; every other word is replaced, wherever it is, by one of the same length (`words`);
//! - `addresses`: addresses keep their prefixes in common, their families, and what is special about them;
//! - `chains`: the hashes in names of chains become those of the new names and endpoints;
//! - `token`: the parts of a text that may be identifying; `scan`: the text with others in their place;
//! - `verification`: the result is read again: the same pieces, no token of the original, and rules that do the same with every packet.
//!
//! Equal names and addresses stay equal, in all files of an input. Replacements are a function of the `key` alone: the seed's, or a random
//! one.

mod addresses;
mod chains;
mod key;
mod scan;
#[cfg(test)]
mod tests;
mod token;
mod verification;
mod vocabulary;
mod words;

use std::path::Path;

pub use verification::{Behaviour, Proof};

use self::chains::Chains;
use self::key::Key;
use self::scan::Scan;
use crate::evidence::{Evidence, SourceError, read, visit};

/// A text of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The name of its file among several, with `/` between folders.
    pub name: Option<String>,
    /// What is in it.
    pub text: String,
}

/// An input with other names and addresses.
#[derive(Debug, Clone)]
pub struct Anonymized {
    /// Its texts, in their order.
    pub texts: Vec<Text>,
    /// How many names, and how many addresses, were replaced.
    pub replaced: [usize; 2],
    /// Files that are left out, and why.
    pub left_out: Vec<(String, String)>,
    /// What was found when the result was read again.
    pub proof: Proof,
}

/// Replaces identifying names and addresses in a file, a folder or an archive. The same seed gives the same result.
///
/// # Errors
///
/// What cannot be read.
pub fn anonymize(path: &Path, seed: Option<&str>) -> Result<Anonymized, SourceError> {
    let (mut texts, mut left_out) = (Vec::new(), Vec::new());
    visit(path, &mut |name, text| match text {
        Ok(text) => texts.push(Text { name: name.map(str::to_owned), text }),
        Err(reason) => left_out.push((name.unwrap_or_default().to_owned(), reason)),
    })?;
    Ok(Anonymized { left_out, ..anonymize_texts(&texts, seed) })
}

/// Replaces identifying names and addresses in texts.
pub fn anonymize_texts(texts: &[Text], seed: Option<&str>) -> Anonymized {
    let key = seed.map_or_else(Key::random, Key::from_seed);
    let mut scan = Scan::new(key, texts);
    let before: Vec<Evidence> = texts.iter().map(|text| read(&text.text)).collect();
    let chains = Chains::of(texts, &before, &mut scan);
    scan.set_chains(chains);
    let renamed = |scan: &mut Scan, text: &Text| Text {
        name: text.name.as_ref().map(|name| scan.replace(name)),
        text: scan.replace(&text.text),
    };
    let new: Vec<Text> = texts.iter().map(|text| renamed(&mut scan, text)).collect();
    let replaced = scan.replaced();
    let after: Vec<Evidence> = new.iter().map(|text| read(&text.text)).collect();
    let proof = verification::prove(&before, &after, &new, &mut scan);
    Anonymized { texts: new, replaced, left_out: Vec::new(), proof }
}
