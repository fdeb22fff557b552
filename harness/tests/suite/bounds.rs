//! Bounds for hostile input, misbehaving programs and a full disk: they must not use all memory, run forever, or leave anything behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rstest::rstest;

use crate::unwrapped;

const SEED: &str = "../scenarios/cluster-ip/same-node.yaml";
const MIB: usize = 1 << 20;
/// The address space of svclab itself, before it reads anything: program, libraries, stacks.
const PROGRAM: usize = 96 * MIB;

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bounds-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn svclab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(arguments);
    command
}

/// The exit code, and all output.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    (status.code(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

/// Runs svclab on a text with the memory that a text of this length may take, and little time.
fn within_bounds(name: &str, text: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let file = folder(name).join("input.yaml");
    fs::write(&file, text).expect("a file");
    let memory = PROGRAM + 64 * MIB + 50 * text.len();
    let mut command = Command::new("prlimit");
    command.args([format!("--as={memory}"), "--cpu=60".to_owned(), env!("CARGO_BIN_EXE_svclab").to_owned()]);
    ended(command.args(arguments).arg(&file))
}

/// Values of 200 KB, named some thousand times.
fn aliases(before: &str, each: impl Fn(usize) -> String) -> String {
    let long = "x".repeat(200_000);
    (0..8_000).fold(format!("{before}&long {long}\n"), |text, index| text + &each(index))
}

#[rstest]
#[case::scenario("check", "name: a\nnodes:\n- ", |_| "- *long\n".to_owned())]
#[case::text("check", "name: a\nrules:\n  n: ", |index| format!("  n{index}: *long\n"))]
#[case::objects("rules", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: ", |index| format!("  a{index}: *long\n"))]
#[case::verify("verify", "apiVersion: v1\nkind: Node\nmetadata:\n  name: ", |index| format!("  a{index}: *long\n"))]
fn aliases_of_a_long_text_are_rejected(#[case] command: &str, #[case] before: &str, #[case] each: fn(usize) -> String) {
    let (code, said) = within_bounds(&format!("alias-{command}-{}", before.len()), &aliases(before, each), &[command]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("aliases expand the file by more than 4 MiB of text"), "{said}");
}

/// Names in a list, and the shortest possible values.
#[rstest]
#[case::values("name: a\nnodes: [", "1,", "1]\n")]
#[case::lines("name: a\nnodes:\n", "-\n", "")]
#[case::maps("name: a\nnodes:\n", "- a: 1\n", "")]
#[case::empty_lines("name: a\n", "\n", "")]
fn many_short_values_take_no_more_than_their_share(#[case] before: &str, #[case] each: &str, #[case] after: &str) {
    let text = format!("{before}{}{after}", each.repeat(2 * MIB / each.len()));
    let (code, said) = within_bounds(&format!("short-{}-{}", before.len(), each.len()), &text, &["check"]);
    assert_eq!(code, Some(2), "{said}");
}

/// Objects that a real cluster could have.
fn objects(services: usize) -> String {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: worker}\nspec: {podCIDR: 10.244.0.0/16}\n\
                status: {addresses: [{type: InternalIP, address: 192.168.0.1}]}\n";
    (0..services).fold(node.to_owned(), |text, index| {
        let [high, low] = [index >> 8, index & 255];
        let service = format!(
            "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: service-{index}\nspec:\n  clusterIP: 10.96.{high}.{low}\n  \
             clusterIPs: [10.96.{high}.{low}]\n  selector: {{app: app-{index}}}\n  ports:\n  - {{name: http, port: 80, targetPort: 8080, \
             protocol: TCP}}\n"
        );
        let slice = format!(
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: service-{index}-abcde\n  labels: \
             {{kubernetes.io/service-name: service-{index}}}\naddressType: IPv4\nports:\n- {{name: http, port: 8080, protocol: TCP}}\n\
             endpoints:\n- addresses: [10.244.{high}.{low}]\n  conditions: {{ready: true}}\n  nodeName: worker\n"
        );
        text + &service + &slice
    })
}

#[test]
fn ordinary_objects_take_no_more_than_their_share() {
    let (code, said) = within_bounds("ordinary", &objects(4_000), &["--quiet", "rules"]);
    assert_eq!(code, Some(0), "{said}");
}

