//! Exact probabilities.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A probability from 0 to 1, as `numerator / (divisor * 2^shift)`.
///
/// Thresholds of `statistic` have 31 bits, so the product of up to four is always exact, and of many more if they have common factors.
/// Beyond 128 bits it is rounded down, each time with a relative error of at most 2^-126; [`Share::error`] returns the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    numerator: u128,
    /// Odd, and coprime to the numerator.
    divisor: u64,
    shift: u32,
    roundings: u32,
}

impl Share {
    /// Never.
    pub const ZERO: Self = Self { numerator: 0, divisor: 1, shift: 0, roundings: 0 };
    /// Always.
    pub const ONE: Self = Self { numerator: 1, divisor: 1, shift: 0, roundings: 0 };

    /// Returns `part` of `whole` equal parts; one if `whole` is smaller or zero.
    pub fn of(part: u32, whole: u32) -> Self {
        if part >= whole { Self::ONE } else { Self::ONE.times(part, u64::from(whole)) }
    }

    /// Returns `part` of `whole` equal parts of this share; `part` is at most `whole`, which is not 0.
    #[must_use]
    pub(crate) fn times(self, part: u32, whole: u64) -> Self {
        debug_assert!(u64::from(part) <= whole && whole > 0, "{part} of {whole}");
        if part == 0 {
            return Self::ZERO;
        }
        let twos = whole.trailing_zeros();
        let mut product = Self { shift: self.shift + twos, ..self }.multiplied(part);
        let odd = whole >> twos;
        if odd > 1 {
            product = product.divided(odd);
        }
        product.reduced()
    }

    /// Returns the product: the probability of two independent choices together.
    #[must_use]
    pub fn within(self, whole: Self) -> Self {
        if self.numerator == 0 || whole.numerator == 0 {
            return Self::ZERO;
        }
        let (a, b) = match self.divisor.checked_mul(whole.divisor) {
            Some(_) => (self, whole),
            None => (self.without_divisor(), whole.without_divisor()),
        };
        let (high, low) = product(a.numerator, b.numerator);
        // The top 128 bits are kept. No share is above one, so the shift cannot underflow.
        let excess = 128 - high.leading_zeros();
        let numerator = match excess {
            0 => low,
            128 => high,
            _ => (high << (128 - excess)) | (low >> excess),
        };
        let lost = excess > 0 && low.trailing_zeros() < excess;
        let roundings = a.roundings.saturating_add(b.roundings).saturating_add(u32::from(lost));
        Self { numerator, divisor: a.divisor * b.divisor, shift: a.shift + b.shift - excess, roundings }.reduced()
    }

