//! Programs under test that are invalid, that fail, or that try to escape from their node.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use rstest::rstest;
use tempfile::TempDir;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/cluster-ip/headless.yaml");
/// The output with which a script passes as a kube-proxy.
const RELEASE: &str = "[ \"$1\" = --version ] && { echo Kubernetes v1.33.2; exit; }\n";

/// The time for programs that exit on their own: on a busy machine, the sandbox starts slowly.
const EXITING: &str = "60s";
/// The time for programs that neither write rules nor print their release.
const WAITING: &str = "2s";
/// The same for those that print their release: on a busy machine, the sandbox starts slowly.
const LONGER: &str = "10s";

static CASES: AtomicUsize = AtomicUsize::new(0);

fn program(folder: &TempDir, content: &[u8]) -> PathBuf {
    let file = folder.path().join("proxy");
    fs::write(&file, content).expect("a folder of its own");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its own file");
    file
}

fn run(program: &Path, sync_timeout: &str) -> Command {
    let mut svclab = Command::new(env!("CARGO_BIN_EXE_svclab"));
    svclab.args(["run", "--sync-timeout", sync_timeout, "--kube-proxy"]).arg(program).arg(SCENARIO);
    svclab
}

fn all(output: &Output) -> String {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    super::unwrapped(&(stdout + &stderr))
}

/// The processes with these words as their command line.
fn processes(words: &str) -> Vec<i32> {
    let is_it = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        line.join(" ").trim() == words
    };
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|one| one.file_name().to_str()?.parse().ok()).filter(is_it).collect()
}

fn runs(words: &str) -> bool {
    !processes(words).is_empty()
}

#[rstest]
#[case::text(b"no program\n", "cannot be executed: exec format error")]
#[case::other_machine(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xff\xff", "cannot be executed: exec format error")]
#[case::no_interpreter(
    b"#!/nowhere/sh\n",
    "cannot be executed: its interpreter /nowhere/sh: no such file or directory"
)]
#[case::slow(b"#!/bin/sh\nexec sleep 1000\n", "--version did not exit within 2.00 s")]
#[case::no_release(b"#!/bin/sh\necho hello\n", "--version prints no known release of kube-proxy: hello")]
#[case::more_lines(b"#!/bin/sh\necho true 9.1; echo Copyright\n", "known release of kube-proxy: true 9.1 help: Name")]
#[case::silent(b"#!/bin/sh\n", "prints no known release of kube-proxy: nothing")]
#[case::failing(b"#!/bin/sh\nexit 3\n", "--version: exit status: 3")]
fn what_is_no_kube_proxy_is_invalid_input(#[case] content: &[u8], #[case] message: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let limit = if message.contains("within") { WAITING } else { EXITING };
    let output = run(&program(&folder, content), limit).output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(2), "{}", all(&output));
    assert!(all(&output).contains(message), "{}", all(&output));
}

#[rstest]
#[case::crashes("echo boom >&2; exit 7", EXITING, &["exited with exit status: 7", "the end of its log: boom"])]
#[case::is_terminated("kill -15 $$; echo still here; exit 7", EXITING, &["exited with exit status: 7", "log: still here"])]
#[case::hangs("trap '' TERM INT; echo here; while :; do sleep SLEEP; done", LONGER, &["is not synced after 10.00 s: it has not requested services from the API server", "log: here"])]
#[case::floods("while :; do echo again and again; done", LONGER, &["is not synced after 10.00 s", "log: again and again"])]
#[case::forks("setsid sleep SLEEP & setsid sh -c 'setsid sleep SLEEP & exec sleep SLEEP' & sleep SLEEP", LONGER, &["is not synced after 10.00 s"])]
#[case::writes_elsewhere(
    "for file in /proxy-was-here /tmp/proxy-was-here /proc/sys/kernel/domainname; do echo x >$file; done; mount -t tmpfs none /mnt; nsenter -t 1 -n ip link; exit 1",
    EXITING,
    &["/proxy-was-here: Read-only file system", "/tmp/proxy-was-here: Read-only file system", "domainname: Read-only file system", "permission denied", "Operation not permitted", "exited with exit status: 1"]
)]
#[case::looks_for_devices(
    "for one in /dev/*; do [ -b $one ] && echo disk $one; done; [ -c /dev/kmsg ] || echo no kmsg; chmod 666 /dev/null; echo x >/dev/null && echo null takes all; exit 1",
    EXITING,
    &["the end of its log: no kmsg", "'/dev/null': Read-only file system", "null takes all"]
)]
fn a_program_that_fails_is_an_error_and_leaves_nothing(
    #[case] script: &str,
    #[case] sync_timeout: &str,
    #[case] messages: &[&str],
) {
    let folder = tempfile::tempdir().expect("a folder");
    // No other process sleeps this long, nor does the program of another case that runs at the same time.
    let case = CASES.fetch_add(1, Ordering::Relaxed);
    let sleep = format!("{}.{case}", 900_000_000 + u64::from(std::process::id()));
    let script = format!("#!/bin/sh\n{RELEASE}{}\n", script.replace("SLEEP", &sleep));
    let output = run(&program(&folder, script.as_bytes()), sync_timeout).output().expect("svclab starts");
    let text = all(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    messages.iter().for_each(|message| assert!(text.contains(message), "no `{message}` in: {text}"));
    assert!(text.contains("(1.33.2)"), "the release is named: {text}");
    assert!(output.stdout.len() < 10_000, "the log is quoted in part");
    assert!(!runs(&format!("sleep {sleep}")), "a process is left");
    assert!(!Path::new("/proxy-was-here").exists() && !Path::new("/tmp/proxy-was-here").exists());
}

/// A `mount` that cannot make the root file system read-only.
#[test]
fn a_program_that_cannot_be_confined_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(&folder, format!("#!/bin/sh\n{RELEASE}echo unconfined\nexit 1\n").as_bytes());
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("a folder of its own");
    let path = std::env::var("PATH").expect("a PATH");
    let mount = format!("#!/bin/sh\ncase \"$*\" in *remount*' /') exit 32 ;; esac\nPATH='{path}'\nexec mount \"$@\"\n");
    fs::write(bin.join("mount"), mount).expect("its own file");
    fs::set_permissions(bin.join("mount"), fs::Permissions::from_mode(0o755)).expect("its own file");
    let mut svclab = run(&program, EXITING);
    let output = svclab.env("PATH", format!("{}:{path}", bin.display())).output().expect("svclab starts");
    let text = all(&output);
    assert_eq!(output.status.code(), Some(2), "not even for its release: {text}");
    let message = "--version: exit status: 126: svclab: the program cannot be confined: / stays writable";
    assert!(text.contains(message), "{text}");
    assert!(!text.contains("unconfined"), "{text}");
}

