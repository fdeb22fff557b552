//! The order in which endpoints received flows, and the flows' source ports.

use std::net::SocketAddr;

use crate::stats::Contingency;

/// The maximum number of endpoints for which flows are paired: larger tables would need far more flows to show anything.
const MAX_ENDPOINTS: usize = 64;
/// The number of classes of source ports, by their low three bits: a round robin shows up as a pattern in them.
const PORT_CLASSES: usize = 8;

/// Statistics of the dependence between consecutive flows, and between flows and their source ports.
pub(super) struct Order {
    endpoints: Vec<SocketAddr>,
    has_too_many: bool,
    /// How often each endpoint followed each endpoint, in disjoint pairs of flows.
    pairs: Vec<u64>,
    /// How often each endpoint got a flow of each class of ports.
    ports: Vec<u64>,
    /// The endpoint of a pair's first flow.
    first: Option<usize>,
}

impl Order {
    pub(super) fn new() -> Self {
        Self {
            endpoints: Vec::new(),
            has_too_many: false,
            pairs: vec![0; MAX_ENDPOINTS * MAX_ENDPOINTS],
            ports: vec![0; PORT_CLASSES * MAX_ENDPOINTS],
            first: None,
        }
    }

    /// Adds the next flow, from this port, with the endpoint that it arrived at; `None` unless it arrived exactly once.
    #[inline]
    pub(super) fn next(&mut self, port: u16, endpoint: Option<SocketAddr>) {
        let endpoint = endpoint.and_then(|endpoint| self.number(endpoint));
        if let Some(endpoint) = endpoint {
            self.ports[usize::from(port) % PORT_CLASSES * MAX_ENDPOINTS + endpoint] += 1;
        }
        // A flow is in one pair only: otherwise pairs would not be independent of each other.
        self.first = match (self.first, endpoint) {
            (Some(first), Some(second)) => {
                self.pairs[first * MAX_ENDPOINTS + second] += 1;
                None
            }
            (_, endpoint) => endpoint,
        };
    }

    /// Marks a gap: the next flow was not sent right after the previous one.
    pub(super) fn pause(&mut self) {
        self.first = None;
    }

    fn number(&mut self, endpoint: SocketAddr) -> Option<usize> {
        if self.has_too_many {
            return None;
        }
        let known = self.endpoints.iter().position(|known| *known == endpoint);
        if known.is_none() {
            self.has_too_many = self.endpoints.len() == MAX_ENDPOINTS;
            self.endpoints.push(endpoint);
        }
        known.or_else(|| (!self.has_too_many).then(|| self.endpoints.len() - 1))
    }

    /// The endpoints of pairs, and the port classes with their endpoints; empty if there were too many endpoints.
    pub(super) fn finish(self) -> (Contingency<SocketAddr, SocketAddr>, Contingency<u16, SocketAddr>) {
        let (mut neighbours, mut ports) = (Contingency::default(), Contingency::default());
        if self.has_too_many {
            return (neighbours, ports);
        }
        for (column, second) in self.endpoints.iter().enumerate() {
            for (row, first) in self.endpoints.iter().enumerate() {
                neighbours.add(*first, *second, self.pairs[row * MAX_ENDPOINTS + column]);
            }
            for class in 0..PORT_CLASSES {
                ports.add(class as u16, *second, self.ports[class * MAX_ENDPOINTS + column]);
            }
        }
        (neighbours, ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(number: u16) -> Option<SocketAddr> {
        Some(SocketAddr::from(([10, 0, 0, 1], number)))
    }

    #[test]
    fn flows_that_are_dealt_out_in_turn_are_found() {
        let mut order = Order::new();
        (0..3_000).for_each(|flow| order.next(1024 + flow, endpoint(flow % 3)));
        let (neighbours, ports) = order.finish();
        let found = neighbours.independence(3).unwrap();
        assert!(found.pairs == 1_500 && found.p_value < 1e-9, "{found:?}");
        // Three and eight are coprime: the endpoint depends on the previous flow, not on the port.
        assert_eq!(ports.independence(3).unwrap().p_value, 1.0);
    }

    #[test]
    fn endpoints_by_port_are_found() {
        let mut order = Order::new();
        (0..3_000).for_each(|flow| order.next(flow, endpoint(flow % 8 / 4)));
        assert!(order.finish().1.independence(2).unwrap().p_value < 1e-9);
    }

    #[test]
    fn a_lost_flow_has_no_neighbours() {
        let mut order = Order::new();
        [endpoint(1), None, endpoint(2), endpoint(3)].into_iter().for_each(|at| order.next(5, at));
        assert_eq!(order.finish().0.pairs(), 1);
        let mut order = Order::new();
        (0..100).for_each(|number| order.next(number, endpoint(number)));
        assert_eq!(order.finish().0.pairs(), 0, "too many endpoints to be paired");
    }
}