    /// Returns the sum, at most 1.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        if self.numerator == 0 || other.numerator == 0 {
            return if self.numerator == 0 { other } else { self };
        }
        let (a, b) = Self::alike(self, other);
        let shift = a.shift.max(b.shift);
        // Both numerators at the larger shift, or as close to it as 127 bits allow: the sum needs one more bit.
        let need = |x: Self| 128 - x.numerator.leading_zeros() + (shift - x.shift);
        let excess = need(a).max(need(b)).saturating_sub(127);
        let before = a.roundings.max(b.roundings);
        let lost = |x: Self| u32::from(x.loses_at(shift - excess));
        // Errors are relative: that of a sum is at most that of its parts, apart from the rounding here.
        let roundings = before.saturating_add(lost(a) + lost(b));
        let (a, b) = (a.at(shift - excess), b.at(shift - excess));
        Self { numerator: a.numerator + b.numerator, roundings, ..a }.reduced()
    }

    /// Returns whether nothing was rounded.
    pub fn is_exact(self) -> bool {
        self.roundings == 0
    }

    /// Returns an upper bound of the rounding error.
    pub fn error(self) -> f64 {
        self.to_f64() * f64::from(self.roundings) * 2_f64.powi(-126)
    }

    /// Returns numerator and denominator in lowest terms, if the share is exact and they fit.
    pub fn fraction(self) -> Option<(u128, u128)> {
        let power = 1_u128.checked_shl(self.shift).filter(|_| self.is_exact())?;
        Some((self.numerator, power.checked_mul(u128::from(self.divisor))?))
    }

    /// Converts to a floating-point number, up to its last bit.
    pub fn to_f64(self) -> f64 {
        // A power of two that is too small to represent may be representable after multiplication with the numerator.
        let half = i32::try_from(self.shift / 2).unwrap_or(i32::MAX);
        let rest = i32::try_from(self.shift - self.shift / 2).unwrap_or(i32::MAX);
        self.numerator as f64 / self.divisor as f64 * 2_f64.powi(-half) * 2_f64.powi(-rest)
    }

    /// Removes common factors of numerator and divisor.
    fn reduced(self) -> Self {
        let twos = self.numerator.trailing_zeros().min(self.shift);
        let mut reduced = Self { numerator: self.numerator >> twos, shift: self.shift - twos, ..self };
        if reduced.divisor > 1 {
            let common = gcd(reduced.divisor, (reduced.numerator % u128::from(reduced.divisor)) as u64);
            reduced.numerator /= u128::from(common);
            reduced.divisor /= common;
        }
        reduced
    }

    fn multiplied(self, factor: u32) -> Self {
        if let Some(numerator) = self.numerator.checked_mul(u128::from(factor)) {
            return Self { numerator, ..self };
        }
        let (low, high) = (u128::from(self.numerator as u64), self.numerator >> 64);
        let low = low * u128::from(factor);
        let high = high * u128::from(factor) + (low >> 64);
        // The product is high * 2^64 + the lower half of low; its top 128 bits are kept.
        let excess = 64 - high.leading_zeros();
        let numerator = (high << (64 - excess)) | (u128::from(low as u64) >> excess);
        let lost = u128::from(low as u64) & ((1 << excess) - 1) != 0;
        Self {
            numerator,
            shift: self.shift - excess,
            roundings: self.roundings.saturating_add(u32::from(lost)),
            ..self
        }
    }

    fn divided(self, odd: u64) -> Self {
        match self.divisor.checked_mul(odd) {
            Some(divisor) => Self { divisor, ..self },
            None => self.quotient(odd),
        }
    }

    /// Divides the numerator, to at least 127 bits.
    fn quotient(self, odd: u64) -> Self {
        let odd = u128::from(odd);
        let room = self.numerator.leading_zeros();
        let numerator = self.numerator << room;
        let (high, rest) = (numerator / odd, numerator % odd);
        // The remainder is below 2^64, and the quotient has room for at most 64 more bits.
        let more = high.leading_zeros().min(64);
        let low = rest << more;
        let lost = low % odd != 0;
        let (shift, roundings) = (self.shift + room + more, self.roundings.saturating_add(u32::from(lost)));
        Self { numerator: (high << more) | (low / odd), shift, roundings, ..self }
    }

    /// Brings both to a common divisor.
    fn alike(a: Self, b: Self) -> (Self, Self) {
        if a.divisor == b.divisor {
            return (a, b);
        }
        let common = gcd(a.divisor, b.divisor);
        let (for_a, for_b) = (b.divisor / common, a.divisor / common);
        let widened = |x: Self, by: u64| {
            let (numerator, divisor) = (x.numerator.checked_mul(u128::from(by))?, x.divisor.checked_mul(by)?);
            Some(Self { numerator, divisor, ..x })
        };
        match (widened(a, for_a), widened(b, for_b)) {
            (Some(a), Some(b)) => (a, b),
            _ => (a.without_divisor(), b.without_divisor()),
        }
    }

    fn without_divisor(self) -> Self {
        Self { divisor: 1, ..if self.divisor == 1 { self } else { self.quotient(self.divisor) } }
    }

    /// Returns the share at another shift, rounded down if that is smaller.
    fn at(self, shift: u32) -> Self {
        if shift >= self.shift {
            return Self { numerator: self.numerator << (shift - self.shift), shift, ..self };
        }
        Self { numerator: self.numerator.checked_shr(self.shift - shift).unwrap_or(0), shift, ..self }
    }

    /// Returns whether bits are lost at a smaller shift.
    fn loses_at(self, shift: u32) -> bool {
        self.shift > shift && self.numerator.trailing_zeros() < self.shift - shift
    }
}

