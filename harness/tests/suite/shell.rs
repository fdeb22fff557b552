//! A lab that stays up: commands from standard input, on the command line, from other terminals, and at a prompt.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;

#[path = "shell/terminal.rs"]
mod terminal;

/// A client on one node, nginx on another, and a machine outside.
const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/seeds/001-kind-clusterip.yaml");
/// Marks the processes of a test: their children have it in their environment too.
const MARK: &str = "SVCLAB_SHELL_TEST";

fn svclab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_svclab"))
}

/// The result of one command.
fn once(command: &[&str]) -> Output {
    svclab().args(["shell", SCENARIO, "--"]).args(command).output().expect("svclab starts")
}

/// The result of lines on standard input.
fn typed(scenario: &Path, lines: &str) -> Output {
    let mut command = svclab();
    let piped = command.arg("shell").arg(scenario).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("svclab starts");
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

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
#[case::format(&["graph", "--write", "picture.png"], "`picture.png` does not say its format\nhelp: End its name in `.svg`")]
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
fn a_line_that_is_no_text_is_left_out() {
    let mut command = svclab();
    let piped = command.args(["shell", SCENARIO]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("svclab starts");
    child.stdin.take().expect("a pipe").write_all(b"\xff\xfe\npod/client echo after\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "after\n".to_owned()));
    assert!(text(&output.stderr).starts_with("a line is not UTF-8 text"), "{}", text(&output.stderr));
}

/// A change is reported with what is ignored in it, and with a fix for what is not possible.
#[rstest]
#[case::a_deployment(
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
    0,
    "note: Deployment web is ignored: it does not affect rules: list its pods instead"
)]
#[case::a_new_pod(
    "pods: [{name: more, node: cluster-worker}]\n",
    2,
    "pod `more` is not there, and pods cannot be added"
)]
fn an_apply_says_what_it_does_not_do(#[case] change: &str, #[case] code: i32, #[case] expected: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("change.yaml");
    fs::write(&file, change).expect("its own file");
    let output = once(&["apply", &file.to_string_lossy()]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(expected), "{errors}");
}

/// What is on standard input is for the shell, not for its programs.
#[test]
fn programs_do_not_take_the_lines() {
    let output = typed(Path::new(SCENARIO), "pod/client cat\npod/client echo after\n");
    assert_eq!(text(&output.stdout), "after\n");
}

#[rstest]
#[case::short("pod/client", "nginx")]
#[case::with_namespace("pod/client", "nginx.default")]
#[case::with_service("pod/client", "nginx.default.svc")]
#[case::whole("pod/client", "http://nginx.default.svc.cluster.local:80/")]
#[case::address("pod/client", "10.96.34.82")]
#[case::node("node/cluster-worker", "nginx")]
fn services_are_reached_by_name(#[case] place: &str, #[case] url: &str) {
    let output = once(&[place, "get", url]);
    let said = text(&output.stdout);
    assert!(said.starts_with("pod/nginx at 10.244.2.2:80, client "), "{said}{}", text(&output.stderr));
}

#[rstest]
#[case::its_own("pod/client", "client 10.244.1.3:", "(pod/client)\n")]
#[case::masqueraded("pod/nginx", "client 172.18.0.3:", "(node/cluster-worker2)\n")]
#[case::of_a_node("node/cluster-worker", "client 172.18.0.2:", "(node/cluster-worker)\n")]
fn a_server_names_its_client(#[case] place: &str, #[case] address: &str, #[case] name: &str) {
    let said = text(&once(&[place, "get", "nginx"]).stdout);
    let first = said.lines().next().unwrap_or_default().to_owned() + "\n";
    assert!(first.contains(address) && first.ends_with(name), "{said}");
}

/// Probes and real connections in one lab: kernels of pods are silent only while a probe is under way.
#[test]
fn probes_and_programs_do_not_disturb_each_other() {
    let one = "pod/client get nginx\nprobe pod/client service/nginx:80\nprobe node/cluster-worker service/nginx:80\n";
    let output = typed(Path::new(SCENARIO), &format!("{}rules diff\n", one.repeat(5)));
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert_eq!(said.matches("pod/nginx at 10.244.2.2:80, client 10.244.1.3:").count(), 5, "{said}");
    assert_eq!(said.matches("delivered to pod/nginx at 10.244.2.2:80").count(), 10, "{said}");
    assert!(said.ends_with("no difference: the rules are those that svclab has installed\n"), "{said}");
}

