//! `svclab rules` on the command line.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rstest::rstest;
use serde::Deserialize;
use svclab::{documents, scenario};
use svclab_rules::cluster::objects::{KubeProxyConfiguration, Object, assemble, proxy_config};
use svclab_rules::cluster::{Cluster, Family};
use svclab_rules::{iptables, nftables};

use crate::each_file::each_file;
use crate::unwrapped;

const SEED: &str = "../scenarios/seeds/000-foo-three-replicas.yaml";
const OBJECTS: &str = "../rules/tests/golden/small-cluster/cluster.yaml";

fn svclab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.arg("rules").args(arguments).output().expect("svclab starts")
}

/// `svclab rules ... --diff -` with a text on standard input.
fn diff(arguments: &[&str], text: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.arg("rules").args(arguments).args(["--diff", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("svclab starts");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("svclab reads");
    child.wait_with_output().expect("svclab ends")
}

/// Without `--family`, every family in the file is compared: both in nft's tables, and the one of iptables-save.
#[test]
fn every_family_of_saved_rules_is_compared() {
    let nftables = ["../scenarios/dual-stack/both-families.yaml", "--mode", "nftables", "--release", "1.33"];
    let of = |options: &[&str], family: &str| {
        stdout(&svclab(&[options, &["--quiet", "--family", family]].concat())).to_owned()
    };
    let (ipv4, ipv6) = (of(&nftables, "ipv4"), of(&nftables, "ipv6"));
    let dnat = ipv6.lines().find(|line| line.contains(" dnat to ")).expect("an endpoint");
    let changed = ipv6.replacen(&format!("{dnat}\n"), "", 1);
    assert_eq!(diff(&nftables, &format!("{ipv4}{ipv6}")).status.code(), Some(0));
    let output = diff(&nftables, &format!("{ipv4}{changed}"));
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("IPv4)\n") && stdout(&output).contains("IPv6):\n"), "{}", stdout(&output));
    let iptables = &nftables[..1];
    assert_eq!(diff(iptables, &of(iptables, "ipv6")).status.code(), Some(0));
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

/// Standard output with the lines that were wrapped joined again.
fn joined(output: &Output) -> String {
    stdout(output).replace("\n      ", " ").replace("\n    ", " ")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// A cluster of the recordings, with the configuration next to it.
fn recorded(cluster: &Path, version: &str, mode: &str) -> Cluster {
    let text = std::fs::read_to_string(cluster).expect("a cluster");
    let documents = serde_yaml::Deserializer::from_str(&text);
    let objects: Vec<Object> = documents.map(|one| Object::deserialize(one).expect("an object")).collect();
    let config = std::fs::read_to_string(cluster.with_file_name("proxy-config.yaml")).expect("a configuration");
    let mut config: KubeProxyConfiguration = serde_yaml::from_str(&config).expect("YAML");
    config.mode = Some(mode.to_owned());
    // The recordings of nftables mode were made with the masquerade settings of the section `iptables`.
    config.nftables = config.iptables.clone();
    let proxy = proxy_config(&config, version).expect("a sound configuration");
    assemble(&objects, proxy).expect("sound objects").cluster
}

#[test]
fn plain_objects_give_the_generators_rules() {
    each_file(&["../rules/tests/golden/*/cluster.yaml"], assert_generators_rules);
}

fn assert_generators_rules(path: &Path) {
    let config = path.with_file_name("proxy-config.yaml");
    let [objects, config] = [path, &config].map(|path| path.to_str().expect("UTF-8"));
    let cases = [
        ("iptables", "1.30", "ipv4", Family::Ipv4),
        ("iptables", "1.21", "ipv6", Family::Ipv6),
        ("nftables", "1.30", "ipv4", Family::Ipv4),
        ("nftables", "1.33", "ipv6", Family::Ipv6),
    ];
    for (mode, version, name, family) in cases {
        let cluster = recorded(path, version, mode);
        let node = &cluster.nodes[0];
        let generated = match mode {
            "nftables" => nftables::generate(&cluster, node, family).map(|rules| nftables::print(&rules)),
            _ => Ok(iptables::print(&iptables::generate(&cluster, node, family).expect("a known release"))),
        };
        let options = ["--proxy-config", config, "--release", version, "--family", name, "--mode", mode];
        let output = svclab(&[&[objects], &options[..]].concat());
        match generated {
            Ok(rules) => assert_eq!(stdout(&output), rules, "{mode} {version} {name}"),
            Err(error) => assert!(stderr(&output).contains(&error.to_string()), "{}", stderr(&output)),
        }
    }
}

#[test]
fn a_scenario_gives_the_rules_that_a_lab_installs() {
    let scenario = scenario::load(Path::new(SEED)).expect("a sound scenario");
    let node = &scenario.cluster.nodes[1].name;
    let documents = documents::generate(&scenario, &scenario.cluster).expect("rules");
    let installed = documents.iter().find(|document| document.netns == format!("node/{node}")).expect("a document");
    let output = svclab(&[SEED, "--node", node]);
    assert_eq!((stdout(&output), stderr(&output)), (installed.rules.print().as_str(), ""));
}

#[rstest]
#[case::scenario(SEED)]
#[case::objects(OBJECTS)]
fn without_a_name_the_first_node_is_chosen_and_that_is_said(#[case] path: &str) {
    let output = svclab(&[path]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).ends_with("COMMIT\n"));
    assert!(stderr(&output).contains("; --node chooses another"), "{}", stderr(&output));
    let quiet = svclab(&[path, "--quiet"]);
    assert_eq!((stdout(&quiet), stderr(&quiet)), (stdout(&output), ""));
}

#[rstest]
#[case::mistyped_node(&[SEED, "--node", "worker-22"], "there is no node `worker-22`\nhelp: Did you mean")]
#[case::no_such_family(&[SEED, "--family", "ipv6"], "has no IPv6 address")]
#[case::unknown_version(&[SEED, "--release", "2.0"], "unknown kube-proxy version `2.0` (known: 1.10 to")]
#[case::nothing_there(&["missing.yaml"], "missing.yaml:1:1: cannot read the file")]
#[case::a_folder(&["../scenarios"], "../scenarios:1:1: cannot read the file")]
#[case::configuration_of_a_scenario(&[SEED, "--proxy-config", SEED], "--proxy-config is for plain Kubernetes objects")]
#[case::no_configuration(&[OBJECTS, "--proxy-config", OBJECTS], "this is not a KubeProxyConfiguration")]
fn what_is_wrong_is_reported(#[case] arguments: &[&str], #[case] message: &str) {
    let output = svclab(arguments);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
}

/// The cluster's own configuration determines the addresses of pods.
#[test]
fn what_plain_objects_leave_open_is_noted() {
    let output = rules_of_objects(&format!("{NODE}---\n{SERVICE}"), &[]);
    let notes: Vec<&str> = stderr(&output).lines().collect();
    let [no_cidr] = notes[..] else { panic!("{notes:?}") };
    assert!(no_cidr.starts_with("note: clusterCIDR 10.244.0.0/16 is assumed"), "{no_cidr}");
}

/// The fields that the API server and controllers add to manifests are assumed, as by all commands, and reported.
#[rstest]
#[case::cluster_ip("clusterIP: 10.96.0.1, ", "", "-d 10.96.0.10/32", "cluster IPs of 1 Service, as the API server")]
#[case::node_port(
    "port: 80, nodePort: 30080",
    "port: 80",
    "--dport 30000",
    "node ports of 1 Service, as the API server"
)]
#[case::node(NODE, "", "-d 10.96.0.1/32", "nodes without a Node object: node-1")]
fn what_a_cluster_adds_to_objects_is_assumed(
    #[case] left_out: &str,
    #[case] instead: &str,
    #[case] rule: &str,
    #[case] assumption: &str,
) {
    let whole = format!("{NODE}---\n{SERVICE}---\n{SLICE}");
    let objects = whole.replacen(left_out, instead, 1);
    assert_ne!(objects, whole);
    let output = rules_of_objects(&objects, &["-v"]);
    assert!(stdout(&output).contains(rule), "{}", stdout(&output));
    assert!(stderr(&output).contains(&format!("assumed: {assumption}")), "{}", stderr(&output));
}

