//! `statistic`: random, or every nth packet.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use super::{Condition, Extension, Listed, Match, Parsed};
use crate::iptables::Negatable;
use crate::iptables::text::{Options, Printer, values};

/// Options of `statistic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// `--mode random --probability`.
    Random(Negatable<Probability>),
    /// `--mode nth`: one packet of `every`, the one numbered `packet`.
    Nth {
        /// The length of a round in packets.
        every: Negatable<u32>,
        /// The number of the packet in the round, from 0.
        packet: u32,
    },
}

/// A probability in the kernel's form: it draws 31 random bits, and the match holds if they are below the threshold.
#[derive(Debug, Clone, Copy)]
pub struct Probability {
    threshold: u32,
    /// The decimals as written, and their number: 33 and 2 for `0.33`.
    written: Option<(u64, u8)>,
}

/// Maximum number of decimals that are kept as written.
const MAX_DIGITS: usize = 18;

impl Probability {
    /// The threshold that always holds: 2^31.
    pub const ONE: u32 = 1 << 31;

    /// Creates a probability from a threshold between 0 and [`Self::ONE`].
    pub fn from_threshold(threshold: u32) -> Option<Self> {
        (threshold <= Self::ONE).then_some(Self { threshold, written: None })
    }

    /// Creates a probability from a number between 0 and 1, as iptables does: `lround(0x80000000 * number)`.
    pub(crate) fn from_number(number: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&number) {
            return None;
        }
        // The product lies between 0 and 2^31, so the conversion keeps its value.
        Some(Self { threshold: (number * f64::from(Self::ONE)).round() as u32, written: None })
    }

    /// Parses a number.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let probability = Self::from_number(text.parse().ok()?)?;
        let digits = text.strip_prefix("0.").filter(|digits| (1..=MAX_DIGITS).contains(&digits.len()));
        let written = digits.and_then(|digits| Some((digits.parse().ok()?, u8::try_from(digits.len()).ok()?)));
        Some(Self { written, ..probability })
    }

    /// Returns the number as written, otherwise with the digits that iptables-save prints.
    pub fn words(self) -> String {
        match self.written {
            Some((digits, count)) => format!("0.{digits:0width$}", width = usize::from(count)),
            None => format!("{:.11}", self.share()),
        }
    }

    /// Returns whether fewer decimals were written than a threshold needs, so that shares differ by what was left out.
    pub(crate) fn is_shortened(self, least_digits: usize) -> bool {
        let is_short = self.written.is_some_and(|(_, count)| usize::from(count) < least_digits);
        is_short && self.threshold.trailing_zeros() < 24
    }

    /// Returns whether it was typed as a rounded or shortened 1/`to_come`: `0.333` for a third. With fewer decimals than kube-proxy writes,
    /// let alone iptables prints, only people write a number.
    pub(crate) fn is_typed_as(self, to_come: usize, least_digits: usize) -> bool {
        let Some((digits, count)) = self.written.filter(|(_, count)| usize::from(*count) < least_digits) else {
            return false;
        };
        let exact = 10_f64.powi(count.into()) / to_come as f64;
        let written = digits as f64;
        written > 0.0 && (exact.round() == written || exact.floor() == written)
    }

    /// Returns the number of the 2^31 draws for which the match holds.
    pub(crate) fn threshold(self) -> u32 {
        self.threshold
    }

    /// Returns the share of draws for which the match holds, from 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.threshold) / f64::from(Self::ONE)
    }
}

/// Probabilities are equal if their thresholds in the kernel are, however they are written.
impl PartialEq for Probability {
    fn eq(&self, other: &Self) -> bool {
        self.threshold == other.threshold
    }
}

impl Eq for Probability {}

impl Hash for Probability {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.threshold.hash(state);
    }
}