#[test]
fn a_change_is_followed_by_rules_names_and_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("its own file");
        path.to_string_lossy().into_owned()
    };
    let moved = file("moved.yaml", "endpoints: [{service: nginx, pods: [client]}]\n");
    let added = file(
        "added.yaml",
        "apiVersion: v1
kind: Service
metadata: {name: more}
spec: {clusterIP: 10.96.1.1, ports: [{port: 80}]}
",
    );
    let wrong = file("wrong.yaml", "endpoints: [{service: nginy, pods: [client]}]\n");
    let lines = format!(
        "apply {moved}\nnode/cluster-worker2 get nginx\napply {added}\npod/nginx cat /etc/hosts\napply {wrong}\nrules diff\n"
    );
    let output = typed(Path::new(SCENARIO), &lines);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("pod/client at 10.244.1.3:80, client "), "{said}{errors}");
    assert!(
        said.contains("10.96.1.1 more.default.svc.cluster.local more.default.svc more.default more\n"),
        "{said}{errors}"
    );
    assert!(said.contains("service changed") && errors.contains("nginy"), "{said}{errors}");
    assert!(said.ends_with("no difference: the rules are those that svclab has installed\n"), "{said}");
}

/// The outcomes of probes and programs follow the links of a lab, as they do in a scenario's steps.
#[test]
fn links_change_and_become_as_usual_again() {
    let lines = "link node/cluster-worker2 down
probe pod/client service/nginx:80
show
link
link node/cluster-worker2 up
probe pod/client service/nginx:80
link pod/client --mtu 1400
pod/client cat /sys/class/net/eth0/mtu
pod/client sh -c 'ip link show eth0'
link pod/client --reset
pod/client sh -c 'ip link show eth0'
link
";
    let output = typed(Path::new(SCENARIO), lines);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{errors}");
    let (down, up) = said.split_once("node/cluster-worker2  as usual: up, mtu 1500\n").expect("it is up again");
    assert!(
        down.starts_with("node/cluster-worker2  down\n") && down.ends_with("node/cluster-worker2  down\n"),
        "{down}"
    );
    assert!(down.contains("link: down\n") && !down.contains("delivered to"), "{down}");
    assert!(up.contains("delivered to pod/nginx at 10.244.2.2:80"), "{up}");
    assert!(up.contains(" mtu 1400 ") && up.contains(" mtu 1500 "), "{up}");
    assert!(up.ends_with("all links are as usual: up, mtu 1500\n"), "{up}");
}

#[test]
fn nothing_runs_on_a_node_that_is_off() {
    let mut shell = Running::start();
    let mut program = shell.exec(&["pod/nginx", "--", "sh", "-c", "echo started; exec sleep 1000"]);
    let mut program = program.stdout(Stdio::piped()).spawn().expect("svclab starts");
    BufReader::new(program.stdout.take().expect("a pipe")).read_line(&mut String::new()).expect("text");
    shell.line("down node/cluster-worker2");
    shell.until("node/cluster-worker2 off; 1 program there ended");
    assert_eq!(program.wait().expect("a child").code(), Some(137));
    for place in ["pod/nginx", "node/cluster-worker2"] {
        let inside = shell.exec(&[place, "--", "true"]).output().expect("svclab starts");
        let errors = text(&inside.stderr);
        assert!(
            errors.starts_with("node cluster-worker2 is off, and nothing on it runs\nhelp: Turn it on"),
            "{errors}"
        );
    }
    shell.line("up node/cluster-worker2");
    shell.until("node/cluster-worker2 on");
    shell.line("pod/client get nginx");
    shell.until("pod/nginx at 10.244.2.2:80");
}

#[test]
fn rules_stay_while_a_kube_proxy_is_stopped() {
    let mut shell = Running::start();
    let apply = |shell: &Running, pod: &str| {
        let mut apply = shell.exec(&["--", "apply", "-"]);
        let mut apply = apply.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("svclab starts");
        let change = format!("endpoints: [{{service: nginx, pods: [{pod}]}}]\n");
        apply.stdin.take().expect("a pipe").write_all(change.as_bytes()).expect("it reads");
        let output = apply.wait_with_output().expect("it ends");
        assert!(text(&output.stdout).contains("EndpointSlice"), "{}", text(&output.stdout));
    };
    shell.line("stop proxy@cluster-worker2");
    shell.until("proxy@cluster-worker2 stopped");
    apply(&shell, "client");
    shell.line("node/cluster-worker2 get nginx");
    shell.until("pod/nginx at ");
    shell.line("node/cluster-worker get nginx");
    shell.until("pod/client at ");
    shell.line("start proxy");
    shell.until("proxy started");
    shell.line("node/cluster-worker2 get nginx");
    shell.until("pod/client at ");
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
fn rules_changed_by_hand_are_found() {
    let lines = "node/cluster-worker iptables -t nat -F KUBE-SERVICES\nrules diff cluster-worker\n";
    let output = typed(Path::new(SCENARIO), lines);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.contains("service default/nginx: the frontend 10.96.34.82:80/tcp is missing"), "{said}");
}

