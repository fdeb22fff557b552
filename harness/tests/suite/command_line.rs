//! Exit codes and messages of commands.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rstest::rstest;

use crate::unwrapped;

const OBJECTS: &str = "../rules/tests/golden/nodeport-local/cluster.yaml";
const SAVED: &str = "../rules/tests/golden/nodeport-local/v1.25-iptables/iptables-save.txt";
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

/// A folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A scenario that fails: the packet is not dropped.
fn failing(folder: &Path) -> String {
    let file = folder.join("failing.yaml");
    let text = "name: f\nnodes: [{name: n}]\npods: [{name: a, node: n}, {name: b, node: n}]\ntests:\n  \
                - {name: the packet is dropped, probe: {from: pod/a, to: 'pod/b:80'}, expect: {dropped: true}}\n";
    fs::write(&file, text).expect("a file");
    file.display().to_string()
}

#[rstest]
#[case::schema(&["schema"])]
#[case::completions(&["completions", "bash"])]
#[case::rules(&["rules", SEED])]
#[case::check(&["check", SEED])]
#[case::help(&["--help"])]
fn output_that_cannot_be_written_is_reported(#[case] arguments: &[&str]) {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = svclab(arguments).stdout(full).output().expect("svclab starts");
    let printed = "standard output cannot be written: no space left on device\n";
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).ends_with(printed)), (Some(3), true));
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
#[case::no_jobs(&["run", "--jobs", "0", SEED], "expected a number from 1 to 1000000000")]
#[case::many_jobs(&["run", "--jobs", "99999999999999999999", SEED], "expected a number from 1 to 1000000000")]
#[case::shard(&["run", "--shard", "5/4", SEED], "K from 1 to N")]
#[case::no_such_file(&["run", "nowhere.yaml"], "nowhere.yaml: no such file or directory\n")]
#[case::no_test(&["run", "--filter", "no such name", SEED], "no test is selected: none of 3 tests has a name that contains `no such name`")]
#[case::no_test_of_a_shard(&["run", "--filter", "no such name", "--shard", "1/2", SEED], "no test is selected")]
#[case::report(&["run", "--report", "json=/nowhere/r.json", SEED], "/nowhere/r.json cannot be written: no such file")]
#[case::captures(&["run", "--pcap", "/dev/null/here", SEED], "--pcap: the folder /dev/null/here cannot be written to: not a directory")]
#[case::captures_in_a_device(&["run", "--pcap", "/dev/null", SEED], "--pcap: the folder /dev/null cannot be written to: not a directory")]
#[case::captures_on_standard_output(&["run", "--pcap", "-", SEED], "--pcap takes a folder, not standard output")]
#[case::artifacts_on_standard_output(&["run", "--artifacts", "-", SEED], "--artifacts takes a folder, not standard output")]
#[case::no_mutants(&["mutate", "--sample", "0", SEED], "invalid value '0' for '--sample <N>'")]
#[case::no_such_path(
    &[
        "explain",
        "../scenarios/seeds/000-foo-three-replicas.yaml",
        "--from=pod/client",
        "--to=service/kube-system/coredns:9153",
        "--path=9",
    ],
    "there is no path 9: the rules allow 3 paths"
)]
#[case::path_of_a_real_packet(
    &["explain", SEED, "--from=pod/client", "--to=service/web:80", "--path=2", "--live"],
    "the argument '--path <N>' cannot be used with '--live'"
)]
#[case::program_without_a_lab(
    &["verify", SEED, "--no-lab", "--kube-proxy", "kube-proxy"],
    "the argument '--no-lab' cannot be used with '--kube-proxy <[NAME=]PATH>'"
)]
#[case::command_without_a_lab(
    &["verify", SEED, "--no-lab", "--proxy-command", "prog {config}"],
    "the argument '--no-lab' cannot be used with '--proxy-command <COMMAND>'"
)]
#[case::release_of_a_program(
    &["verify", SEED, "--release", "1.30", "--kube-proxy", "kube-proxy"],
    "the argument '--release <RELEASE[:MODE]>' cannot be used with '--kube-proxy <[NAME=]PATH>'"
)]
#[case::version_of_a_program(
    &["rules", SEED, "--release", "1.30", "--kube-proxy", "kube-proxy"],
    "the argument '--release <VERSION>' cannot be used with '--kube-proxy <[NAME=]PATH>'"
)]
fn an_error_of_the_command_line_is_found_before_the_run(#[case] arguments: &[&str], #[case] printed: &str) {
    let (code, stdout, stderr) = ended(&svclab(arguments).output().expect("svclab starts"));
    assert_eq!((code, stdout), (Some(2), String::new()), "{stderr}");
    assert!(stderr.contains(printed), "{stderr}");
    assert!(!stderr.contains("os error"), "{stderr}");
}

