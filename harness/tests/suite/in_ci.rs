//! Features for CI jobs: selection of tests, retries, defaults, shards, reports.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rstest::rstest;
use serde_json::Value;

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");

/// A repository folder for one test.
fn repository(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join(".git")).expect("a folder");
    folder
}

fn svclab(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    command.args(arguments).current_dir(folder).envs(variables.iter().copied()).output().expect("svclab starts")
}

fn ended(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn result(folder: &Path, name: &str) -> Value {
    let text = fs::read_to_string(folder.join(name)).expect("a report");
    serde_json::from_str::<Value>(&text).expect("JSON")["result"].take()
}

/// A scenario with two endpoints, and tests that each expect one flow at the first of them, so each passes half of the time.
fn chance(tests: usize) -> String {
    let test = |number| {
        format!(
            "  - {{name: test {number}, probe: {{from: pod/c, to: 'service/s:80'}}, expect: {{delivered: 'pod/a:80'}}}}\n"
        )
    };
    let tests: String = (0..tests).map(test).collect();
    format!(
        "name: by chance\nnodes: [{{name: n}}]\npods: [{{name: a, node: n}}, {{name: b, node: n}}, {{name: c, node: n}}]\n\
         services: [{{name: s, ports: [{{port: 80}}]}}]\nendpoints: [{{service: s, pods: [a, b]}}]\ntests:\n{tests}"
    )
}

/// A scenario with tests that pass or fail, each with its name as a tag.
fn tagged(tests: &[(&str, bool)]) -> String {
    let test = |(tag, holds): &(&str, bool)| {
        let expect = if *holds { "{delivered: 'pod/b:80'}" } else { "{dropped: true}" };
        format!("  - {{name: {tag} test, tags: {tag}, probe: {{from: pod/a, to: 'pod/b:80'}}, expect: {expect}}}\n")
    };
    let tests: String = tests.iter().map(test).collect();
    format!(
        "name: tagged\ntags: [all]\nnodes: [{{name: n}}]\npods: [{{name: a, node: n}}, {{name: b, node: n}}]\ntests:\n{tests}"
    )
}

#[rstest]
#[case(&["--tag", "one"], "one test")]
#[case(&["--tag", "!one,!three"], "two test")]
#[case(&["--tag", "all", "--tag", "!two", "--filter", "three"], "three test")]
fn tests_are_listed_and_run_by_tags(#[case] choice: &[&str], #[case] expected: &str) {
    let folder = repository(&format!("tags-{}", choice.join("").replace(['!', ','], "_")));
    fs::write(folder.join("a.yaml"), tagged(&[("one", true), ("two", true), ("three", true)])).expect("a file");
    let (code, listed, _) = ended(&svclab(&folder, &[&["run", "--list", "a.yaml"], choice].concat(), &[]));
    let tag = expected.split(' ').next().unwrap();
    assert_eq!(code, Some(0));
    assert!(listed.starts_with("a.yaml:") && listed.contains(&format!("tagged: {expected}  [")), "{listed}");
    assert!(listed.contains(tag) && listed.ends_with("\n1 test\n"), "{listed}");
    let of_report = [&["run", "--list", "a.yaml", "--report", "tap=-"], choice].concat();
    let (_, stdout, stderr) = ended(&svclab(&folder, &of_report, &[]));
    assert!(stdout.is_empty() && stderr == listed, "standard output is the report's: {stdout}");
    let report = [&["run", "a.yaml", "--report", "json=r.json"], choice].concat();
    assert_eq!(ended(&svclab(&folder, &report, &[])).0, Some(0));
    let result = result(&folder, "r.json");
    assert_eq!((&result["counts"]["ok"], &result["counts"]["filtered"]), (&Value::from(1), &Value::from(2)));
    assert_eq!(result["scenarios"][0]["tests"][0]["name"], expected);
}

/// Of 24 tests that pass half of the time, some fail at first, and none of these still fails after 40 more attempts.
#[test]
fn retried_tests_are_reported_as_flaky() {
    let folder = repository("retries");
    fs::write(folder.join("a.yaml"), chance(24)).expect("a file");
    let all = "json=r.json,junit=r.xml,tap=r.tap,html=r.html,summary=r.md,github";
    let (code, stdout, stderr) = ended(&svclab(&folder, &["run", "a.yaml", "--retries", "40", "--report", all], &[]));
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("FLAKY test ") && stdout.contains(" flaky)"), "{stdout}");
    assert!(stdout.contains("::warning file=a.yaml"), "{stdout}");
    let result = result(&folder, "r.json");
    let flaky = result["counts"]["flaky"].as_u64().expect("a number");
    assert!(flaky > 0 && flaky < 24, "{flaky}");
    let earlier = |test: &&Value| test["earlier"].as_array().is_some_and(|earlier| !earlier.is_empty());
    let tests = result["scenarios"][0]["tests"].as_array().expect("tests");
    assert_eq!(tests.iter().filter(earlier).count() as u64, flaky);
    for (file, word) in [("r.xml", "<flakyFailure"), ("r.tap", "(flaky)"), ("r.html", "FLAKY"), ("r.md", "Flaky")] {
        let text = fs::read_to_string(folder.join(file)).expect("a report");
        assert!(text.contains(word) && text.contains("iptables"), "{file}: {text}");
    }
}

