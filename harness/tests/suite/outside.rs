//! Isolation: which files are written and read, and how untrusted text is printed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use rstest::rstest;

/// A scenario whose test fails, so that the whole report of a failure is printed.
const FAILING: &str = "name: f\nnodes: [{name: n}]\npods: [{name: a, node: n}, {name: b, node: n}]\nservices: [{name: s, ports: \
                       [{port: 80}]}]\nendpoints: [{service: s, pods: [b]}]\ntests:\n  - {name: the packet is dropped, probe: {from: \
                       pod/a, to: 'service/s:80'}, expect: {dropped: true}}\n";

/// Names that a terminal or GitHub Actions would interpret, or that are not UTF-8.
const NAMES: [&[u8]; 5] = [
    b"a\n::error title=pwn::x\n.yaml",
    b"b\x1b[8m\x1b]0;x\x07\r.yaml",
    "c\u{9b}2J\u{202e}\u{2066}\u{2028}.yaml".as_bytes(),
    b"d ##[error]x.yaml",
    b"e\xff\xe9.yaml",
];

fn svclab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(arguments);
    command
}

/// An empty folder for one test, outside of every repository, so that paths cannot leave it.
fn folder(name: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    let folder = std::env::temp_dir().join(format!("svclab-outside-{}-{number}-{name}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn texts(output: &Output) -> [String; 2] {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).expect("UTF-8"))
}

/// Fails if a text contains something that a terminal or GitHub Actions would interpret.
fn is_harmless(text: &str, what: &dyn std::fmt::Debug) {
    let is_obeyed = |letter: char| {
        (letter.is_control() && !"\n\t".contains(letter))
            || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(is_obeyed), "{what:?}: {text:?}");
    let is_command = |line: &str| line.trim_start().starts_with("::error title=pwn") || line.contains("##[error]");
    assert!(!text.lines().any(is_command), "{what:?}: {text:?}");
}

#[rstest]
#[case::check(&["check", "-v"], 0)]
#[case::check_json(&["check", "--format", "json"], 0)]
#[case::run(&["run", "-v", "--report", "github,junit=r.xml"], 1)]
#[case::run_json(&["run", "--report", "json=-"], 1)]
#[case::verify(&["verify"], 0)]
#[case::verify_json(&["verify", "--format", "json"], 0)]
#[case::mutate(&["mutate", "--sample", "1"], 0)]
#[case::mutate_json(&["mutate", "--sample", "1", "--format", "json"], 0)]
#[case::explain(&["explain", "--from", "pod/a", "--to", "service/s:80"], 0)]
#[case::explain_json(&["explain", "--from", "pod/a", "--to", "service/s:80", "--format", "json"], 0)]
#[case::explain_svg(&["explain", "--from", "pod/a", "--to", "service/s:80", "--format", "svg"], 0)]
#[case::cascade(&["cascade"], 0)]
#[case::cascade_json(&["cascade", "--format", "json"], 0)]
#[case::cascade_svg(&["cascade", "--format", "svg"], 0)]
#[case::rules(&["rules"], 0)]
fn a_files_name_is_printed_and_not_obeyed(#[case] arguments: &[&str], #[case] code: i32) {
    let folder = folder("names");
    for name in NAMES.map(OsStr::from_bytes) {
        fs::write(folder.join(name), FAILING).expect("a file");
        let output = svclab(arguments).arg("--").arg(name).current_dir(&folder).output().expect("svclab starts");
        let [stdout, stderr] = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{name:?}: {stdout}{stderr}");
        is_harmless(&stdout, &name);
        is_harmless(&stderr, &name);
        if arguments.iter().any(|argument| argument.contains("json")) {
            let read: serde_json::Value = serde_json::from_str(&stdout).expect("a document");
            assert!(!read.is_null(), "{stdout}");
        }
        if let Ok(junit) = fs::read_to_string(folder.join("r.xml")) {
            is_harmless(&junit, &name);
        }
    }
    fs::remove_dir_all(folder).expect("it is ours");
}

/// Issue 10, number 18: a report is written completely, with the name as svclab prints it.
#[test]
fn a_name_that_is_not_utf8_does_not_lose_the_report() {
    let folder = folder("not-utf8");
    let name = OsStr::from_bytes(b"e\xff\xe9.yaml");
    fs::write(folder.join(name), FAILING).expect("a file");
    let mut command = svclab(&["run", "--report", "json=r.json,html=r.html,tap=r.tap,junit=r.xml"]);
    let output = command.arg(name).current_dir(&folder).output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let document: serde_json::Value = serde_json::from_str(&read("r.json")).expect("a document");
    let scenario = &document["result"]["scenarios"][0];
    assert_eq!(scenario["file"], r"e\xff\xe9.yaml");
    assert_eq!(scenario["status"], "failed");
    assert_eq!(scenario["tests"][0]["name"], "the packet is dropped");
    for file in ["r.html", "r.tap", "r.xml"] {
        assert!(read(file).contains("the packet is dropped"), "{file}");
    }
    fs::remove_dir_all(folder).expect("it is ours");
}

/// Errors show the file's name and their lines; both may be untrusted text.
#[rstest]
#[case::name("name: \"a\\n::error title=pwn::x\"\n")]
#[case::reference(
    "name: f\nnodes: [{name: n}]\ntests: [{name: t, probe: {from: \"pod/\\e[8m\\n##[error]x\", to: 'pod/b:80'}}]\n"
)]
#[case::bidi("name: f\nnodes: [{name: n}] # \u{202e}\u{2066}\nunknown: 1\n")]
#[case::rules(
    "name: f\nnodes: [{name: n}]\nrules: {n: {install: instead, text: \"*filter\\n-A FORWARD ##[error]x\\nCOMMIT\\n\"}}\n"
)]
#[case::object("apiVersion: v1\nkind: \"X\\n::error title=pwn::x\"\nmetadata: {name: \"\\e[8m\"}\n")]
fn errors_are_reported_harmlessly(#[case] text: &str) {
    let folder = folder("mistakes");
    for name in NAMES.map(OsStr::from_bytes) {
        fs::write(folder.join(name), text).expect("a file");
        for command in [&["check"][..], &["check", "--format", "json"], &["run"], &["verify"], &["rules"], &["cascade"]]
        {
            let output = svclab(command).arg("--").arg(name).current_dir(&folder).output().expect("svclab starts");
            texts(&output).iter().for_each(|text| is_harmless(text, &(command, name)));
            assert_ne!(output.status.code(), Some(4), "{command:?} {name:?}");
        }
    }
    fs::remove_dir_all(folder).expect("it is ours");
}