/// Rules saved with another port, so that every service is different.
#[test]
fn a_comparison_takes_little_more_than_the_rules() {
    let folder = folder("diff");
    let [objects_file, saved_file] = ["objects.yaml", "saved.txt"].map(|name| folder.join(name));
    let text = objects(4_000);
    fs::write(&objects_file, &text).expect("a file");
    let (code, saved) = ended(svclab(&["--quiet", "rules"]).arg(&objects_file));
    assert_eq!(code, Some(0), "{saved}");
    let saved = saved.replace("--dport 80 ", "--dport 81 ");
    fs::write(&saved_file, &saved).expect("a file");
    // A program that starts no threads needs little more address space than what is loaded of its own file.
    let memory = loaded(Path::new(env!("CARGO_BIN_EXE_svclab"))) + 12 * (saved.len() + text.len());
    let mut command = Command::new("prlimit");
    command.args([format!("--as={memory}"), "--cpu=60".to_owned(), env!("CARGO_BIN_EXE_svclab").to_owned()]);
    let (code, said) = ended(command.args(["--quiet", "rules", "--diff"]).args([&saved_file, &objects_file]));
    assert_eq!(code, Some(1), "{}", &said[..said.len().min(1_000)]);
    // The address, and the masquerading of traffic to it from outside of the cluster.
    assert_eq!(said.lines().filter(|line| line.contains(":81/tcp is unexpected")).count(), 8_000);
}

