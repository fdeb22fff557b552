//! `svclab dump anonymize`: files in, files out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn svclab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).output().expect("svclab starts")
}

/// Names that are the same in every cluster.
const USUAL: [&str; 2] = ["default", "http"];

/// The values of naming fields in the YAML of a recording.
fn names(text: &str) -> BTreeSet<String> {
    let fields = ["name:", "namespace:", "nodeName:", "kubernetes.io/hostname:", "kubernetes.io/service-name:", "uid:"];
    let words: Vec<&str> = text.split([' ', ',', '{', '}', '\n', '"']).filter(|word| !word.is_empty()).collect();
    let named = words.windows(2).filter(|pair| fields.contains(&pair[0])).map(|pair| pair[1].to_owned());
    named
        .filter(|name| {
            name.len() > 3 && !USUAL.contains(&name.as_str()) && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        })
        .collect()
}

#[test]
fn a_folder_becomes_an_archive_that_has_no_name_and_address_of_it() {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/tests/golden/two-namespaces");
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("dump");
    fs::create_dir(&input).expect("a folder");
    // Realistic names in place of those of the recording.
    let own = |text: String| text.replace("node-1", "ip-10-9-8-7.acme").replace("node-", "acme-");
    let objects = own(fs::read_to_string(recording.join("cluster.yaml")).expect("it is there"));
    let rules = fs::read_to_string(recording.join("v1.30-iptables/iptables-save.txt")).expect("it is there");
    fs::write(input.join("cluster.yaml"), &objects).expect("a file");
    fs::write(input.join("iptables-save.txt"), &rules).expect("a file");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let output = svclab(&["dump", "anonymize", &path("dump"), "-o", &path("new.tar.gz"), "--seed", "x"]);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{messages}");
    assert!(messages.contains("every packet is handled as before"), "{messages}");
    let text = Command::new("tar").args(["-xzOf", &path("new.tar.gz")]).output().expect("tar starts").stdout;
    let text = String::from_utf8(text).expect("text");
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
    let words: BTreeSet<&str> = text.split(|letter| !is_word(letter)).collect();
    let addresses = rules.split([' ', '/', ':']).filter(|word| word.parse::<std::net::Ipv4Addr>().is_ok());
    let tokens: BTreeSet<String> = names(&objects).into_iter().chain(addresses.map(str::to_owned)).collect();
    let kept = ["127.0.0.0", "0.0.0.0", "10.0.0.0"];
    let left: Vec<&String> =
        tokens.iter().filter(|token| words.contains(token.as_str()) && !kept.contains(&token.as_str())).collect();
    assert!(tokens.len() > 8 && left.is_empty(), "{left:?} of {tokens:?}\n{text}");
    assert!(!text.contains("10-9-8-7") && !text.contains("acme"), "{text}");
    let shown = svclab(&["dump", "lint", &path("new.tar.gz"), "--fail-on", "warning"]);
    assert_eq!(shown.status.code(), Some(0), "{}", String::from_utf8_lossy(&shown.stdout));
}

#[test]
fn several_files_do_not_go_to_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a"), "x").expect("a file");
    fs::write(folder.path().join("b"), "y").expect("a file");
    let output = svclab(&["dump", "anonymize", &folder.path().to_string_lossy()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("help: Name an archive"));
}

/// Standard input is read like a file: a text, or an archive as a collector writes it to a pipe.
#[test]
fn standard_input_is_anonymized() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "-A KUBE-SERVICES -d 10.96.7.7/32 -p tcp -m comment --comment \"acme/front:http cluster IP\" -m tcp --dport 80 \
                -j KUBE-SVC-AAAAAAAAAAAAAAAA\n";
    let file = folder.path().join("rules.txt");
    fs::write(&file, text).expect("a file");
    let archive = folder.path().join("rules.tar.gz");
    let tar = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(folder.path()).arg("rules.txt").status();
    assert!(tar.expect("tar starts").success());
    let piped = |input: &Path, arguments: &[&str]| {
        let stdin = fs::File::open(input).expect("it is there");
        let output =
            Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).stdin(stdin).output().expect("svclab starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, anonymized) = piped(&file, &["dump", "anonymize", "-", "--seed", "x"]);
    assert_eq!(code, Some(0), "{anonymized}");
    assert!(anonymized.contains("cluster IP") && !anonymized.contains("acme"), "{anonymized}");
    let new = folder.path().join("new.tar.gz");
    let (code, _) = piped(&archive, &["dump", "anonymize", "-", "--seed", "x", "-o", &new.to_string_lossy()]);
    assert_eq!(code, Some(0));
    let (code, shown) = piped(&new, &["dump", "show", "-"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("rules.txt:1  iptables-save: 1 rule"), "{shown}");
}

/// Sentences and HTML of an issue's template stay readable, and names in them do not.
#[test]
fn the_template_of_an_issue_stays_readable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("issue.md");
    let text = "**What happened?**\n\nThe pod of acmeshop was rescheduled.\n\n<details><summary>rules</summary>\n\n\
                $ kubectl get svc -n acmeshop -o jsonpath={.items}\n</details>\n";
    fs::write(&path, text).expect("a file");
    let output = svclab(&["dump", "anonymize", "--seed", "x", &path.to_string_lossy()]);
    let anonymized = String::from_utf8_lossy(&output.stdout).into_owned();
    for kept in ["**What happened?**", "was rescheduled.", "<details><summary>", "</details>", "-o jsonpath="] {
        assert!(anonymized.contains(kept), "no `{kept}` in {anonymized}");
    }
    assert!(!anonymized.contains("acmeshop"), "{anonymized}");
    fs::write(&path, "\n").expect("a file");
    let empty = svclab(&["dump", "anonymize", &path.to_string_lossy()]);
    assert_eq!(empty.status.code(), Some(2), "{}", String::from_utf8_lossy(&empty.stderr));
}

/// What goes into a pipe is what goes into a file: only a terminal needs escapes. A job's log knows workflow commands.
#[test]
fn data_in_a_pipe_is_the_same_as_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let text = "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\r\n\x1b[31mred\u{202e}\u{200b}\r\n::error::x\r\n";
    fs::write(at("rules.txt"), text).expect("a file");
    let arguments = ["dump", "anonymize", "--seed", "x", &at("rules.txt")];
    let anonymize = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
        command.args(arguments).env_remove("GITHUB_ACTIONS");
        command
    };
    let piped = anonymize().output().expect("svclab starts");
    assert_eq!(piped.status.code(), Some(0), "{piped:?}");
    anonymize().args(["-o", &at("new.txt")]).output().expect("svclab starts");
    let logged = anonymize().env("GITHUB_ACTIONS", "true").output().expect("svclab starts");
    assert!(String::from_utf8_lossy(&logged.stdout).contains("\n\\x3a:error::x\r\n"), "{logged:?}");
    let written = fs::read(at("new.txt")).expect("it is there");
    assert_eq!(String::from_utf8_lossy(&piped.stdout), String::from_utf8_lossy(&written));
    assert!(written.windows(3).any(|bytes| bytes == b"\r\n\x1b"), "{written:?}");
}