const NODE: &str =
    "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {addresses: [{type: InternalIP, address: 10.0.0.1}]}\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: default}\n\
                       spec: {type: NodePort, clusterIP: 10.96.0.1, ports: [{port: 80, nodePort: 30080}]}\n";
const SLICE: &str = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
                     metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}\n\
                     addressType: IPv4\nports: [{port: 8080}]\nendpoints: [{addresses: [10.244.0.7]}]\n";

/// The rules of objects are written without errors; with `--quiet`, also without notes.
fn rules_of_objects(objects: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("objects.yaml");
    std::fs::write(&file, objects).expect("a file");
    let file = file.to_str().expect("UTF-8");
    assert_eq!(stderr(&svclab(&[file, "--quiet"])), "");
    let output = svclab(&[&[file], options].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    output
}

/// The rules of a real kube-proxy show no difference, in a file or on standard input.
#[rstest]
#[case::ipv4("iptables", "iptables-save.txt", "ipv4")]
#[case::ipv6("iptables", "ip6tables-save.txt", "ipv6")]
#[case::nftables("nftables", "nft-ruleset.txt", "ipv4")]
#[case::nftables_ipv6("nftables", "nft-ruleset.txt", "ipv6")]
fn a_recording_is_no_difference(#[case] mode: &str, #[case] name: &str, #[case] family: &str) {
    let folder = Path::new(OBJECTS).parent().expect("a folder");
    let config = folder.join("proxy-config.yaml");
    let recording = folder.join(format!("v1.30-{mode}")).join(name);
    let [config, recording] = [&config, &recording].map(|path| path.to_str().expect("UTF-8"));
    let options = [OBJECTS, "--node", "node-1", "--proxy-config", config, "--family", family, "--mode", mode];
    let output = svclab(&[&options[..], &["--diff", recording]].concat());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let printed = joined(&output);
    assert!(printed.starts_with("no difference: ") && printed.lines().count() == 1, "{printed}");
    let text = std::fs::read_to_string(recording).expect("a recording");
    assert_eq!(diff(&options, &text).status.code(), Some(0));
}

/// Rules that an administrator adds to kube-proxy's are counted; missing ones are reported as missing in the file.
#[test]
fn differences_of_nftables_are_reported_in_words_of_services_too() {
    let options = [SEED, "--quiet", "--mode", "nftables", "--release", "1.33"];
    let written = stdout(&svclab(&options)).to_owned();
    let other = "table inet admin {\n\tchain input {\n\t\ttcp dport 22 drop\n\t}\n}\n";
    let output = diff(&options[..], &format!("{written}{other}"));
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), ""));
    let dnat = written.lines().find(|line| line.contains(" dnat to ")).expect("an endpoint").to_owned();
    let endpoint = dnat.rsplit(' ').next().expect("an address");
    let without = written.replacen(&format!("{dnat}\n"), "", 1) + other;
    let output = diff(&[SEED, "--node", "worker1", "--mode", "nftables", "--release", "1.33"], &without);
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), ""));
    let printed = joined(&output);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with("1 difference in kube-proxy's own rules in standard input"), "{lines:?}");
    assert!(lines[1].ends_with(&format!(": the DNAT to endpoint {endpoint} is missing")), "{lines:?}");
    assert_eq!(lines[2..], ["1 rule of 1 other table is not kube-proxy's and was not compared"]);
}