#[rstest]
#[case::filter(&["run", "--filter", "x\n::error title=pwn::x", "f.yaml"])]
#[case::unknown_option(&["run", "--x\n::error title=pwn::x"])]
#[case::unknown_file(&["run", "x\n::error title=pwn::x"])]
#[case::node(&["rules", "--node", "x\n::error title=pwn::x", "f.yaml"])]
#[case::service(&["cascade", "--service", "x\n::error title=pwn::x", "f.yaml"])]
fn arguments_are_reported_harmlessly(#[case] arguments: &[&str]) {
    let folder = folder("arguments");
    fs::write(folder.join("f.yaml"), FAILING).expect("a file");
    let output = svclab(arguments).current_dir(&folder).output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    texts(&output).iter().for_each(|text| is_harmless(text, &arguments));
    fs::remove_dir_all(folder).expect("it is ours");
}

/// A name for standard output refers to the open file: the name is not replaced.
#[rstest]
#[case::dash("-")]
#[case::device("/dev/stdout")]
#[case::descriptor("/proc/self/fd/1")]
#[case::link("out")]
#[case::link_to_link("further")]
fn a_report_goes_to_standard_output(#[case] name: &str) {
    let folder = folder("stdout");
    fs::write(folder.join("f.yaml"), FAILING).expect("a file");
    symlink("/proc/self/fd/1", folder.join("out")).expect("a link");
    symlink("out", folder.join("further")).expect("a link");
    let report = format!("json={name}");
    let piped = svclab(&["run", "--report", &report, "f.yaml"]).current_dir(&folder).output().expect("svclab starts");
    let [stdout, stderr] = texts(&piped);
    assert_eq!(piped.status.code(), Some(1), "{stderr}");
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("a document and nothing else");
    assert_eq!(document["result"]["status"], "failed");
    assert!(stderr.contains("1 failed"), "what else is said goes to standard error: {stderr}");
    // If standard output is a file, the report is also appended to it, and the file is still the same.
    let file = fs::File::create(folder.join("file")).expect("a file");
    let mut command = svclab(&["run", "--report", &report, "f.yaml"]);
    let status = command.current_dir(&folder).stdout(file).stderr(Stdio::null()).status().expect("svclab starts");
    assert_eq!(status.code(), Some(1));
    let written = fs::read_to_string(folder.join("file")).expect("the file");
    assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok(), "{written}");
    assert!(fs::symlink_metadata(folder.join("out")).expect("the link").is_symlink());
    assert!(fs::symlink_metadata("/dev/stdout").expect("the link").is_symlink());
    fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn a_report_replaces_no_pipe() {
    let folder = folder("pipe");
    fs::write(folder.join("f.yaml"), FAILING).expect("a file");
    let pipe = folder.join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let mut command = svclab(&["run", "--report", "json=pipe", "f.yaml"]);
    let mut run =
        command.current_dir(&folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("svclab starts");
    let report = fs::read_to_string(&pipe).expect("a report");
    assert_eq!(run.wait().expect("it ends").code(), Some(1));
    assert!(serde_json::from_str::<serde_json::Value>(&report).is_ok(), "{report}");
    assert!(fs::symlink_metadata(&pipe).expect("the FIFO").file_type().is_fifo());
    fs::remove_dir_all(folder).expect("it is ours");
}

/// A planted link at the path of a capture is replaced, not followed.
#[test]
fn planted_links_are_not_followed() {
    let folder = folder("planted");
    fs::write(folder.join("f.yaml"), FAILING).expect("a file");
    fs::write(folder.join("victim"), "old").expect("a file");
    fs::create_dir(folder.join("captures")).expect("a folder");
    symlink("../victim", folder.join("captures/f.yaml.pcapng")).expect("a link");
    let mut command = svclab(&["run", "--report", "json=r.json", "--pcap", "captures", "f.yaml"]);
    let output = command.current_dir(&folder).output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(folder.join("victim")).expect("the file"), "old");
    assert!(fs::metadata(folder.join("captures/f.yaml.pcapng")).expect("a capture").len() > 100);
    assert!(
        fs::read_dir(&folder)
            .expect("a folder")
            .flatten()
            .all(|entry| !entry.file_name().as_bytes().starts_with(b".svclab"))
    );
    fs::remove_dir_all(folder).expect("it is ours");
}

