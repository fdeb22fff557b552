//! Rules of both languages on one machine: the kernel evaluates the chains of both, in the order of their priorities.

use std::net::IpAddr;

use rstest::rstest;
use svclab_rules::cluster::{Family, Protocol};
use svclab_rules::walk::{
    Alongside, Arrival, By, Environment, Hook, HookVerdict, Interface, Packet, Path, Program, Tracking, Transport,
};
use svclab_rules::{iptables, nftables};

const OF_IPTABLES: &str = "*nat\n\
    :PREROUTING ACCEPT [0:0]\n\
    -A PREROUTING -d 10.96.0.80/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.0.1:80\n\
    COMMIT\n\
    *filter\n\
    :FORWARD DROP [0:0]\n\
    -A FORWARD -s 10.244.9.9/32 -j ACCEPT\n\
    COMMIT\n";

const OF_NFTABLES: &str = "table ip kube-proxy {\n\
    \tchain nat-prerouting {\n\
    \t\ttype nat hook prerouting priority dstnat; policy accept;\n\
    \t\tip daddr 10.96.0.80 tcp dport 80 dnat to 10.244.0.2:80\n\
    \t}\n\
    \n\
    \tchain filter-forward {\n\
    \t\ttype filter hook forward priority -110; policy accept;\n\
    \t\tip daddr 10.244.0.3 drop\n\
    \t\tip daddr 10.244.0.4 accept\n\
    \t}\n\
    }\n";

fn program(older: usize) -> Program<Alongside<iptables::evaluate::Code, nftables::evaluate::Code>> {
    let of_iptables = iptables::parse(OF_IPTABLES, Family::Ipv4).unwrap().rules;
    let of_iptables = iptables::evaluate::Program::compile(&of_iptables).unwrap();
    let rules = nftables::parse(OF_NFTABLES).unwrap().rules;
    nftables::evaluate::Program::compile_alongside(&rules, of_iptables, older).unwrap()
}

fn packet(from: &str, to: &str) -> Packet {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let packet = Packet::new(address(from), address(to), Transport::opening(Protocol::Tcp, 33_000, 80));
    Packet { input: Interface::new("eth0"), ..packet }
}

/// With equal priorities, the chain created last translates.
#[rstest]
#[case::iptables_came_last(1, "10.244.0.1", ("nat", "PREROUTING"))]
#[case::nftables_came_last(0, "10.244.0.2", ("kube-proxy", "nat-prerouting"))]
fn the_youngest_chain_translates(#[case] older: usize, #[case] to: &str, #[case] by: (&str, &str)) {
    let program = program(older);
    let packet = packet("10.244.9.9", "10.96.0.80");
    let environment = Environment::default();
    let branches = program.walk_with(Arrival::first(&environment, Hook::Prerouting, &packet), Path::default());
    let [branch] = branches.as_slice() else { panic!("{branches:?}") };
    assert_eq!((&branch.outcome, branch.packet.destination), (&HookVerdict::Accept, to.parse().unwrap()));
    let [step] = branch.trace.steps()[..] else { panic!("{branch:?}") };
    let place = program.place(step.rule);
    assert_eq!((place.table, place.chain), by);
}

/// Packets that one language accepts can still be dropped by the other, whichever was first.
#[rstest]
#[case::of_nftables("10.244.9.9", "10.244.0.3", Some(("kube-proxy", "filter-forward")))]
#[case::policy_of_iptables("10.244.1.1", "10.244.0.4", Some(("filter", "FORWARD")))]
#[case::neither("10.244.9.9", "10.244.0.4", None)]
fn either_language_drops(
    #[case] from: &str,
    #[case] to: &str,
    #[case] by: Option<(&str, &str)>,
    #[values(0, 1)] older: usize,
) {
    let program = program(older);
    let packet = packet(from, to);
    let branches = program.walk(&Environment::default(), Hook::Forward, &packet, Tracking::first(&packet));
    let [branch] = branches.as_slice() else { panic!("{branches:?}") };
    let dropped = match branch.outcome {
        HookVerdict::Drop(By::Rule(rule)) => {
            let place = program.place(rule);
            Some((place.table, place.chain))
        }
        HookVerdict::Drop(By::Policy(chain)) => Some(program.chain(chain)),
        _ => None,
    };
    assert_eq!(dropped, by);
}