#[test]
fn a_host_network_pod_serves_real_clients_between_probes() {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/host-network/endpoint.yaml");
    let lines = "pod/client get exporter\nprobe pod/client service/exporter:80\npod/client get exporter\ntest\n";
    let output = typed(&scenario, lines);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    assert_eq!(said.matches("pod/exporter at 172.18.0.3:9100, client ").count(), 2, "{said}");
}

#[test]
fn packets_are_captured() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("packets.pcapng");
    let mut shell = Running::start();
    let mut capture = shell.exec(&["--", "capture", "pod/nginx", "--count", "2", "--write"]);
    let mut capture = capture.arg(&file).stdout(Stdio::piped()).spawn().expect("svclab starts");
    // Until it has opened its socket, packets pass it by.
    while capture.try_wait().expect("a child").is_none() {
        shell.line("pod/client get nginx");
        shell.until("connection: close");
    }
    let mut packets = String::new();
    capture.stdout.take().expect("a pipe").read_to_string(&mut packets).expect("text");
    assert!(capture.wait().expect("it ends").success(), "{packets}");
    assert!(packets.contains("10.244.2.2:80"), "{packets}");
    assert_eq!(fs::read(&file).expect("it is written")[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
}

/// A shell that is running, whose lines a test writes.
struct Running {
    child: Child,
    lines: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    name: String,
}

impl Running {
    fn start() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut command = svclab();
        command.args(["shell", SCENARIO, "--name", &name]).env(MARK, &name);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("svclab starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut shell = Self { lines: child.stdin.take(), child, output, name };
        shell.line("pod/client echo ready");
        shell.until("ready");
        shell
    }

    fn line(&mut self, line: &str) {
        writeln!(self.lines.as_mut().expect("it is open"), "{line}").expect("it reads");
    }

    /// Reads until a line starts with a text.
    fn until(&mut self, start: &str) -> String {
        let mut all = String::new();
        loop {
            let before = all.len();
            assert_ne!(self.output.read_line(&mut all).expect("text"), 0, "no `{start}` in {all}");
            if all[before..].starts_with(start) {
                return all;
            }
        }
    }

    /// A command in its lab.
    fn exec(&self, arguments: &[&str]) -> Command {
        let mut command = svclab();
        command.args(["exec", &self.name]).args(arguments).env(MARK, &self.name);
        command
    }

    /// The processes of this test that are alive, this shell's and its programs', but not this test.
    fn processes(&self) -> Vec<String> {
        let wanted = format!("{MARK}={}", self.name).into_bytes();
        let is_alive = |pid: &String| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            !stat.contains(") Z ") && environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
        };
        let entries = fs::read_dir("/proc").expect("it is mounted").flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.parse::<u32>().is_ok()).filter(is_alive).collect()
    }

    /// Waits until no process of this test is left.
    fn assert_gone(&self) {
        let begin = Instant::now();
        while !self.processes().is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(60), "still there: {:?}", self.processes());
            thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.lines.take());
        let _ = self.child.wait();
    }
}

#[test]
fn other_terminals_use_the_same_lab() {
    let mut shell = Running::start();
    let mut program = shell.exec(&["pod/client", "--", "sh", "-c", "cat; exit 3"]);
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("svclab starts");
    program.stdin.take().expect("a pipe").write_all(b"its own input").expect("it reads");
    let output = program.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "its own input".to_owned()));

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

/// However a shell ends, its programs end with it, those of other terminals and what they left behind too.
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

#[test]
fn programs_end_with_their_pod() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("deleted.yaml");
    fs::write(&file, "endpoints: [{service: nginx, addresses: []}]\npods: [{name: nginx, delete: true}]\n")
        .expect("its own file");
    let mut shell = Running::start();
    let mut program = shell.exec(&["pod/nginx", "--", "sh", "-c", "echo started; exec sleep 1000"]);
    let mut program = program.stdout(Stdio::piped()).spawn().expect("svclab starts");
    BufReader::new(program.stdout.take().expect("a pipe")).read_line(&mut String::new()).expect("text");
    shell.line(&format!("apply {}", file.display()));
    let said = shell.until("applied ");
    assert!(said.contains("1 program there ended"), "{said}");
    assert_eq!(program.wait().expect("a child").code(), Some(137));
    let after = shell.exec(&["pod/nginx", "--", "true"]).output().expect("svclab starts");
    assert!(text(&after.stderr).starts_with("pod/nginx has been deleted"), "{}", text(&after.stderr));
}

/// A history of one's own for a test.
fn history(folder: &Path) -> PathBuf {
    folder.join("svclab/history")
}