#[test]
fn a_shard_without_a_scenario_holds_and_says_so() {
    let (code, stdout, stderr) = ended(&svclab(&["run", "--shard", "2/2", SEED]).output().expect("svclab starts"));
    assert_eq!((code, stderr), (Some(0), String::new()));
    assert!(stdout.starts_with("shard 2/2 is empty: there are fewer scenarios than shards (1)\n"), "{stdout}");
}

/// If the filter leaves out the first of two scenarios, the second one is in the first of two shards.
#[test]
fn a_filter_goes_before_shards() {
    let folder = folder("filter");
    let failing = failing(&folder);
    let arguments = ["run", "--filter", "the packet is dropped", "--shard", "1/2", SEED, &failing];
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

#[test]
fn a_full_disk_is_named_with_its_fix() {
    let rules = "../rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt";
    let arguments = ["dump", "anonymize", rules, "-o", "/dev/full"];
    let (code, _, stderr) = ended(&svclab(&arguments).output().expect("svclab starts"));
    let expected = "cannot write /dev/full: no space left on device\nhelp: Free space there, or name a place on another file system.";
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains(expected), "{stderr}");
}

#[rstest]
#[case::value("net.ipv4.ip_default_ttl", "maybe", "invalid argument")]
#[case::interface("net.ipv4.conf.missing.rp_filter", "1", "no such file or directory")]
fn a_setting_that_the_kernel_rejects_is_the_scenarios_error(
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
#[case::of_a_manifest("reports-over-manifests", "json=objects.yaml", "would overwrite")]
#[case::dash_twice("reports-to-a-dash", "json=-,junit=-", "two reports would be written to standard output")]
#[case::dash_by_another_name("reports-to-a-descriptor", "json=-,junit=/dev/stdout", "two reports would be written")]
#[case::dash_and_annotations("reports-beside-a-dash", "json=-,github", "two reports would be written")]
fn reports_overwrite_nothing(#[case] own: &str, #[case] reports: &str, #[case] printed: &str) {
    let folder = folder(own);
    let scenario = failing(&folder);
    let object = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {clusterIP: None, ports: [{port: 80}]}\n";
    fs::write(folder.join("objects.yaml"), object).expect("a file");
    let before = fs::read_to_string(&scenario).expect("the scenario") + "manifests: [objects.yaml]\n";
    fs::write(&scenario, &before).expect("a file");
    let output = svclab(&["run", &scenario, "--report", reports]).current_dir(&folder).output().expect("svclab starts");
    let (code, _, stderr) = ended(&output);
    assert_eq!((code, stderr.contains(printed)), (Some(2), true), "{stderr}");
    assert_eq!(fs::read_to_string(&scenario).expect("the scenario"), before);
    assert_eq!(fs::read_to_string(folder.join("objects.yaml")).expect("the manifest"), object);
}

/// A run that is killed before its report is written leaves an earlier report unchanged, and no partial new one.
#[rstest]
#[case::there_is_one(Some("of yesterday"))]
#[case::there_is_none(None)]
fn a_run_that_is_interrupted_writes_no_report(#[case] before: Option<&str>) {
    let folder = folder(&format!("interrupted-{}", before.is_some()));
    let report = folder.join("report.json");
    let _ = fs::remove_file(&report);
    if let Some(text) = before {
        fs::write(&report, text).expect("a file");
    }
    // Rules are never loaded, so nothing is ever reported.
    let hanging = folder.join("iptables-restore");
    fs::write(&hanging, "#!/bin/sh\necho called >&2; touch \"$CALLED\"; exec sleep 1000\n").expect("a script");
    fs::set_permissions(&hanging, fs::Permissions::from_mode(0o755)).expect("a program");
    let called = folder.join("called");
    let _ = fs::remove_file(&called);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = svclab(&["run", SEED, "--report", &format!("json={}", report.display())]);
    command.env("PATH", path).env("CALLED", &called).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().expect("svclab starts");
    while !called.exists() {
        assert_eq!(run.try_wait().expect("its own process"), None, "it waits for the program");
        std::thread::yield_now();
    }
    kill(Pid::from_raw(i32::try_from(run.id()).expect("a process id")), Signal::SIGINT).expect("its own process");
    assert_eq!(run.wait().expect("it ends").code(), Some(130));
    assert_eq!(fs::read_to_string(&report).ok().as_deref(), before);
    let files: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(files.len(), 2 + usize::from(before.is_some()), "{files:?}");
}

/// A lab that cannot be built fails each of its tests, and only these count.
#[test]
fn tests_are_counted_where_their_lab_fails() {
    let folder = folder("lab-fails");
    let file = folder.join("broken.yaml");
    let text = "name: f\nnodes: [{name: n, sysctls: {net.ipv4.ip_default_ttl: maybe}}]\npods: [{name: a, node: n}, {name: b, node: n}]\ntests:\n  \
                - {name: one, probe: {from: pod/a, to: 'pod/b:80'}, expect: {dropped: true}}\n  \
                - {name: two, probe: {from: pod/a, to: 'pod/b:81'}, expect: {dropped: true}}\n";
    fs::write(&file, text).expect("a file");
    let junit = folder.join("report.xml");
    let arguments = ["run", "--report", &format!("junit={}", junit.display()), &file.display().to_string()];
    let (code, stdout, _) = ended(&svclab(&arguments).output().expect("svclab starts"));
    assert_eq!(code, Some(2), "{stdout}");
    assert!(stdout.contains("1 scenario, 2 tests: 0 ok, 2 errors"), "{stdout}");
    let junit = fs::read_to_string(junit).expect("a report");
    assert_eq!(junit.matches("<testcase ").count(), 2, "{junit}");
    assert_eq!(junit.matches("net.ipv4.ip_default_ttl = maybe in node/n").count(), 2, "{junit}");
}

/// Each scenario has its own capture; one whose flows are only counted has none, which is reported.
#[test]
fn each_scenario_has_its_own_capture() {
    let folder = folder("captures");
    // Captures of an earlier run of this test would remain.
    let _ = fs::remove_dir_all(folder.join("captures"));
    let text = |flows: &str| {
        format!(
            "name: f\nnodes: [{{name: n}}]\npods: [{{name: a, node: n}}, {{name: b, node: n}}]\ntests:\n  \
             - {{name: t, probe: {{from: pod/a, to: 'pod/b:80'{flows}}}, expect: {{delivered: pod/b}}}}\n"
        )
    };
    fs::write(folder.join("a.yaml"), text("")).expect("a file");
    fs::write(folder.join("a.yml"), text(", flows: 2")).expect("a file");
    let mut command = svclab(&["run", "a.yaml", "a.yml", "--pcap", "captures"]);
    let (code, stdout, _) = ended(&command.current_dir(&folder).output().expect("svclab starts"));
    assert_eq!(code, Some(0), "{stdout}");
    assert!(folder.join("captures/a.yaml.pcapng").is_file());
    assert!(!folder.join("captures/a.yml.pcapng").exists(), "flows that are only counted are not captured");
    assert_eq!(stdout.matches("note: no capture").count(), 1, "{stdout}");
}

/// A test with several probes names the failed one, by the number of the step and the family.
#[test]
fn a_step_is_distinguished_from_others() {
    let file = folder("steps").join("steps.yaml");
    let text = "name: f\ncluster: {podCIDRs: [10.244.0.0/16, 'fd00:244::/48']}\nnodes: [{name: n}]\npods: [{name: a}, {name: b}]\ntests:\n  \
                - {name: one, probe: {from: pod/a, to: 'pod/b:80'}, expect: {dropped: true}}\n  \
                - name: two\n    steps:\n      \
                - {probe: {from: pod/a, to: 'pod/b:80'}, expect: {delivered: pod/b}}\n      \
                - {probe: {from: pod/a, to: 'pod/b:81', family: ipv4}, expect: {dropped: true}}\n";
    fs::write(&file, text).expect("a file");
    let (_, stdout, _) = ended(&svclab(&["run", &file.display().to_string()]).output().expect("svclab starts"));
    let titles: Vec<&str> = stdout.lines().filter(|line| line.contains("yaml:")).map(str::trim).collect();
    for (title, expected) in titles.iter().zip([
        "pod/a > pod/b:80 tcp over IPv4  ",
        "pod/a > pod/b:80 tcp over IPv6  ",
        "step 2: pod/a > pod/b:81 tcp  ",
    ]) {
        assert!(title.starts_with(expected), "{title:?} is no {expected:?}\n{stdout}");
    }
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
    fs::write(folder.join("sound.yaml"), fs::read_to_string(SEED).expect("a scenario")).expect("a file");
    let (_, printed, _) = ended(&svclab(&["check", "-v"]).arg(&folder).output().expect("svclab starts"));
    assert!(printed.contains("left-out/hidden: skipped, it contains a file .svclabignore\n"), "{printed}");
    assert_eq!(checked(&folder.join("hidden")), [false, true], "named itself");
}

/// A named pipe in a folder has no writer: reading it would never end.
#[test]
fn what_is_no_file_is_rejected_without_opening_it() {
    let folder = folder("no-files");
    let socket = folder.join("a.yaml");
    let _ = fs::remove_file(&socket);
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let (code, _, stderr) = ended(&svclab(&["check"]).arg(&folder).output().expect("svclab starts"));
    assert_eq!((code, stderr.contains("a.yaml: it is a pipe, a socket or a device")), (Some(2), true), "{stderr}");
}

/// The exit code of a cascade depends on its defects; text that is not rules is an error in the input.
#[rstest]
#[case::even(&["cascade", "../scenarios/seeds/000-foo-three-replicas.yaml"], 0, "every share is even")]
#[case::one_service(&["cascade", "../scenarios/affinity/client-ip.yaml", "--service", "free", "--node", "worker2"], 0, "default/free tcp")]
#[case::defect(&["cascade", "../scenarios/distribution/equal-probabilities.yaml", "--node", "worker"], 1, "DEFECT rule 2: probability 0.33333333349")]
#[case::nftables(&["cascade", "../scenarios/nftables/balance.yaml"], 0, "1 of 3")]
#[case::later(&["cascade", "../scenarios/updates/rolling-update-tcp.yaml", "--step", "1"], 0, "1 cascade")]
#[case::too_late(&["cascade", SEED, "--step", "9"], 2, "`--step 9` is out of range: the scenario has no step")]
#[case::no_service(&["cascade", SEED, "--service", "missing"], 2, "no load-balanced service `missing`")]
#[case::no_node(&["cascade", SEED, "--node", "missing"], 2, "there is no node `missing`")]
#[case::no_rules(&["cascade", "Cargo.toml"], 2, "this is neither a scenario nor rules")]
#[case::sampled(
    &["cascade", "../scenarios/seeds/000-foo-three-replicas.yaml", "--sample", "20000"],
    0,
    "the rules' counters agree with what arrived"
)]
#[case::sampled_as_defective_as_it_is(
    &["cascade", "../scenarios/distribution/equal-probabilities.yaml", "--node", "worker", "--sample", "20000"],
    1,
    "at a false-alarm rate of 3e-7; 20,000 flows"
)]
#[case::sampled_nftables(&["cascade", "../scenarios/nftables/balance.yaml", "--sample", "20000"], 0, "sampled: 20,000 flows")]
#[case::not_sampled(
    &["cascade", "../scenarios/affinity/client-ip.yaml", "--service", "sticky", "--sample", "auto"],
    0,
    "default/sticky is not sampled: its clients keep their endpoints"
)]
#[case::no_flows(&["cascade", SEED, "--sample", "0"], 2, "expected a number from 1 to")]
fn a_cascade_ends_as_its_shares_are(#[case] arguments: &[&str], #[case] code: i32, #[case] said: &str) {
    let (status, out, err) = ended(&svclab(arguments).output().expect("svclab starts"));
    assert_eq!(status, Some(code), "{out}{err}");
    let said_all = unwrapped(&(out + &err));
    assert!(said_all.contains(said), "{said_all}");
}

