//! A lab that stays up: commands from standard input, on the command line, from other terminals, and at a prompt.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

mod changes;
mod commands;
mod other_terminals;
mod programs;
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

/// A running shell, to which a test writes lines.
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
        // SIGHUP ends it even if the tests were started with `nohup` and ignore it.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_svclab"), "shell", SCENARIO, "--name", &name]);
        command.env(MARK, &name);
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

    /// The living processes of this shell and its programs, without the test itself.
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

/// A separate history for a test.
fn history(folder: &Path) -> PathBuf {
    folder.join("svclab/history")
}