/// Options that change nothing are reported.
#[test]
fn an_option_without_effect_is_reported() {
    let output = svclab(&[OBJECTS, "--node", "node-1", "--release", "1.30", "--nfacct"]);
    let warning = "warning: --nfacct has no effect: kube-proxy 1.30 does not count with nfacct\n";
    assert!(output.status.success() && stderr(&output).contains(warning), "{}", stderr(&output));
}

/// A table that was not saved is reported once, with the command to save it; a release that fits better is named if none was given.
#[test]
fn what_explains_many_differences_is_reported() {
    let node = ["--node", "worker1"];
    let written = stdout(&svclab(&[&[SEED][..], &node].concat())).to_owned();
    let nat = written.find("*nat").expect("a table nat");
    let output = diff(&[&[SEED][..], &node].concat(), &written[..nat]);
    assert_eq!(output.status.code(), Some(1));
    let printed = joined(&output);
    assert!(printed.contains("\n  table nat is missing\nhelp: iptables-save without `-t`"), "{printed}");
    let old = stdout(&svclab(&[&[SEED, "--release", "1.26"][..], &node].concat())).to_owned();
    let output = diff(&[&[SEED][..], &node].concat(), &old);
    let help = "help: With `--release 1.26` (or 1.25) there is no difference.";
    assert_eq!(joined(&output).lines().last(), Some(help));
    let output = diff(&[&[SEED, "--release", "1.19"][..], &node].concat(), &old);
    assert!(!stdout(&output).contains("help: "), "{}", stdout(&output));
}

