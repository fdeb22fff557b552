//! A killed lab leaves nothing behind, whenever it is killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;

/// How often a run is killed, unless [`TIMES`] is set. `ci/kill` repeats it a thousand times.
const ROUNDS: u64 = 60;
/// The variable with the number of runs to kill.
const TIMES: &str = "SVCLAB_KILLS";
/// Marks the processes of this test: their children have it in their environment too.
const MARK: &str = "SVCLAB_KILL_TEST";
/// A scenario with pods that have rules of their own, on a bridge and over VXLAN: everything that a lab can contain.
const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/seeds/002-k3s-klipper-lb.yaml");

/// Objects that a lab could leave on the host.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    /// Mounts of this mount namespace.
    mounts: BTreeSet<String>,
    /// Interfaces of this network namespace.
    links: BTreeSet<String>,
    /// Named network namespaces.
    namespaces: BTreeSet<String>,
}

impl Host {
    fn look() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self {
            mounts: mounts
                .lines()
                .filter(|line| line.contains("svclab") || line.contains("nsfs"))
                .map(str::to_owned)
                .collect(),
            links: names(Path::new("/sys/class/net")),
            namespaces: names(Path::new("/run/netns")),
        }
    }
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The processes that have the mark with this value, without zombies.
fn processes(value: &str) -> Vec<String> {
    let wanted = format!("{MARK}={value}").into_bytes();
    let has_mark = |pid: &String| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    names(Path::new("/proc")).into_iter().filter(|name| name.parse::<u32>().is_ok()).filter(has_mark).collect()
}

/// A run of the scenario whose temporary files would be in a folder of its own.
fn start(value: &str, temporary: &Path) -> Child {
    command(value, temporary).spawn().unwrap_or_else(|error| panic!("svclab does not start: {error}"))
}

fn command(value: &str, temporary: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    marked(command.args(["run", SCENARIO]), value, temporary);
    command
}

/// Marks a command, and gives it a folder for temporary files.
fn marked(command: &mut Command, value: &str, temporary: &Path) {
    command.env(MARK, value).env("TMPDIR", temporary);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
}

/// A run where `iptables-restore` is a script.
fn command_with(script: &str, value: &str, temporary: &Path) -> Command {
    let mut command = command(value, temporary);
    with_program(script, value, temporary, &mut command);
    command
}

/// Makes `iptables-restore` a script for a command.
fn with_program(script: &str, value: &str, temporary: &Path, command: &mut Command) {
    marked(command, value, temporary);
    let program = temporary.join("iptables-restore");
    fs::write(&program, script).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap_or_else(|error| panic!("{error}"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", temporary.display()));
}

fn temporary_folder(value: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("svclab-kill-{value}"));
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    folder
}

/// Children that were installing rules when svclab was killed exit on their own when their input ends.
fn wait_until_gone(value: &str) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let left = processes(value);
        if left.is_empty() || begin.elapsed() > Duration::from_secs(20) {
            return left;
        }
        thread::yield_now();
    }
}

#[test]
fn a_process_that_is_left_would_be_found() {
    let value = format!("planted-{}", std::process::id());
    let mut planted = Command::new("sleep").arg("30").env(MARK, &value).spawn().expect("sleep");
    // A process has its environment a moment after it has its number.
    let begin = Instant::now();
    let mut found = processes(&value);
    while found.is_empty() && begin.elapsed() < Duration::from_secs(20) {
        found = processes(&value);
    }
    planted.kill().expect("it runs");
    planted.wait().expect("it ends");
    assert_eq!(found, [planted.id().to_string()]);
}

#[test]
fn nothing_is_left_after_many_kills() {
    let rounds = match std::env::var(TIMES) {
        Ok(times) => times.parse().unwrap_or_else(|error| panic!("{TIMES}={times}: {error}")),
        Err(_) => ROUNDS,
    };
    let value = format!("killed-{}", std::process::id());
    let temporary = temporary_folder(&value);
    let before = Host::look();
    let mut alive = 0;
    let mut random: u64 = 0x5eed;
    for round in 0..rounds {
        // A linear congruential generator (Knuth, MMIX): the same moments in every run.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut run = start(&value, &temporary);
        thread::sleep(Duration::from_micros((random >> 33) % 150_000));
        run.kill().expect("its own process");
        let status = run.wait().expect("it ends");
        alive += u64::from(status.signal() == Some(Signal::SIGKILL as i32));
        let left = wait_until_gone(&value);
        assert!(left.is_empty(), "round {round}: processes {left:?} are left");
    }
    assert_eq!(Host::look(), before, "on the host");
    assert!(names(&temporary).is_empty(), "files are left in {}: {:?}", temporary.display(), names(&temporary));
    fs::remove_dir(&temporary).expect("an empty folder");
    println!("{rounds} runs, {alive} of them alive when they were killed: nothing is left");
    assert!(alive > rounds / 2, "only {alive} of {rounds} runs were still alive when they were killed");
}