/// `-` is standard input wherever one scenario is read.
#[rstest]
#[case::check(&["check", "-"], "tests, no errors\n")]
#[case::rules(&["rules", "-", "--quiet"], "*nat\n")]
#[case::explain(&["explain", "-", "--from=pod/client", "--to=service/web:80"], "pod/client > service/web:80 tcp  standard input\n")]
fn a_scenario_is_read_from_standard_input(#[case] arguments: &[&str], #[case] begins: &str) {
    let scenario = File::open("../scenarios/cluster-ip/other-node.yaml").expect("a scenario");
    let output = svclab(arguments).stdin(scenario).output().expect("svclab starts");
    let (status, printed, complaints) = ended(&output);
    assert_eq!((status, complaints.as_str()), (Some(0), ""));
    assert!(printed.contains(begins), "{printed}");
}

/// Only commands that run tests need tests.
#[rstest]
#[case::run(&["run"], 2, "the scenario has no tests")]
#[case::check(&["check"], 2, "the scenario has no tests")]
#[case::verify(&["verify"], 0, "pod/web")]
#[case::explain(&["explain", "--from=pod/client", "--to=service/web:80"], 0, "translates the destination")]
#[case::rules(&["rules"], 0, "*nat\n")]
#[case::cascade(&["cascade"], 0, "default/web")]
fn a_scenario_without_tests_describes_a_cluster(#[case] arguments: &[&str], #[case] code: i32, #[case] said: &str) {
    let text = fs::read_to_string("../scenarios/invalid/no-tests.yaml").expect("a scenario");
    let file = folder(&format!("without-tests-{}", arguments[0])).join("cluster.yaml");
    fs::write(&file, text).expect("a file");
    let output = svclab(arguments).arg(&file).output().expect("svclab starts");
    let (status, printed, complaints) = ended(&output);
    assert_eq!(status, Some(code), "{printed}{complaints}");
    assert!(printed.contains(said) || complaints.contains(said), "{printed}{complaints}");
}