/// A folder `secret` with a file, and a repository next to it with a scenario below.
fn repository(name: &str) -> PathBuf {
    let folder = folder(name);
    for path in ["secret", "repository/.git", "repository/scenarios", "repository/objects"] {
        fs::create_dir_all(folder.join(path)).expect("a folder");
    }
    fs::write(folder.join("secret/key"), "root:SECRET:19000:0:99999:7:::\n").expect("a file");
    fs::write(folder.join("secret/objects.yaml"), OBJECT).expect("a file");
    fs::write(folder.join("repository/objects/objects.yaml"), OBJECT).expect("a file");
    fs::write(folder.join("repository/objects/key"), "root:SECRET:19000:0:99999:7:::\n").expect("a file");
    symlink("../../secret/key", folder.join("repository/objects/link")).expect("a link");
    symlink("../../secret", folder.join("repository/objects/folder")).expect("a link");
    folder
}

const OBJECT: &str =
    "apiVersion: v1\nkind: Service\nmetadata: {name: v}\nspec: {clusterIP: None, ports: [{port: 80}]}\n";

fn checked(folder: &Path, field: &str, options: &[&str]) -> (Option<i32>, String) {
    let scenario = folder.join("repository/scenarios/s.yaml");
    fs::write(&scenario, format!("{FAILING}{field}\n")).expect("a file");
    let output = svclab(&["check"]).args(options).arg(&scenario).output().expect("svclab starts");
    let [stdout, stderr] = texts(&output);
    (output.status.code(), stdout + &stderr)
}