/// Missing rules are reported as missing in the file; both iptables formats are read.
#[test]
fn differences_are_reported_in_words_of_services() {
    let scenario = scenario::load(Path::new(SEED)).expect("a sound scenario");
    let node = scenario.cluster.nodes[0].name.as_str();
    let written = stdout(&svclab(&[SEED, "--node", node])).to_owned();
    let restore = written.replace("-A POSTROUTING", "--append POSTROUTING");
    assert_ne!(restore, written);
    assert_eq!(diff(&[SEED, "--node", node], &restore).status.code(), Some(0));

    let entry = "-A KUBE-SERVICES -d ";
    let stale = |line: &&str| line.starts_with(entry);
    let gone: String = written.lines().filter(|line| !stale(line)).map(|line| format!("{line}\n")).collect();
    let output = diff(&[SEED, "--node", node, "--release", "1.30"], &gone);
    let printed = joined(&output);
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), ""));
    let count = written.lines().filter(stale).count();
    let summary = "in standard input from the rules that svclab generates for node ";
    assert!(printed.lines().next().is_some_and(|line| line.contains(summary)), "{printed}");
    assert_eq!(
        printed.lines().filter(|line| line.contains(": the frontend ") && line.ends_with(" is missing")).count(),
        count
    );

    let more = written.replace("COMMIT\n*nat", "-A INPUT -p tcp --dport 22 -j DROP\nCOMMIT\n*nat");
    let output = diff(&[SEED, "--node", node], &more);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).starts_with("no difference in kube-proxy's own rules: "), "{}", stdout(&output));
    let rest = "1 rule of 1 chain is not kube-proxy's and was not compared";
    assert_eq!(joined(&output).lines().nth(1), Some(rest));
}

/// Differences of other rules are listed under a separate heading that agrees with the exit code, whichever side has them.
#[test]
fn differences_of_other_rules_are_not_listed_as_no_difference() {
    let scenario = scenario::load(Path::new(SEED)).expect("a sound scenario");
    let node = scenario.cluster.nodes[0].name.as_str();
    let written = stdout(&svclab(&[SEED, "--node", node])).to_owned();
    let more = written.replace("COMMIT\n*nat", "-A INPUT -p tcp --dport 22 -j DROP\nCOMMIT\n*nat");
    let line = 1 + more.lines().position(|line| line.contains("--dport 22")).expect("the rule");
    let of_file = format!("is unexpected (line {line})\n");
    let firewalled = "../scenarios/bugs/39823-forward-policy-drop.yaml";
    let own = stdout(&svclab(&[firewalled, "--node", "worker2"])).to_owned();
    let without = own.replace(":FORWARD DROP", ":FORWARD ACCEPT");
    assert_ne!(own, without);
    let cases = [
        (
            [SEED, "--node", node],
            &more,
            "1 rule of 1 chain is not kube-proxy's; 1 difference in other rules",
            &*of_file,
        ),
        ([firewalled, "--node", "worker2"], &without, "1 difference in other rules", "policy"),
    ];
    for (of, saved, heading, listed) in cases {
        let output = diff(&[&of[..], &["-v"]].concat(), saved);
        let printed = joined(&output);
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(output.status.code(), Some(0), "{printed}");
        assert!(lines[0].starts_with("no difference in kube-proxy's own rules: "), "{printed}");
        assert_eq!(lines[1], format!("{heading}, without effect on the exit code:"), "{printed}");
        assert!(lines.len() == 3 && printed.contains(listed), "{printed}");
    }
}