/// How many bytes of memory the segments of a 64-bit ELF file take.
fn loaded(program: &Path) -> usize {
    const LOAD: [u8; 4] = [1, 0, 0, 0];
    let file = fs::read(program).expect("the program");
    let number = |at: usize, length: usize| {
        file[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let (table, entry, entries) = (number(32, 8), number(54, 2), number(56, 2));
    let segments = (0..entries).map(|at| table + at * entry).filter(|at| file[*at..at + 4] == LOAD);
    segments.map(|at| number(at + 40, 8)).sum()
}

/// Issue 10, number 22.
#[test]
fn a_service_with_every_port_takes_no_more_than_its_share() {
    let (code, said) = within_bounds("ports", &many_ports(), &["--quiet", "rules"]);
    assert_eq!(code, Some(0), "{}", &said[..said.len().min(1_000)]);
}

/// Twice as many as Kubernetes supports. Rules of all nodes are written before one packet is explained, so memory is that of the rules, and
/// the time grows linearly with the nodes.
#[test]
fn ten_thousand_nodes_are_explained_in_time() {
    let file = folder("nodes").join("input.yaml");
    fs::write(&file, many_nodes()).expect("a file");
    let mut command = Command::new("prlimit");
    command.args([format!("--as={}", PROGRAM + (1 << 30)), "--cpu=60".to_owned()]);
    command.arg(env!("CARGO_BIN_EXE_svclab")).args(["--quiet", "explain", "--from", "pod/a", "--to", "service/s:80"]);
    let (code, said) = ended(command.arg(&file));
    assert_eq!(code, Some(0), "{}", &said[..said.len().min(1_000)]);
}

/// A scenario in which each of these chains has 31 rules that each mark at random: more than two billion branches of a packet.
fn random_marks(chains: &[&str]) -> String {
    let marks = |chain: &&str| {
        let rule = |bit| {
            let mark = 1_u32 << bit;
            format!("      -A {chain} -m statistic --mode random --probability 0.5 -j MARK --or-mark {mark:#x}\n")
        };
        (0..31).map(rule).collect::<String>()
    };
    format!(
        "name: marks\nnodes: [{{name: worker}}]\npods: [{{name: client, node: worker}}, {{name: web, node: worker}}]\n\
         services: [{{name: web, ports: [{{port: 80}}]}}]\nendpoints: [{{service: web, pods: [web]}}]\nrules:\n  \
         worker:\n    install: before\n    text: |\n      *mangle\n{}      COMMIT\ntests:\n- {{name: t, probe: {{from: pod/client, to: 'service/web:80'}}, \
         expect: {{delivered: pod/web}}}}\n",
        chains.iter().map(marks).collect::<String>()
    )
}

const ALL_HOOKS: &[&str] = &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// Issue 10, number 22: it finishes, and branches that were not followed are unknown, which does not count as agreement.
#[rstest]
#[case::verify(&["verify", "--no-lab"], ALL_HOOKS, 1, "too many random branches")]
#[case::verify_in_a_lab(&["verify"], &["PREROUTING"], 1, "too many random branches")]
#[case::explain(&["explain", "--from=pod/client", "--to=service/web:80"], ALL_HOOKS, 0, "too many random branches")]
#[case::mutate(&["mutate", "--sample=1"], &["PREROUTING"], 0, "")]
fn random_marks_take_no_more_than_their_time(
    #[case] arguments: &[&str],
    #[case] chains: &[&str],
    #[case] expected: i32,
    #[case] said_of_it: &str,
) {
    let file = folder(&format!("marks-{}", arguments.concat().replace('/', "-"))).join("input.yaml");
    fs::write(&file, random_marks(chains)).expect("a file");
    let mut command = Command::new("prlimit");
    command.args(["--cpu=60", env!("CARGO_BIN_EXE_svclab"), "--quiet"]).args(arguments);
    let (code, said) = ended(command.arg(&file));
    let said = unwrapped(&said);
    assert_eq!(code, Some(expected), "{}", &said[..said.len().min(1_000)]);
    assert!(said.contains(said_of_it), "{}", &said[..said.len().min(1_000)]);
}

/// A piece is read once, however often a text contains its start, or something that it does not know.
#[rstest]
#[case::tables_of_nft("", "table ip kube-proxy {\n\tchain a {\n\t}\n}\n", 20_000)]
#[case::chains_of_nft("", "chain a {\n\tip daddr 10.0.0.1 drop\n}\n", 20_000)]
#[case::tables_of_iptables_nft("", "table ip nat {\nchain KUBE-A {\n", 40_000)]
#[case::noise_in_iptables_nft("table ip nat {\nchain KUBE-A {\n", "noise on a line\n", 80_000)]
#[case::matches_on_a_line("table ip nat {\nchain KUBE-A {\n", "ip saddr 10.0.0.1 ", 80_000)]
#[case::affinity_on_a_line("table ip nat {\nchain KUBE-SVC-A {\n", "xt match \"recent\" ", 80_000)]
#[case::columns_on_a_line("", "KUBE-MARK-MASQ all -- 100.96.0.2 anywhere ", 40_000)]
#[case::comments_on_a_line("", "KUBE-MARK-MASQ all -- 100.96.0.2 anywhere /* recent: SET ", 40_000)]
#[case::noise_in_a_listing("", "ACCEPT all -- 10.0.0.1 anywhere\nnoise\n", 40_000)]
#[case::closing_braces("", "}\n", 40_000)]
#[case::nested_chains(&format!("table ip kube-proxy {{\n{}", "chain a {\n".repeat(40_000)), "}\n", 40_001)]
#[case::starts_of_json("", "{\"a\":1,\nfoo\n", 40_000)]
#[case::nested_json("", "{\"a\":\n", 40_000)]
fn parts_of_text_take_no_more_than_their_time(#[case] start: &str, #[case] part: &str, #[case] times: usize) {
    let text = format!("{start}{}\n", part.repeat(times));
    let file = folder(&format!("parts-{}-{}", start.len(), part.len())).join("input.txt");
    fs::write(&file, text).expect("a file");
    let mut command = Command::new("prlimit");
    command.args(["--cpu=15", env!("CARGO_BIN_EXE_svclab"), "dump", "show"]);
    let (code, said) = ended(command.arg(&file));
    assert!(matches!(code, Some(0 | 2)), "{code:?}: {}", &said[..said.len().min(1_000)]);
}

/// Chains without rules are cheap to write, and each would be a Service.
#[rstest]
#[case::not_compared(60_000, "40,000 rules and chains")]
#[case::not_judged(251_000, "250,000 chains")]
fn many_chains_take_no_more_than_their_time(#[case] count: usize, #[case] reason: &str) {
    let chains: String = (0..count).map(|number| format!(":KUBE-SVC-{number} - [0:0]\n")).collect();
    let file = folder(&format!("many-chains-{count}")).join("input.txt");
    fs::write(&file, format!("*nat\n{chains}COMMIT\n")).expect("a file");
    let mut command = Command::new("prlimit");
    command.args(["--cpu=30", env!("CARGO_BIN_EXE_svclab"), "dump", "lint"]);
    let (code, said) = ended(command.arg(&file));
    assert!(matches!(code, Some(0..=2)) && unwrapped(&said).contains(reason), "{code:?}: {said}");
}

/// Endpoints are counted by a rule's probability, which may be any number.
#[rstest]
fn probabilities_near_zero_take_no_time(
    #[values("0.00000500000", "0.00000010000", "0.00000000047")] probability: &str,
) {
    let rule = "-A KUBE-SVC-RUKNB3TURLFC6SGL -m comment --comment \"shop/api:http -> 10.42.0.21:8080\" -m statistic --mode random";
    let file = folder(&format!("probability-{probability}")).join("input.txt");
    fs::write(&file, format!("{rule} --probability {probability} -j KUBE-SEP-OMTEPJMVLX67WSYN\n")).expect("a file");
    let mut command = Command::new("prlimit");
    command.args(["--cpu=15", env!("CARGO_BIN_EXE_svclab"), "dump", "lint"]);
    let (code, said) = ended(command.arg(&file));
    assert!(matches!(code, Some(0..=2)), "{code:?}: {said}");
    assert!(said.contains("1 rule: "), "{said}");
}

/// Each output may lack what another one shows.
#[test]
fn hundreds_of_outputs_of_filters_are_judged_in_time() {
    let output = |index: usize| {
        let [high, low] = [index / 200, index % 200 + 2];
        let hash = format!("{index:016b}").replace('0', "A").replace('1', "B");
        let [chain, endpoint] = ["SVC", "SEP"].map(|kind| format!("KUBE-{kind}-{hash}"));
        format!(
            "$ iptables-save | grep {chain}\n-A KUBE-SERVICES -d 10.96.{high}.{low}/32 -p tcp -m comment --comment \"shop/s{index}:http cluster IP\" \
             -m tcp --dport 80 -j {chain}\n-A {chain} -m comment --comment \"shop/s{index}:http -> 10.244.{high}.{low}:8080\" -j {endpoint}\n\n"
        )
    };
    let file = folder("filters").join("input.txt");
    fs::write(&file, (0..500).map(output).collect::<String>()).expect("a file");
    let mut command = Command::new("prlimit");
    command.args(["--cpu=10", env!("CARGO_BIN_EXE_svclab"), "dump", "lint"]);
    let (code, said) = ended(command.arg(&file));
    assert_eq!(code, Some(1), "{}", &said[..said.len().min(1_000)]);
    assert!(said.contains("1,000 rules: "), "{said}");
}

/// A Service with every port.
fn many_ports() -> String {
    let ports = |with: &dyn Fn(u16) -> String| (1..=u16::MAX).map(with).collect::<String>();
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\nstatus: {{addresses: [{{type: InternalIP, address: 172.18.0.2}}]}}\n\
         spec: {{podCIDR: 10.244.1.0/24}}\n---\napiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec:\n  clusterIP: 10.96.0.10\n  \
         ports:\n{}---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: s-1, labels: \
         {{kubernetes.io/service-name: s}}}}\naddressType: IPv4\nports:\n{}endpoints: [{{addresses: [10.244.1.2], nodeName: n}}]\n",
        ports(&|port| format!("  - {{name: p{port}, port: {port}, targetPort: 8080}}\n")),
        ports(&|port| format!("- {{name: p{port}, port: 8080}}\n")),
    )
}