#[test]
fn the_first_failure_ends_a_run() {
    let folder = repository("fail-fast");
    fs::write(folder.join("a.yaml"), tagged(&[("one", true), ("two", false), ("three", true)])).expect("a file");
    fs::write(folder.join("b.yaml"), tagged(&[("four", true)])).expect("a file");
    let arguments = ["run", ".", "--fail-fast", "--jobs", "1", "--report", "json=r.json"];
    let (code, stdout, _) = ended(&svclab(&folder, &arguments, &[]));
    assert_eq!(code, Some(1));
    assert!(stdout.contains("1 ok, 1 failed, 2 not started"), "{stdout}");
    assert_eq!(result(&folder, "r.json")["counts"]["notStarted"], 2);
}

#[test]
fn a_test_that_takes_too_long_is_an_error_and_the_next_goes_on() {
    let folder = repository("timeout");
    let text = tagged(&[("quick", true)])
        + "  - {name: long, probe: {from: pod/a, to: 'pod/b:80', flows: 50000000}, expect: {delivered: 'pod/b:80'}}\n"
        + "  - {name: after, probe: {from: pod/a, to: 'pod/b:80'}, expect: {delivered: 'pod/b:80'}}\n";
    fs::write(folder.join("a.yaml"), text).expect("a file");
    let (code, stdout, _) = ended(&svclab(&folder, &["run", "a.yaml", "--timeout", "500ms"], &[]));
    assert_eq!(code, Some(3), "{stdout}");
    assert!(stdout.contains("the test took longer than 500 ms") && stdout.contains("2 ok, 1 error"), "{stdout}");
}

#[test]
fn repetitions_are_in_an_order_that_a_seed_repeats() {
    let folder = repository("repeat");
    fs::write(folder.join("a.yaml"), tagged(&[("one", true), ("two", true)])).expect("a file");
    fs::write(folder.join("b.yaml"), tagged(&[("three", true)])).expect("a file");
    let order = |seed: &str| {
        let arguments = ["run", ".", "--repeat", "5", "--shuffle", seed, "--report", "json=r.json"];
        let (code, stdout, _) = ended(&svclab(&folder, &arguments, &[]));
        assert_eq!(code, Some(0), "{stdout}");
        assert!(stdout.contains(&format!("(--shuffle {seed})")) && stdout.contains("(repetition 5)"), "{stdout}");
        let result = result(&folder, "r.json");
        assert_eq!(result["counts"]["ok"], 15);
        let scenarios = result["scenarios"].as_array().expect("scenarios").clone();
        scenarios
            .iter()
            .map(|one| format!("{}{}{}", one["file"], one["repetition"], one["tests"][0]["name"]))
            .collect::<Vec<_>>()
    };
    let first = order("1");
    assert_eq!(first, order("1"));
    assert!((2..6).any(|seed| order(&seed.to_string()) != first));
}