impl PartialOrd for Probability {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Probability {
    fn cmp(&self, other: &Self) -> Ordering {
        self.threshold.cmp(&other.threshold)
    }
}

pub(super) const STATISTIC: Extension =
    Extension { name: "statistic", options: &["--mode", "--probability", "--every", "--packet"], parse, parse_listed };

fn parse(options: &Options<'_>) -> Parsed {
    let (mut probability, mut every, mut packet) = (None, None, 0);
    for option in options.iter() {
        match option.name {
            "--probability" => {
                probability = Some(option.negatable("probability from 0 to 1", Probability::from_text)?);
            }
            "--every" => every = Some(option.negatable("number", values::number)?),
            "--packet" => packet = option.read("number", values::number)?,
            _ => {
                option.read("mode: `random` or `nth`", |text| matches!(text, "random" | "nth").then_some(()))?;
            }
        }
    }
    let random = probability.map(Statistic::Random);
    Ok(random.or(every.map(|every| Statistic::Nth { every, packet })).map(Match::Statistic))
}

/// `statistic mode random probability 0.5`, `statistic mode nth ! every 3 packet 1`.
fn parse_listed(words: &[&str], negated: bool) -> Listed {
    let words = words.strip_prefix(&["statistic", "mode"]).filter(|_| !negated)?;
    let (negated, words) = match words {
        [mode, "!", rest @ ..] => (true, [&[*mode][..], rest].concat()),
        words => (false, words.to_vec()),
    };
    let (statistic, length) = match words[..] {
        ["random", "probability", number, ..] => {
            let value = Probability::from_text(number)?;
            (Statistic::Random(Negatable { negated, value }), 3)
        }
        ["nth", "every", every, ref rest @ ..] => {
            let every = Negatable { negated, value: every.parse().ok()? };
            match rest {
                ["packet", packet, ..] => (Statistic::Nth { every, packet: packet.parse().ok()? }, 5),
                _ => (Statistic::Nth { every, packet: 0 }, 3),
            }
        }
        _ => return None,
    };
    Some((Match::Statistic(statistic), 2 + usize::from(negated) + length))
}

impl Statistic {
    pub(super) fn print(&self, out: &mut Printer) {
        match self {
            Self::Random(probability) => {
                out.push(" -m statistic --mode random");
                out.option(" --probability ", probability.negated);
                print_fraction(probability.value.threshold(), out);
            }
            Self::Nth { every, packet } => {
                out.push(" -m statistic --mode nth");
                out.option(" --every ", every.negated);
                out.number(u64::from(every.value));
                out.push(" --packet ");
                out.number(u64::from(*packet));
            }
        }
    }

    /// Compiles it; nothing if it always holds.
    pub(super) fn compile(self) -> Option<Condition> {
        match self {
            Self::Random(Negatable { negated, value }) => {
                let threshold = value.threshold();
                match if negated { Probability::ONE - threshold } else { threshold } {
                    0 => Some(Condition::Never),
                    Probability::ONE => None,
                    threshold => Some(Condition::Random(threshold)),
                }
            }
            // One packet of `every`; iptables rejects 0.
            Self::Nth { every: Negatable { negated, value }, .. } => match (value, negated) {
                (0 | 1, false) => None,
                (0 | 1, true) => Some(Condition::Never),
                (every, false) => Some(Condition::Nth { part: 1, every }),
                (every, true) => Some(Condition::Nth { part: every - 1, every }),
            },
        }
    }

    /// Returns the share of packets that it matches, from 0 to 1.
    pub fn share(self) -> f64 {
        match self {
            Self::Random(probability) if probability.negated => 1.0 - probability.value.share(),
            Self::Random(probability) => probability.value.share(),
            Self::Nth { every, .. } => 1.0 / f64::from(every.value.max(1)),
        }
    }
}

/// Prints a threshold as a fraction of 2^31 with eleven decimals, rounded to nearest (`%.11f`).
fn print_fraction(threshold: u32, out: &mut Printer) {
    const SCALE: u128 = 100_000_000_000;
    let scaled = u128::from(threshold) * SCALE;
    let half_even = {
        let (whole, rest) = (scaled >> 31, scaled & ((1 << 31) - 1));
        let half = 1_u128 << 30;
        whole + u128::from(rest > half || (rest == half && whole & 1 == 1))
    };
    out.push(if half_even == SCALE { "1." } else { "0." });
    // The leading digit preserves the zeros after it.
    out.push(&itoa::Buffer::new().format((SCALE + half_even) as u64)[1..]);
}
