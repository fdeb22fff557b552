//! `svclab check -v`: what kube-proxy ignores in a scenario's objects, with their places.

use std::fs;
use std::path::Path;
use std::process::Command;

const SCENARIO: &str = "\
name: much is ignored
cluster: {podCIDR: 10.244.0.0/16}
nodes:
  - {name: worker, ip: 172.18.0.2}
pods:
  - {name: client}
  - {name: web, labels: {app: web}, ready: false}
services:
  - {name: web, selector: {app: web}, ports: [{port: 80}]}
  - {name: db, clusterIP: None, ports: [{port: 5432}]}
manifests: [objects.yaml]
tests:
  - {name: one, probe: {from: pod/client, to: 'service/web:80'}, expect: {rejected: tcp-reset}}
";

const OBJECTS: &str = "\
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: gone-a, labels: {kubernetes.io/service-name: gone}}
addressType: IPv4
endpoints: [{addresses: [10.244.0.9]}]
---
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: names, labels: {kubernetes.io/service-name: web}}
addressType: FQDN
endpoints: [{addresses: [web.example]}]
";

/// What has no effect, with the place of its object; not reported without `-v`.
#[test]
fn what_is_ignored_is_reported_with_its_place() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ignored-objects");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("ignored.yaml"), SCENARIO).expect("a scenario");
    fs::write(folder.join("objects.yaml"), OBJECTS).expect("objects");
    let check = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
        let output = command.current_dir(&folder).arg("check").args(options).arg("ignored.yaml").output();
        let output = output.expect("svclab starts");
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let printed = check(&["-v"]);
    let mut notes: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    notes.sort_unstable();
    assert_eq!(
        notes,
        [
            "ignored.yaml:10:5: Service default/db has no rules: it is headless: clients get the endpoints' addresses from DNS",
            "ignored.yaml:9:5: Service default/web does not use 10.244.0.3: it is not ready",
            "objects.yaml:1:1: EndpointSlice default/gone-a has no rules: there is no service default/gone",
            "objects.yaml:7:1: EndpointSlice default/names has no rules: its addresses are host names (addressType FQDN)",
        ]
    );
    assert_eq!(check(&[]), "1 scenario with 1 test, no errors\n");
}

/// Feature gates that change nothing, with their places, even without `-v`; one that affects rules is not mentioned.
#[test]
fn feature_gates_without_effect_are_reported() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gates");
    fs::create_dir_all(&folder).expect("a folder");
    let gates = "      ContextualLogging: true
      PreferSameTrafficDistribution: true
      ServiceTrafficDistribution: false
      SomeGateOfTheFuture: true
      TopologyAwareHints: false
";
    let cluster = format!("cluster:\n  proxy:\n    version: \"1.32\"\n    featureGates:\n{gates}nodes:");
    let scenario = SCENARIO.replace("cluster: {podCIDR: 10.244.0.0/16}\nnodes:", &cluster);
    fs::write(folder.join("gates.yaml"), scenario.replace("manifests: [objects.yaml]\n", "")).expect("a scenario");
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    let output = command.current_dir(&folder).args(["check", "gates.yaml"]).output().expect("svclab starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let warnings = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(
        warnings.lines().collect::<Vec<_>>(),
        [
            "gates.yaml:6:26: warning: feature gate `ContextualLogging` has no effect on the rules that svclab writes",
            "gates.yaml:7:38: warning: feature gate `PreferSameTrafficDistribution` was added in 1.33: a kube-proxy before that \
             does not start with it",
            "gates.yaml:9:28: warning: feature gate `SomeGateOfTheFuture` is unknown to kube-proxy; ignored",
        ]
    );
}

/// However it is named, a scenario is checked once; a link to its own folder causes no loop.
#[test]
fn a_scenario_is_found_once() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("found-once");
    fs::create_dir_all(&folder).expect("a folder");
    let text = "name: s\nnodes: [{name: n}]\npods: [{name: a}, {name: b}]\ntests:\n  \
                - {name: t, probe: {from: pod/a, to: 'pod/b:80'}, expect: {delivered: pod/b}}\n";
    fs::write(folder.join("one.yaml"), text).expect("a scenario");
    // It may exist from an earlier run.
    let _ = std::os::unix::fs::symlink(".", folder.join("loop"));
    assert!(folder.join("loop/loop/one.yaml").exists(), "the folder is in itself");
    let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
    let paths = ["one.yaml", "./one.yaml", "loop/one.yaml", ".", "loop"];
    let output = command.current_dir(&folder).args(["check", "-v"]).args(paths).output().expect("svclab starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let expected = "one.yaml: 1 node, 2 pods, 0 services, 1 test\n1 scenario with 1 test, no errors\n";
    assert_eq!(printed, expected, "{output:?}");
}

