//! Compares each release with the next.

use svclab_rules::cluster::ProxyConfig;
use svclab_rules::profile::Profile;

use super::{Diff, DiffError, Options, diff, release};
use crate::run::in_parallel;
use crate::scenario::Scenario;

/// The changes of one release or mode.
#[derive(Debug)]
pub struct Step {
    /// The release or mode, as text: `1.28`, `1.33, nftables mode`.
    pub name: String,
    /// Its changes.
    pub diff: Diff,
}

/// Finds the changes of each release between two kube-proxies, for one cluster.
///
/// # Errors
///
/// As [`diff()`]; the first error is returned.
pub fn steps(scenario: &Scenario, after: &ProxyConfig, options: &Options) -> Result<Vec<Step>, DiffError> {
    let given = [&scenario.cluster.proxy, after];
    let [before, after] = given.map(release::precise);
    if let [Ok(first), Ok(last)] = [&before, &after].map(|proxy| proxy.version.parse::<Profile>())
        && first > last
    {
        return Err(DiffError::Reversed(given.map(|proxy| proxy.version.clone())));
    }
    let path = release::path(&before, &after);
    if path.len() < 2 {
        return Err(DiffError::NoReleases(given[0].version.clone()));
    }
    let pairs: Vec<[ProxyConfig; 2]> = path.windows(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect();
    let of = |proxy: &ProxyConfig| {
        let mut scenario = scenario.clone();
        scenario.cluster.proxy = proxy.clone();
        scenario
    };
    let compare = |[one, next]: &[ProxyConfig; 2]| diff(&of(one), &of(next), options);
    let found = in_parallel(&pairs, None, compare, &|_| ());
    let named = |([one, next], found): (&[ProxyConfig; 2], Result<Diff, DiffError>)| {
        let release = next.version.parse().map_or_else(|_| next.version.clone(), Profile::first_with_same_rules);
        let name = if one.mode == next.mode { release } else { format!("{release}, {} mode", next.mode) };
        Ok(Step { name, diff: found? })
    };
    pairs.iter().zip(found).map(named).collect()
}