/// A cluster of 10,000 nodes.
fn many_nodes() -> String {
    let node = |node: u32| {
        let (high, low) = (node / 250, node % 250 + 1);
        let range = format!("10.{}.{}.0/24", 128 + node / 256, node % 256);
        format!("- {{name: n{node}, ip: 172.18.{high}.{low}, podCIDR: {range}}}\n")
    };
    let nodes: String = (0..10_000).map(node).collect();
    format!(
        "name: many nodes\ncluster: {{podCIDR: 10.128.0.0/9}}\nnodes:\n{nodes}pods: [{{name: a, node: n1}}, {{name: b, node: n9999}}]\n\
         services: [{{name: s, ports: [{{port: 80}}]}}]\nendpoints: [{{service: s, pods: [b]}}]\n"
    )
}

/// Each change results in a state with all of the cluster's objects.
#[test]
fn states_of_many_changes_are_rejected() {
    let start =
        "name: a\nnodes: [{name: n}]\npods: [{name: p, node: n, replicas: 5000}]\ntests:\n- name: t\n  steps:\n";
    let text = format!("{start}{}", "  - apply: {}\n".repeat(5_000));
    let (code, said) = within_bounds("changes", &text, &["check"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("exceed 200000 objects in total"), "{said}");
}

/// A file on a kernel file system looks like any other, and may have no end.
#[rstest]
#[case::manifest("manifests: [/proc/kmsg]")]
#[case::rules("rules: {n: [{file: /proc/kmsg, install: after}]}")]
#[case::of_a_process("manifests: [/proc/self/environ]")]
fn files_of_the_kernel_are_not_read(#[case] naming: &str) {
    let file = folder(&format!("kernel-{}", naming.len())).join("scenario.yaml");
    let tests = "tests: [{name: t, probe: {from: pod/a, to: 'pod/a:80'}, expect: {delivered: pod/a}}]";
    fs::write(&file, format!("name: a\nnodes: [{{name: n}}]\npods: [{{name: a, node: n}}]\n{naming}\n{tests}\n"))
        .expect("a file");
    let (code, said) = ended(svclab(&["check"]).arg(&file));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cannot read"), "{said}");
}

/// svclab with a program of the test's own in place of `iptables-restore`.
fn run_with(folder: &Path, program: &[u8]) -> (Option<i32>, String) {
    let file = folder.join("iptables-restore");
    fs::write(&file, program).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("its own file");
    let path = std::env::var("PATH").unwrap_or_default();
    let (code, said) = ended(svclab(&["run", SEED]).env("PATH", format!("{}:{path}", folder.display())));
    (code, unwrapped(&said))
}

#[test]
fn a_program_that_floods_its_messages_is_ended() {
    let script = b"#!/bin/sh\nwhile :; do echo the table is not there; done >&2\n";
    let (code, said) = run_with(&folder("floods"), script);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        unwrapped(&said).contains("wrote more than 1 MiB, so it was killed; its last output: the table is not there"),
        "{said}"
    );
}

