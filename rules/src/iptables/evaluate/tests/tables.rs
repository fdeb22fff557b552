//! Paths through chains and tables.

use rstest::rstest;

use super::*;
use crate::walk::{Assumptions, Branch, By, Evaluated, RejectResponse, Share, Tracked};

/// Returns the matched rules as `chain:number`.
fn path(program: &Program, branch: &Branch<Path>) -> String {
    let places = branch.trace.steps().into_iter().map(|step| program.place(step.rule));
    places.map(|place| format!("{}:{}", place.chain, place.rule)).collect::<Vec<_>>().join(" ")
}

#[rstest]
#[case::back_after_the_jump("-A FORWARD -j A\n-A FORWARD -j DROP\n-A A -j B\n-A A -j MARK --set-mark 1\n", "drop", 1)]
#[case::return_leaves_one_chain(
    "-A FORWARD -j A\n-A FORWARD -j DROP\n-A A -j B\n-A A -j MARK --set-mark 1\n-A B -j RETURN\n-A B -j ACCEPT\n",
    "drop",
    1
)]
#[case::goto_does_not_come_back("-A FORWARD -g A\n-A FORWARD -j DROP\n-A A -j MARK --set-mark 2\n", "accept", 2)]
#[case::goto_comes_back_to_the_caller(
    "-A FORWARD -j A\n-A FORWARD -j DROP\n-A A -g B\n-A A -j ACCEPT\n-A B -j MARK --set-mark 3\n",
    "drop",
    3
)]
#[case::return_of_a_hook_is_its_policy(":FORWARD DROP\n-A FORWARD -j RETURN\n-A FORWARD -j ACCEPT\n", "drop", 0)]
#[case::a_rule_without_target_counts("-A FORWARD\n-A FORWARD -j ACCEPT\n", "accept", 0)]
#[case::accept_ends_all_chains("-A FORWARD -j A\n-A FORWARD -j DROP\n-A A -j B\n-A B -j ACCEPT\n", "accept", 0)]
#[case::logs_change_nothing("-A FORWARD -m owner --uid-owner 5 -j NFLOG --nflog-group 1\n", "accept", 0)]
#[case::queues_are_not_known("-A FORWARD -j NFQUEUE --queue-num 0\n", "unknown", 0)]
fn chains_are_walked(#[case] rules: &str, #[case] outcome: &str, #[case] mark: u32) {
    let program = v4(&format!("*filter\n:A - [0:0]\n:B - [0:0]\n{rules}COMMIT\n"));
    let branch = only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    assert_eq!((word(&branch.outcome), branch.packet.mark), (outcome, mark));
}

#[test]
fn marks_are_cleared_and_flipped() {
    let program = v4("*mangle\n-A FORWARD -j MARK --set-xmark 0x4000/0x4000\n-A FORWARD -j MARK --or-mark 0x1\n\
                      -A FORWARD -j MARK --xor-mark 0x3\n-A FORWARD -j CONNMARK --save-mark --nfmask 0xff --ctmask 0xff\n\
                      -A FORWARD -j MARK --set-xmark 0x0/0xffffffff\n\
                      -A FORWARD -j CONNMARK --restore-mark --mask 0xf\n-A FORWARD -j CONNMARK --or-mark 0x100\nCOMMIT\n");
    let packet = Packet { mark: 0x10, ..tcp("10.0.0.1", "10.0.0.2", 80) };
    let branch = only_branch(&program, Hook::Forward, &packet);
    assert_eq!(branch.packet.mark, 0x2);
    assert_eq!(branch.tracking.connection().unwrap().mark, 0x112);
}

#[rstest]
#[case("--save-mark --nfmask 0xff --ctmask 0xff --left-shift-mark 8")]
#[case("--restore-mark --right-shift-mark 8")]
#[case("--restore-mark --mask 0xff --later-option")]
#[case("--set-xmark 0x1/0xff --left-shift-mark 8")]
fn other_options_of_connmark_are_not_guessed(#[case] options: &str) {
    let program = v4(&format!("*mangle\n-A FORWARD -j CONNMARK {options}\nCOMMIT\n"));
    let branch = only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    let HookVerdict::Unknown(unknown) = branch.outcome else { panic!("it is known") };
    assert_eq!(&*unknown.why, format!("target `CONNMARK {options}` is not modelled"));
}

/// Each table changes the mark, so the mark shows which tables saw the packet.
#[rstest]
#[case(Hook::Prerouting, "raw mangle nat")]
#[case(Hook::Input, "mangle filter security nat")]
#[case(Hook::Forward, "mangle filter security")]
#[case(Hook::Output, "raw mangle nat filter security")]
#[case(Hook::Postrouting, "mangle nat")]
fn tables_come_in_the_kernels_order(#[case] hook: Hook, #[case] order: &str) {
    let text: String = crate::iptables::TableName::ALL
        .into_iter()
        .filter(|t| t.builtin_chains().contains(&hook.as_str()))
        .map(|table| format!("*{table}\n-A {hook}\nCOMMIT\n"))
        .collect();
    let program = v4(&text);
    let packet = tcp("10.0.0.1", "10.0.0.2", 80);
    let branch = only_branch(&program, hook, &packet);
    let tables: Vec<_> = branch.trace.steps().into_iter().map(|step| program.place(step.rule).table).collect();
    assert_eq!(tables.join(" "), order);
}