/// Returns the upper and the lower half of a product.
fn product(a: u128, b: u128) -> (u128, u128) {
    let halves = |x: u128| (x >> 64, u128::from(x as u64));
    let ((a_high, a_low), (b_high, b_low)) = (halves(a), halves(b));
    let (carry, low) = halves(a_low * b_low);
    let (upper, middle) = halves(a_high * b_low + carry);
    let (carry, middle) = halves(a_low * b_high + middle);
    (a_high * b_high + upper + carry, (middle << 64) | low)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl fmt::Display for Share {
    /// Writes a fraction if that is short, otherwise a percentage.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fraction() {
            Some((numerator, 1)) => write!(f, "{numerator}"),
            Some((numerator, denominator)) if denominator <= 1000 => write!(f, "{numerator}/{denominator}"),
            _ => write!(f, "{:.6} %", self.to_f64() * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const DRAWS: u64 = 1 << 31;

    #[test]
    fn four_thresholds_are_multiplied_exactly() {
        let odd = (1 << 31) - 1;
        let share = (0..4).fold(Share::ONE, |share, _| share.times(odd, DRAWS));
        assert_eq!(share.fraction().map(|(_, denominator)| denominator), Some(1 << 124));
        assert!(share.is_exact());
        assert_eq!(share.error(), 0.0);
        assert!(!share.times(odd, DRAWS).is_exact());
    }

    #[rstest]
    #[case(Share::of(1, 3), "1/3")]
    #[case(Share::of(2, 3).times(1, 2), "1/3")]
    #[case(Share::of(3, 4).times(2, 3).times(1, 2), "1/4")]
    #[case(Share::of(5, 5), "1")]
    #[case(Share::of(0, 5), "0")]
    #[case(Share::ONE.times(1 << 30, DRAWS), "1/2")]
    #[case(Share::of(1, 3).plus(Share::of(1, 6)), "1/2")]
    #[case(Share::ONE.times(715_827_883, DRAWS), "33.333333 %")]
    fn short_fractions_are_shown_as_such(#[case] share: Share, #[case] text: &str) {
        assert_eq!(share.to_string(), text);
    }

    #[rstest]
    #[case::simple(Share::of(2, 3), Share::of(3, 4))]
    #[case::thresholds(Share::ONE.times(715_827_883, DRAWS), Share::ONE.times(1_431_655_765, DRAWS).times(3, 7))]
    #[case::wide(
        (0..4).fold(Share::ONE, |share, _| share.times((1 << 31) - 1, DRAWS)),
        (0..4).fold(Share::ONE, |share, _| share.times((1 << 31) - 3, DRAWS)),
    )]
    fn a_share_of_a_share_is_their_product(#[case] part: Share, #[case] whole: Share) {
        let both = part.within(whole);
        assert_eq!(both, whole.within(part));
        let expected = part.to_f64() * whole.to_f64();
        assert!((both.to_f64() - expected).abs() <= expected * 1e-15, "{both:?}");
        let exact = |((a, b), (c, d)): ((u128, u128), (u128, u128))| Some((a.checked_mul(c)?, b.checked_mul(d)?));
        if let Some((a, b)) = part.fraction().zip(whole.fraction()).and_then(exact) {
            let (c, d) = both.fraction().unwrap();
            assert_eq!(a / (b / d), c, "{both:?}");
        } else {
            assert!(both.error() > 0.0);
        }
        assert_eq!(part.within(Share::ONE), part);
        assert_eq!(part.within(Share::ZERO), Share::ZERO);
    }

    #[test]
    fn very_small_shares_are_numbers_still() {
        let share = (0..60).fold(Share::ONE, |share, _| share.times(3, DRAWS));
        let expected = 3_f64.powi(60) * 2_f64.powi(-31 * 30) * 2_f64.powi(-31 * 30);
        assert_eq!(share.to_f64(), expected);
    }

    #[test]
    fn many_divisors_lose_127_bits_down_at_most() {
        // 1/3 * 1/5 * ... soon needs a divisor of more than 64 bits.
        let numbers = (3..200).step_by(2);
        let share = numbers.clone().fold(Share::ONE, |share, n| share.times(1, n));
        let expected = numbers.fold(1.0, |product, n| product / n as f64);
        assert!(!share.is_exact());
        assert!((share.to_f64() - expected).abs() / expected < 1e-13);
        assert!(share.error() / share.to_f64() < 1e-33);
    }

    proptest! {
        /// A cascade takes everything: the shares of its rules and the rest add up to one, within the stated error.
        #[test]
        fn parts_of_a_cascade_make_the_whole(thresholds in prop::collection::vec(0..=DRAWS as u32, 1..40)) {
            let (mut rest, mut sum, mut number) = (Share::ONE, Share::ZERO, 0.0);
            for threshold in thresholds {
                let taken = rest.times(threshold, DRAWS);
                number += taken.to_f64();
                sum = sum.plus(taken);
                rest = rest.times(DRAWS as u32 - threshold, DRAWS);
            }
            let all = sum.plus(rest);
            prop_assert!((number - sum.to_f64()).abs() < 1e-12);
            prop_assert!((all.to_f64() - 1.0).abs() <= all.error().max(f64::EPSILON));
            if all.is_exact() {
                prop_assert_eq!(all, Share::ONE);
            }
        }
    }
}
