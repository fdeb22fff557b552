//! Rule sets that the kernel rejects.

use rstest::rstest;

use super::*;

#[rstest]
#[case(
    "*filter\n-A INPUT -j NOWHERE\nCOMMIT\n",
    "table filter, chain INPUT, rule 1: jumps to chain `NOWHERE`, which does not exist"
)]
#[case(
    "*filter\n:A - [0:0]\n-A A\n-A A -j OUTPUT\n-A INPUT -j A\nCOMMIT\n",
    "table filter, chain A, rule 2: jumps to built-in chain `OUTPUT`"
)]
#[case(
    "*filter\n:A - [0:0]\n:B - [0:0]\n-A INPUT -j A\n-A A\n-A A -j B\n-A B -g A\nCOMMIT\n",
    "table filter, chain B, rule 1: jump loop: A → B → A"
)]
#[case("*filter\n:A - [0:0]\n-A A -j ACCEPT\nCOMMIT\n", "table filter: has rules but no built-in chain")]
#[case(
    "*nat\n-A OUTPUT -j REJECT\nCOMMIT\n",
    "table nat, chain OUTPUT, rule 1: REJECT is not allowed in table nat, only in filter"
)]
#[case(
    "*nat\n:A - [0:0]\n-A OUTPUT -j A\n-A A -j MASQUERADE\nCOMMIT\n",
    "table nat, chain A, rule 1: MASQUERADE is not allowed at OUTPUT"
)]
#[case(
    "*nat\n-A INPUT -j DNAT --to-destination 10.0.0.1\nCOMMIT\n",
    "table nat, chain INPUT, rule 1: DNAT is not allowed at INPUT"
)]
fn an_error_is_reported_with_its_place(#[case] text: &str, #[case] message: &str) {
    let errors = Program::compile(&parse(text, Family::Ipv4).unwrap().rules).unwrap_err();
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [message]);
}

fn nested(chains: usize) -> Result<Program, Vec<super::super::CompileError>> {
    let declared: String = (1..=chains).map(|number| format!(":C{number} - [0:0]\n")).collect();
    let jumps: String = (1..chains).map(|number| format!("-A C{number} -j C{}\n", number + 1)).collect();
    let text = format!("*filter\n{declared}-A INPUT -j C1\n{jumps}-A C{chains} -j DROP\nCOMMIT\n");
    Program::compile(&parse(&text, Family::Ipv4).unwrap().rules)
}

/// The kernel accepts jumps nested 15 deep below a base chain and fails with "Too many links" for the 16th.
#[test]
fn chains_are_as_deep_as_the_kernel_allows() {
    let program = nested(15).unwrap();
    assert_eq!(word(&only_branch(&program, Hook::Input, &tcp("10.0.0.1", "10.0.0.2", 80)).outcome), "drop");
    let errors = nested(16).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "table filter, chain C15, rule 1: jumps are nested more than 16 deep, which nf_tables rejects (iptables-legacy accepts them)"
    );
}

/// The kernel looks for loops only in chains reachable from a hook.
#[test]
fn a_loop_that_nothing_leads_to_is_no_mistake() {
    let text = "*filter\n:A - [0:0]\n:B - [0:0]\n-A INPUT\n-A A -j B\n-A B -j A\nCOMMIT\n";
    assert!(Program::compile(&parse(text, Family::Ipv4).unwrap().rules).is_ok());
}