/// A flag overrides an environment variable, which overrides the file.
#[test]
fn defaults_come_from_the_environment_and_from_the_repository() {
    let folder = repository("defaults");
    let below = folder.join("below");
    fs::create_dir_all(&below).expect("a folder");
    fs::write(below.join("a.yaml"), tagged(&[("one", true), ("two", true), ("three", true)])).expect("a file");
    fs::write(
        folder.join("svclab.toml"),
        "[run]\nfilter = \"one\"\nretries = 2\nfail-fast = true\ntag = [\"all\", \"!x\"]\n",
    )
    .expect("a file");
    let listed = |arguments: &[&str], variables: &[(&str, &str)]| {
        let (code, stdout, stderr) =
            ended(&svclab(&below, &[&["run", "--list", "a.yaml"], arguments].concat(), variables));
        assert_eq!(code, Some(0), "{stderr}");
        ["one", "two", "three"].into_iter().filter(|name| stdout.contains(&format!("{name} test"))).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[], &[]), ["one"]);
    assert_eq!(listed(&[], &[("SVCLAB_RUN_FILTER", "two")]), ["two"]);
    assert_eq!(listed(&[], &[("SVCLAB_RUN_FILTER", "")]), ["one"], "an empty variable is unset");
    assert_eq!(listed(&["--filter", "three"], &[("SVCLAB_RUN_FILTER", "two")]), ["three"]);
    assert_eq!(listed(&["--filter", ""], &[("SVCLAB_RUN_TAG", "two")]), ["two"]);
    let variables = [("SVCLAB_RUN_FAIL_FAST", "false"), ("SVCLAB_QUIET", "true"), ("SVCLAB_RUN_REPORT", "json=r.json")];
    let (code, stdout, stderr) = ended(&svclab(&below, &["run", "a.yaml"], &variables));
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "", ""));
    assert_eq!(result(&below, "r.json")["counts"]["ok"], 1);
}

#[rstest]
#[case::file("[run]\nreport = \"json=/etc/x\"\n", "svclab.toml:2: `report` cannot be set here")]
#[case::captures("[run]\n\npcap = \"x\"\n", "svclab.toml:3: `pcap` cannot be set here")]
#[case::outside("[run]\nallow-outside = true\n", "svclab.toml:2: `allow-outside` cannot be set here")]
#[case::command("[explain]\nlive = true\n", "svclab.toml:1: `explain` is not a command with defaults")]
#[case::value("[run]\nretries = \"many\"\n", "svclab.toml:2: invalid value 'many' for '--retries <N>'")]
#[case::kind("[run]\nretries = 1.5\n", "svclab.toml:2: `retries` has a value of an unknown kind")]
#[case::syntax("[run\n", "svclab.toml:1: ")]
#[case::no_table("run = 1\n", "svclab.toml:1: `run` is not a command with defaults")]
fn errors_of_the_file_have_their_place(#[case] text: &str, #[case] printed: &str) {
    let folder = repository(&format!("file-{}", text.len()));
    fs::write(folder.join("svclab.toml"), text).expect("a file");
    let (code, stdout, stderr) = ended(&svclab(&folder, &["run", "a.yaml"], &[]));
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains(printed) && stderr.contains("\nhelp: "), "{stderr}");
}

#[test]
fn the_file_must_be_in_the_repository() {
    let folder = repository("linked");
    std::os::unix::fs::symlink("/etc/passwd", folder.join("svclab.toml")).expect("a link");
    let (code, _, stderr) = ended(&svclab(&folder, &["run", "a.yaml"], &[]));
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("svclab.toml: cannot read the file: it is outside") && !stderr.contains("root"),
        "{stderr}"
    );
}