#[test]
fn an_interrupted_run_says_so() {
    let value = format!("interrupted-{}", std::process::id());
    let temporary = temporary_folder(&value);
    let before = Host::look();
    let mut run = start(&value, &temporary);
    // The handler is installed when the first program is started to install rules.
    let begin = Instant::now();
    while processes(&value).len() < 2 && begin.elapsed() < Duration::from_secs(20) {
        thread::yield_now();
    }
    kill(Pid::from_raw(i32::try_from(run.id()).expect("a process id")), Signal::SIGINT).expect("its own process");
    let status = run.wait().expect("it ends");
    let mut said = String::new();
    run.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert!(wait_until_gone(&value).is_empty());
    assert_eq!(Host::look(), before);
    fs::remove_dir(&temporary).expect("an empty folder");
}

/// A program that neither reads nor exits is killed with svclab, however that exits.
#[rstest]
#[case::interrupted(Signal::SIGTERM)]
#[case::killed(Signal::SIGKILL)]
fn a_program_that_hangs_ends_with_the_lab(#[case] signal: Signal) {
    let value = format!("hanging-{signal}-{}", std::process::id());
    let temporary = temporary_folder(&value);
    let hangs = command_with("#!/bin/sh\nexec sleep 1000\n", &value, &temporary).spawn();
    let mut run = hangs.expect("svclab starts");
    let sleeps = |pid: &String| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    let begin = Instant::now();
    while !processes(&value).iter().any(sleeps) {
        assert!(begin.elapsed() < Duration::from_secs(60), "the program is not called");
        thread::yield_now();
    }
    kill(Pid::from_raw(i32::try_from(run.id()).expect("a process id")), signal).expect("its own process");
    run.wait().expect("it ends");
    let left = wait_until_gone(&value);
    assert!(left.is_empty(), "processes {left:?} are left");
    fs::remove_dir_all(&temporary).expect("the script and nothing else");
}

