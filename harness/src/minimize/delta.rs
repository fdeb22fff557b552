//! Delta debugging: the shortest list that still has a property.

/// Removes items as long as `holds` is true for the rest: halves first, then smaller and smaller parts, down to single items (Zeller's
/// ddmin without its tests of the parts alone, which services and rules that depend on others rarely pass). `holds` must be true for the
/// whole list.
pub(super) fn shortest<T: Clone>(items: Vec<T>, mut holds: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut left = items;
    if left.is_empty() || holds(&[]) {
        return Vec::new();
    }
    let mut size = left.len().div_ceil(2);
    loop {
        let before = left.len();
        let mut at = 0;
        while at < left.len() {
            let end = (at + size).min(left.len());
            let rest: Vec<T> = left[..at].iter().chain(&left[end..]).cloned().collect();
            if !rest.is_empty() && holds(&rest) {
                left = rest;
            } else {
                at = end;
            }
        }
        if size == 1 && left.len() == before {
            return left;
        }
        size = size.div_ceil(2).min(left.len().div_ceil(2)).max(1);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(&[])]
    #[case::one(&[617])]
    #[case::ends(&[0, 999])]
    #[case::scattered(&[3, 250, 251, 700])]
    fn what_is_needed_is_left(#[case] needed: &[u32]) {
        let mut asked = 0;
        let left = shortest((0..1000).collect(), |items: &[u32]| {
            asked += 1;
            needed.iter().all(|item| items.contains(item))
        });
        assert_eq!(left, needed);
        assert!(asked < 120, "{asked}");
    }

    #[test]
    fn items_that_need_others_go_with_them() {
        // Each item needs the one before it.
        let left =
            shortest((0..64).collect(), |items: &[u32]| items.iter().enumerate().all(|(at, item)| at as u32 == *item));
        assert_eq!(left, Vec::<u32>::new());
    }
}
