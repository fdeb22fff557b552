//! Replacement of names and addresses in a text, token by token.

use std::collections::HashSet;
use std::net::IpAddr;

use super::Text;
use super::addresses::{Addresses, Known};
use super::chains::{Chains, Rename};
use super::key::Key;
use super::notation::Notation;
use super::token::{Found, Token, Wording, tokens};
use super::wording::wordings;
use super::words::Words;
use crate::evidence::Evidence;

/// The replacements.
pub(super) struct Scan {
    pub(super) key: Key,
    pub(super) words: Words,
    pub(super) addresses: Addresses,
    pub(super) chains: Chains,
    /// Ordinary words that are names in these texts.
    pub(super) names: HashSet<String>,
    /// Replaced hexadecimal digits of hardware addresses and identifiers, without separators.
    pub(super) digits: HashSet<String>,
}

impl Scan {
    /// Creates a scan of texts, none of whose words and addresses is used as a replacement.
    pub(super) fn new(key: Key, texts: &[Text], mut names: HashSet<String>) -> Self {
        let (mut words, mut known) = (HashSet::new(), Known::default());
        let mut numbers = HashSet::new();
        for text in texts.iter().flat_map(|text| text.name.iter().chain([&text.text])) {
            let mut before: Option<(usize, IpAddr)> = None;
            for found in tokens(text, &names, Wording::Command) {
                let first = before.take().filter(|(end, _)| text.get(*end..found.at.start) == Some("-"));
                match found.token {
                    Token::Address(ip, _) => {
                        let is_last = |first: &IpAddr| first.is_ipv4() == ip.is_ipv4() && *first < ip;
                        known.spans.extend(first.map(|(_, first)| first).filter(is_last).map(|first| (first, ip)));
                        known.addresses.insert(ip);
                        before = Some((found.at.end, ip));
                    }
                    Token::Network(network, _)
                        if network == network.trunc() && network.prefix_len() < network.max_prefix_len() =>
                    {
                        known.networks.insert(network);
                    }
                    Token::Network(network, _) => _ = known.addresses.insert(network.addr()),
                    token => {
                        if token == Token::Number {
                            numbers.insert(text[found.at.clone()].to_owned());
                        }
                        let parts = text[found.at].split(|letter: char| !letter.is_alphanumeric());
                        words.extend(parts.filter(|part| !part.is_empty()).map(str::to_lowercase));
                    }
                }
            }
        }
        // An account's number is one where it stands alone, too.
        names.extend(numbers);
        let addresses = Addresses::new(key.clone(), &known);
        let words = Words::new(key.clone(), words);
        Self { words, addresses, key, chains: Chains::default(), names, digits: HashSet::new() }
    }

    pub(super) fn set_chains(&mut self, chains: Chains) {
        self.chains = chains;
    }

    /// Replaces names and addresses in a text of which this is the evidence.
    pub(super) fn replace(&mut self, text: &str, evidence: &Evidence) -> String {
        let mut out = String::with_capacity(text.len() + text.len() / 8);
        for (line, wording) in wordings(text, evidence) {
            self.replace_line(line, wording, &mut out);
        }
        out
    }

    /// Replaces names and addresses in a name.
    pub(super) fn replace_name(&mut self, name: &str) -> String {
        let mut out = String::with_capacity(name.len());
        self.replace_line(name, Wording::Command, &mut out);
        out
    }

    pub(super) fn replaced(&self) -> [usize; 2] {
        [self.words.count(), self.addresses.count()]
    }

    /// Replaces names and addresses in a line. If a word gets longer, blanks after it are removed, down to one, so that columns stay
    /// aligned.
    fn replace_line(&mut self, line: &str, wording: Wording, out: &mut String) {
        let (mut done, mut grown) = (0, 0isize);
        for Found { at, token } in tokens(line, &self.names, wording) {
            copy(&line[done..at.start], &mut grown, out);
            done = at.end;
            let new = self.replaced_token(&line[at.clone()], token);
            grown += new.chars().count() as isize - line[at].chars().count() as isize;
            out.push_str(&new);
        }
        copy(&line[done..], &mut grown, out);
    }

    fn replaced_token(&mut self, old: &str, token: Token) -> String {
        match token {
            Token::Address(ip, notation) => notation.write(self.addresses.replace(ip).into()),
            Token::Network(network, Notation::Plain) => self.addresses.replace_network(network).to_string(),
            Token::Network(network, notation) => notation.write(self.addresses.replace_network(network)),
            Token::Digits => self.digits(old),
            Token::Number => self.words.replace(old),
            Token::Chain => {
                let chains = std::mem::take(&mut self.chains);
                let new = chains.replace(old, self);
                self.chains = chains;
                new
            }
            Token::Word | Token::Hash => self.chains.hash(old).unwrap_or_else(|| self.words.replace(old)),
        }
    }

    /// Replaces hexadecimal digits; hardware addresses with equal digits do not change.
    fn digits(&mut self, old: &str) -> String {
        let digits: String = old.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        let is_special = digits.bytes().all(|byte| byte == b'0') || digits.bytes().all(|byte| byte == b'f');
        if is_special {
            return old.to_owned();
        }
        let bytes = self.key.bytes("digits", digits.as_bytes());
        self.digits.insert(digits);
        let mut at = 0;
        let replaced = old.chars().map(|letter| {
            if !letter.is_ascii_alphanumeric() {
                return letter;
            }
            let nibble = bytes[at / 2 % bytes.len()] >> (4 * (at % 2)) & 15;
            // The second digit of a hardware address marks it as locally administered and unicast.
            let nibble = if at == 1 { 2 } else { nibble };
            at += 1;
            let digit = char::from_digit(nibble.into(), 16).unwrap_or('0');
            if letter.is_ascii_uppercase() { digit.to_ascii_uppercase() } else { digit }
        });
        replaced.collect()
    }
}

/// Copies unchanged text; runs of blanks are shortened or extended to compensate for length changes.
fn copy(text: &str, grown: &mut isize, out: &mut String) {
    let mut blanks = 0isize;
    for letter in text.chars() {
        if letter == ' ' {
            blanks += 1;
            continue;
        }
        flush(&mut blanks, grown, out);
        out.push(letter);
    }
    flush(&mut blanks, grown, out);
}

fn flush(blanks: &mut isize, grown: &mut isize, out: &mut String) {
    if *blanks >= 2 {
        let width = (*blanks - *grown).max(2);
        *grown -= *blanks - width;
        *blanks = width;
    }
    out.extend(std::iter::repeat_n(' ', usize::try_from(*blanks).unwrap_or_default()));
    *blanks = 0;
}

impl Rename for Scan {
    fn text(&mut self, text: &str) -> String {
        self.replace_name(text)
    }

    fn address(&mut self, ip: IpAddr) -> IpAddr {
        self.addresses.replace(ip)
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn names(&self) -> &HashSet<String> {
        &self.names
    }
}
