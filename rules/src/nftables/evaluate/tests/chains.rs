//! Paths through chains and tables.

use rstest::rstest;

use super::*;
use crate::walk::{By, Evaluated, RejectResponse};

#[rstest]
#[case::back_after_the_jump("jump a\ndrop", "meta mark set meta mark | 0x1", "drop", 1)]
#[case::return_leaves_one_chain("jump a\ndrop", "return\naccept", "drop", 0)]
#[case::goto_does_not_come_back("goto a\ndrop", "meta mark set meta mark | 0x2", "accept", 2)]
#[case::accept_ends_all_chains_of_the_hook("jump a\ndrop", "accept", "accept", 0)]
#[case::return_of_a_hook_is_its_policy("return\ndrop", "drop", "accept", 0)]
#[case::a_rule_without_statement_goes_on("ip saddr 10.0.0.1\ndrop", "drop", "drop", 0)]
#[case::statements_follow_each_other(
    "meta mark set meta mark | 0x6 meta mark set meta mark ^ 0x3 drop",
    "drop",
    "drop",
    5
)]
fn chains_are_walked(#[case] rules: &str, #[case] of_a: &str, #[case] outcome: &str, #[case] mark: u32) {
    let program = forward(rules, &format!("chain a {{\n{of_a}\n}}"));
    let branch = only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    assert_eq!((word(&branch.outcome), branch.packet.mark), (outcome, mark));
}

#[test]
fn goto_comes_back_to_the_caller() {
    let others = "chain a {\ngoto b\naccept\n}\nchain b {\nmeta mark set meta mark | 0x1\n}";
    let program = forward("jump a\ndrop", others);
    let branch = only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    assert_eq!((word(&branch.outcome), path(&program, &branch).as_str()), ("drop", "f:1 a:1 b:1 f:2"));
}

/// Compiles two tables, each with a chain at FORWARD.
fn two_tables(first: &str, second: &str) -> Program {
    let mut rules = table(&format!("chain f {{\ntype filter hook forward priority {first}\n}}"));
    let mut other = table(&format!("chain f {{\ntype filter hook forward priority {second}\n}}")).tables.remove(0);
    other.name = "other".into();
    rules.tables.push(other);
    Program::compile(&rules, Family::Ipv4).unwrap()
}

#[rstest]
#[case::accepted_by_the_first(
    "0; policy drop;\naccept",
    "5; policy accept;\nmeta mark set meta mark | 0x1",
    "accept",
    1
)]
#[case::dropped_by_the_second("0; policy accept;\naccept", "5; policy drop;\n", "drop", 0)]
#[case::dropped_by_the_first("0; policy accept;\ndrop", "5; policy accept;\nmeta mark set meta mark | 0x1", "drop", 0)]
#[case::by_priority("5; policy accept;\ndrop", "0; policy accept;\nmeta mark set meta mark | 0x1", "drop", 1)]
#[case::the_youngest_first("0; policy accept;\ndrop", "0; policy accept;\nmeta mark set meta mark | 0x1", "drop", 1)]
fn all_chains_of_a_hook_have_a_say(
    #[case] first: &str,
    #[case] second: &str,
    #[case] outcome: &str,
    #[case] mark: u32,
) {
    let branch = only_branch(&two_tables(first, second), Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    assert_eq!((word(&branch.outcome), branch.packet.mark), (outcome, mark));
}

#[test]
fn a_policy_names_its_chain() {
    let program = two_tables("0; policy accept;\n", "1; policy drop;\n");
    let lost = only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    let HookVerdict::Drop(By::Policy(chain)) = lost.outcome else { panic!("{:?}", lost.outcome) };
    assert_eq!(program.chain(chain), ("other", "f"));
}

const MAP: &str = "map m {\ntype ipv4_addr . inet_proto . inet_service : verdict\n\
                   elements = { 10.96.0.1 . tcp . 80 : goto a, 10.96.0.1 . udp . 80 : drop, 10.96.0.2 . tcp . 80 : goto r }\n}\n\
                   chain a {\nmeta mark set meta mark | 0x1\n}\nchain r {\nreject\n}";

#[rstest]
#[case("10.96.0.1", 80, true, "accept", "f:1 a:1")]
#[case("10.96.0.1", 80, false, "drop", "f:1")]
#[case("10.96.0.2", 80, true, "reject", "f:1 r:1")]
#[case::another_port("10.96.0.1", 81, true, "accept", "f:2")]
#[case::another_address("10.96.0.9", 80, true, "accept", "f:2")]
fn maps_have_verdicts(
    #[case] to: &str,
    #[case] port: u16,
    #[case] is_tcp: bool,
    #[case] outcome: &str,
    #[case] matched: &str,
) {
    let program = forward("ip daddr . meta l4proto . th dport vmap @m\nmeta mark set meta mark | 0x2", MAP);
    let mut packet = tcp("10.0.0.1", to, port);
    if !is_tcp {
        packet.transport = Transport::Udp { source: 40_000, destination: port };
    }
    let branch = only_branch(&program, Hook::Forward, &packet);
    assert_eq!((word(&branch.outcome), path(&program, &branch).as_str()), (outcome, matched));
    if let HookVerdict::Reject(_, rejection) = branch.outcome {
        assert_eq!(rejection, RejectResponse::PortUnreachable);
    }
}

#[test]
fn chance_shares_out_evenly() {
    let chains = "chain a {\nmeta mark set meta mark | 0x1\n}\nchain b {\ndrop\n}\nchain c {\naccept\n}";
    let program = forward("numgen random mod 3 vmap { 0 : goto a, 1 : goto b, 2 : goto c }\ndrop", chains);
    let branches = ways(&program, &machine(), Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    let seen: Vec<_> =
        branches.iter().map(|branch| (branch.share, word(&branch.outcome), path(&program, branch))).collect();
    let third = Share::of(1, 3);
    let expected = [("accept", "f:1 a:1"), ("drop", "f:1 b:1"), ("accept", "f:1 c:1")];
    assert_eq!(seen, expected.map(|(outcome, matched)| (third, outcome, matched.to_owned())));
    assert_eq!(branches[1].trace.steps()[0].did, Evaluated::Match(third));
}

#[test]
fn the_other_family_passes() {
    let program = forward("drop", "");
    assert_eq!(word(&only_branch(&program, Hook::Forward, &tcp("fd00::1", "fd00::2", 80)).outcome), "accept");
}
