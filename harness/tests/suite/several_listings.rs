//! Dumps of one node in several listings: which of them are whose, and in which order they act.

use std::path::Path;
use std::process::Command;

use rstest::rstest;
use svclab::evidence::read;
use svclab::infer::{Connections, from_evidence};
use svclab::lint::lint;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rules/tests/golden");

/// The output of `verify --no-lab -v` for files, and its exit code.
fn verified(files: &[(&str, &str)]) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let path = if let [(name, _)] = files { folder.path().join(name) } else { folder.path().to_owned() };
    let arguments = ["verify", "--no-lab", "-v"];
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).arg(path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    // Long lines are wrapped.
    (text.split_whitespace().collect::<Vec<_>>().join(" "), output.status.code())
}

fn golden(path: &str) -> String {
    std::fs::read_to_string(Path::new(GOLDEN).join(path)).unwrap()
}

fn saved() -> String {
    golden("nodeport-cluster/v1.32-iptables/iptables-save.txt")
}

fn nft() -> String {
    golden("nodeport-cluster/v1.36-nftables/nft-ruleset.txt")
}

/// kube-proxy leaves rules behind when its mode changes; both sets are in the kernel then.
#[rstest]
#[case::other_mode("nft.txt", nft(), "kube-proxy's other mode")]
#[case::legacy_policy("iptables-legacy-save.txt", "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n".to_owned(), "both backends")]
fn rules_in_the_same_kernel_are_named(#[case] file: &str, #[case] text: String, #[case] named: &str) {
    let (said, code) = verified(&[("iptables-nft-save.txt", &saved()), (file, &text)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not verified: ") && said.contains(named), "{said}");
}

/// Of chains at the same priority, the kernel executes those first that were added last; nft lists tables in the order in which they were
/// added.
#[rstest]
#[case::newer(false, Some(1))]
#[case::older(true, Some(0))]
fn tables_act_in_the_order_in_which_they_were_added(#[case] is_older: bool, #[case] expected: Option<i32>) {
    let other = "table ip nat {\n\tchain PREROUTING {\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\
                 \t\tip daddr 10.96.0.10 tcp dport 80 counter packets 0 bytes 0 dnat to 10.244.7.7:80\n\t}\n}\n";
    let text = if is_older { format!("{other}{}", nft()) } else { format!("{}{other}", nft()) };
    let (said, code) = verified(&[("nft.txt", &text)]);
    assert_eq!(code, expected, "{said}");
    let order = if is_older { "executed after them" } else { "executed before them" };
    assert!(said.contains(order), "{said}");
}

#[test]
fn clients_in_affinity_sets_are_earlier_ones() {
    let text = golden("affinity-clientip/v1.36-nftables/nft-ruleset.txt");
    let timeout = "timeout 3h\n";
    let with_client =
        format!("{timeout}\t\telements = {{ 10.244.1.2 expires 2h59m53s, 10.244.1.11 expires 1h2m3s4ms }}\n");
    assert!(text.contains(timeout));
    let (said, code) = verified(&[("nft.txt", &text.replacen(timeout, &with_client, 1))]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 elements of node node-1 left out: state of earlier connections"), "{said}");
}

/// `ip6tables-save` of older releases prints rules without an address.
#[rstest]
#[case::by_file(&["iptables-save.txt", "ip6tables-save.txt"], "")]
#[case::by_command(&["node.txt"], "root@node-1:~# ")]
#[case::by_order(&["node.txt"], "")]
fn rules_without_addresses_are_of_the_family_of_their_program(#[case] names: &[&str], #[case] prompt: &str) {
    let recording = "affinity-clientip/v1.21-iptables";
    let texts = ["iptables-save", "ip6tables-save"].map(|program| {
        let command = if prompt.is_empty() { String::new() } else { format!("{prompt}{program}\n") };
        command + &golden(&format!("{recording}/{program}.txt"))
    });
    let objects = golden("affinity-clientip/cluster.yaml");
    let together = texts.concat();
    let mut files: Vec<(&str, &str)> = match names {
        [name] => vec![(name, &together)],
        _ => names.iter().copied().zip(texts.iter().map(String::as_str)).collect(),
    };
    files.push(("cluster.yaml", &objects));
    let (said, code) = verified(&files);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("those of node node-1"), "{said}");
}

#[test]
fn text_and_json_of_one_ruleset_are_of_one_node() {
    let recording = "config-nodeport-addresses-loopback/v1.30-nftables";
    let texts = ["nft-ruleset.txt", "nft-ruleset.json"].map(|name| (name, golden(&format!("{recording}/{name}"))));
    let (said, code) = verified(&texts.each_ref().map(|(name, text)| (*name, text.as_str())));
    assert_eq!(code, Some(0), "{said}");
}

/// A cluster IP that lacks its element in a set is one all the same: connections from outside are not masqueraded.
#[test]
fn an_address_without_its_element_is_a_cluster_ip() {
    let text = golden("clusterip-three-endpoints/v1.36-nftables/nft-ruleset.txt");
    let element = "\t\telements = { 10.96.0.10 }\n";
    assert!(text.contains(element));
    let (said, code) = verified(&[("nft.txt", &text.replacen(element, "", 1))]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the cluster IP 10.96.0.10 is missing"), "{said}");
}

/// Two listings with one node's address are of two times.
#[test]
fn a_second_dump_of_a_node_is_left_out() {
    let before = golden("nodeport-cluster/v1.36-nftables/nft-ruleset.txt");
    let after = before.replace("10.244.1.10", "10.244.1.99");
    let (said, code) = verified(&[("after.txt", &after), ("before.txt", &before)]);
    assert_eq!(code, Some(1), "{said}");
    let named = "the rules from before.txt line 1, nft list ruleset serve node ports on 192.168.10.11 like those from after.txt";
    assert!(said.contains(named), "{said}");
}

/// Docker's bridge has one address on every node.
#[test]
fn nodes_may_share_some_addresses() {
    let recording = golden("nodeport-cluster/v1.36-nftables/nft-ruleset.txt");
    let first = recording.replace("192.168.10.11", "172.17.0.1, 192.168.10.11");
    let second = recording.replace("192.168.10.11", "172.17.0.1, 192.168.10.12");
    let (said, _) = verified(&[("a.txt", &first), ("b.txt", &second)]);
    assert!(said.contains("are those of nodes"), "{said}");
}

/// Machines that serve node ports on the same address only are two if `uname -a` names two.
#[test]
fn names_of_machines_separate_nodes_with_one_address() {
    let recording = golden("nodeport-cluster/v1.36-nftables/nft-ruleset.txt").replace("192.168.10.11", "172.17.0.1");
    let of = |name: &str| format!("Linux {name} 6.8.0-45-generic #45-Ubuntu SMP x86_64 GNU/Linux\n{recording}");
    let (said, _) = verified(&[("1.txt", &of("blue")), ("2.txt", &of("green"))]);
    assert!(said.contains("are those of nodes blue, green"), "{said}");
    let (said, _) = verified(&[("1.txt", &recording), ("2.txt", &recording)]);
    assert!(said.contains("of the same node at another time"), "{said}");
}

/// What a configuration says counts, alone or in the ConfigMap of kubeadm.
#[rstest]
#[case::alone(false)]
#[case::in_a_config_map(true)]
fn a_configuration_beside_rules_is_used(#[case] in_config_map: bool) {
    let [rules, objects, configuration] = ["v1.36-nftables/nft-ruleset.txt", "cluster.yaml", "proxy-config.yaml"]
        .map(|name| golden(&format!("external-ips-off/{name}")));
    let indented: String = configuration.lines().map(|line| format!("    {line}\n")).collect();
    let configuration = match in_config_map {
        true => format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: kube-proxy, namespace: kube-system}}\ndata:\n  config.conf: |-\n{indented}"
        ),
        false => configuration,
    };
    let files = [("nft.txt", rules.as_str()), ("cluster.yaml", &objects), ("proxy-config.yaml", &configuration)];
    let (said, code) = verified(&files);
    assert_eq!(code, Some(0), "{said}");
    let (said, code) = verified(&files[..2]);
    assert_eq!(code, Some(1), "external IPs are promised without the configuration: {said}");
}

