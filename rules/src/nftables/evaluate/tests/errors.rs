//! Tables that the kernel rejects.

use rstest::rstest;

use super::*;

const FORWARD: &str = "chain f {\ntype filter hook forward priority 0; policy accept;\n";

#[rstest]
#[case("jump nowhere\n}", "table ip kube-proxy, chain f, rule 1: jumps to chain `nowhere`, which does not exist")]
#[case("drop\njump f\n}", "table ip kube-proxy, chain f, rule 2: jumps to base chain `f`")]
#[case("ip saddr @s drop\n}", "table ip kube-proxy, chain f, rule 1: refers to set `s`, which does not exist")]
#[case(
    "ip saddr . meta l4proto . th dport @s drop\n}\nset s {\ntype ipv4_addr . inet_service\n}",
    "table ip kube-proxy, chain f, rule 1: looks up set `s` with a key of type ipv4_addr . inet_proto . inet_service, \
     but its keys are of type ipv4_addr . inet_service"
)]
#[case(
    "jump a\n}\nchain a {\njump b\n}\nchain b {\ndrop\ngoto a\n}",
    "table ip kube-proxy, chain b, rule 2: jump loop: a → b → a"
)]
#[case(
    "ip daddr vmap @m\n}\nmap m {\ntype ipv4_addr : verdict\nelements = { 10.0.0.1 : goto nowhere }\n}",
    "table ip kube-proxy, set m: jumps to chain `nowhere`, which does not exist"
)]
#[case("masquerade fully-random\n}", "table ip kube-proxy, chain f, rule 1: masquerade is not allowed at forward")]
#[case(
    "jump a\n}\nchain a {\ndnat to 10.0.0.1:80\n}",
    "table ip kube-proxy, chain a, rule 1: dnat is not allowed at forward"
)]
#[case(
    "drop\n}\nchain o {\ntype filter hook output priority 0; policy accept;\njump a\n}\nchain a {\ndnat to 10.0.0.1:80\n}",
    "table ip kube-proxy, chain a, rule 1: dnat is not allowed in a chain that a filter chain jumps to"
)]
#[case(
    "drop\n}\nchain a {\n}\nchain a {\ntype filter hook input priority 0\n}",
    "table ip kube-proxy, chain a: is declared twice, in different ways"
)]
fn an_error_is_reported_with_its_place(#[case] text: &str, #[case] message: &str) {
    let errors = Program::compile(&table(&format!("{FORWARD}{text}")), Family::Ipv4).unwrap_err();
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [message]);
}

#[test]
fn a_table_without_hooks_is_never_entered() {
    let errors = Program::compile(&table("chain a {\ndrop\n}"), Family::Ipv4).unwrap_err();
    assert_eq!(errors[0].to_string(), "table ip kube-proxy: has rules but no base chain");
}

/// A loop may lead through the elements of a map.
#[test]
fn maps_lead_to_chains_too() {
    let text = "ip daddr vmap @m\n}\nchain a {\nip daddr vmap @m\n}\n\
                map m {\ntype ipv4_addr : verdict\nelements = { 10.0.0.1 : jump a }\n}";
    let errors = Program::compile(&table(&format!("{FORWARD}{text}")), Family::Ipv4).unwrap_err();
    assert_eq!(errors[0].to_string(), "table ip kube-proxy, chain a, rule 1: jump loop: a → a");
}

/// The kernel follows jumps whether or not svclab models the condition.
#[rstest]
#[case("jump NEXT")]
#[case("meta length > 1 jump NEXT")]
#[case("limit rate 1000000/second jump NEXT")]
#[case("meta l4proto vmap { tcp : jump NEXT, udp : jump NEXT }")]
#[case("ct state vmap @to-NEXT")]
fn chains_that_multiply_are_rejected(#[case] rule: &str) {
    let of = |chain: usize| format!("{}\n", rule.replace("NEXT", &format!("c{}", chain + 1))).repeat(8);
    let chains: String = (1..12).map(|chain| format!("chain c{chain} {{\n{}}}\n", of(chain))).collect();
    let map = |chain: usize| {
        format!("map to-c{chain} {{\ntype inet_service : verdict\nelements = {{ 1 : jump c{chain} }}\n}}\n")
    };
    let maps: String = (2..=12).map(map).collect();
    let text = format!("{FORWARD}jump c1\n}}\n{chains}chain c12 {{\ncounter\n}}\n{maps}");
    let errors = Program::compile(&table(&text), Family::Ipv4).unwrap_err();
    let is_too_long =
        |error: &super::super::CompileError| matches!(error.kind, super::super::CompileErrorKind::TooLong(_));
    assert!(errors.iter().any(is_too_long), "{errors:?}");
}

fn nested(chains: usize) -> Result<Program, Vec<super::super::CompileError>> {
    let inner: String = (1..chains).map(|number| format!("chain c{number} {{\njump c{}\n}}\n", number + 1)).collect();
    let text = format!("{FORWARD}jump c1\n}}\n{inner}chain c{chains} {{\ndrop\n}}");
    Program::compile(&table(&text), Family::Ipv4)
}

/// The kernel accepts jumps nested 15 deep below a base chain and fails with "Too many links" for the 16th.
#[test]
fn chains_are_as_deep_as_the_kernel_allows() {
    let program = nested(15).unwrap();
    assert_eq!(word(&only_branch(&program, Hook::Forward, &tcp("10.0.0.1", "10.0.0.2", 80)).outcome), "drop");
    let errors = nested(16).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "table ip kube-proxy, chain c15, rule 1: jumps are nested more than 16 deep, which the kernel rejects"
    );
}
