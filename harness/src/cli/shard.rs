//! Shards of a run, for parallel jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use svclab::input::read_argument;
use svclab::results::Results;
use svclab::text::{printable, reason};

use super::Exit;
use super::console::Console;

/// Maximum number of shards of a run.
const MAX: usize = 10_000;

/// A shard of the scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shard {
    /// The number of the shard, from 1.
    number: usize,
    /// The number of shards.
    of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) && of <= MAX => Ok(Self { number, of }),
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
    /// The number of the shard, from 1.
    pub(super) fn number(self) -> usize {
        self.number
    }

    /// The number of shards.
    pub(super) fn of(self) -> usize {
        self.of
    }

    /// Returns the positions of the items in this shard, given the duration of each: the longest first, each to the shard with the least so
    /// far. Every shard computes the same assignment.
    pub(super) fn part(self, seconds: &[f64]) -> BTreeSet<usize> {
        let mut order: Vec<usize> = (0..seconds.len()).collect();
        order.sort_by(|a, b| seconds[*b].total_cmp(&seconds[*a]).then(a.cmp(b)));
        // Among shards with equal durations, the one with fewer items comes first.
        let mut parts: Vec<(f64, usize)> = vec![(0.0, 0); self.of];
        let mut mine = BTreeSet::new();
        for index in order {
            let least =
                (0..self.of).min_by(|a, b| parts[*a].0.total_cmp(&parts[*b].0).then(parts[*a].1.cmp(&parts[*b].1)));
            let Some(least) = least else { break };
            parts[least] = (parts[least].0 + seconds[index], parts[least].1 + 1);
            if least == self.number - 1 {
                mine.insert(index);
            }
        }
        mine
    }
}

/// Durations of scenarios in an earlier run.
#[derive(Debug, Default)]
pub(super) struct Durations(BTreeMap<String, f64>);

impl Durations {
    /// Returns the seconds of each file; for one without a record, the mean of the others.
    pub(super) fn of(&self, files: &[String]) -> Vec<f64> {
        let known: Vec<f64> = files.iter().filter_map(|file| self.0.get(file)).copied().collect();
        let mean = if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
        files.iter().map(|file| self.0.get(file).copied().unwrap_or(mean)).collect()
    }
}

/// Reads the durations in an earlier report.
pub(super) fn durations(file: &Path, console: &Console) -> Result<Durations, Exit> {
    let complain = |message: String| {
        console.complain(format!(
            "--durations: {}: {message}\nhelp: Pass a file that `--report json=FILE` wrote.",
            printable(file)
        ));
        Exit::Input
    };
    let text = read_argument(file).map_err(|error| complain(reason(&error)))?;
    let results = Results::read(&text).map_err(|error| complain(error.to_string()))?;
    let mut durations = BTreeMap::new();
    for suite in &results.suites {
        let longest = durations.entry(suite.file.clone()).or_insert(0.0_f64);
        *longest = longest.max(suite.seconds.unwrap_or_default());
    }
    Ok(Durations(durations))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::more_items_than_shards(&[1.0; 10], 4)]
    #[case::more_shards_than_items(&[1.0, 2.0], 5)]
    #[case::of_no_time(&[0.0; 9], 3)]
    #[case::of_different_times(&[9.0, 1.0, 1.0, 1.0, 4.0, 4.0], 2)]
    fn every_item_is_in_one_shard(#[case] seconds: &[f64], #[case] of: usize) {
        let parts: Vec<BTreeSet<usize>> = (1..=of).map(|number| Shard { number, of }.part(seconds)).collect();
        for index in 0..seconds.len() {
            assert_eq!(parts.iter().filter(|part| part.contains(&index)).count(), 1);
        }
        let sizes = parts.iter().map(BTreeSet::len);
        assert!(sizes.max() >= Some(seconds.len() / of));
    }

    #[test]
    fn shards_take_as_long_as_each_other() {
        let seconds = [9.0, 1.0, 1.0, 1.0, 4.0, 2.0];
        let takes = |number| Shard { number, of: 2 }.part(&seconds).iter().map(|index| seconds[*index]).sum::<f64>();
        assert_eq!((takes(1), takes(2)), (9.0, 9.0));
    }

    #[rstest]
    #[case("0/4")]
    #[case("5/4")]
    #[case("1/0")]
    #[case("1")]
    #[case("a/b")]
    #[case("1/1000000000")]
    fn what_is_no_part_is_rejected(#[case] text: &str) {
        assert!(text.parse::<Shard>().is_err());
    }
}
