//! How commands end: exit codes, and what is said on the way.
#![allow(clippy::expect_used, reason = "a test fails where something is missing")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rstest::rstest;

const SEED: &str = "../scenarios/cluster-ip/same-node.yaml";

fn svclab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(arguments);
    command
}

fn ended(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A folder of one test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A scenario that fails: nobody drops the packet.
fn failing(folder: &Path) -> String {
    let file = folder.join("failing.yaml");
    let text = "name: f\nnodes: [{name: n}]\npods: [{name: a, node: n}, {name: b, node: n}]\ntests:\n  \
                - {name: nobody drops it, probe: {from: pod/a, to: 'pod/b:80'}, expect: {dropped: true}}\n";
    fs::write(&file, text).expect("a file");
    file.display().to_string()
}

#[rstest]
#[case::schema(&["schema"])]
#[case::completions(&["completions", "bash"])]
#[case::rules(&["rules", SEED])]
#[case::check(&["check", SEED])]
#[case::help(&["--help"])]
fn output_that_cannot_be_written_is_told(#[case] arguments: &[&str]) {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = svclab(arguments).stdout(full).output().expect("svclab starts");
    let told = "standard output cannot be written: no space left on device\n";
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).ends_with(told)), (Some(3), true));
}

#[rstest]
#[case::schema(&["schema"])]
#[case::completions(&["completions", "zsh"])]
#[case::help(&["run", "--help"])]
fn a_reader_that_went_away_ends_it_quietly(#[case] arguments: &[&str]) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = svclab(arguments).stdout(writer).output().expect("svclab starts");
    assert_eq!(ended(&output), (Some(141), String::new(), String::new()));
}

#[rstest]
#[case::no_jobs(&["run", "--jobs", "0", SEED], "at least one lab must run")]
#[case::many_jobs(&["run", "--jobs", "99999999999999999999", SEED], "so many labs cannot run")]
#[case::shard(&["run", "--shard", "5/4", SEED], "K from 1 to N")]
#[case::no_such_file(&["run", "nowhere.yaml"], "nowhere.yaml: no such file or directory\n")]
#[case::no_test(&["run", "--filter", "no such name", SEED], "no test's name contains `no such name`")]
#[case::no_test_of_a_shard(&["run", "--filter", "no such name", "--shard", "1/2", SEED], "are left out")]
#[case::report(&["run", "--report", "json=/nowhere/r.json", SEED], "/nowhere/r.json cannot be written: no such file")]
#[case::captures(&["run", "--pcap", "/dev/null/here", SEED], "--pcap: the folder cannot be made: not a directory")]
fn a_mistake_of_the_command_line_is_found_before_the_run(#[case] arguments: &[&str], #[case] told: &str) {
    let (code, stdout, stderr) = ended(&svclab(arguments).output().expect("svclab starts"));
    assert_eq!((code, stdout), (Some(2), String::new()), "{stderr}");
    assert!(stderr.contains(told), "{stderr}");
    assert!(!stderr.contains("os error"), "{stderr}");
}

#[test]
fn a_shard_without_a_scenario_holds_and_says_so() {
    let (code, stdout, stderr) = ended(&svclab(&["run", "--shard", "2/2", SEED]).output().expect("svclab starts"));
    assert_eq!((code, stderr), (Some(0), String::new()));
    assert!(stdout.starts_with("shard 2/2 is empty: there are fewer scenarios than shards (1)\n"), "{stdout}");
}

/// Of two scenarios the filter leaves the first one out: then the second is the first of two shards.
#[test]
fn a_filter_goes_before_shards() {
    let folder = folder("filter");
    let failing = failing(&folder);
    let arguments = ["run", "--filter", "nobody drops", "--shard", "1/2", SEED, &failing];
    assert_eq!(svclab(&arguments).stdout(Stdio::null()).status().expect("svclab starts").code(), Some(1));
}

