//! A part of a run, for jobs that share it.

/// A part of the scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shard {
    /// Which part, from 1.
    number: usize,
    /// Of how many.
    of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("a shard is K/N with K from 1 to N, as 1/4".to_owned()),
        }
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// Whether the item at a place of a list belongs to this part.
    pub(super) fn has(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::more_items_than_shards(10, 4)]
    #[case::more_shards_than_items(2, 5)]
    fn every_item_is_in_one_shard(#[case] items: usize, #[case] of: usize) {
        for index in 0..items {
            assert_eq!((1..=of).filter(|number| Shard { number: *number, of }.has(index)).count(), 1);
        }
    }

    #[rstest]
    #[case("0/4")]
    #[case("5/4")]
    #[case("1/0")]
    #[case("1")]
    #[case("a/b")]
    fn what_is_no_part_is_refused(#[case] text: &str) {
        assert!(text.parse::<Shard>().is_err());
    }
}