/// What kube-proxy's log shows of rules that it failed to load is not what the node has.
#[rstest]
#[case::alone("", true)]
#[case::with_a_command("$ iptables-save\n", false)]
#[case::with_a_heading("# Generated by iptables-save v1.8.9 on Tue Mar  5 09:12:02 2024\n", false)]
fn rules_that_failed_to_load_are_said_to_be_such(#[case] before: &str, #[case] expected: bool) {
    let saved =
        std::fs::read_to_string("../rules/tests/golden/clusterip-one-endpoint/v1.18-iptables/iptables-save.txt");
    let saved = saved.expect("a recording");
    let rules = &saved[saved.find("*nat").expect("table nat")..];
    let failure = "E0305 09:12:02.000000       1 proxier.go:740] Failed to execute iptables-restore: exit status 1 \
                   (iptables-restore: line 7 failed\n)\n";
    let alone = format!("{failure}{}{before}{rules}", if expected { "Rules:\n" } else { "\n" });
    let found = lint(&read(&alone));
    let failed = found.iter().find(|finding| finding.id == "sync-failed").expect("the failure");
    assert_eq!(failed.message.ends_with("the node does not have them"), expected, "{}", failed.message);
    let imported =
        |text: &str| from_evidence(&read(text), Path::new("dump"), &[], Connections::LeftOut).expect("a Service");
    let said = |text: &str| {
        let first = imported(text).assumptions.first().map(ToString::to_string).unwrap_or_default();
        first.contains("failed to load")
    };
    assert_eq!(said(&alone), expected);
    // The node's own rules count.
    let of_node = rules.replace("10.244.1.10", "10.244.1.77");
    let both = format!("{alone}\n$ iptables-save\n{of_node}");
    assert!(!said(&both));
    if expected {
        let slices = imported(&both).scenario.cluster.slices;
        let all: Vec<String> =
            slices.iter().flat_map(|slice| &slice.endpoints).map(|one| format!("{:?}", one.addresses)).collect();
        assert!(all.iter().all(|ips| !ips.contains("10.244.1.10")), "{all:?}");
    }
}