/// Three shards, balanced by the durations of a whole run, together are that run.
#[test]
fn shards_are_balanced_and_merged() {
    let folder = repository("shards");
    let part = format!("{LIBRARY}/cluster-ip");
    assert_eq!(ended(&svclab(&folder, &["run", &part, "--report", "json=all.json"], &[])).0, Some(0));
    let files = |result: &Value| -> BTreeSet<String> {
        let scenarios = result["scenarios"].as_array().expect("scenarios").iter();
        scenarios.map(|scenario| scenario["file"].as_str().expect("a name").to_owned()).collect()
    };
    for number in 1..=3 {
        let (shard, report) = (format!("{number}/3"), format!("json=shard-{number}.json"));
        let arguments = ["run", &part, "--shard", &shard, "--durations", "all.json", "--report", &report];
        assert_eq!(ended(&svclab(&folder, &arguments, &[])).0, Some(0));
        assert!(!files(&result(&folder, &format!("shard-{number}.json"))).is_empty());
    }
    let merge = [
        "report",
        "merge",
        "shard-3.json",
        "shard-1.json",
        "shard-2.json",
        "--report",
        "json=m.json,html=m.html,junit=m.xml",
    ];
    let (code, stdout, stderr) = ended(&svclab(&folder, &merge, &[]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains(" ok, in "), "{stdout}");
    let (all, merged) = (result(&folder, "all.json"), result(&folder, "m.json"));
    assert_eq!(files(&all), files(&merged));
    assert_eq!(all["counts"], merged["counts"]);
    let (code, _, stderr) = ended(&svclab(&folder, &merge[..4], &[]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("1 shard of 3 is missing: 2\nhelp: "), "{stderr}");
}

/// `verify` and `mutate` write the same reports as `run`.
#[rstest]
#[case::verify("verify", &[])]
#[case::mutate("mutate", &["--sample", "12"])]
fn every_command_has_every_report(#[case] command: &str, #[case] more: &[&str]) {
    let folder = repository(&format!("reports-{command}"));
    let scenario = format!("{LIBRARY}/cluster-ip/same-node.yaml");
    let reports = "json=r.json,junit=r.xml,tap=r.tap,html=r.html,summary=r.md,github";
    let (code, stdout, stderr) =
        ended(&svclab(&folder, &[&[command, &scenario, "--report", reports], more].concat(), &[]));
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains(&format!("::notice title=svclab {command}::1 scenario, ")), "{stdout}");
    let json = fs::read_to_string(folder.join("r.json")).expect("a report");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["command"], &json["schemaVersion"]), (&Value::from(command), &Value::from(1)));
    let kernel = json["kernel"].as_str().expect("a release").to_owned();
    for file in ["r.xml", "r.tap", "r.html", "r.md"] {
        let text = fs::read_to_string(folder.join(file)).expect("a report");
        assert!(["0.1.0", kernel.as_str(), "machine"].iter().all(|word| text.contains(word)), "{file}: {text}");
    }
}

#[test]
fn github_gets_paths_from_the_root_and_a_summary() {
    let folder = repository("github");
    let below = folder.join("sub/dir");
    fs::create_dir_all(&below).expect("a folder");
    fs::write(below.join("a.yaml"), tagged(&[("one", false)])).expect("a file");
    let summary = folder.join("summary.md");
    fs::write(&summary, "before\n").expect("a file");
    let path = |path: &Path| path.display().to_string();
    let variables = [("GITHUB_WORKSPACE", path(&folder)), ("GITHUB_STEP_SUMMARY", path(&summary))];
    let variables = [(variables[0].0, &*variables[0].1), (variables[1].0, &*variables[1].1)];
    let (code, stdout, _) = ended(&svclab(&below, &["run", "a.yaml", "--report", "github"], &variables));
    assert_eq!(code, Some(1));
    assert!(stdout.contains("::error file=sub/dir/a.yaml,line="), "{stdout}");
    let text = fs::read_to_string(&summary).expect("a summary");
    assert!(text.starts_with("before\n## ❌ svclab run\n") && text.contains("░"), "{text}");
    let closed = [("GITHUB_STEP_SUMMARY", "/nowhere/s.md")];
    let (code, stdout, stderr) = ended(&svclab(&below, &["run", "a.yaml", "--report", "github"], &closed));
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "nothing was run");
    assert!(stderr.contains("/nowhere/s.md cannot be written"), "{stderr}");
}

