//! What rules of a dump would do outside of a lab.

use std::path::Path;

use svclab::evidence;
use svclab::infer::{self, Assumed, Connections};
use svclab::scenario::{self, Tests};

use crate::assumptions;

fn imported(text: &str) -> Assumed {
    infer::from_evidence(&evidence::read(text), Path::new("dump"), &[], Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

fn golden(path: &str) -> String {
    std::fs::read_to_string(format!("../rules/tests/golden/{path}")).expect("a recording")
}

/// The rules in the text of a scenario, which is accepted.
fn rules_of(assumed: &Assumed) -> String {
    let text = scenario::print(&assumed.scenario, &assumptions(assumed), &[]);
    let nothing = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let read = scenario::parse_with(&text, Path::new("bug.yaml"), &nothing, Tests::Optional);
    read.unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    text.lines().filter(|line| !line.trim_start().starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Targets that log, copy or measure packets are left out, but not a match that later rules depend on, and a queue is said to have no reader.
#[test]
fn targets_that_reach_out_of_a_lab_are_disarmed() {
    let targets = "-A FORWARD -m recent --set --name x -j LOG --log-prefix seen\n-A FORWARD -j NFLOG --nflog-group 1\n\
        -A FORWARD -j TEE --gateway 10.0.0.9\n-A FORWARD -j AUDIT --type accept\n\
        -A FORWARD -p icmp -j NFQUEUE --queue-num 0\n";
    let saved = golden("clusterip-one-endpoint/v1.30-iptables/iptables-save.txt");
    let saved = saved.replacen("*filter\n", &format!("*filter\n:FORWARD ACCEPT [0:0]\n{targets}"), 1);
    let assumed = imported(&saved);
    let rules = rules_of(&assumed);
    assert!(!["LOG", "TEE", "AUDIT"].iter().any(|target| rules.contains(&format!("-j {target}"))), "{rules}");
    assert!(!rules.contains("NFLOG") && rules.contains("--set --name x") && !rules.contains("-A FORWARD\n"), "{rules}");
    let said = assumptions(&assumed).join("\n");
    for target in
        ["target LOG, NFLOG, TEE of rules of node", "target AUDIT of rules", "target NFQUEUE: what it decides"]
    {
        assert!(said.contains(target), "{target}: {said}");
    }
}

/// nft's `log` statements are said to be omitted, and what a lab cannot have is left out, not passed on to be rejected.
#[test]
fn statements_of_nft_that_reach_out_of_a_lab_are_left_out() {
    let saved = golden("clusterip-one-endpoint/v1.36-nftables/nft-ruleset.txt");
    let statements = "policy accept;\n\t\tlog prefix \"x\" group 1\n\t\tlog level audit\n\t\tqueue num 0\n\t\tct helper set \"ftp\"\n\
        \t\tlimit rate 1/second dup to 10.0.0.9\n\t\tlog prefix \"queue\" ct state new accept\n";
    let saved = saved.replacen("policy accept;\n", statements, 1);
    let assumed = imported(&saved);
    let said = assumptions(&assumed).join("\n");
    let left_out = assumed.scenario.ignored_rules.join("\n");
    let rules = rules_of(&assumed);
    assert!(!["queue num", "ct helper", "dup to", "log "].iter().any(|word| rules.contains(word)), "{rules}");
    assert!(rules.contains("ct state new accept"), "{rules}");
    assert!(said.contains("3 log statements in the IPv4 rules of node") && !said.contains("``"), "{said}");
    for statement in ["`queue num 0`", "`ct helper set \"ftp\"`", "dup to 10.0.0.9`"] {
        assert!(left_out.contains(statement), "{statement}: {left_out}");
    }
}
