//! Mutation of inputs: lines and words, and sometimes single bytes, are moved, repeated, exchanged and removed.

use std::ops::Range;

use crate::dice::Dice;

/// Maximum size of a mutated input in bytes.
const LONGEST: usize = 16 << 10;

/// Maximum number of lines in each of the three parts of an excerpt.
const EXCERPT: usize = 12;

/// Words at the limits of what parsers accept.
const EDGES: [&str; 28] = [
    "0",
    "-1",
    "1",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "0x",
    "0xffffffff/0x0",
    "1e999",
    "0.00000000001",
    "2147483648",
    "!",
    "\"",
    "\\",
    "\0",
    "\r",
    "\t",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "/33",
    "::",
    "\u{e9}\u{202e}",
];

/// Derives an input from one in the corpus, with parts of others.
pub fn mutated(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let whole = dice.one_of(corpus).map(Vec::as_slice).unwrap_or_default();
    let mut input = if dice.below(4) == 0 { whole.to_vec() } else { excerpt(whole, dice) };
    for _ in 0..=dice.below(6) {
        change(&mut input, corpus, dice);
        input.truncate(LONGEST);
    }
    input
}

/// Takes some lines from the start, the middle and the end of an input, because formats open and close at the ends. Most parser errors need
/// no more, and short inputs take a fraction of the time.
fn excerpt(whole: &[u8], dice: &mut Dice) -> Vec<u8> {
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let start = dice.below(EXCERPT.min(lines.len()) + 1);
    let middle = start + dice.below(lines.len() - start + 1);
    let after_middle = middle + dice.below(EXCERPT.min(lines.len() - middle) + 1);
    let end = lines.len() - dice.below(EXCERPT.min(lines.len() - after_middle) + 1);
    [&lines[..start], &lines[middle..after_middle], &lines[end..]].concat().concat()
}

/// Makes one change.
fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], dice: &mut Dice) {
    let is_line = dice.below(3) == 0;
    let here = piece(input, is_line, dice);
    let donor = dice.one_of(corpus).map(Vec::as_slice).unwrap_or_default();
    let inserted = donor[piece(donor, is_line, dice)].to_vec();
    match dice.below(9) {
        0 => drop(input.drain(here)),
        1 => insert(input, here.start, &inserted),
        2 | 3 => drop(input.splice(here, inserted)),
        4 => {
            let again = input[here.clone()].to_vec();
            let times = if dice.below(16) == 0 { 200 } else { 1 };
            (0..times).for_each(|_| insert(input, here.start, &again));
        }
        5 => {
            let edge = dice.one_of(&EDGES).copied().unwrap_or_default();
            input.splice(here, edge.bytes());
        }
        6 => {
            let word = input.drain(here).collect::<Vec<u8>>();
            let to = piece(input, is_line, dice).start;
            insert(input, to, &word);
        }
        7 => {
            let at = dice.below(input.len());
            let bit = 1 << dice.below(8);
            input.get_mut(at).into_iter().for_each(|byte| *byte ^= bit);
        }
        _ => input.truncate(here.end),
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    if input.len() + piece.len() <= LONGEST {
        input.splice(at..at, piece.iter().copied());
    }
}

/// Selects a line with its newline, or a word.
fn piece(input: &[u8], is_line: bool, dice: &mut Dice) -> Range<usize> {
    let at = dice.below(input.len());
    let ends =
        |byte: &u8| if is_line { *byte == b'\n' } else { !byte.is_ascii_alphanumeric() && !b"-_.".contains(byte) };
    let start = input[..at].iter().rposition(ends).map_or(0, |end| end + 1);
    let length = input[at..].iter().position(ends).map_or(input.len() - at, |length| length + usize::from(is_line));
    start..at + length
}