/// It succeeds, but its child keeps its output open.
#[test]
fn a_program_that_leaves_children_is_not_waited_for() {
    let folder = folder("children");
    let search =
        "PATH=${PATH#*:}:/usr/sbin:/sbin; sleep 1000 & echo $! >> \"${0%/*}/children\"; exec iptables-restore \"$@\"";
    let (code, said) = run_with(&folder, format!("#!/bin/sh\n{search}\n").as_bytes());
    assert_eq!(code, Some(0), "{said}");
    let children = fs::read_to_string(folder.join("children")).expect("it was called");
    // The process that inherits them may leave them as zombies.
    let runs = |child: &&str| {
        let state = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        state.contains("(sleep)") && !state.contains(") Z ")
    };
    let start = Instant::now();
    while children.lines().any(|child| runs(&child)) && start.elapsed() < Duration::from_secs(20) {
        thread::yield_now();
    }
    let left: Vec<&str> = children.lines().filter(runs).collect();
    assert!(left.is_empty(), "{left:?} are left");
}

#[rstest]
#[case::no_program(b"\x7fELF and no more".as_slice(), "exec format error")]
#[case::nothing(b"".as_slice(), "exec format error")]
#[case::no_interpreter(b"#!/no/such/interpreter\n".as_slice(), "iptables-restore cannot be executed")]
fn a_program_that_cannot_be_executed_is_reported(#[case] content: &[u8], #[case] reason: &str) {
    let (code, said) = run_with(&folder(&format!("inexecutable-{}", content.len())), content);
    assert_eq!(code, Some(3), "{said}");
    let said = unwrapped(&said);
    assert!(said.contains("iptables-restore cannot be executed") && said.contains(reason), "{said}");
    assert!(!said.contains("Correct the rule"), "{said}");
}

#[test]
fn an_empty_path_is_reported() {
    let (code, said) = ended(svclab(&["run", SEED]).env("PATH", ""));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("setpriv is not found: PATH is empty"), "{said}");
}

#[rstest]
#[case::a_run("run ../scenarios/cluster-ip/same-node.yaml")]
#[case::help("--help")]
#[case::schema("schema")]
fn closed_standard_output_is_reported(#[case] arguments: &str) {
    let script = format!("exec {} {arguments} >&-", env!("CARGO_BIN_EXE_svclab"));
    let (code, said) = ended(Command::new("sh").args(["-c", &script]));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.ends_with("standard output cannot be written: bad file descriptor\n"), "{said}");
}

/// Files may have a hundred bytes, as little as a full disk has room for.
#[rstest]
#[case::report("--report", "json=report.json")]
#[case::capture("--pcap", "captures")]
fn what_cannot_be_written_leaves_no_file(#[case] option: &str, #[case] value: &str) {
    let folder = folder(&format!("full{option}"));
    let seed = fs::canonicalize(SEED).expect("a scenario");
    let mut command = Command::new("prlimit");
    command.args(["--fsize=100:100", env!("CARGO_BIN_EXE_svclab"), "run", option, value]).arg(seed);
    let (code, said) = ended(command.current_dir(&folder));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("file too large"), "{said}");
    assert_eq!(files(&folder), Vec::<PathBuf>::new(), "{said}");
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_capture_that_cannot_be_written_is_no_test() {
    let folder = folder("capture-counts");
    let seed = fs::canonicalize(SEED).expect("a scenario");
    let mut command = Command::new("prlimit");
    command.args(["--fsize=100:100", env!("CARGO_BIN_EXE_svclab"), "run", "--pcap", "captures"]).arg(seed);
    let (code, said) = ended(command.current_dir(&folder));
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(code, Some(3), "{said}");
    assert!(last.contains(" ok; 1 scenario error, in "), "{said}");
}
