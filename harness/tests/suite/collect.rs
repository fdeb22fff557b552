//! `svclab dump collect`: on nodes that lack programs, with programs that fail or hang, and secrets in logs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use rstest::rstest;
use serde_json::Value;

const RULES: &str = include_str!("../../../rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt");

const SERVICES: &str = "\
apiVersion: v1
items:
- apiVersion: v1
  kind: Service
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {\"token\":\"very-secret-1\"}
      acme.io/token: very-secret-2
    name: web
    namespace: default
  spec:
    clusterIP: 10.96.0.80
    ports:
    - port: 80
kind: List
";

const LOG: &str = "\
Jul 14 12:00:00 worker kube-proxy[1]: I0714 12:00:00.000000 1 server.go:1] started with --bootstrap-token very-secret-3
Jul 14 12:00:01 worker kube-proxy[1]: Authorization: Bearer eyJhbGciOi.eyJzdWIiOi.very-secret-4 https://admin:very-secret-5@api:6443
Jul 14 12:00:02 worker kube-proxy[1]: abcdef.0123456789abcdef password=very-secret-6
Jul 14 12:00:03 worker k3s[1]: --etcd-s3-secret-key=very-secret-7 --etcd-s3-access-key very-secret-8 --registry-password \"very-secret-9 two words\"
Jul 14 12:00:04 worker k3s[1]: K3S_TOKEN=very-secret-a AWS_SECRET_ACCESS_KEY=very-secret-b passphrase=very-secret-c pwd=very-secret-d
Jul 14 12:00:05 worker k3s[1]: {\"clientSecret\":\"very-secret-e\",\"x\":\"{\\\"password\\\":\\\"very-secret-f\\\"}\"} secretKey: very-secret-g
Jul 14 12:00:06 worker k3s[1]: env: [{name: DB_PASSWORD, value: very-secret-h}] https://x/?a=b&sig=very-secret-i ghp_very-secret-j
Jul 14 12:00:07 worker k3s[1]: \"Adding new service port\" portName=\"default/api-token:http\" servicePort=\"10.96.0.1:80/TCP\"
- name: DB_PASSWORD
  value: very-secret-k
";

fn svclab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).output().expect("svclab starts")
}

fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// Runs the script with programs before those of the system; returns the text of the archive's files, one after the other.
fn collected(folder: &Path, programs: &[(&str, String)], shell: &str) -> (Output, String) {
    let bin = folder.join("bin");
    fs::create_dir(&bin).expect("a folder");
    programs.iter().for_each(|(name, script)| program(&bin, name, script));
    let script = folder.join("collect.sh");
    fs::write(&script, svclab(&["dump", "collect", "--script"]).stdout).expect("a file");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let mut command = Command::new(shell);
    command.arg(&script).arg(folder.join("node.tar.gz")).env("PATH", path).env("SVCLAB_COLLECT_SECONDS", "1");
    let output = command.output().expect("the shell starts");
    let text = Command::new("tar").arg("-xzOf").arg(folder.join("node.tar.gz")).output().expect("tar starts");
    (output, String::from_utf8_lossy(&text.stdout).into_owned())
}

/// A program that prints a text.
fn prints(folder: &Path, name: &'static str, text: &str) -> (&'static str, String) {
    let file = folder.join(format!("{name}.txt"));
    fs::write(&file, text).expect("a file");
    (name, format!("cat '{}'", file.display()))
}

