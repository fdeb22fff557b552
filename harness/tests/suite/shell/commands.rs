//! Commands about the lab as a whole: their exit codes and error messages.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use rstest::rstest;

use super::{Running, SCENARIO, once, svclab, text, typed};

#[rstest]
#[case::success(&["show"], 0)]
#[case::program(&["pod/client", "sh", "-c", "exit 7"], 7)]
#[case::killed(&["pod/client", "sh", "-c", "kill -KILL $$"], 137)]
#[case::a_line_in_one_word(&["pod/client sh -c 'exit 9'"], 9)]
#[case::delivered(&["probe", "pod/client", "service/nginx:80"], 0)]
#[case::not_delivered(&["probe", "pod/client", "10.96.34.82:81"], 1)]
#[case::tests_hold(&["test"], 0)]
#[case::link_down(&["link", "pod/client", "down"], 0)]
#[case::link_shown(&["link", "host/outside"], 0)]
#[case::node_off(&["down", "node/cluster-worker"], 0)]
#[case::graph(&["graph", "pod/client", "service/nginx:80"], 0)]
#[case::nothing_is_off(&["up", "node/cluster-worker"], 2)]
#[case::wrong_mtu(&["link", "pod/client", "--mtu", "10"], 2)]
#[case::wrong_rate(&["link", "pod/client", "--rate", "fast"], 2)]
#[case::nothing_is_stopped(&["start", "proxy"], 2)]
#[case::no_such_path(&["graph", "pod/client", "service/nginx:80", "--path", "2"], 2)]
#[case::no_such_command(&["shwo"], 2)]
#[case::no_such_place(&["pod/cliemt", "true"], 2)]
#[case::no_such_destination(&["probe", "pod/client", "service/nginy:80"], 2)]
#[case::no_such_file(&["apply", "nowhere.yaml"], 2)]
#[case::no_such_program(&["pod/client", "svclab-knows-no-such-program"], 127)]
fn one_command_has_its_code(#[case] command: &[&str], #[case] code: i32) {
    let output = once(command);
    assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[rstest]
#[case::place(&["pod/cliemt", "true"], "this lab has no `pod/cliemt`\nhelp: Did you mean `pod/client`?\n")]
#[case::typed(&["probe", "pod/client", "nginx"], "`nginx` has no port\nhelp: ")]
#[case::program_without_place(
    &["curl", "nginx"],
    "there is no command `curl`\nhelp: Run `help` for the commands. A program needs a place before it: `pod/client curl`.\n"
)]
#[case::no_program(&["pod/client"], "no program to run in pod/client\nhelp: Add its command: `pod/client ip address`")]
#[case::program(&["pod/client", "svclab-knows-no-such-program"], "svclab-knows-no-such-program: command not found\nhelp: Install it")]
#[case::machine(&["link", "client", "down"], "this lab has no `client`\nhelp: Did you mean `pod/client`?\n")]
#[case::format(&["graph", "--write", "picture.png"], "the format of `picture.png` is unknown\nhelp: Use the extension `.svg`")]
#[case::command_of_kubectl(&["kubectl", "get", "svc"], "there is no command `kubectl`\nhelp: Use `apply FILE` for `kubectl apply`")]
#[case::argument(&["exit", "3"], "unexpected argument '3' found\nUsage: exit\nhelp: Run `help exit`.\n")]
#[case::pipe(&["pod/client echo a | cat"], "`|` is not supported as an operator: a line is one command\nhelp: Let a shell do it: `pod/client sh -c '...'`")]
#[case::sequence(&["pod/client echo a; echo b"], "`;` is not supported as an operator")]
#[case::redirection(&["show >file"], "`>` is not supported as an operator")]
#[case::node(&["rules", "cluster-worke"], "there is no node `cluster-worke`\nhelp: Did you mean `cluster-worker`?\n")]
fn errors_name_the_fix(#[case] command: &[&str], #[case] expected: &str) {
    let errors = text(&once(command).stderr);
    assert!(errors.starts_with(expected), "{errors}");
}

#[test]
fn the_last_line_gives_the_code() {
    let first_fails = typed(Path::new(SCENARIO), "pod/client false\n\n# a comment\nshow\n");
    assert_eq!(first_fails.status.code(), Some(0), "{}", text(&first_fails.stderr));
    let last_fails = typed(Path::new(SCENARIO), "show\npod/client sh -c 'exit 5'");
    assert_eq!(last_fails.status.code(), Some(5));
    let left_early = typed(Path::new(SCENARIO), "pod/client sh -c 'exit 5'\nexit\nshow\n");
    assert_eq!((left_early.status.code(), text(&left_early.stdout)), (Some(5), String::new()));
}