#[rstest]
#[case::unknown_table("*mangel\nCOMMIT\n", "the file contains no rules", "standard input:1:1")]
#[case::no_rules("# Completed\n", "the file contains no rules", "standard input:1:1")]
#[case::a_listing("Chain INPUT (policy ACCEPT)\n", "the file contains no rules", "standard input:1:1")]
#[case::nft("\ntable ip kube-proxy {\n}\n", "these are nftables rules", "standard input:2:1")]
#[case::nft_as_json("{\"nftables\": []}", "Choose `--mode nftables`", "standard input:1:1")]
#[case::other_family(
    "*filter\n-A INPUT -s fd00::1/128 -j DROP\nCOMMIT\n",
    "Choose `--family ipv6`",
    "standard input:1:"
)]
fn what_is_no_rules_is_rejected(#[case] text: &str, #[case] message: &str, #[case] place: &str) {
    let output = diff(&[SEED, "--quiet"], text);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""));
    let printed = unwrapped(stderr(&output));
    assert!(printed.contains(message) && printed.contains(place) && printed.contains("help: "), "{}", stderr(&output));
}

#[rstest]
#[case::iptables("*nat\nCOMMIT\n", "Choose `--mode iptables`", "standard input:1:1")]
#[case::cut_off("table ip kube-proxy {\n", "the file contains no rules", "standard input:1:1")]
#[case::json("{\"nftables\": [}", "the file contains no rules", "standard input:1:1")]
#[case::nothing("# Warning: nothing here\n", "Save the rules with `nft list ruleset`", "standard input:1:1")]
fn what_is_no_rules_of_nftables_is_rejected(#[case] text: &str, #[case] message: &str, #[case] place: &str) {
    let output = diff(&[SEED, "--quiet", "--mode", "nftables", "--release", "1.33"], text);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""));
    let printed = unwrapped(stderr(&output));
    assert!(printed.contains(message) && printed.contains(place) && printed.contains("help: "), "{}", stderr(&output));
}

/// An imported scenario has the dump's own rules: the dump is compared with what kube-proxy writes for its objects, not with itself.
#[test]
fn an_imported_dump_is_not_compared_with_itself() {
    let saved = "../rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt";
    let table = "NAMESPACE  NAME  ENDPOINTS                                            AGE\n\
                 default    web   10.244.1.10:8080,10.244.2.10:8080,10.244.3.11:8080   1d\n\n";
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let saved = std::fs::read_to_string(saved).expect("a recording");
    std::fs::write(path("dump.txt"), table.to_owned() + &saved).expect("a file");
    let import = ["dump", "import", "-q", &path("dump.txt"), "-o", &path("whole.yaml")];
    let imported = Command::new(env!("CARGO_BIN_EXE_svclab")).args(import).status();
    assert!(imported.expect("svclab starts").success());
    let output = svclab(&[&path("whole.yaml"), "--diff", &path("dump.txt")]);
    assert_eq!(output.status.code(), Some(1), "{}", joined(&output));
    assert!(stdout(&output).contains("10.244.3.10:8080"), "{}", joined(&output));
}