/// The example Job has only fields of the API, and its shards cover everything.
#[test]
fn the_kubernetes_job_is_one() {
    use k8s_openapi::api::batch::v1::Job;
    let text = fs::read_to_string("../ci/examples/kubernetes-job.yaml").expect("the example");
    let documents: Vec<Value> = text.split("\n---\n").map(|text| serde_yaml::from_str(text).expect("YAML")).collect();
    let jobs: Vec<&Value> = documents.iter().filter(|document| document["kind"] == "Job").collect();
    assert_eq!((documents.len(), jobs.len()), (3, 2));
    for job in &jobs {
        let typed: Job = serde_json::from_value((*job).clone()).expect("a Job");
        assert_eq!(serde_json::to_value(&typed).expect("JSON"), **job, "a field is not the API's");
    }
    let spec = &jobs[0]["spec"];
    assert_eq!((&spec["completionMode"], &spec["completions"]), (&Value::from("Indexed"), &Value::from(4)));
    let script = spec["template"]["spec"]["containers"][0]["args"][0].as_str().expect("a script");
    // Runs the script with each index in turn.
    let folder = repository("indexed-job");
    let program = folder.join("bin");
    fs::create_dir_all(&program).expect("a folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_svclab"), program.join("svclab")).expect("a link");
    let here = folder.display().to_string();
    let script = script.replace("/scenarios", &format!("{LIBRARY}/cluster-ip")).replace("/reports", &here);
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    for index in 0..4 {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("PATH", &path).env("JOB_COMPLETION_INDEX", index.to_string());
        assert!(shell.output().expect("a shell").status.success());
    }
    let merge = jobs[1]["spec"]["template"]["spec"]["containers"][0]["args"][0].as_str().expect("a script");
    let merged = Command::new("sh")
        .args(["-c", &merge.replace("/reports", &here)])
        .env("PATH", &path)
        .output()
        .expect("a shell");
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    assert!(folder.join("report.html").is_file());
}