/// A named pipe in a folder may never have a writer; one opened by a shell ends on its own.
#[test]
fn a_named_pipe_is_rejected_and_an_open_one_read() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pipes");
    // It may exist from an earlier run.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("one.yaml"), SCENARIO.replace("manifests: [objects.yaml]\n", "")).expect("a scenario");
    let printed = |script: &str| {
        let script = format!("mkfifo pipe.yaml 2>&1; {script}");
        let mut command = Command::new("timeout");
        let shell = command.args(["60", "bash", "-c", &script]).env("SVCLAB", env!("CARGO_BIN_EXE_svclab"));
        let output = shell.current_dir(&folder).output().expect("a shell starts");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), text)
    };
    for script in ["$SVCLAB check pipe.yaml", "$SVCLAB rules pipe.yaml", "$SVCLAB cascade pipe.yaml"] {
        let (code, text) = printed(script);
        assert_eq!(code, Some(2), "{script}: {text}");
        assert!(text.contains("it is a named pipe"), "{script}: {text}");
    }
    for script in ["$SVCLAB check <(cat one.yaml)", "cat one.yaml | $SVCLAB check /dev/stdin"] {
        let (code, text) = printed(script);
        assert_eq!(code, Some(0), "{script}: {text}");
    }
}

/// A selector or port name that no pod has is probably an error: there is a warning without `-v`, but not if a step removes the pods.
#[test]
fn what_is_hardly_meant_is_warned_of() {
    let text = "\
name: typos
nodes: [{name: worker, ip: 172.18.0.2}]
pods:
  - {name: client}
  - {name: web, replicas: 2, labels: {app: web}, ports: [{name: http, containerPort: 8080}]}
services:
  - {name: web, selector: {app: web}, ports: [{port: 80, targetPort: htpp}]}
  - {name: shop, selector: {app: wbe}, ports: [{port: 80}]}
  - {name: right, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
tests:
  - {name: one, probe: {from: pod/client, to: 'service/web:80'}, expect: {rejected: true}}
  - name: none is left
    steps:
      - apply: {pods: [{name: web, delete: true}]}
      - {probe: {from: pod/client, to: 'service/right:80'}, expect: {rejected: true}}
";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hardly-meant");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("typos.yaml"), text).expect("a scenario");
    let check = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
        let output = command.current_dir(&folder).args(options).args(["check", "typos.yaml"]).output();
        let output = output.expect("svclab starts");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let warnings = "\
typos.yaml:7:70: warning: no pod that default/web selects has a tcp port `htpp`, so its port 80 has no endpoints; did you mean `http`?
typos.yaml:8:28: warning: no pod matches the selector of default/shop, so it has no endpoints
";
    let (status, mut printed) = check(&[]);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    printed = lines.join("\n") + "\n";
    assert_eq!((status, printed.as_str()), (Some(0), warnings));
    assert_eq!(check(&["--quiet"]), (Some(0), String::new()));
}

/// The same error at 500 places is one message, with the first three places and the number of the others.
#[test]
fn a_repeated_error_is_one_message() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("repeated-errors");
    fs::create_dir_all(&folder).expect("a folder");
    let pods: String = (1..=500).map(|number| format!("  - {{name: web-{number}, node: worker-9}}\n")).collect();
    let fields = pods.replace("node: worker-9", "nodde: worker");
    let text =
        |pods: &str| SCENARIO.replace("pods:\n", &format!("pods:\n{pods}")).replace("manifests: [objects.yaml]\n", "");
    fs::write(folder.join("nodes.yaml"), text(&pods)).expect("a scenario");
    fs::write(folder.join("fields.yaml"), text(&fields)).expect("a scenario");
    let check = |file: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svclab"));
        let output =
            command.current_dir(&folder).args(["check", "--color", "never", file]).output().expect("svclab starts");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    insta::assert_snapshot!(check("nodes.yaml") + &check("fields.yaml"));
}