#[rstest]
#[case::full("json=/dev/full")]
#[case::full_console("github")]
fn a_report_that_cannot_be_written_does_not_hide_a_failure(#[case] report: &str) {
    let failing = failing(&folder(report.split('=').next().unwrap_or_default()));
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = svclab(&["run", "--report", report, &failing]).stdout(full).output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written: no space left on device\n"));
}

#[test]
fn a_report_that_cannot_be_written_fails_a_run_that_held() {
    let (code, _, stderr) =
        ended(&svclab(&["run", "--report", "junit=/dev/full", SEED]).output().expect("svclab starts"));
    assert_eq!((code, stderr.as_str()), (Some(3), "the report /dev/full cannot be written: no space left on device\n"));
}

#[rstest]
#[case::value("net.ipv4.ip_forward", "maybe", "invalid argument")]
#[case::unknown("net.ipv4.no_such_setting", "1", "no such file or directory")]
#[case::folder("net.ipv4.route", "1", "is a directory")]
#[case::read_only("net.netfilter.nf_conntrack_count", "1", "permission denied")]
fn a_setting_that_the_kernel_refuses_is_the_scenarios_mistake(
    #[case] name: &str,
    #[case] value: &str,
    #[case] why: &str,
) {
    let file = folder(&format!("setting-{name}")).join("setting.yaml");
    let text = format!(
        "name: s\nnodes: [{{name: n, sysctls: {{{name}: {value}}}}}]\npods: [{{name: a, node: n}}]\ntests:\n  \
         - {{name: t, probe: {{from: node/n, to: 'pod/a:80'}}, expect: {{delivered: pod/a}}}}\n"
    );
    fs::write(&file, text).expect("a file");
    let (code, stdout, _) = ended(&svclab(&["run", &file.display().to_string()]).output().expect("svclab starts"));
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains(&format!("{name} = {value} in node/n: {why}\n")), "{stdout}");
    assert!(stdout.contains("setting.yaml:2:29\n"), "{stdout}");
}

#[rstest]
#[case::twice("reports-over-reports", "junit=same,json=./same", "would overwrite")]
#[case::of_the_scenario("reports-over-inputs", "json=../reports-over-inputs/failing.yaml", "would overwrite")]
#[case::dash("reports-to-a-dash", "json=-", "/dev/stdout")]
fn reports_overwrite_nothing(#[case] own: &str, #[case] reports: &str, #[case] told: &str) {
    let folder = folder(own);
    let scenario = failing(&folder);
    let before = fs::read_to_string(&scenario).expect("the scenario");
    let output = svclab(&["run", &scenario, "--report", reports]).current_dir(&folder).output().expect("svclab starts");
    let (code, _, stderr) = ended(&output);
    assert_eq!((code, stderr.contains(told)), (Some(2), true), "{stderr}");
    assert_eq!(fs::read_to_string(&scenario).expect("the scenario"), before);
}

#[test]
fn a_folder_is_left_out_where_it_says_so() {
    let folder = folder("left-out");
    for name in ["invalid", "hidden"] {
        fs::create_dir_all(folder.join(name)).expect("a folder");
        fs::write(folder.join(name).join("a.yaml"), "name: a").expect("a file");
    }
    fs::write(folder.join("hidden/.svclabignore"), "").expect("a file");
    let checked = |path: &Path| {
        let (_, _, stderr) = ended(&svclab(&["check"]).arg(path).output().expect("svclab starts"));
        ["invalid/a.yaml", "hidden/a.yaml"].map(|file| stderr.contains(file))
    };
    assert_eq!(checked(&folder), [true, false]);
    assert_eq!(checked(&folder.join("hidden")), [false, true], "named itself");
}

/// Nobody writes into a pipe that lies in a folder: reading it would never end.
#[test]
fn what_is_no_file_is_refused_without_opening_it() {
    let folder = folder("no-files");
    let socket = folder.join("a.yaml");
    let _ = fs::remove_file(&socket);
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let (code, _, stderr) = ended(&svclab(&["check"]).arg(&folder).output().expect("svclab starts"));
    assert_eq!((code, stderr.contains("a.yaml: it is a pipe, a socket or a device")), (Some(2), true), "{stderr}");
}
