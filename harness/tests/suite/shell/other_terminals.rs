//! Other terminals of a lab, other labs, and what remains of one.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;

use super::{Running, svclab, text};

#[test]
fn other_terminals_use_the_same_lab() {
    let mut shell = Running::start();
    let mut program = shell.exec(&["pod/client", "--", "sh", "-c", "cat; exit 3"]);
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("svclab starts");
    program.stdin.take().expect("a pipe").write_all(b"its own input").expect("it reads");
    let output = program.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "its own input".to_owned()));

    let with_options = shell.exec(&["pod/client", "sh", "-c", "exit 4"]).status().expect("svclab starts");
    assert_eq!(with_options.code(), Some(4));
    let shown = shell.exec(&["show"]).output().expect("svclab starts");
    assert!(text(&shown.stdout).contains("pod/nginx"), "{}", text(&shown.stderr));

    shell.line("node/cluster-worker iptables -t nat -F KUBE-SERVICES");
    shell.line("pod/client echo flushed");
    shell.until("flushed");
    let diff = shell.exec(&["--", "rules", "diff"]).output().expect("svclab starts");
    assert_eq!(diff.status.code(), Some(1), "{}", text(&diff.stdout));

    let mut attached = svclab();
    attached.args(["attach", &shell.name]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut attached = attached.spawn().expect("svclab starts");
    let lines = b"pod/client hostname -I\nprobe pod/client pod/nginx:80\nexit\n";
    attached.stdin.take().expect("a pipe").write_all(lines).expect("it reads");
    let output = attached.wait_with_output().expect("it ends");
    let said = text(&output.stdout);
    assert!(output.status.success() && said.starts_with("10.244.1.3"), "{said}");
    assert!(said.contains("delivered to pod/nginx at 10.244.2.2:80"), "{said}");
}

#[test]
fn labs_and_places_are_completed() {
    let shell = Running::start();
    let completed = |words: &[&str]| {
        let mut command = svclab();
        command.args(["--", "svclab"]).args(words).env("_SVCLAB_COMPLETE", "bash").env("_CLAP_IFS", "\n");
        let output = command.env("_CLAP_COMPLETE_INDEX", words.len().to_string()).output().expect("svclab starts");
        text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for command in ["attach", "exec"] {
        assert_eq!(completed(&[command, &shell.name]), [shell.name.as_str()]);
    }
    assert!(completed(&["exec", "pod/cl"]).contains(&"pod/client".to_owned()));
}

#[test]
fn shells_do_not_see_each_others_labs() {
    let (one, mut other) = (Running::start(), Running::start());
    let flushed =
        one.exec(&["node/cluster-worker", "--", "iptables", "-t", "nat", "-F"]).status().expect("svclab starts");
    assert!(flushed.success());
    other.line("rules diff");
    other.until("no difference");
    let ambiguous = svclab().args(["exec", "--", "show"]).output().expect("svclab starts");
    let errors = text(&ambiguous.stderr);
    assert!(ambiguous.status.code() == Some(2) && errors.contains("shells are running: "), "{errors}");
    let unknown = svclab().args(["attach", "no-such-lab"]).output().expect("svclab starts");
    let errors = text(&unknown.stderr);
    assert!(
        unknown.status.code() == Some(2) && errors.starts_with("no running shell has a lab `no-such-lab`"),
        "{errors}"
    );
}

/// However a shell ends, its programs end with it, including those of other terminals and background processes.
#[rstest]
#[case::killed(Some(Signal::SIGKILL))]
#[case::terminated(Some(Signal::SIGTERM))]
#[case::hung_up(Some(Signal::SIGHUP))]
#[case::left(None)]
fn nothing_outlives_a_shell(#[case] signal: Option<Signal>) {
    let mut shell = Running::start();
    let mut program = shell.exec(&["pod/nginx", "--", "sh", "-c", "setsid sleep 1000 & echo started; exec sleep 1000"]);
    let mut program = program.stdout(Stdio::piped()).spawn().expect("svclab starts");
    let mut started = String::new();
    BufReader::new(program.stdout.take().expect("a pipe")).read_line(&mut started).expect("text");
    assert_eq!(started, "started\n");
    shell.line("pod/client sh -c 'setsid sleep 1000 & echo also'");
    shell.until("also");
    assert!(shell.processes().len() >= 5, "{:?}", shell.processes());
    match signal {
        Some(signal) => kill(Pid::from_raw(shell.child.id().cast_signed()), signal).expect("it runs"),
        None => drop(shell.lines.take()),
    }
    shell.child.wait().expect("a child");
    assert_eq!(program.wait().expect("a child").code(), Some(137));
    shell.assert_gone();
    let sockets = fs::read_to_string("/proc/net/unix").expect("a list");
    assert!(!sockets.contains(&shell.name), "{sockets}");
}