#[test]
fn a_node_is_collected_and_read_again_without_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let (_, services) = prints(at, "services", SERVICES);
    let programs = [
        prints(at, "iptables-nft-save", RULES),
        ("iptables-legacy-save", "exit 3".to_owned()),
        ("nft", "exec sleep 1000".to_owned()),
        ("kubectl", format!("case $* in *' services '*) {services};; *) echo version;; esac")),
        prints(at, "journalctl", LOG),
    ];
    let (output, text) = collected(at, &programs, "sh");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{messages}");
    assert!(messages.contains("iptables-legacy.txt (3)") && messages.contains("nft.txt (124)"), "{messages}");
    assert!(text.contains("# iptables-legacy-save -c\n# exit code 3\n"), "{text}");
    assert!(text.contains("# nft list ruleset\n# exit code 124: stopped after 1 s\n"), "{text}");
    assert!(text.contains("REDACTED") && !text.contains("very-secret") && !text.contains("0123456789abcdef"), "{text}");
    assert!(text.contains("portName=\"default/api-token:http\" servicePort=\"10.96.0.1:80/TCP\""), "{text}");
    let file = at.join("node.tar.gz").to_string_lossy().into_owned();
    let shown: Value =
        serde_json::from_slice(&svclab(&["dump", "show", &file, "--format", "json"]).stdout).expect("JSON");
    let piece = |end: &str| {
        let mut pieces = shown["pieces"].as_array().expect("a list").iter();
        pieces.find(|piece| piece["file"].as_str().is_some_and(|file| file.ends_with(end))).cloned().unwrap_or_default()
    };
    let rules = RULES.lines().filter(|line| line.starts_with("-A ")).count();
    assert_eq!(piece("/iptables-nft.txt")["rules"].as_u64(), Some(rules as u64), "{shown:#}");
    assert_eq!(piece("/services.txt")["objects"], 1, "{shown:#}");
    for file in ["/ip-addr.txt", "/sysctl.txt", "/journal-kube-proxy.txt"] {
        assert!(piece(file)["format"].is_string(), "{file}: {shown:#}");
    }
}

#[rstest]
#[case::without_programs("sh")]
#[case::dash("dash")]
fn missing_programs_are_recorded(#[case] shell: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = ["iptables-nft-save", "ip", "conntrack", "kubectl", "nft"].map(|name| (name, "exit 127".to_owned()));
    let (output, text) = collected(folder.path(), &missing, shell);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("# ip addr show\n# exit code 127: not found\n"), "{text}");
    assert!(!text.contains("# kubectl get") && text.contains("# kubectl --request-timeout=10s version\n"), "{text}");
}

#[test]
fn an_archive_that_cannot_be_written_is_an_error() {
    let output = svclab(&["dump", "collect", "-o", "/nowhere/node.tar.gz"]);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{messages}");
    assert!(messages.contains("help:"), "{messages}");
}

/// A truncated archive would look complete.
#[test]
fn no_part_of_an_archive_is_left_on_a_full_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let full = r#"case $3 in *.tar.gz) head -c 10 "$2" >"$3"; exit 1;; esac; exec /bin/mv "$@""#;
    let (output, text) = collected(folder.path(), &[("mv", full.to_owned())], "sh");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text.is_empty() && !folder.path().join("node.tar.gz").exists(), "{text}");
}

/// Only a file is replaced: root may name a device or a link.
#[test]
fn what_is_not_a_file_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, link) = (folder.path().join("other.tar.gz"), folder.path().join("link"));
    fs::write(&file, "before").expect("a file");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let script = svclab(&["dump", "collect", "--script"]).stdout;
    let collect = |to: &Path| {
        let path = folder.path().join("collect.sh");
        fs::write(&path, &script).expect("a file");
        let mut command = Command::new("sh");
        command.arg(path).arg(to).env("PATH", "/usr/bin:/bin").env("SVCLAB_COLLECT_SECONDS", "1");
        command.output().expect("the shell starts")
    };
    let written = collect(&link);
    assert_eq!(written.status.code(), Some(0), "{written:?}");
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert!(fs::read(&file).expect("it is there").starts_with(&[0x1f, 0x8b]));
    let refused = collect(folder.path());
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is a folder"), "{refused:?}");
}

/// An archive on standard output is nothing else, and a reader that has exited is no error of the archive.
#[test]
fn standard_output_is_the_archive() {
    let folder = tempfile::tempdir().expect("a folder");
    let shell = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script]).env("SVCLAB", env!("CARGO_BIN_EXE_svclab")).env("SVCLAB_COLLECT_SECONDS", "1");
        command.current_dir(folder.path()).output().expect("bash starts")
    };
    let output = shell("\"$SVCLAB\" dump collect -o - >out.tgz && gzip -t out.tgz");
    assert!(output.status.success(), "{output:?}");
    let output = shell("\"$SVCLAB\" dump collect -o - 2>/dev/null | true; exit ${PIPESTATUS[0]}");
    assert_eq!(output.status.code(), Some(141), "{output:?}");
}