#[test]
fn a_line_that_fails_is_named() {
    let output = typed(Path::new(SCENARIO), "pod/client sh -c 'exit 2'\n\nshwo > x\nshwo\n");
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.starts_with("exit code 2\nin line 1: pod/client sh -c 'exit 2'\n"), "{errors}");
    assert!(errors.contains("in line 3: shwo > x\n") && errors.ends_with("in line 4: shwo\n"), "{errors}");
    assert_eq!(errors.matches("in line").count(), 3, "{errors}");
}

/// The content of a file that is not text is not printed in errors.
#[test]
fn a_long_line_is_shortened() {
    let output = typed(Path::new(SCENARIO), &"a".repeat(3_000_000));
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stderr.len() < 1000, "{}", output.stderr.len());
}

/// A quoted operator of `sh` is an argument of the program.
#[test]
fn quoted_operators_are_words() {
    let output = typed(Path::new(SCENARIO), "pod/client echo '|' \\; '>' 'a | b'\n");
    assert_eq!(text(&output.stdout), "| ; > a | b\n", "{}", text(&output.stderr));
}

#[test]
fn tests_end_in_a_summary() {
    let said = text(&once(&["test"]).stdout);
    assert!(said.contains("1 scenario, 4 tests: 4 ok, in "), "{said}");
}

/// A failed test suggests a command of the shell, for the lab in its present state.
#[test]
fn a_failed_test_of_a_changed_lab_is_explained_in_the_shell() {
    let lines = "link node/cluster-worker2 down\ntest handshake\n";
    let said = text(&typed(Path::new(SCENARIO), lines).stdout);
    let (_, command) = said.split_once("see also  explain ").unwrap_or_else(|| panic!("{said}"));
    let command = format!("explain {}", command.split("\n\n").next().unwrap_or_default());
    let command = command.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(command.contains(" --source-port=37328 ") && command.ends_with(" --live"), "{command}");
    let output = typed(Path::new(SCENARIO), &format!("link node/cluster-worker2 down\n{command}\n"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("lost on the underlay"), "{}", text(&output.stdout));
}

#[test]
fn a_line_that_is_no_text_is_left_out() {
    let mut command = svclab();
    let piped = command.args(["shell", SCENARIO]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("svclab starts");
    child.stdin.take().expect("a pipe").write_all(b"\xff\xfe\npod/client echo after\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "after\n".to_owned()));
    assert!(text(&output.stderr).starts_with("a line is not UTF-8 text"), "{}", text(&output.stderr));
}

/// A link that is down is clearly visible.
#[test]
fn a_link_that_is_down_is_drawn_so() {
    let drawn = |lines: &str| text(&typed(Path::new(SCENARIO), lines).stdout);
    let cut = "class=\"outline-bad\"";
    assert_eq!(drawn("graph --format svg\n").matches(cut).count(), 0);
    assert_eq!(drawn("link node/cluster-worker2 down\ngraph --format svg\n").matches(cut).count(), 1);
}

#[test]
fn rules_changed_by_hand_are_found() {
    let lines = "node/cluster-worker iptables -t nat -F KUBE-SERVICES\nrules diff cluster-worker\n";
    let output = typed(Path::new(SCENARIO), lines);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("service default/nginx: the frontend 10.96.34.82:80/tcp is missing"), "{said}");
}

#[test]
fn a_graph_is_printed_or_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let lines = format!(
        "link pod/client --mtu 1400\ngraph pod/client service/nginx:80\ngraph pod/client service/nginx:80 --write {}\ngraph --write {}\n",
        file("flow.svg"),
        file("cluster.dot")
    );
    let output = typed(Path::new(SCENARIO), &lines);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    assert!(said.contains("flowchart LR\n") && said.contains("link: mtu 1400") && said.contains("==>|1|"), "{said}");
    let written = |name: &str| fs::read_to_string(file(name)).expect("it is written");
    assert!(written("flow.svg").starts_with("<svg ") && written("cluster.dot").starts_with("digraph "));
}

#[test]
fn packets_are_captured() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("packets.pcapng");
    let mut shell = Running::start();
    let mut capture = shell.exec(&["--", "capture", "pod/nginx", "--count", "2", "--write"]);
    let mut capture = capture.arg(&file).stdout(Stdio::piped()).spawn().expect("svclab starts");
    // Until it has opened its socket, it misses packets.
    while capture.try_wait().expect("a child").is_none() {
        shell.line("pod/client get nginx");
        shell.until("user-agent: svclab");
    }
    let mut packets = String::new();
    capture.stdout.take().expect("a pipe").read_to_string(&mut packets).expect("text");
    assert!(capture.wait().expect("it ends").success(), "{packets}");
    assert!(packets.contains("10.244.2.2:80"), "{packets}");
    assert_eq!(fs::read(&file).expect("it is written")[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
}