#[rstest]
#[case::upwards("manifests: [../../secret/key]")]
#[case::whatever_is_there("manifests: [../../secret/missing]")]
#[case::objects("manifests: [../../secret/objects.yaml]")]
#[case::absolute("manifests: [/etc/shadow]")]
#[case::link("manifests: [../objects/link]")]
#[case::folder("manifests: [../objects/folder/key]")]
#[case::missing_in_folder("manifests: [../objects/folder/missing]")]
#[case::rules("rules: {n: {install: after, file: ../../secret/key}}")]
#[case::rules_by_link("rules: {n: {install: instead, file: ../objects/link}}")]
fn files_outside_of_the_repository_are_not_read(#[case] field: &str) {
    let folder = repository("reach");
    let (code, printed) = checked(&folder, field, &[]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("it is outside") && printed.contains("--allow-outside"), "{printed}");
    assert!(!printed.contains("SECRET") && !printed.contains("no such file"), "{printed}");
    fs::remove_dir_all(folder).expect("it is ours");
}

/// A file that is neither YAML nor rules is rejected without printing any of it, wherever it is.
#[rstest]
#[case::manifest("manifests: [../objects/key]", &[])]
#[case::rules("rules: {n: {install: instead, file: ../objects/key}}", &[])]
#[case::elsewhere("manifests: [../../secret/key]", &["--allow-outside"])]
#[case::rules_elsewhere("rules: {n: {install: before, file: ../../secret/key}}", &["--allow-outside"])]
fn no_word_of_other_files_is_repeated(#[case] field: &str, #[case] options: &[&str]) {
    let folder = repository("words");
    let (code, printed) = checked(&folder, field, options);
    assert_eq!((code, printed.contains("SECRET")), (Some(2), false), "{printed}");
    for command in ["check", "verify", "cascade", "rules"] {
        let output = svclab(&[command]).arg(folder.join("secret/key")).output().expect("svclab starts");
        let printed = texts(&output).concat();
        assert_eq!((output.status.code(), printed.contains("SECRET")), (Some(2), false), "{printed}");
    }
    fs::remove_dir_all(folder).expect("it is ours");
}

#[rstest]
#[case::repository("manifests: [../objects/objects.yaml]", &[])]
#[case::elsewhere("manifests: [../../secret/objects.yaml]", &["--allow-outside"])]
fn other_files_are_read(#[case] field: &str, #[case] options: &[&str]) {
    let folder = repository("read");
    let (code, printed) = checked(&folder, field, options);
    assert_eq!(code, Some(0), "{printed}");
    fs::remove_dir_all(folder).expect("it is ours");
}