/// Neither is an error of the scenario: its rules were not read.
#[rstest]
#[case::killed("kill -KILL $$", "iptables-restore in node/", "killed by signal 9 (SIGKILL)")]
#[case::mute("exit 4", "iptables-restore in node/", "it printed no error (exit status: 4)")]
fn a_program_that_ends_without_a_word_is_the_environments_fault(
    #[case] script: &str,
    #[case] which: &str,
    #[case] printed: &str,
) {
    let value = format!("wordless-{}-{}", script.len(), std::process::id());
    let temporary = temporary_folder(&value);
    let output = command_with(&format!("#!/bin/sh\n{script}\n"), &value, &temporary).output().expect("svclab starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(which) && said.contains(printed), "{said}");
    fs::remove_dir_all(&temporary).expect("the script and nothing else");
}

/// A scenario with three tests, of which the second changes objects.
fn three_tests(first: &str, applied: &str) -> String {
    let test = |name: &str, service: &str| {
        format!(
            "  - {{name: {name}, probe: {{from: pod/a, to: 'service/{service}:80'}}, expect: {{delivered: 'pod/b:80'}}}}\n"
        )
    };
    let objects = |name: &str| {
        format!("services: [{{name: {name}, ports: [{{port: 80}}]}}], endpoints: [{{service: {name}, pods: [b]}}]")
    };
    format!(
        "name: of {first}\ncluster: {{podCIDR: 10.244.0.0/16}}\nnodes: [{{name: n, ip: 172.18.0.2}}]\npods: [{{name: a, node: n}}, \
         {{name: b, node: n}}]\n{}\ntests:\n{}  - name: second\n    steps:\n      - apply: {{{}}}\n      - {{probe: {{from: pod/a, to: \
         'service/{applied}:80'}}, expect: {{delivered: 'pod/b:80'}}}}\n{}",
        objects(first).replace("], ", "]\n"),
        test("first", first),
        objects(applied),
        test("third", first)
    )
}

/// A program that installs rules, as a child of the worker: it sends the worker a signal once, when it gets rules of a service.
fn signals_once(service: &str, signal: Signal, temporary: &Path) -> String {
    let armed = temporary.join("armed");
    fs::write(&armed, "").unwrap_or_else(|error| panic!("{}: {error}", armed.display()));
    format!(
        "#!/bin/sh\nrules=$(cat)\ncase $rules in *default/{service}*) if rm '{}' 2>/dev/null; then kill -{} $PPID; exec sleep 1000; \
         fi;; esac\nPATH=${{PATH#*:}}\nprintf '%s\\n' \"$rules\" | iptables-restore \"$@\"\n",
        armed.display(),
        signal as i32
    )
}

/// The death of a lab's process is the error of the test that was running; the others continue, and so do other scenarios. While a lab is
/// being built, no test is running.
#[rstest]
#[case::killed("second", Signal::SIGKILL, "environment", &["ok", "error", "ok"])]
#[case::aborted("second", Signal::SIGABRT, "internal", &["ok", "error", "ok"])]
#[case::while_it_is_built("first", Signal::SIGKILL, "environment", &["error", "error", "error"])]
#[case::stopped("second", Signal::SIGSTOP, "environment", &["ok", "error", "ok"])]
#[case::stopped_while_it_is_built("first", Signal::SIGSTOP, "environment", &["error", "error", "error"])]
fn a_worker_that_dies_fails_its_test(
    #[case] trigger: &str,
    #[case] signal: Signal,
    #[case] cause: &str,
    #[case] expected: &[&str],
) {
    let value = format!("worker-{trigger}-{signal}-{}", std::process::id());
    let temporary = temporary_folder(&value);
    let before = Host::look();
    for (file, names) in [("a.yaml", ["doomed-first", "doomed-second"]), ("b.yaml", ["first", "second"])] {
        fs::write(temporary.join(file), three_tests(names[0], names[1])).expect("a file");
    }
    let script = signals_once(&format!("doomed-{trigger}"), signal, &temporary);
    let mut run = command_with(&script, &value, &temporary);
    let scenarios = ["a.yaml", "b.yaml"].map(|file| temporary.join(file));
    // Only a test whose process is stopped takes as long; on a busy machine others take seconds.
    let timeout = if signal == Signal::SIGSTOP { "5s" } else { "60s" };
    let output =
        run.args(&scenarios).args(["--timeout", timeout, "--report", "json=-"]).output().expect("svclab starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(if cause == "internal" { 4 } else { 3 }), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let scenarios = report["result"]["scenarios"].as_array().expect("scenarios");
    let status = |scenario: &serde_json::Value| -> Vec<String> {
        let tests = scenario["tests"].as_array().expect("tests");
        tests.iter().map(|test| test["status"].as_str().expect("a status").to_owned()).collect()
    };
    let of = |file: &str| {
        let is_it = |one: &&serde_json::Value| one["file"].as_str().is_some_and(|name| name.ends_with(file));
        scenarios.iter().find(is_it).unwrap_or_else(|| panic!("{file}: {report:#}"))
    };
    assert_eq!(status(of("/a.yaml")), expected, "{report:#}");
    assert_eq!(status(of("/b.yaml")), ["ok", "ok", "ok"]);
    let errors = [&of("/a.yaml")["error"], &of("/a.yaml")["tests"][1]["error"]];
    let error = errors.into_iter().find(|error| !error.is_null()).expect("an error");
    assert_eq!(error["cause"], cause);
    let how = match signal {
        Signal::SIGSTOP if trigger == "first" => "did not respond for 30 s, so it was killed".to_owned(),
        Signal::SIGSTOP => {
            "the test took longer than 5.00 s; its worker process did not end it within another 10 s".to_owned()
        }
        _ => format!("was killed by signal {} ({signal})", signal as i32),
    };
    assert!(error["message"].as_str().is_some_and(|message| message.contains(&how)), "{error}");
    assert!(wait_until_gone(&value).is_empty());
    assert_eq!(Host::look(), before);
    fs::remove_dir_all(&temporary).expect("what this test wrote");
}

/// For other commands, too, it is an error of only that scenario.
#[rstest]
#[case::verify(&["verify", "a.yaml", "b.yaml", "--format", "json"], true)]
#[case::mutate(&["mutate", "a.yaml", "b.yaml", "--sample", "1", "--format", "json"], true)]
#[case::explain(&["explain", "a.yaml", "--live", "--from", "pod/a", "--to", "service/doomed-first:80"], false)]
#[case::cascade(&["cascade", "a.yaml", "--sample", "100"], false)]
fn a_worker_that_dies_fails_its_scenario(#[case] arguments: &[&str], #[case] has_others: bool) {
    let value = format!("worker-{}-{}", arguments[0], std::process::id());
    let temporary = temporary_folder(&value);
    let before = Host::look();
    fs::write(temporary.join("a.yaml"), three_tests("doomed-first", "doomed-second")).expect("a file");
    fs::write(temporary.join("b.yaml"), three_tests("first", "second")).expect("a file");
    let script = signals_once("doomed-first", Signal::SIGKILL, &temporary);
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    with_program(&script, &value, &temporary, &mut command);
    let output = command.args(arguments).current_dir(&temporary).output().expect("svclab starts");
    let [printed, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(output.status.code(), Some(3), "{printed}{said}");
    let how = "the worker process of this lab was killed by signal 9 (SIGKILL)";
    assert!(printed.contains(how) || said.contains(how), "{printed}{said}");
    if has_others {
        let document: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
        let scenarios = document["result"]["scenarios"].as_array().expect("scenarios");
        let statuses: Vec<&str> = scenarios.iter().filter_map(|one| one["status"].as_str()).collect();
        assert_eq!(statuses, ["error", "ok"], "{printed}");
    }
    assert!(wait_until_gone(&value).is_empty());
    assert_eq!(Host::look(), before);
    fs::remove_dir_all(&temporary).expect("what this test wrote");
}
