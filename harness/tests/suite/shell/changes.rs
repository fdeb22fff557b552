//! Changes of a lab that is up: objects, links, nodes, kube-proxies.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use rstest::rstest;

use super::{Running, SCENARIO, once, svclab, text, typed};

/// A change is reported with what is ignored in it, and with a fix for what is not possible.
#[rstest]
#[case::a_deployment(
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
    0,
    "note: Deployment web is ignored: no controller runs here, so it creates no pods; list its pods instead"
)]
#[case::a_new_pod(
    "pods: [{name: more, node: cluster-worker}]\n",
    2,
    "pod `more` is not there, and pods cannot be added"
)]
#[case::nothing("\n", 2, "change.yaml is empty\nhelp: Name a file")]
fn an_apply_says_what_it_does_not_do(#[case] change: &str, #[case] code: i32, #[case] expected: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("change.yaml");
    fs::write(&file, change).expect("its own file");
    let output = once(&["apply", "-f", &file.to_string_lossy()]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(errors.contains(expected), "{errors}");
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

/// An error names the file as it was typed.
#[test]
fn an_error_of_a_change_has_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("wrong.yaml"), "endpoints: [{service: nginy, pods: [client]}]\n")
        .expect("its own file");
    let mut command = svclab();
    command.args(["shell", SCENARIO, "--", "apply", "wrong.yaml"]).current_dir(folder.path());
    let errors = text(&command.output().expect("svclab starts").stderr);
    assert!(errors.starts_with("wrong.yaml:1:23: there is no service `nginy`"), "{errors}");
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
    let (down, up) = said.split_once("node/cluster-worker2  default: up, mtu 1500\n").expect("it is up again");
    assert!(
        down.starts_with("node/cluster-worker2  down\n") && down.ends_with("node/cluster-worker2  down\n"),
        "{down}"
    );
    assert!(down.contains("link: down\n") && !down.contains("delivered to"), "{down}");
    assert!(up.contains("delivered to pod/nginx at 10.244.2.2:80"), "{up}");
    assert!(up.contains(" mtu 1400 ") && up.contains(" mtu 1500 "), "{up}");
    assert!(up.ends_with("all links have the default settings: up, mtu 1500\n"), "{up}");
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
            errors.starts_with("node/cluster-worker2 is off, so nothing on it is running\nhelp: Turn it on"),
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
    for command in ["probe", "explain", "graph"] {
        let sent = shell.exec(&[command, "pod/nginx", "pod/client:80"]).output().expect("svclab starts");
        assert_eq!(text(&sent.stderr), "pod/nginx has been deleted\nhelp: Run `show` for the places of this lab.\n");
    }
}