/// Plain objects and saved rules are accepted on standard input too; commands that accept neither name what they got.
#[rstest]
#[case::objects(&["verify", "-v", "-"], OBJECTS, 0, "standard input: assumed: a client pod `client-of-NODE` on every node")]
#[case::rules(&["verify", "-v", "-"], SAVED, 0, "standard input: assumed: nodes: node-1")]
#[case::shares(&["cascade", "-"], "../scenarios/seeds/000-foo-three-replicas.yaml", 0, "kube-system/coredns:metrics tcp  100.96.128.2:9153")]
#[case::edited_shares(&["cascade", "-"], "tests/texts/returned.txt", 1, "DEFECT  rule 1: 1/2 of new connections leave the chain untranslated")]
#[case::unknown_shares(&["cascade", "-"], "tests/texts/part.txt", 1, "shares of 1 cascade unknown: incomplete rules")]
#[case::no_objects(&["check", "-"], OBJECTS, 2, "this is a Kubernetes object (Node), not a scenario")]
#[case::explained_rules(&["explain", "-", "--from=pod/client", "--to=service/web:80"], SAVED, 2, "there is no pod `client`")]
#[case::no_rules_to_run(&["run", "-"], SAVED, 2, "these are rules in the format of iptables-save, not a scenario")]
fn what_comes_on_standard_input_is_known(
    #[case] arguments: &[&str],
    #[case] file: &str,
    #[case] code: i32,
    #[case] said: &str,
) {
    let output = svclab(arguments).stdin(File::open(file).expect("a file")).output().expect("svclab starts");
    let (status, printed, complaints) = ended(&output);
    assert_eq!(status, Some(code), "{printed}{complaints}");
    assert!(printed.contains(said) || complaints.replace("\n  │", "").contains(said), "{printed}{complaints}");
}