/// Options that name a program, a file or a control group of the host are rejected wherever rules are read.
#[rstest]
#[case::before("before", "-M /tmp/x -j ACCEPT")]
#[case::after("after", "-j LOG --modprobe=/tmp/x")]
#[case::instead("instead", "-j LOG --modpr /tmp/x")]
#[case::help("instead", "-j LOG --hel")]
#[case::short_help("instead", "-j ACCEPT -h")]
#[case::quotes("instead", "-m comment --comment 'a -M /tmp/x b' -j ACCEPT")]
#[case::pinned("instead", "-m bpf --object-pinned /sys/fs/bpf/x -j ACCEPT")]
#[case::timer("instead", "-j IDLETIMER --timeout 1 --label x")]
#[case::audit_log("instead", "-j AUDIT --type accept")]
#[case::unreadable("instead", "-j ACCEPT nonsense")]
fn rules_that_reach_beyond_packets_are_rejected(#[case] install: &str, #[case] rule: &str) {
    let folder = folder("rule");
    for place in ["n", "pod/b"] {
        let rules = format!("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD {rule}\nCOMMIT\n");
        let text = serde_json::Value::from(rules.as_str());
        fs::write(
            folder.join("s.yaml"),
            format!("{FAILING}rules: {{{place}: {{install: {install}, text: {text}}}}}\n"),
        )
        .expect("a file");
        let output = svclab(&["check", "s.yaml"]).current_dir(&folder).output().expect("svclab starts");
        assert_eq!(output.status.code(), Some(2), "{place}: {output:?}");
        let saved = rules.replace("*filter\n", "*nat\n:PREROUTING ACCEPT [0:0]\n:FORWARD - [0:0]\n");
        if !rule.contains("IDLETIMER") && !rule.contains("AUDIT") {
            fs::write(folder.join("saved"), saved).expect("a file");
            for command in ["cascade", "verify"] {
                let output = svclab(&[command, "saved"]).current_dir(&folder).output().expect("svclab starts");
                assert_eq!(output.status.code(), Some(2), "{command}: {output:?}");
            }
        }
    }
    fs::remove_dir_all(folder).expect("it is ours");
}

/// `include` would make nft print the content of a file, and never occurs in a dump.
#[rstest]
#[case::before("before", "table ip x {\n include \"/etc/shadow\"\n}\n")]
#[case::after("after", "table ip x {\n chain a {\n  accept\n  include \"/etc/shadow\"\n }\n}\n")]
#[case::instead("instead", "table ip kube-proxy {\n chain a {\n  include \"/etc/shadow\"\n }\n}\n")]
#[case::first("before", "include \"/etc/shadow\"\ntable ip x {\n}\n")]
#[case::audit_log("before", "table ip x {\n chain a {\n  log level audit accept\n }\n}\n")]
#[case::dormant("instead", "table ip kube-proxy {\n flags dormant\n chain a {\n }\n}\n")]
#[case::unknown_in_json(
    "instead",
    "{\"nftables\": [{\"table\": {\"family\": \"ip\", \"name\": \"kube-proxy\"}}, {\"chain\": {\"family\": \"ip\", \"table\": \
     \"kube-proxy\", \"name\": \"a\", \"type\": \"filter\", \"hook\": \"forward\", \"prio\": 0}}, {\"rule\": {\"family\": \"ip\", \
     \"table\": \"kube-proxy\", \"chain\": \"a\", \"expr\": [{\"limit\": {\"rate\": 1}}, {\"drop\": null}]}}]}"
)]
fn tables_name_no_files(#[case] install: &str, #[case] tables: &str) {
    let folder = folder("tables");
    let text = serde_json::Value::from(tables);
    fs::write(folder.join("s.yaml"), format!("{FAILING}rules: {{n: {{install: {install}, text: {text}}}}}\n"))
        .expect("a file");
    let output = svclab(&["check", "s.yaml"]).current_dir(&folder).output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    fs::remove_dir_all(folder).expect("it is ours");
}

/// Without a repository, files are read from below the scenario's folder; objects may be in a file whose name is not UTF-8.
#[test]
fn objects_and_rules_in_files_of_any_name_are_read() {
    let folder = folder("any-name");
    let mut name = OsString::from("o");
    name.push(OsStr::from_bytes(b"\xff\n.yaml"));
    fs::write(folder.join(&name), OBJECT.replace("None", "10.96.0.9")).expect("a file");
    let explain = ["explain", "--from", "host/outside", "--to", "service/v:80", "--"];
    for command in [&["verify", "--"][..], &explain] {
        let output = svclab(command).arg(&name).current_dir(&folder).output().expect("svclab starts");
        let printed = texts(&output).concat();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{command:?}: {printed}");
        is_harmless(&printed, &command);
    }
    fs::remove_dir_all(folder).expect("it is ours");
}
