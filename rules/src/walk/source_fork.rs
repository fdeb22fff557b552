//! Separated sources: those of a set of packets that are handled differently in only one random branch.
//!
//! In a cascade of endpoints, each endpoint has a rule for its own packets (`-s 10.0.0.1/32 -j KUBE-MARK-MASQ`). A packet from that
//! endpoint is handled like all others in every other branch. So instead of walking the whole cascade again for every endpoint, the walk
//! records where the rule was evaluated, and the endpoint's packet continues there.

use super::branch::Branch;
use super::chain_position::Fork;
use super::code::Code;
use super::machine::{Arrival, finish_all};
use super::program::Program;
use super::trace::Trace;

#[expect(private_bounds, reason = "languages are this crate's own")]
impl<C: Code> Program<C> {
    /// Walks a packet from forked sources, in the branch where they were forked off. The arrival is that packet's.
    pub fn resume<T: Trace>(
        &self,
        arrival: Arrival<'_>,
        fork: &Fork<T>,
        trace: impl FnOnce(&T) -> T,
    ) -> Vec<Branch<T>> {
        let mut work = fork.work.clone();
        work.walker.trace = trace(&work.walker.trace);
        work.walker.with_source(arrival.packet);
        let mut branches = Vec::new();
        finish_all(self, &arrival, work, &mut branches, &mut Vec::new());
        branches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Family, Protocol};
    use crate::iptables::{evaluate, parse};
    use crate::walk::{
        Environment, Field, Hook, Intervals, Narrowed, Narrowing, Others, Packet, Region, Tracking, Transport,
    };

    /// Endpoints 10.0.0.1 to 10.0.0.3; each has a rule for its own packets.
    const CASCADE: &str = "*nat
:SVC - [0:0]
:SEP1 - [0:0]
:SEP2 - [0:0]
:SEP3 - [0:0]
-A PREROUTING -d 10.96.0.1/32 -j SVC
-A SVC -m statistic --mode random --probability 0.33333333349 -j SEP1
-A SVC -m statistic --mode random --probability 0.5 -j SEP2
-A SVC -j SEP3
-A SEP1 -s 10.0.0.1/32 -j MARK --set-xmark 0x4000/0x4000
-A SEP1 -p tcp -j DNAT --to-destination 10.0.0.1:8080
-A SEP2 -s 10.0.0.2/32 -j MARK --set-xmark 0x4000/0x4000
-A SEP2 -p tcp -j DNAT --to-destination 10.0.0.2:8080
-A SEP3 -s 10.0.0.3/32 -j MARK --set-xmark 0x4000/0x4000
-A SEP3 -p tcp -j DNAT --to-destination 10.0.0.3:8080
COMMIT
";

    fn packet(source: u8) -> Packet {
        Packet::new([10, 0, 0, source].into(), [10, 96, 0, 1].into(), Transport::opening(Protocol::Tcp, 40_000, 80))
    }

    fn arrival<'a>(environment: &'a Environment, packet: &'a Packet) -> Arrival<'a> {
        Arrival::first(environment, Hook::Prerouting, packet)
    }

    fn number(source: u8) -> u128 {
        0x0a00_0000 + u128::from(source)
    }

    #[rstest::rstest]
    #[case::another_pod(9, Others::Left, &[1, 2, 3, 9])]
    #[case::endpoints_alone(2, Others::Forked, &[1, 2, 3])]
    fn a_cascade_is_walked_once_for_all_of_its_endpoints(
        #[case] witness: u8,
        #[case] others: Others,
        #[case] sources: &[u8],
    ) {
        let program = evaluate::Program::compile(&parse(CASCADE, Family::Ipv4).unwrap().rules).unwrap();
        let all: Intervals = sources.iter().map(|source| (number(*source), number(*source))).collect();
        let packet = packet(witness);
        let narrowing = Narrowing::of(Region::all(Family::Ipv4).with(Field::Source, all.clone()), &packet);
        narrowing.fork_sources(number(witness), others);
        let environment = Environment::default();
        let mut branches = Vec::new();
        let trace = Narrowed::by(Some(&narrowing)).forking();
        let forks = program.walk_into(arrival(&environment, &packet), trace, &mut branches);
        assert_eq!(branches.len(), 3);
        // No source is left for another walk.
        assert_eq!(narrowing.region()[Field::Source], all);
        assert!(narrowing.take_rest().iter().all(|region| region[Field::Source] == all));
        for own in sources.iter().copied().filter(|source| *source != witness) {
            assert!(narrowing.forked().contains(&number(own)) == (own < 9));
            let own_packet = self::packet(own);
            let here = forks.iter().filter(|fork| fork.forked.has(number(own)));
            let mut taken: Vec<Branch<Narrowed>> = Vec::new();
            for fork in here {
                taken.extend(program.resume(arrival(&environment, &own_packet), fork, |before| before.with(None)));
            }
            let shared = branches
                .iter()
                .filter(|branch| !branch.trace.forked.borrow().iter().any(|forked| forked.has(number(own))));
            taken.extend(shared.cloned());
            let mut found: Vec<_> =
                taken.iter().map(|branch| (branch.packet.destination, branch.packet.mark, branch.share)).collect();
            found.sort_by_key(|(to, ..)| *to);
            let alone = program.walk(&environment, Hook::Prerouting, &own_packet, Tracking::first(&own_packet));
            let mut expected: Vec<_> =
                alone.iter().map(|branch| (branch.packet.destination, branch.packet.mark, branch.share)).collect();
            expected.sort_by_key(|(to, ..)| *to);
            assert_eq!(found, expected, "10.0.0.{own}");
        }
    }
}
