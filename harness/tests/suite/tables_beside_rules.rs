//! Tables of kubectl beside rules: what a table cannot show is assumed, and is no defect of the rules.

use std::path::Path;

use rstest::rstest;
use svclab::evidence;
use svclab::infer::{self, Assumed, Connections};
use svclab::lint::{Severity, lint};
use svclab::verify::{Options, verify};

use crate::assumptions;

/// The rules of node-1, with tables before them.
fn with_rules(tables: &str, recording: &str, release: &str, edit: impl Fn(String) -> String) -> String {
    let (command, file) = match release.ends_with("nftables") {
        true => ("nft list ruleset", "nft-ruleset.txt"),
        false => ("iptables-save", "iptables-save.txt"),
    };
    let path = format!("../rules/tests/golden/{recording}/{release}/{file}");
    let rules = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    format!("{tables}\n$ {command}\n{}", edit(rules))
}

fn imported(text: &str) -> Assumed {
    infer::from_evidence(&evidence::read(text), Path::new("dump"), &[], Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// What fails by promise and prediction, and what is assumed.
fn failures(text: &str) -> (Vec<String>, String) {
    let (assumed, options) = (imported(text), Options { no_lab: true, ..Options::default() });
    let verified = verify(std::slice::from_ref(&assumed.scenario), &options, &|_| {}).remove(0);
    let verification = verified.result.as_ref().unwrap_or_else(|trouble| panic!("{trouble:?}"));
    let failures = verification.failures(&options).map(|failure| format!("{}: {}", failure.what, failure.example.flow));
    (failures.collect(), assumptions(&assumed).join("\n"))
}

/// The errors and warnings of a text.
fn grave(text: &str) -> Vec<&'static str> {
    let found = lint(&evidence::read(text));
    found.iter().filter(|finding| finding.severity != Severity::Info).map(|finding| finding.id).collect()
}

const BALANCED: &str = "$ kubectl get svc -o wide
NAME   TYPE           CLUSTER-IP   EXTERNAL-IP                 PORT(S)        AGE   SELECTOR
web    LoadBalancer   10.96.0.10   203.0.113.10,203.0.113.11   80:30080/TCP   5d    app=web
";

const OF_OTHERS: &str = "$ kubectl get svc -o wide
NAME   TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE   SELECTOR
web    ClusterIP   10.96.0.10   <none>        80/TCP    5d    app=web
ours   ClusterIP   10.96.0.11   <none>        80/TCP    5d    app=ours
";

const NONE_READY: &str = "$ kubectl get svc,endpoints
NAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE
service/web   ClusterIP   10.96.0.10   <none>        80/TCP    5d

NAME            ENDPOINTS   AGE
endpoints/web   <none>      5d
";

const NONE_READY_HERE: &str = "$ kubectl get endpoints
NAME   ENDPOINTS          AGE
web    10.244.2.10:8080   5d
";

const ENDED: &str = "$ kubectl get endpointslices
NAME              ADDRESSTYPE   PORTS   ENDPOINTS                             AGE
elsewhere-a1b2c   IPv4          8080    10.244.1.10,10.244.2.10               5d
all-a1b2c         IPv4          8080    10.244.1.11,10.244.2.11               5d
some-a1b2c        IPv4          8080    10.244.1.12,10.244.1.13,10.244.2.12   5d
gone-a1b2c        IPv4          8080    10.244.1.14,10.244.2.13               5d
";

const ONE_FAMILY: &str = "$ kubectl get svc,endpoints
NAME           TYPE        CLUSTER-IP    EXTERNAL-IP   PORT(S)   AGE
service/both   ClusterIP   10.96.0.10    <none>        80/TCP    5d

NAME             ENDPOINTS                           AGE
endpoints/both   10.244.1.10:8080,10.244.2.10:8080   5d

$ kubectl get nodes -o wide
NAME     STATUS   ROLES    AGE   VERSION   INTERNAL-IP     EXTERNAL-IP   OS-IMAGE             KERNEL-VERSION       CONTAINER-RUNTIME
node-1   Ready    <none>   5d    v1.32.1   192.168.10.11   <none>        Ubuntu 22.04.4 LTS   5.15.0-101-generic   containerd://1.7.2
node-2   Ready    <none>   5d    v1.32.1   192.168.10.12   <none>        Ubuntu 22.04.4 LTS   5.15.0-101-generic   containerd://1.7.2
";

const OTHER_ADDRESS: &str = "$ kubectl get nodes -o wide
NAME     STATUS   ROLES    AGE   VERSION   INTERNAL-IP     EXTERNAL-IP   OS-IMAGE             KERNEL-VERSION       CONTAINER-RUNTIME
node-1   Ready    <none>   5d    v1.32.1   192.168.10.11   198.18.0.1    Ubuntu 22.04.4 LTS   5.15.0-101-generic   containerd://1.7.2
node-2   Ready    <none>   5d    v1.32.1   192.168.10.12   <none>        Ubuntu 22.04.4 LTS   5.15.0-101-generic   containerd://1.7.2
node-3   Ready    <none>   5d    v1.32.1   192.168.10.13   <none>        Ubuntu 22.04.4 LTS   5.15.0-101-generic   containerd://1.7.2
";

/// Fields that a table has no column for, and endpoints that it does not list.
#[rstest]
#[case::ip_mode("loadbalancer-ipmode-proxy", BALANCED, "ipMode Proxy of default/web")]
#[case::terminating("terminating-all", NONE_READY, "default/web in the rules that a table of Endpoints does not list")]
#[case::terminating_here("terminating-local", NONE_READY_HERE, "are taken as terminating: 10.244.1.10")]
#[case::ended("internal-local-terminating", ENDED, "treated as not ready: 10.244.1.12 of default/some, 10.244.1.14")]
#[case::one_family("dual-stack", ONE_FAMILY, "addresses of nodes that a table does not show: node-")]
#[case::other_address("config-nodeport-addresses-two", OTHER_ADDRESS, "nodes from the objects: node-1")]
fn what_a_table_cannot_show_is_no_defect(
    #[case] recording: &str,
    #[case] tables: &str,
    #[case] words: &str,
    #[values("v1.32-iptables", "v1.36-nftables")] release: &str,
) {
    let text = with_rules(tables, recording, release, |rules| rules);
    let (failures, assumed) = failures(&text);
    assert_eq!(failures, Vec::<String>::new(), "{assumed}");
    assert_eq!(grave(&text), Vec::<&str>::new());
    let is_shown = assumed.contains(words) || release.ends_with("iptables") && recording == "dual-stack";
    assert!(is_shown, "{assumed}");
}

/// Labels neither, but few Services have one for another proxy.
#[rstest]
fn a_service_without_rules_may_be_that_of_another_proxy(#[values("v1.32-iptables", "v1.36-nftables")] release: &str) {
    let text = with_rules(OF_OTHERS, "service-proxy-name", release, |rules| rules);
    let (failures, assumed) = failures(&text);
    assert_eq!(failures, Vec::<String>::new(), "{assumed}");
    assert!(assumed.contains("a label of default/web, which a table does not show"), "{assumed}");
    assert_eq!(grave(&text), ["assumed-setting"]);
}

/// A table lists all ready endpoints; and no field explains rules of a load balancer that are missing in releases without it.
#[rstest]
#[case::stale(
    "clusterip-three-endpoints",
    "v1.32-iptables",
    "$ kubectl get endpoints\nNAME   ENDPOINTS          AGE\nweb    10.244.2.10:8080   5d\n",
    ""
)]
#[case::balancer("loadbalancer-cluster", "v1.25-iptables", BALANCED, "203.0.113.10/32")]
fn what_a_table_shows_is_compared(
    #[case] recording: &str,
    #[case] release: &str,
    #[case] tables: &str,
    #[case] lost: &str,
) {
    let without = |rules: String| -> String {
        let kept = rules.lines().filter(|line| lost.is_empty() || !line.contains(lost));
        kept.map(|line| format!("{line}\n")).collect()
    };
    let tables = tables.replace(",203.0.113.11", "");
    let text = with_rules(&tables, recording, release, without);
    assert_ne!(failures(&text).0, Vec::<String>::new());
    assert_ne!(grave(&text), Vec::<&str>::new());
}
