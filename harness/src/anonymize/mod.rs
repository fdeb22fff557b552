//! Anonymization of evidence.
//!
//! A text keeps its formats, line by line, except that lines which a terminal wrapped are joined:
//!
//! - `vocabulary`: words that cannot identify anyone; every other word is replaced everywhere with one of the same length (`words`);
//! - `names`: ordinary words that are names in this evidence;
//! - `addresses`: addresses keep common prefixes, their families, and special properties;
//! - `chains`: the hashes in names of chains are recomputed for the new names and endpoints;
//! - `token`: the parts of a text that may be identifying; `notation`: ways to write addresses; `wording`: lines that are sentences, in
//!   which ordinary words are no names; `scan`: their replacement in a text;
//! - `verification`: the result is parsed again: it has the same pieces, no token of the original, and rules that handle every packet in
//!   the same way.
//!
//! Equal names and addresses stay equal, in all files of an input. Replacements depend only on the `key`: from the seed, or random.

mod addresses;
mod chains;
mod key;
mod markup;
mod names;
mod notation;
mod scan;
#[cfg(test)]
mod tests;
mod token;
mod verification;
mod vocabulary;
mod wording;
mod words;

pub use verification::{Behaviour, Proof};

use self::chains::Chains;
use self::key::Key;
use self::scan::Scan;
use crate::evidence::{Evidence, Source, SourceError, read, unwrapped, visit};

/// A text of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The name of its file, if the input has several, with `/` between folders.
    pub name: Option<String>,
    /// Its content.
    pub text: String,
}

/// An anonymized input.
#[derive(Debug, Clone)]
pub struct Anonymized {
    /// Its texts, in order.
    pub texts: Vec<Text>,
    /// The numbers of replaced names and addresses.
    pub replaced: [usize; 2],
    /// Omitted files, with reasons.
    pub left_out: Vec<(String, String)>,
    /// The verification of the result.
    pub proof: Proof,
}

/// Replaces identifying names and addresses in a source. The same seed gives the same result.
///
/// # Errors
///
/// The files that cannot be read.
pub fn anonymize(source: Source, seed: Option<&str>) -> Result<Anonymized, SourceError> {
    let (mut texts, mut left_out) = (Vec::new(), Vec::new());
    visit(source, &mut |name, text| match text {
        Ok(text) => texts.push(Text { name: name.map(str::to_owned), text }),
        Err(reason) => left_out.push((name.unwrap_or("the archive").to_owned(), reason)),
    })?;
    Ok(Anonymized { left_out, ..anonymize_texts(&texts, seed) })
}

/// Replaces identifying names and addresses in texts.
pub fn anonymize_texts(texts: &[Text], seed: Option<&str>) -> Anonymized {
    let original: Vec<Evidence> = texts.iter().map(|text| read(&text.text)).collect();
    let (texts, before): (Vec<Text>, Vec<Evidence>) = texts.iter().zip(&original).map(joined).unzip();
    let texts = &texts;
    let key = seed.map_or_else(Key::random, Key::from_seed);
    let mut scan = Scan::new(key, texts, names::in_evidence(&before));
    let chains = Chains::of(texts, &before, &mut scan);
    scan.set_chains(chains);
    let renamed = |scan: &mut Scan, text: &Text, evidence: &Evidence| Text {
        name: text.name.as_ref().map(|name| scan.replace_name(name)),
        text: scan.replace(&text.text, evidence),
    };
    let new: Vec<Text> = texts.iter().zip(&before).map(|(text, evidence)| renamed(&mut scan, text, evidence)).collect();
    let replaced = scan.replaced();
    let after: Vec<Evidence> = new.iter().map(|text| read(&text.text)).collect();
    let proof = verification::prove([&original, &before, &after], &new, &mut scan);
    Anonymized { texts: new, replaced, left_out: Vec::new(), proof }
}

/// A text with the lines joined that a terminal wrapped, and what it shows: parts of names and addresses at the ends of lines would be
/// recognised only by readers of the result. Lines that only look wrapped stay: joined, they would show less.
fn joined((text, evidence): (&Text, &Evidence)) -> (Text, Evidence) {
    let whole = unwrapped(&text.text);
    if *whole == *text.text {
        return (text.clone(), evidence.clone());
    }
    let whole = Text { name: text.name.clone(), text: whole.into_owned() };
    let shown = read(&whole.text);
    if verification::shows_less(&shown, evidence) { (text.clone(), evidence.clone()) } else { (whole, shown) }
}
