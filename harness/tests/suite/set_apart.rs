//! Endpoints that connect to their own service: one walk of a cascade covers all of them, and each is still judged separately.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use rstest::rstest;
use serde_json::Value;

/// Endpoints of one service on a node, and this number of other pods.
fn scenario(endpoints: usize, others: usize, rules: &str) -> String {
    let web: Vec<String> = (0..endpoints).map(|number| format!("web{number}")).collect();
    let others = (0..others).map(|number| format!("client{number}"));
    let pods: String =
        web.iter().cloned().chain(others).map(|pod| format!("  - {{name: {pod}, node: worker}}\n")).collect();
    format!(
        "name: one service\ncluster: {{podCIDR: 10.244.0.0/16}}\nnodes:\n  - {{name: worker, ip: 172.18.0.2}}\npods:\n{pods}\
         services:\n  - {{name: web, ports: [{{port: 80, targetPort: 8080}}]}}\nendpoints:\n  - {{service: web, pods: [{}]}}\n{rules}",
        web.join(", ")
    )
}

/// `svclab ARGUMENTS -` with a scenario on standard input.
fn svclab(arguments: &[&str], scenario: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(arguments).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("svclab starts");
    child.stdin.take().expect("a pipe").write_all(scenario.as_bytes()).expect("svclab reads");
    child.wait_with_output().expect("svclab ends")
}

/// The result of `svclab verify --no-lab`.
fn verified(scenario: &str) -> Value {
    let output = svclab(&["verify", "--no-lab", "--format", "json"], scenario);
    let written: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    written["result"]["scenarios"][0].clone()
}

/// The rules of the node as the scenario's own, without lines that contain `left_out`.
fn rules_without(scenario: &str, left_out: &str) -> String {
    let output = svclab(&["rules", "--node", "worker"], scenario);
    let rules = String::from_utf8(output.stdout).expect("text");
    assert!(rules.contains(left_out), "{rules}{}", String::from_utf8_lossy(&output.stderr));
    let lines = rules.lines().filter(|line| !line.contains(left_out)).map(|line| format!("      {line}\n"));
    format!("rules:\n  worker:\n    install: instead\n    text: |\n{}", lines.collect::<String>())
}

/// The rule that masquerades packets of an endpoint to itself is left out for one endpoint only.
#[rstest]
#[case::endpoints_alone(0)]
#[case::other_pods(2)]
fn one_endpoint_that_cannot_reach_itself_is_found(#[case] others: usize) {
    let sound = scenario(4, others, "");
    assert_eq!(verified(&sound)["findings"], serde_json::json!([]));
    let left_out = "-s 10.244.0.3/32";
    let found = verified(&scenario(4, others, &rules_without(&sound, left_out)));
    let failing = found["findings"].as_array().expect("findings");
    assert!(!failing.is_empty(), "{found}");
    for finding in failing {
        let flow = finding["example"]["flow"].as_str().expect("a flow");
        assert!(flow.starts_with("pod/web1 > "), "{finding}");
        // Once for each address that the service has, from this pod.
        assert_eq!(finding["flows"], 1, "{finding}");
    }
}

/// The command at the end of a finding explains the same packet.
#[test]
fn the_command_of_a_finding_explains_it() {
    let sound = scenario(3, 1, "");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("broken scenario.yaml");
    std::fs::write(&file, scenario(3, 1, &rules_without(&sound, "-s 10.244.0.2/32"))).expect("a file");
    let mut verify = Command::new(env!("CARGO_BIN_EXE_svclab"));
    let output = verify.args(["verify", "--no-lab", "--format", "json"]).arg(&file).output().expect("svclab starts");
    let written: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let finding = &written["result"]["scenarios"][0]["findings"][0];
    let command = finding["example"]["explain"].as_str().expect("a command");
    let program = env!("CARGO_BIN_EXE_svclab");
    let line = command.replacen("svclab", program, 1);
    let output = Command::new("sh").args(["-c", &line]).output().expect("sh starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("pod/web0") && text.contains("KUBE-SEP-"), "{text}");
}

#[test]
fn the_limit_of_classes_is_reported() {
    let output = svclab(&["verify", "--no-lab", "--max-classes", "5"], &scenario(3, 1, ""));
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("incomplete: at least ") && words.contains("(--max-classes reached)"), "{text}");
}

/// The name of standard input in messages is not a file.
#[test]
fn the_command_of_a_finding_names_standard_input() {
    let sound = scenario(3, 1, "");
    let found = verified(&scenario(3, 1, &rules_without(&sound, "-s 10.244.0.2/32")));
    let command = found["findings"][0]["example"]["explain"].as_str().expect("a command");
    assert!(command.ends_with(" -- -"), "{command}");
}
