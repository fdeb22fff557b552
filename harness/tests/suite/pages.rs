//! Text output fits the width of the terminal.

use std::process::Command;

use rstest::rstest;

const SEED: &str = "../scenarios/seeds/000-foo-three-replicas.yaml";
const GOLDEN: &str = "../rules/tests/golden/small-cluster";
const OBJECTS: &str = "../rules/tests/golden/small-cluster/cluster.yaml";

/// Every line fits, unless a single word (a name, a URL) is too long to be wrapped.
#[rstest]
#[case::run("run", &["../scenarios/seeds", "-v"], &[80, 100, 120])]
#[case::error("run", &["../scenarios/seeds", "--filter", "no test has such a name as this one has"], &[80])]
#[case::verify("verify", &["--no-lab", "../scenarios/bugs/113659-mark-bits.yaml", "../scenarios/seeds"], &[80, 100, 120])]
#[case::mutate("mutate", &["--sample", "4", "--missed", "../scenarios/cluster-ip/other-node.yaml"], &[80, 100, 120])]
#[case::check("check", &["../scenarios", "-v"], &[80, 100, 120])]
#[case::explain("explain", &[SEED], &[80, 100, 120])]
#[case::rules_diff("rules", &[OBJECTS, "--node", "node-1", "-v", "--diff", "GOLDEN/v1.18-iptables/iptables-save.txt"], &[80, 100, 120])]
#[case::diff("diff", &[SEED, "--before", "1.27", "--after", "1.33:nftables"], &[80, 100, 120])]
#[case::cascade("cascade", &["GOLDEN/v1.30-iptables/iptables-save.txt"], &[80, 100, 120])]
#[case::cascade_of_maps("cascade", &["GOLDEN/v1.30-nftables/nft-ruleset.txt"], &[80, 100, 120])]
#[case::sampled("cascade", &[SEED, "--sample", "600"], &[80, 100])]
#[case::show("dump", &["show", "GOLDEN/v1.30-nftables/nft-ruleset.txt"], &[80, 100, 120])]
#[case::lint("dump", &["lint", "GOLDEN/v1.18-iptables/iptables-save.txt"], &[80, 100, 120])]
#[case::doctor("doctor", &[], &[80])]
#[case::help("run", &["--help"], &[80, 100])]
fn no_line_is_wider_than_the_terminal(#[case] command: &str, #[case] arguments: &[&str], #[case] widths: &[usize]) {
    for width in widths {
        let mut svclab = Command::new(env!("CARGO_BIN_EXE_svclab"));
        svclab.arg(command).args(arguments.iter().map(|argument| argument.replace("GOLDEN", GOLDEN)));
        let output = svclab.env("COLUMNS", width.to_string()).output().expect("svclab starts");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(text.lines().count() > 1 || !output.status.success(), "nothing is printed: {text}");
        let is_long = |line: &&str| {
            let longest = line.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
            line.chars().count() > *width && longest < width / 2
        };
        let long: Vec<&str> = text.lines().filter(is_long).collect();
        assert!(long.is_empty(), "at {width} columns:\n{}", long.join("\n"));
    }
}

/// Identifiers in errors can be searched for: they are not hyphenated or broken.
#[test]
fn names_in_errors_are_not_broken() {
    let output = Command::new(env!("CARGO_BIN_EXE_svclab"))
        .args(["check", "../scenarios/invalid/several-errors.yaml"])
        .env("COLUMNS", "60")
        .output()
        .expect("svclab starts");
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(text.contains("address as fd00::10.") && !text.contains("-\n"), "{text}");
}
