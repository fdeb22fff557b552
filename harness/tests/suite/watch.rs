//! `svclab run --watch`: edits of files, and the output after them.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;

/// The timeout for a line of output; it measures nothing.
const MISSING: Duration = Duration::from_secs(120);

const OBJECTS: &str =
    "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.80, ports: [{port: 80}]}\n";

fn scenario(name: &str, expected: &str) -> String {
    format!(
        "name: {name}\nnodes: [{{name: worker, ip: 172.18.0.2, podCIDR: 10.244.0.0/24}}]\n\
         pods: [{{name: client, node: worker}}]\nmanifests: [objects/web.yaml]\ntests:\n  - name: answered\n    \
         probe: {{from: pod/client, to: '10.96.0.80:80'}}\n    expect: {{{expected}}}\n"
    )
}

struct Watching {
    svclab: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
        command.args(["run", "--watch"]).args(arguments).current_dir(folder);
        // One pipe for both, as on a terminal, keeps lines in their order.
        let (output, input) = io::pipe().expect("a pipe");
        command.stdout(input.try_clone().expect("a pipe")).stderr(input);
        let svclab = command.spawn().expect("svclab starts");
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The test may have ended.
                let _ = send.send(line);
            }
        });
        Self { svclab, lines }
    }

    /// Reads up to the line that contains a text, and returns what came before it.
    fn until(&self, text: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            match self.lines.recv_timeout(MISSING) {
                Ok(line) if line.contains(text) => return before,
                Ok(line) => before.push(line),
                Err(error) => panic!("no line contains `{text}` ({error}):\n{}", before.join("\n")),
            }
        }
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.svclab.id().try_into().expect("a pid")), signal).expect("it runs");
        self.svclab.wait().expect("it ends").code()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.svclab.kill();
        let _ = self.svclab.wait();
    }
}

/// Puts a file in place of another, as editors do.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).expect("a file");
    fs::rename(new, file).expect("a file");
}

#[rstest]
#[case(Signal::SIGINT, 130)]
#[case(Signal::SIGTERM, 143)]
fn every_change_leads_to_a_run(#[case] signal: Signal, #[case] code: i32) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    fs::create_dir(place("objects")).expect("a folder");
    fs::write(place("objects/web.yaml"), OBJECTS).expect("objects");
    fs::write(place("a.yaml"), scenario("first", "rejected: true")).expect("a scenario");
    fs::write(place("b.yaml"), scenario("second", "rejected: true")).expect("a scenario");
    let mut watching = Watching::start(folder.path(), &["."]);
    watching.until("2 scenarios, 2 tests: 2 ok");
    watching.until("watching 3 files; Ctrl-C ends");

    // The scenario that has changed comes first; an editor replaces its file.
    replace(&place("b.yaml"), &scenario("second", "dropped: true"));
    watching.until("changed: ./b.yaml");
    let before = watching.until("first  ./a.yaml");
    assert!(before.iter().any(|line| line.contains("second  ./b.yaml")), "{before:?}");
    watching.until("2 scenarios, 2 tests: 1 ok, 1 failed");

    // Errors are shown, and watching continues.
    replace(&place("b.yaml"), "name: second\nnods: []\n");
    watching.until("unknown field `nods`");
    watching.until("watching 3 files");
    fs::remove_file(place("objects/web.yaml")).expect("a file");
    watching.until("changed: ./objects/web.yaml");
    watching.until("watching 3 files");
    replace(&place("b.yaml"), &scenario("second", "rejected: true"));
    watching.until("changed: ./b.yaml");
    watching.until("watching 3 files");
    replace(&place("objects/web.yaml"), OBJECTS);
    watching.until("2 scenarios, 2 tests: 2 ok");

    // A new scenario is run as well.
    watching.until("watching 3 files");
    replace(&place("c.yaml"), &scenario("third", "rejected: true"));
    watching.until("changed: ./c.yaml");
    watching.until("3 scenarios, 3 tests: 3 ok");
    watching.until("watching 4 files");
    assert_eq!(watching.end(signal), Some(code));
}

#[test]
fn quiet_shows_failures_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("objects")).expect("a folder");
    fs::write(folder.path().join("objects/web.yaml"), OBJECTS).expect("objects");
    let file = folder.path().join("a.yaml");
    fs::write(&file, scenario("first", "dropped: true")).expect("a scenario");
    let mut watching = Watching::start(folder.path(), &["-q", "a.yaml"]);
    watching.until("FAIL  answered");
    replace(&file, "name: first\nnods: []\n");
    let before = watching.until("unknown field `nods`");
    assert!(!before.iter().any(|line| line.contains("watching") || line.contains("changed:")), "{before:?}");
    assert_eq!(watching.end(Signal::SIGINT), Some(130));
}

#[rstest]
#[case(&["--report", "json=-", "a.yaml"], "a report on standard output has one run\nhelp: Write the report to a file: `--report json=FILE`.")]
#[case(&["missing.yaml"], "missing.yaml does not exist\nhelp: Name an existing file or folder.")]
#[case(&["-"], "standard input does not change\nhelp: Name files or folders.")]
fn what_cannot_be_watched_is_an_error(#[case] arguments: &[&str], #[case] message: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(["run", "--watch"]).args(arguments).output();
    let output = output.expect("svclab starts");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("`--watch`: {message}\n"));
}

/// As with `mv` and Kubernetes volumes: the path stays, but leads to another folder.
#[rstest]
fn a_path_may_lead_to_another_folder(#[values(false, true)] is_link: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    for (name, expected) in [("old", "rejected: true"), ("new", "dropped: true")] {
        fs::create_dir_all(place(name).join("objects")).expect("a folder");
        fs::write(place(name).join("objects/web.yaml"), OBJECTS).expect("objects");
        fs::write(place(name).join("a.yaml"), scenario("first", expected)).expect("a scenario");
    }
    let lead = |to: &str| match is_link {
        true => symlink(to, place("next")).and_then(|()| fs::rename(place("next"), place("net"))),
        false => fs::rename(place(to), place("net")),
    };
    lead("old").expect("the path");
    let watching = Watching::start(folder.path(), &["net"]);
    watching.until("1 scenario, 1 test: 1 ok");
    watching.until("watching 2 files");
    if !is_link {
        fs::rename(place("net"), place("away")).expect("the folder");
    }
    lead("new").expect("the path");
    watching.until("1 scenario, 1 test: 0 ok, 1 failed");
    // A run between the two moves also watches the path that leads nowhere.
    watching.until("watching ");
    replace(&place("net/a.yaml"), &scenario("first", "rejected: true"));
    watching.until("1 scenario, 1 test: 1 ok");
}

#[test]
fn it_ends_with_its_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("objects")).expect("a folder");
    fs::write(folder.path().join("objects/web.yaml"), OBJECTS).expect("objects");
    fs::write(folder.path().join("a.yaml"), scenario("first", "rejected: true")).expect("a scenario");
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(["run", "--watch", "a.yaml"]).current_dir(folder.path());
    let (output, input) = io::pipe().expect("a pipe");
    let mut svclab = command.stdout(input).stderr(Stdio::null()).spawn().expect("svclab starts");
    drop((command, output));
    assert_eq!(svclab.wait().expect("it ends").code(), Some(141));
}