/// Artifacts are untrusted: a link in them must not point outside of their folder.
#[test]
fn links_out_of_artifacts_are_not_followed() {
    let folder = repository("artifacts-with-links");
    fs::create_dir_all(folder.join("kept/inputs")).expect("a folder");
    fs::write(folder.join("kept/scenario.txt"), "inputs/a.yaml\n").expect("a file");
    fs::write(folder.join("secret.yaml"), "token: very-secret\n").expect("a file");
    std::os::unix::fs::symlink("../../secret.yaml", folder.join("kept/inputs/a.yaml")).expect("a link");
    let arguments = ["explain", "kept", "--from", "pod/a", "--to", "10.96.0.10:80"];
    let (code, stdout, stderr) = ended(&svclab(&folder, &arguments, &[]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("kept") && !format!("{stdout}{stderr}").contains("token"), "{stdout}{stderr}");
}

/// Durations balance shards: without `--shard` they would be ignored.
#[test]
fn durations_need_a_shard() {
    let folder = repository("durations-alone");
    let (code, _, stderr) = ended(&svclab(&folder, &["run", ".", "--durations", "all.json"], &[]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--shard <K/N>"), "{stderr}");
}

/// The folder of a failed test contains everything, and `explain` accepts it.
#[test]
fn artifacts_of_a_failure_are_read_again() {
    let folder = repository("artifacts");
    let text = chance(1).replace("delivered: 'pod/a:80'", "dropped: true").replace("test 0", "Nothing (ever) arrives!");
    fs::write(folder.join("a.yaml"), text).expect("a file");
    let arguments = ["run", "a.yaml", "--artifacts", "kept", "--pcap", "captures"];
    assert_eq!(ended(&svclab(&folder, &arguments, &[])).0, Some(1));
    let kept = "kept/a.yaml/01-nothing-ever-arrives";
    for file in [
        "result.json",
        "failure.txt",
        "capture.pcapng",
        "trace.txt",
        "inputs/a.yaml",
        "node/n/iptables.txt",
        "node/n/routes.txt",
        "node/n/addresses.txt",
        "node/n/conntrack.txt",
    ] {
        let kept = fs::read(folder.join(kept).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(!kept.is_empty(), "{file}");
    }
    // A test that now passes leaves nothing in the folders; files that are not svclab's remain.
    fs::write(folder.join("captures/a.yaml.pcapng.mine"), "").expect("a file");
    fs::write(folder.join("captures/a.yaml.retry-3.pcapng"), "").expect("a file");
    let rerun = ["run", "b.yaml", "a.yaml", "--artifacts", "kept-again", "--pcap", "captures"];
    fs::write(folder.join("b.yaml"), tagged(&[("one", false)])).expect("a file");
    assert_eq!(ended(&svclab(&folder, &rerun, &[])).0, Some(1));
    fs::write(folder.join("b.yaml"), tagged(&[("one", true)])).expect("a file");
    assert_eq!(ended(&svclab(&folder, &rerun, &[])).0, Some(1));
    assert!(!folder.join("kept-again/b.yaml").exists() && folder.join("kept-again/a.yaml").is_dir());
    assert!(folder.join("captures/a.yaml.pcapng.mine").is_file() && folder.join("captures/a.yaml.pcapng").is_file());
    assert!(!folder.join("captures/a.yaml.retry-3.pcapng").exists());
    let rules = fs::read_to_string(folder.join(kept).join("node/n/iptables.txt")).expect("rules");
    assert!(rules.contains("KUBE-SVC-") && rules.contains('['), "rules with counters: {rules}");
    let (code, stdout, stderr) = ended(&svclab(&folder, &["report", "show", kept], &[]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stdout.contains("FAIL  Nothing (ever) arrives!")
            && stdout.contains("promised")
            && stdout.contains("node/n/iptables.txt"),
        "{stdout}"
    );
    let (code, stdout, stderr) = ended(&svclab(&folder, &["report", "show", "kept"], &[]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stdout.contains("a.yaml/01-nothing-ever-arrives\n  failed  ") && stdout.contains("Nothing (ever) arrives!"),
        "{stdout}"
    );
    for (arguments, said) in [
        (&["report", "show", "captures"] as &[&str], "this folder has no failed test in it"),
        (&["report", "show", "kept", "--report", "tap=t"], "--report takes one test"),
    ] {
        let (code, _, stderr) = ended(&svclab(&folder, arguments, &[]));
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(said) && stderr.contains("help: "), "{stderr}");
    }
    let (code, stdout, stderr) =
        ended(&svclab(&folder, &["explain", kept, "--from", "pod/c", "--to", "service/s:80"], &[]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("KUBE-SVC"), "{stdout}");
}

#[test]
fn a_scenario_that_only_counts_leaves_no_capture() {
    let folder = repository("uncaptured");
    let text = tagged(&[])
        + "  - {name: many, probe: {from: pod/a, to: 'pod/b:80', flows: 100}, expect: {delivered: 'pod/b:80'}}\n";
    fs::write(folder.join("a.yaml"), text).expect("a file");
    let (code, stdout, stderr) = ended(&svclab(&folder, &["run", "a.yaml", "--pcap", "captures"], &[]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("note: no capture: all flows of these tests are only counted"), "{stdout}");
    assert_eq!(fs::read_dir(folder.join("captures")).expect("a folder").count(), 0);
}
