//! What is recognised of each format in mangled text: the table of `scenarios/bugs/FORMATS.md`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use svclab::evidence::{self, Evidence, node_rules};

const TABLE: &str = "../scenarios/bugs/FORMATS.md";
/// The first line of the table; it is the only one of the file.
const HEADING: &str = "| ";

fn read(path: &str) -> String {
    fs::read_to_string(format!("../rules/tests/{path}")).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The table `nat` as `iptables -t nat -S` prints it.
fn printed(saved: &str) -> String {
    let nat = saved.split("*nat\n").nth(1).and_then(|rest| rest.split("COMMIT").next()).unwrap();
    let line = |line: &str| match line.strip_prefix(':').map(|rest| rest.split(' ').collect::<Vec<_>>()) {
        Some(words) if words[1] == "-" => format!("-N {}\n", words[0]),
        Some(words) => format!("-P {} {}\n", words[0], words[1]),
        None => format!("{line}\n"),
    };
    nat.lines().map(line).collect()
}

/// The output of `nft -j list ruleset`, formatted by `jq .`.
fn json_of(ruleset: &str) -> String {
    let mut child = Command::new("unshare")
        .args(["-n", "sh", "-c", "nft -f - && nft -j list ruleset"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(ruleset.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::to_string_pretty(&value).unwrap() + "\n"
}

const OBJECTS: &str = "\
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
spec:
  clusterIP: 10.96.0.80
  ports:
  - port: 80
    targetPort: 8080
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-x2z
  namespace: shop
  labels: {kubernetes.io/service-name: web}
addressType: IPv4
ports:
- port: 8080
endpoints:
- addresses: [\"10.244.1.5\"]
";

const LIST: &str = r#"{
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.80", "ports": [{"port": 80, "targetPort": 8080}]}
        },
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": "web", "namespace": "shop"},
            "subsets": [{"addresses": [{"ip": "10.244.1.5"}], "ports": [{"port": 8080}]}]
        }
    ]
}
"#;

/// The formats, each with its text.
fn formats() -> Vec<(&'static str, String)> {
    let saved = read("golden/small-cluster/v1.30-iptables/iptables-save.txt");
    let ruleset = read("golden/small-cluster/v1.30-nftables/nft-ruleset.txt");
    vec![
        ("`iptables-save`", saved.clone()),
        ("`iptables -S`", printed(&saved)),
        ("`iptables -L -n -v`", read("listings/small-cluster/v1.30-iptables/legacy-ipv4-L-n-v-x.txt")),
        ("`nft list ruleset`", ruleset.clone()),
        ("`nft -j`", json_of(&ruleset)),
        ("YAML", OBJECTS.to_owned()),
        ("JSON", LIST.to_owned()),
        (ARCHIVE, saved),
    ]
}

/// The text is in a file of an archive.
const ARCHIVE: &str = "tar";

/// A way of mangling text, with its function.
type Mangling = (&'static str, fn(&str) -> String);

const MANGLINGS: [Mangling; 17] = [
    ("as printed", str::to_owned),
    ("prompts", |text| format!("root@node-1:~# sudo cat rules.txt\n{text}root@node-1:~# exit\n")),
    ("`kubectl logs` prefix", |text| each(text, |_, line| format!("[pod/kube-proxy-x2z9v/kube-proxy] {line}"))),
    ("timestamps", |text| each(text, |_, line| format!("2024-06-14T12:00:00.123456789Z stdout F {line}"))),
    ("journald prefix", |text| each(text, |_, line| format!("Jun 14 12:00:00 node-1 kube-proxy[123]: {line}"))),
    ("indented", |text| each(text, |_, line| format!("    {line}"))),
    ("tab before", |text| each(text, |_, line| format!("\t{line}"))),
    ("`> ` quote", |text| each(text, |_, line| format!("> {line}"))),
    ("line numbers", |text| each(text, |at, line| format!("{:6}  {line}", at + 1))),
    ("wrapped at 80", |text| each(text, |_, line| wrapped(line, 80))),
    ("no-break spaces", |text| text.replace(' ', "\u{a0}")),
    ("smart quotes", |text| each(text, |_, line| smart(line))),
    ("CRLF", |text| each(text, |_, line| format!("{line}\r"))),
    ("HTML entities", |text| {
        text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
    }),
    ("head cut", |text| text.lines().skip(text.lines().count() / 3).map(|line| format!("{line}\n")).collect()),
    ("tail cut", |text| text[..text.len() * 2 / 3].to_owned()),
    ("fences", |text| format!("This is what I see:\n\n```console\n{text}```\n\nThanks!\n")),
];

fn each(text: &str, change: impl Fn(usize, &str) -> String) -> String {
    text.lines().enumerate().map(|(at, line)| change(at, line) + "\n").collect()
}

fn wrapped(line: &str, width: usize) -> String {
    let letters: Vec<char> = line.chars().collect();
    letters.chunks(width).map(|part| part.iter().collect::<String>()).collect::<Vec<_>>().join("\n")
}

/// A line with typographic quotes in place of straight ones.
fn smart(line: &str) -> String {
    let mut is_open = false;
    let curl = |letter: char| match letter {
        '"' => {
            is_open = !is_open;
            if is_open { '“' } else { '”' }
        }
        other => other,
    };
    line.chars().map(curl).collect()
}

/// The evidence of a text, or of an archive that it is in.
fn evidence_of(format: &str, text: &str) -> Evidence {
    if format != ARCHIVE {
        return evidence::read(text);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node-1.tar");
    let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    archive.append_data(&mut header, "node-1/iptables-save.txt", text.as_bytes()).unwrap();
    archive.finish().unwrap();
    evidence::from_path(&path).unwrap()
}

/// The rules with their multiplicities, and the number of objects.
fn contents(evidence: &Evidence) -> (BTreeMap<String, usize>, usize) {
    let mut rules = BTreeMap::new();
    for set in node_rules(evidence) {
        let printed = set.rules.print();
        let lines = printed.lines().map(str::trim).filter(|line| line.contains(' ') && !line.starts_with([':', '#']));
        lines.for_each(|line| *rules.entry(line.to_owned()).or_default() += 1);
    }
    (rules, evidence.objects())
}

/// How much of a mangled text is recognised.
fn recognised(format: &str, text: &str, mangle: fn(&str) -> String) -> &'static str {
    let (rules, objects) = contents(&evidence_of(format, text));
    assert!(!rules.is_empty() || objects > 0, "{format}");
    let (own_rules, own_objects) = contents(&evidence_of(format, &mangle(text)));
    match () {
        () if own_rules == rules && own_objects == objects => "all",
        () if own_rules.is_empty() && own_objects == 0 => "no",
        () if own_objects > objects || own_rules.keys().any(|rule| !rules.contains_key(rule)) => "changed",
        () => "part",
    }
}

/// Mangled text is recognised as the table states.
#[test]
fn formats_are_recognised_however_they_are_mangled() {
    let formats = formats();
    let names: Vec<&str> = formats.iter().map(|(name, _)| *name).collect();
    let mut lines =
        vec![format!("{HEADING} | {} |", names.join(" | ")), format!("|{}", " --- |".repeat(names.len() + 1))];
    for (mangling, mangle) in MANGLINGS {
        let cells: Vec<&str> = formats.iter().map(|(name, text)| recognised(name, text, mangle)).collect();
        lines.push(format!("| {mangling} | {} |", cells.join(" | ")));
    }
    let table = lines.join("\n") + "\n";
    let page = fs::read_to_string(TABLE).unwrap();
    let start = page.find(HEADING).expect("the table's heading");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|mode| mode == "always") {
        fs::write(Path::new(TABLE), [&page[..start], &table].concat()).unwrap();
    }
    let page = fs::read_to_string(TABLE).unwrap();
    assert!(
        page[start..] == table,
        "write it again with `INSTA_UPDATE=always cargo test -p svclab --test suite mangled::`:\n{table}"
    );
}
