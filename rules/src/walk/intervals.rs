//! Sets of numbers as sorted intervals.

use smallvec::SmallVec;

use crate::cluster::Family;

/// A set of numbers as sorted, closed intervals that neither overlap nor touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Intervals(SmallVec<[(u128, u128); 1]>);

impl Intervals {
    /// Returns the numbers from `first` to `last`; none if `last` is lower.
    pub fn between(first: u128, last: u128) -> Self {
        Self(if first <= last { SmallVec::from_buf([(first, last)]) } else { SmallVec::new() })
    }

    /// Returns a set of one number.
    pub fn one(number: u128) -> Self {
        Self::between(number, number)
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The intervals, in order.
    pub fn ranges(&self) -> &[(u128, u128)] {
        &self.0
    }

    /// Returns the lowest number.
    pub fn first(&self) -> Option<u128> {
        self.0.first().map(|(first, _)| *first)
    }

    /// Returns the number, if it is the only one.
    pub fn single(&self) -> Option<u128> {
        match self.0.as_slice() {
            [(first, last)] if first == last => Some(*first),
            _ => None,
        }
    }

    /// Returns whether it contains a number.
    pub fn contains(&self, number: u128) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < number);
        self.0.get(at).is_some_and(|(first, _)| *first <= number)
    }

    /// Returns the intersection of two sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        let mut common = SmallVec::new();
        for &(first, last) in &few.0 {
            for &(low, high) in overlapping(&many.0, first, last) {
                common.push((first.max(low), last.min(high)));
            }
        }
        Self(common)
    }

    /// Returns the numbers of this set that are not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.without_ranges(&other.0)
    }

    /// Returns the numbers of this set that are not in any of several sorted, disjoint ranges.
    #[must_use]
    pub fn without_ranges(&self, others: &[(u128, u128)]) -> Self {
        let mut left = SmallVec::new();
        for &(first, last) in &self.0 {
            let mut from = Some(first);
            for &(low, high) in overlapping(others, first, last) {
                if let Some(from) = from.filter(|from| *from < low) {
                    left.push((from, low - 1));
                }
                from = high.checked_add(1);
            }
            if let Some(from) = from.filter(|from| *from <= last) {
                left.push((from, last));
            }
        }
        Self(left)
    }

    /// Returns the addresses of a family that give the same result as one of them. `starts` has the lowest address of every range with the
    /// same result; 0 starts one as well.
    pub fn alike<A: PartialEq>(starts: &[u128], family: Family, number: u128, answer: impl Fn(u128) -> A) -> Self {
        let highest = u128::MAX >> (128 - u32::from(family.bits()));
        let mut starts: Vec<u128> = starts.iter().copied().filter(|start| *start <= highest).chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        let own = answer(number);
        let ends = starts.iter().skip(1).map(|start| start - 1).chain([highest]);
        starts.iter().zip(ends).filter(|(start, _)| answer(**start) == own).map(|(start, end)| (*start, end)).collect()
    }
}

/// Returns the ranges that overlap the one from `first` to `last`.
pub(crate) fn overlapping(ranges: &[(u128, u128)], first: u128, last: u128) -> &[(u128, u128)] {
    let start = ranges.partition_point(|(_, high)| *high < first);
    let length = ranges[start..].partition_point(|(low, _)| *low <= last);
    &ranges[start..start + length]
}

/// Collects ranges in any order, overlapping or not.
impl FromIterator<(u128, u128)> for Intervals {
    fn from_iter<I: IntoIterator<Item = (u128, u128)>>(ranges: I) -> Self {
        let mut ranges: SmallVec<[(u128, u128); 1]> =
            ranges.into_iter().filter(|(first, last)| first <= last).collect();
        ranges.sort_unstable();
        let mut joined: SmallVec<[(u128, u128); 1]> = SmallVec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some((_, before)) if first.checked_sub(1).is_none_or(|end| end <= *before) => {
                    *before = last.max(*before)
                }
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn set() -> impl Strategy<Value = Intervals> {
        vec((0_u128..40, 0_u128..8), 0..6)
            .prop_map(|ranges| ranges.into_iter().map(|(at, len)| (at, at + len)).collect())
    }

    proptest! {
        #[test]
        fn operations_are_those_of_sets(a in set(), b in set()) {
            for number in 0..60 {
                let (in_a, in_b) = (a.contains(number), b.contains(number));
                prop_assert_eq!(a.and(&b).contains(number), in_a && in_b);
                prop_assert_eq!(a.without(&b).contains(number), in_a && !in_b);
            }
            for ranges in [a.and(&b), a.without(&b)] {
                prop_assert!(ranges.ranges().windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }

    #[test]
    fn the_highest_number_has_none_after_it() {
        let all = Intervals::between(0, u128::MAX);
        assert_eq!(all.without(&Intervals::one(u128::MAX)), Intervals::between(0, u128::MAX - 1));
        assert!(all.without(&all).is_empty());
        assert_eq!([(5, u128::MAX), (0, 4)].into_iter().collect::<Intervals>(), all);
    }
}