#[test]
fn a_diff_needs_a_file() {
    let output = svclab(&[SEED, "--quiet", "--diff", "missing.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("missing.txt:1:1: cannot read the file"), "{}", stderr(&output));
}

/// A line that could not be parsed may affect packets, so it is reported even if no rule differs.
#[test]
fn lines_that_are_not_read_are_named() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../rules/tests/golden/external-ips");
    let saved = std::fs::read_to_string(format!("{folder}/v1.34-nftables/nft-ruleset.txt")).expect("a recording");
    let line = saved.lines().position(|line| line.trim() == "chain services {").expect("its chain") + 2;
    let with_another = saved.replacen("chain services {", "chain services {\n\t\tx=1 y=2 z", 1);
    let objects = format!("{folder}/cluster.yaml");
    let arguments = [objects.as_str(), "--mode", "nftables", "--release", "1.34", "--family", "ipv4"];
    for (text, note) in
        [(&saved, None), (&with_another, Some(format!("note: 1 line of rules not read, first {line} (")))]
    {
        let messages = String::from_utf8_lossy(&diff(&arguments, text).stderr).into_owned();
        assert_eq!(messages.contains("not read"), note.is_some(), "{messages}");
        assert!(note.is_none_or(|note| unwrapped(&messages).contains(&note)), "{messages}");
    }
}

/// Of the rules of several nodes, each node's are compared, in one text by the prompts and in several files by their names.
#[test]
fn each_node_is_compared_with_its_own_rules() {
    let scenario = scenario::load(Path::new(SEED)).expect("a sound scenario");
    let [one, other] = [0, 1].map(|at| scenario.cluster.nodes[at].name.clone());
    let written = |node: &str| stdout(&svclab(&[SEED, "--quiet", "--node", node])).to_owned();
    let broken = written(&other);
    let dnat = broken.lines().find(|line| line.contains("-j DNAT")).expect("an endpoint").to_owned();
    let broken = broken.replacen(&format!("{dnat}\n"), "", 1);
    let prompt = |node: &str| format!("root@{node}:~# iptables-save\n");
    let text = format!("{}{}{}{broken}", prompt(&one), written(&one), prompt(&other));
    assert_eq!(diff(&[SEED, "--node", &one], &text).status.code(), Some(0));
    let of_other = diff(&[SEED, "--node", &other], &text);
    assert_eq!(of_other.status.code(), Some(1));
    assert!(stdout(&of_other).starts_with("1 difference"), "{}", stdout(&of_other));
    // Without a node, all that have a name.
    let of_both = stdout(&diff(&[SEED], &text)).to_owned();
    assert!(of_both.contains(&format!("node {one} ")) && of_both.contains(&format!("node {other} ")), "{of_both}");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(format!("{one}.txt")), written(&one)).expect("a file");
    let path = folder.path().to_string_lossy().into_owned();
    assert_eq!(svclab(&[SEED, "--node", &one, "--diff", &path]).status.code(), Some(0));
    let lacking = svclab(&[SEED, "--node", &other, "--diff", &path]);
    assert_eq!(lacking.status.code(), Some(2), "{}", stdout(&lacking));
    assert!(stderr(&lacking).contains(&format!("has no rules of node {other}, only those of {one}")));
}

/// Tables in files of their own are one rule set.
#[test]
fn tables_in_files_of_a_folder_are_compared_together() {
    let scenario = scenario::load(Path::new(SEED)).expect("a sound scenario");
    let node = scenario.cluster.nodes[0].name.clone();
    let output = svclab(&[SEED, "--quiet", "--node", &node]);
    let folder = tempfile::tempdir().expect("a folder");
    let tables = stdout(&output).split_inclusive("COMMIT\n").filter(|table| table.contains("COMMIT\n"));
    for table in tables {
        let start = table.find('*').expect("a table");
        let (name, _) = table[start + 1..].split_once('\n').expect("a table");
        let own = folder.path().join(&node);
        std::fs::create_dir_all(&own).expect("a folder");
        // That of `filter` lacks a rule.
        let lost =
            table.lines().find(|line| name == "filter" && line.starts_with("-A KUBE-FORWARD")).unwrap_or_default();
        std::fs::write(own.join(format!("{name}.txt")), table[start..].replacen(lost, "", 1)).expect("a file");
    }
    let path = folder.path().to_string_lossy().into_owned();
    let compared = svclab(&[SEED, "--node", &node, "--diff", &path]);
    assert!(stdout(&compared).starts_with("1 difference"), "{}{}", stdout(&compared), stderr(&compared));
}

/// Where neither the command nor the scenario sets a mode, the rules to compare do.
#[rstest]
#[case::not_set("", 0)]
#[case::set("{proxy: {mode: iptables}}", 2)]
fn the_saved_rules_determine_the_mode(#[case] cluster: &str, #[case] code: i32) {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("lab.yaml");
    let cluster = if cluster.is_empty() { String::new() } else { format!("cluster: {cluster}\n") };
    let text = format!(
        "name: a lab\n{cluster}nodes: [{{name: n, ip: 172.18.0.2, podCIDR: 10.244.1.0/24}}]\n\
         pods: [{{name: web, node: n, ip: 10.244.1.80}}]\nservices: [{{name: web, clusterIP: 10.96.0.80, ports: [{{port: 80}}]}}]\n\
         endpoints: [{{service: web, pods: [web]}}]\n"
    );
    std::fs::write(&scenario, text).unwrap();
    let path = scenario.to_str().unwrap();
    let written = stdout(&svclab(&[path, "--mode", "nftables", "--release", "1.33"])).to_owned();
    assert!(written.contains("table ip kube-proxy"), "{written}");
    let output = diff(&[path, "--release", "1.33"], &written);
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(&output), stderr(&output));
}
