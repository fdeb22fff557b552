//! Source ports of followed flows: none is used twice between two flushes of conntrack tables.

use std::collections::HashSet;
use std::ops::RangeInclusive;

/// The range of source ports: above all node ports, and where nodes rarely listen.
const PORTS: RangeInclusive<u16> = FIRST_PORT..=u16::MAX;
/// The source port of a lab's first flow.
pub(crate) const FIRST_PORT: u16 = 33_000;

/// The source ports that are left.
#[derive(Debug)]
pub(super) struct Ports {
    left: RangeInclusive<u16>,
    /// Ports that processes listen on, or that probes have requested since the last flush.
    taken: HashSet<u16>,
}

impl Ports {
    /// All ports except those that processes listen on.
    pub(super) fn besides(listened_on: impl IntoIterator<Item = u16>) -> Self {
        Self { left: PORTS, taken: listened_on.into_iter().collect() }
    }

    /// Whether this number of ports is still unused.
    pub(super) fn has(&self, count: usize) -> bool {
        self.left.clone().filter(|port| !self.taken.contains(port)).take(count).count() == count
    }

    /// An unused port; `None` if all were used.
    pub(super) fn next(&mut self) -> Option<u16> {
        self.left.by_ref().find(|port| !self.taken.contains(port))
    }

    /// Excludes a port from now on: a process listens on it, or a probe requested it.
    pub(super) fn take(&mut self, port: u16) {
        self.taken.insert(port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_handed_out_twice() {
        let mut ports = Ports::besides([]);
        assert_eq!(ports.next(), Some(FIRST_PORT));
        ports.take(33_001);
        ports.take(80);
        assert!(ports.has(PORTS.len() - 2) && !ports.has(PORTS.len() - 1));
        let rest: Vec<u16> = std::iter::from_fn(|| ports.next()).collect();
        assert_eq!((rest[0], rest.len()), (33_002, PORTS.len() - 2));
        assert!(ports.has(0) && !ports.has(1) && ports.next().is_none());
    }
}