#[test]
fn a_scenario_of_another_release_is_not_applicable() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(&folder, format!("#!/bin/sh\n{RELEASE}exit 1\n").as_bytes());
    let scenario = folder.path().join("old.yaml");
    let text = fs::read_to_string(SCENARIO).expect("a scenario");
    fs::write(&scenario, text.replacen("cluster: {", "cluster: {proxy: {version: \"1.24\"}, ", 1))
        .expect("its own file");
    let mut svclab = Command::new(env!("CARGO_BIN_EXE_svclab"));
    let output = svclab.arg("run").arg("--kube-proxy").args([&program, &scenario]).output().expect("svclab starts");
    let text = all(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("not applicable: the scenario is for kube-proxy 1.24, but the program is 1.33.2"), "{text}");
    assert!(text.contains("1 scenario not applicable"), "{text}");
}

/// The host is as safe from a program that prints its release as from one in a lab.
#[test]
fn a_program_that_is_asked_for_its_release_cannot_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = folder.path().join("was-here");
    let script =
        format!("#!/bin/sh\necho x >{0} && chmod 777 {0}\nhostname was-here\n{RELEASE}exit 1\n", written.display());
    let output = run(&program(&folder, script.as_bytes()), "60s").output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(3), "{}", all(&output));
    assert!(!written.exists());
    assert_ne!(fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim(), "was-here");
}

/// Only regular files are opened: opening a pipe would block.
#[test]
fn a_pipe_or_a_folder_is_no_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o755)).expect("a pipe");
    for (file, message) in [(pipe.as_path(), "not a regular file"), (folder.path(), "is a directory")] {
        let output = run(file, WAITING).output().expect("svclab starts");
        assert_eq!(output.status.code(), Some(2), "{}", all(&output));
        assert!(all(&output).contains(&format!("cannot be executed: {message}")), "{}", all(&output));
    }
}

/// A test's time limit also applies to the programs that it waits for.
#[test]
fn a_program_is_waited_for_no_longer_than_a_test_may_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!("#!/bin/sh\n{RELEASE}exec sleep 1000\n");
    let output = run(&program(&folder, script.as_bytes()), EXITING).args(["--timeout", "2s"]).output();
    let output = output.expect("svclab starts");
    assert_eq!(output.status.code(), Some(3), "{}", all(&output));
    assert!(all(&output).contains("is not synced after 2.00 s"), "{}", all(&output));
}

/// The signal that kills a program from outside, such as the kernel's when memory is short, is named, not the exit status of `unshare`.
#[test]
fn a_program_that_is_killed_is_reported_with_the_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let sleep = format!("{}.5", 700_000_000 + u64::from(std::process::id()));
    let program = program(&folder, format!("#!/bin/sh\n{RELEASE}echo here\nexec sleep {sleep}\n").as_bytes());
    let mut svclab = run(&program, EXITING);
    let child = svclab.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
    let mut child = child.expect("svclab starts");
    let pid = loop {
        let running = processes(&format!("sleep {sleep}")).first().copied();
        if let Some(pid) = running {
            break pid;
        }
        // The limit is svclab's own: it exits once the program has had its time.
        if child.try_wait().expect("a child").is_some() {
            panic!("the program did not start: {}", all(&child.wait_with_output().expect("svclab exited")));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("it lives");
    let text = all(&child.wait_with_output().expect("svclab exits"));
    assert!(text.contains("was killed by signal 9 (SIGKILL); the end of its log: here"), "{text}");
    assert!(!text.contains("unshare"), "{text}");
}