/// Plain objects are explained with the assumptions that are made about them.
#[test]
fn plain_objects_are_explained() {
    let objects = "\
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.80, clusterIPs: [10.96.0.80], ipFamilies: [IPv4], ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-a, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.244.1.5], nodeName: worker}]
ports: [{port: 8080, protocol: TCP, name: ''}]
";
    let file = folder("explained-objects").join("web.yaml");
    fs::write(&file, objects).expect("a file");
    let file = file.display().to_string();
    let output = svclab(&["explain", &file, "--from=pod/client-of-worker", "--to=service/web:80"]).output();
    let (status, printed, assumed) = ended(&output.expect("svclab starts"));
    assert_eq!(status, Some(0), "{printed}{assumed}");
    assert!(assumed.contains("web.yaml: assumed: nodes without a Node object: worker; "), "{assumed}");
    assert!(printed.contains("translates the destination to 10.244.1.5:8080"), "{printed}");
}

/// A program that accepts rules and does nothing is detected before a probe could pass without them.
#[rstest]
#[case::iptables("iptables-restore", "1.30", "iptables", "table filter of node/n lacks -A FORWARD ")]
#[case::nftables("nft", "1.33", "nftables", "table ip kube-proxy of node/n lacks the whole table")]
fn rules_that_are_not_there_are_an_error_of_the_environment(
    #[case] program: &str,
    #[case] version: &str,
    #[case] mode: &str,
    #[case] lacking: &str,
) {
    let folder = folder(&format!("no-rules-{mode}"));
    let stub = folder.join(program);
    fs::write(&stub, "#!/bin/sh\ncat > /dev/null\n").expect("a program");
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).expect("an executable");
    let file = folder.join("without-rules.yaml");
    let text = format!(
        "name: n\ncluster: {{proxy: {{mode: {mode}, version: '{version}'}}}}\nnodes: [{{name: n}}]\n\
         pods: [{{name: a, node: n}}, {{name: b, node: n}}]\ntests:\n  \
         - {{name: needs no rule, probe: {{from: pod/a, to: 'pod/b:80'}}, expect: {{delivered: 'pod/b:80'}}}}\n"
    );
    fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    assert_eq!(svclab(&["run", &file]).output().expect("svclab starts").status.code(), Some(0));
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = svclab(&["run", &file]).env("PATH", path).output().expect("svclab starts");
    let (code, out, printed) = ended(&output);
    assert_eq!(code, Some(3), "{out}{printed}");
    let said = unwrapped(&format!("{out}{printed}"));
    assert!(said.contains(&format!("{program} reported success, but {lacking}")), "{said}");
}