#[test]
fn the_trace_names_rules_and_the_reason_of_a_loss() {
    let program = v4("*filter\n:FORWARD DROP [0:0]\n:A - [0:0]\n-A FORWARD -s 10.9.0.0/16 -j DROP\n-A FORWARD -j A\n\
                      -A A -p udp\n-A A -p tcp -j LOG\nCOMMIT\n*mangle\n-A FORWARD\nCOMMIT\n");
    let lost = only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    assert_eq!(path(&program, &lost), "FORWARD:1 FORWARD:2 A:2");
    let HookVerdict::Drop(By::Policy(chain)) = lost.outcome else { panic!("{:?}", lost.outcome) };
    assert_eq!(program.chain(chain), ("filter", "FORWARD"));
    let by_rule = only_branch(&program, Hook::Forward, &tcp("10.9.0.1", "10.0.0.2", 80));
    assert_eq!(by_rule.outcome, HookVerdict::Drop(By::Rule(by_rule.trace.steps()[1].rule)));
}

/// Logging may fail, so whether a line was written is unknown.
#[rstest]
#[case("-p tcp", Evaluated::Match(Share::ONE))]
#[case("-m owner --uid-owner 5", Evaluated::Maybe)]
#[case("-m statistic --mode random --probability 0.5", Evaluated::Maybe)]
#[case("-m statistic --mode nth --every 3", Evaluated::Maybe)]
#[case("-m limit --limit 5/min", Evaluated::Maybe)]
#[case("-m recent --set --name L -m owner --uid-owner 5", Evaluated::Maybe)]
fn a_log_is_traced_as_sure_as_it_is(#[case] conditions: &str, #[case] did: Evaluated) {
    let program = v4(&format!("*filter\n-A FORWARD {conditions} -j LOG\nCOMMIT\n"));
    let branch = only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80));
    assert_eq!((word(&branch.outcome), branch.share), ("accept", Share::ONE));
    assert_eq!(branch.trace.steps().into_iter().map(|step| step.did).collect::<Vec<_>>(), [did]);
    assert_eq!(branch.assumptions, Assumptions::NONE);
}

#[test]
fn rejections_have_kinds() {
    let program = v4("*filter\n-A INPUT -p tcp -j REJECT --reject-with tcp-reset\n-A OUTPUT -j REJECT\nCOMMIT\n");
    let packet = tcp("10.0.0.1", "192.0.2.1", 80);
    for (hook, rejection) in [(Hook::Input, RejectResponse::TcpReset), (Hook::Output, RejectResponse::PortUnreachable)]
    {
        let branch = only_branch(&program, hook, &packet);
        assert_eq!(branch.outcome, HookVerdict::Reject(branch.trace.steps()[0].rule, rejection));
    }
}

#[test]
fn raw_comes_before_connections() {
    let program = v4("*raw\n-A PREROUTING -m conntrack --ctstate INVALID -j MARK --set-mark 1\n\
                      -A PREROUTING -p udp -j NOTRACK\nCOMMIT\n\
                      *mangle\n-A PREROUTING -m conntrack --ctstate NEW -j MARK --or-mark 2\n\
                      -A PREROUTING -m conntrack --ctstate UNTRACKED -j MARK --or-mark 4\nCOMMIT\n\
                      *nat\n-A PREROUTING -p udp -j DNAT --to-destination 10.0.0.9\nCOMMIT\n");
    let packet = tcp("10.0.0.1", "10.0.0.2", 80);
    assert_eq!(only_branch(&program, Hook::Prerouting, &packet).packet.mark, 3);
    let udp = Packet { transport: Transport::Udp { source: 1, destination: 2 }, ..packet };
    let exempt = only_branch(&program, Hook::Prerouting, &udp);
    assert_eq!((exempt.packet.mark, exempt.tracking), (5, Tracking::Untracked));
    assert_eq!(exempt.packet.destination, udp.destination, "nat has no say");
    // A packet that re-enters through `lo` keeps its connection.
    let Tracking::Tracked(tracked) = Tracking::first(&udp) else { panic!() };
    let tracking = Tracking::Tracked(Tracked { attached: true, ..tracked });
    let branch = program.walk(&machine(), Hook::Prerouting, &udp, tracking).remove(0);
    assert_eq!(branch.packet.mark, 2);
    assert_eq!(branch.packet.destination, address("10.0.0.9"));
}

#[test]
fn the_other_family_passes() {
    let program = v4("*filter\n:FORWARD DROP [0:0]\nCOMMIT\n");
    let packet = tcp("fd00::1", "fd00::2", 80);
    let branch = only_branch(&program, Hook::Forward, &packet);
    assert_eq!(branch.outcome, HookVerdict::Accept);
}
