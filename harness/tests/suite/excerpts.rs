//! Complete and partial texts: a rule that is missing in a completely shown chain is missing on the node, unless a cut may explain it.

mod assumptions;
mod filters;
mod hidden;
mod iptables_nft;
mod made_up;
mod nft;
mod stand_ins;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use rstest::rstest;
use svclab::diff::{self, diff};
use svclab::evidence::{self, Source};
use svclab::infer::{self, Assumed};
use svclab::lint::lint;
use svclab::verify::{Options, verify};
use svclab_rules::iptables::TableName;

use crate::assumptions;

fn imported(text: &str) -> Assumed {
    infer::from_evidence(&evidence::read(text), Path::new("dump"), &[], infer::Connections::LeftOut)
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// What fails by promise and prediction.
fn failures(assumed: &Assumed) -> Vec<String> {
    let options = Options { no_lab: true, ..Options::default() };
    let verified = verify(std::slice::from_ref(&assumed.scenario), &options, &|_| {}).remove(0);
    let verification = verified.result.as_ref().unwrap_or_else(|trouble| panic!("{trouble:?}"));
    verification.failures(&options).map(|failure| format!("{}: {}", failure.what, failure.example.flow)).collect()
}

/// No outside host has an address of a bridge of the node, as Docker's: rules name its network. A wide range may be that of others, too.
#[rstest]
#[case::docker("-s 172.17.0.0/16 ! -o docker0 -j MASQUERADE", true)]
#[case::wide("-s 172.0.0.0/8 ! -o docker0 -j MASQUERADE", false)]
#[case::network_of_the_nodes("-s 172.18.0.0/16 ! -o tun0 -j MASQUERADE", false)]
#[case::interface_of_the_lab("-s 172.17.0.0/16 ! -o eth0 -j MASQUERADE", false)]
#[case::all("-s 172.17.0.0/16 -j MASQUERADE", false)]
fn no_outside_host_is_on_a_bridge_of_the_node(#[case] rule: &str, #[case] expected: bool) {
    let saved = golden("both-policies-local/v1.30-iptables/iptables-save.txt");
    let kubernetes = "-A POSTROUTING -m comment --comment \"kubernetes postrouting rules\"";
    let text = saved.replace(kubernetes, &format!("-A POSTROUTING {rule}\n{kubernetes}"));
    assert_ne!(text, saved);
    let options = Options { no_lab: true, ..Options::default() };
    let verified = verify(&[imported(&text).scenario], &options, &|_| {}).remove(0);
    let verification = verified.result.unwrap_or_else(|trouble| panic!("{trouble:?}"));
    let from_outside = verification.coverage.iter().filter(|row| row.from == "host/outside");
    assert_eq!(from_outside.map(|row| row.disagreeing).sum::<usize>() == 0, expected, "{:?}", verification.coverage);
}

fn saved() -> String {
    std::fs::read_to_string("../rules/tests/golden/small-cluster/v1.30-iptables/iptables-save.txt")
        .expect("a recording")
}

fn listed(form: &str) -> String {
    std::fs::read_to_string(format!("../rules/tests/listings/small-cluster/v1.30-iptables/{form}.txt"))
        .expect("a listing")
}

/// The table `nat` as `iptables -t nat -S` prints it.
fn printed() -> String {
    let saved = saved();
    let nat = saved.split("*nat\n").nth(1).and_then(|rest| rest.split("COMMIT").next()).expect("a table");
    let line = |line: &str| match line.strip_prefix(':').map(|rest| rest.split(' ').collect::<Vec<_>>()) {
        Some(words) if words[1] == "-" => format!("-N {}\n", words[0]),
        Some(words) => format!("-P {} {}\n", words[0], words[1]),
        None => format!("{line}\n"),
    };
    nat.lines().map(line).collect()
}

/// One chain as `iptables -t nat -S CHAIN` prints it.
fn chain_of(name: &str) -> String {
    printed().lines().filter(|line| line.split(' ').nth(1) == Some(name)).map(|line| format!("{line}\n")).collect()
}

fn text_of(form: &str) -> String {
    match form {
        "save" => saved(),
        "save-nat" => saved().split("*nat\n").nth(1).map(|rest| format!("*nat\n{rest}")).expect("a table"),
        "S" => printed(),
        form => listed(form),
    }
}

fn without(text: &str, is_lost: impl Fn(&str) -> bool) -> String {
    let kept = text.lines().filter(|line| !is_lost(line)).map(|line| format!("{line}\n")).collect();
    assert_ne!(text, kept, "a line is lost");
    kept
}

/// Lost rules, identified by what their lines have in common.
const LOST: [&[&str]; 3] = [
    &["DNAT", "10.244.1.30:8080"],
    &["KUBE-SEP-I3QQSNVTBILNVTW5", "shop/backend:http -> 10.244.2.30:8080"],
    &["shop/sessions cluster IP", "KUBE-SVC-", "dpt:6379|--dport 6379 -j KUBE-SVC"],
];

/// Every format shows the same loss as the saved rules, and none if there is none.
#[rstest]
fn what_is_missing_in_a_chain_that_is_shown_is_missing(
    #[values("save-nat", "S", "legacy-ipv4-L-n-v-x", "nft-ipv4-L-n-v-line-numbers", "legacy-ipv4-L-n")] form: &str,
) {
    let text = text_of(form);
    assert_eq!(failures(&imported(&text)), Vec::<String>::new(), "{form}");
    for (lost, expected) in LOST.iter().zip(&*FAILURES_OF_SAVED) {
        assert!(!expected.is_empty(), "{lost:?}");
        assert_eq!(failures_without(&text, lost), *expected, "{form}, {lost:?}");
    }
}

/// The failures without each rule of [`LOST`] in the saved rules. It takes seconds, and every format needs it.
static FAILURES_OF_SAVED: LazyLock<[Vec<String>; 3]> =
    LazyLock::new(|| LOST.map(|lost| failures_without(&saved(), lost)));

/// The failures without a rule's line in a text.
fn failures_without(text: &str, lost: &[&str]) -> Vec<String> {
    let is_lost = |line: &str| {
        lost.iter().all(|words| words.split('|').any(|word| line.contains(word))) && !line.contains("KUBE-MARK-MASQ")
    };
    failures(&imported(&without(text, is_lost)))
}

/// A text that ends within its rules shows no failure, and reports once where it ends.
#[rstest]
fn what_a_cut_explains_is_no_failure(
    #[values(0, 10, 50, 70, 90, 99)] percent: usize,
    #[values(false, true)] is_within: bool,
) {
    let saved = saved();
    let nat = saved.find("*nat\n").expect("a table");
    let (start, length) = (nat + saved[nat..].find("\n-A ").expect("a rule"), saved.len() - nat);
    let near = start + (length - (start - nat) - 20) * percent / 100;
    let end = near + saved[near..].find('\n').expect("lines") + 1;
    let end = if is_within { end + saved[end..].find('\n').expect("a line") * 2 / 3 } else { end };
    let text = &saved[..end];
    let assumed = imported(text);
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{}\n{text}", assumptions(&assumed).join("\n"));
    let lines = text.lines().count();
    let said = assumptions(&assumed)
        .iter()
        .filter(|words| words.contains(&format!("line {lines}")) && words.contains("cut"))
        .count();
    assert_eq!(said, 1, "{lines}: {:#?}", assumptions(&assumed));
    let evidence = evidence::read(text);
    let bad: Vec<String> = lint(&evidence)
        .iter()
        .filter(|one| one.severity <= svclab::lint::Severity::Warning)
        .map(|one| one.message.clone())
        .collect();
    assert_eq!(bad, Vec::<String>::new());
}

/// Where a recording ends, within a rule, a set or a name, explains everything that the text lacks: local endpoints and source ranges that it
/// still names are there.
#[rstest]
fn a_recording_may_end_anywhere(
    #[values(
        "affinity-policies/v1.36-nftables/nft-ruleset.txt",
        "loadbalancer-source-ranges-with-node/v1.30-iptables/iptables-save.txt",
        "loadbalancer-source-ranges-with-node/v1.36-nftables/nft-ruleset.txt",
        "small-cluster/v1.30-iptables/iptables-save.txt",
        "small-cluster/v1.30-nftables/nft-ruleset.txt"
    )]
    recording: &str,
) {
    // No Service is shown by less than a half.
    const CUTS: usize = 17;
    let whole = golden(recording);
    let whole = &whole[..whole.find("table ip6").unwrap_or(whole.len())];
    for cut in CUTS / 2..CUTS {
        let text = &whole[..whole.len() * cut / CUTS];
        assert_eq!(failures(&imported(text)), Vec::<String>::new(), "{recording}, {cut} of {CUTS}");
        assert_eq!(grave(text), Vec::<String>::new(), "{recording}, {cut} of {CUTS}");
    }
}

/// Not everything is explained: what is lost before the end of the text is found.
#[rstest]
fn what_a_text_lacks_before_its_end_is_missing(
    #[values("small-cluster/v1.30-iptables/iptables-save.txt", "small-cluster/v1.30-nftables/nft-ruleset.txt")]
    recording: &str,
) {
    let whole = golden(recording);
    let cut = &whole[..whole.find("table ip6").unwrap_or(whole.len()) * 99 / 100];
    let lost = without(cut, |line| line.contains("10.244.1.20:3000") && !line.contains(" -> "));
    assert_ne!(grave(&lost), Vec::<String>::new(), "{recording}");
    assert_ne!(failures(&imported(&lost)), Vec::<String>::new(), "{recording}");
}

/// Chains that are listed one by one are complete, and the others are as kube-proxy writes them.
#[test]
fn chains_by_themselves_are_whole() {
    let own = chain_of("KUBE-SVC-J7AG6KGDZTGIPWLW");
    assert_eq!(own.lines().count(), 4, "{own}");
    let text = format!("{}\n{own}", chain_of("KUBE-SERVICES"));
    assert_eq!(failures(&imported(&text)), Vec::<String>::new());
    let lost = without(&text, |line| line.contains("KUBE-SEP-3GSBABUHES36ZVAR"));
    assert_eq!(failures(&imported(&lost)), Vec::<String>::new(), "nothing shows that there is another endpoint");
}

const NODES: &str = "\
$ kubectl get nodes -o wide
NAME       STATUS   ROLES           AGE   VERSION   INTERNAL-IP   EXTERNAL-IP   OS-IMAGE   KERNEL-VERSION   CONTAINER-RUNTIME
cp         Ready    control-plane   25h   v1.30.2   172.18.0.2    <none>        Debian     6.1.0            containerd://1.7
worker-1   Ready    <none>          25h   v1.30.2   172.18.0.3    <none>        Debian     6.1.0            containerd://1.7
worker-2   Ready    <none>          25h   v1.30.2   172.18.0.4    <none>        Debian     6.1.0            containerd://1.7
";

/// Nodes listed alongside the rules of one of them are all nodes, and rules that were not pasted do not fail.
#[rstest]
#[case::nothing_says_whose("", "worker-1", true)]
#[case::prompt("root@worker-2:~# iptables-save\n", "worker-2", false)]
#[case::address(
    "$ ip addr\n2: eth0: <UP> mtu 1500\n    inet 172.18.0.2/16 scope global eth0\n$ iptables-save\n",
    "cp",
    false
)]
fn rules_alongside_nodes_are_those_of_one_of_them(#[case] before: &str, #[case] node: &str, #[case] is_guessed: bool) {
    let assumed = imported(&format!("{before}{}\n\n{NODES}", saved()));
    assert_eq!(assumed.nodes, [node]);
    let names: Vec<&str> = assumed.scenario.cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["cp", "worker-1", "worker-2"]);
    assert_eq!(failures(&assumed), Vec::<String>::new());
    let said = assumptions(&assumed).iter().any(|words| words.contains("names another"));
    assert_eq!(said, is_guessed, "{:#?}", assumptions(&assumed));
}

/// Listings of two tables one after the other are two tables, in either order.
#[rstest]
fn listings_of_two_tables_are_two_tables(
    #[values(false, true)] is_filter_first: bool,
    #[values(false, true)] has_command: bool,
) {
    let nat = listed("legacy-ipv4-L-n-v-x");
    let columns = " pkts bytes target     prot opt in     out     source               destination";
    let row = |target: &str, words: &str| {
        format!("    0     0 {target}  all  --  *      *       0.0.0.0/0            0.0.0.0/0            {words}\n")
    };
    let chain = |name: &str, rows: &[String]| {
        format!("Chain {name} (policy ACCEPT 0 packets, 0 bytes)\n{columns}\n{}\n", rows.concat())
    };
    let filter = [
        chain("INPUT", &[row("KUBE-FIREWALL", "")]),
        chain("FORWARD", &[row("KUBE-FORWARD", "/* kubernetes forwarding rules */")]),
        chain(
            "OUTPUT",
            &[row("KUBE-FIREWALL", ""), row("KUBE-SERVICES", "ctstate NEW /* kubernetes service portals */")],
        ),
        chain("KUBE-FIREWALL", &[]).replace("policy ACCEPT 0 packets, 0 bytes", "2 references"),
        chain("KUBE-FORWARD", &[row("DROP", "ctstate INVALID")])
            .replace("policy ACCEPT 0 packets, 0 bytes", "1 references"),
        chain("KUBE-SERVICES", &[]).replace("policy ACCEPT 0 packets, 0 bytes", "1 references"),
    ]
    .concat();
    let (first, second) = if is_filter_first { (&filter, &nat) } else { (&nat, &filter) };
    let command = match (has_command, is_filter_first) {
        (false, _) => "",
        (true, true) => "# iptables -nvxL; iptables -t nat -nvxL\n",
        (true, false) => "# iptables -t nat -nvxL; iptables -nvxL\n",
    };
    let evidence = evidence::read(&format!("{command}{first}\n{second}"));
    let sets = evidence::node_rules(&evidence);
    let rules = sets[0].rules.iptables().expect("iptables");
    let alone = evidence::node_rules(&evidence::read(&nat));
    assert_eq!(rules.rules(TableName::Filter, "KUBE-FORWARD").len(), 1);
    assert_eq!(rules.rules(TableName::Filter, "OUTPUT").len(), 2);
    assert_eq!(rules.table(TableName::Nat), alone[0].rules.iptables().expect("iptables").table(TableName::Nat));
    assert_eq!(failures(&imported(&format!("{command}{first}\n{second}"))), Vec::<String>::new());
}

/// Two dumps of a cluster differ only in the effect of their rules, whatever one of them lacks.
#[test]
fn two_dumps_are_compared_in_one_cluster() {
    let saved = saved();
    let compare = |other: &str| {
        let (one, other) = (evidence::read(&saved), evidence::read(other));
        let both = infer::from_pair([(&one, Path::new("before")), (&other, Path::new("after"))]).expect("rules");
        let [before, after] = both.unwrap_or_else(|errors| panic!("{errors}"));
        let found = diff(&before.scenario, &after.scenario, &diff::Options::default()).expect("a comparison");
        assert_eq!(found.not_compared, Vec::<String>::new());
        found.changes.iter().flat_map(|change| change.services.clone()).collect::<BTreeSet<String>>()
    };
    assert_eq!(compare(&saved), BTreeSet::new());
    let lost = without(&saved, |line| line.contains("--to-destination 10.244.1.30:8080"));
    assert_eq!(compare(&lost), BTreeSet::from(["shop/backend".to_owned()]));
    let gone = without(&saved, |line| line.contains("shop/sessions"));
    assert_eq!(compare(&gone), BTreeSet::from(["shop/sessions".to_owned()]));
}

/// The lines of a text that a shell command passes.
fn filtered(command: &str, text: &str) -> String {
    let mut child = std::process::Command::new("sh")
        .args(["-c", command])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut input = child.stdin.take().expect("its input");
    let text = text.to_owned();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, text.as_bytes()));
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("a writer").expect("all is read");
    String::from_utf8(output.stdout).expect("a text")
}

/// Saved rules from the first line of a table to its last are complete: a property that all of them lack is not excused.
#[rstest]
fn what_a_whole_table_lacks_is_missing(
    #[values("DNAT", "KUBE-SEP-", "MASQ", "POSTROUTING")] lost: &str,
    #[values("v1.21", "v1.30")] release: &str,
) {
    let left =
        without(&golden(&format!("small-cluster/{release}-iptables/iptables-save.txt")), |line| line.contains(lost));
    assert_ne!(failures(&imported(&left)), Vec::<String>::new());
}

/// The name of a chain shows that a service has policy Local, although its rules are after the end of the text.
#[test]
fn a_cut_before_the_chains_of_policy_local_is_no_failure() {
    let saved = golden("small-cluster/v1.21-iptables/iptables-save.txt");
    let end = saved.find("-A KUBE-SVC-").expect("a rule");
    assert!(saved[..end].contains("-j KUBE-XLB-") && !saved[..end].contains("-A KUBE-XLB-"));
    assert_eq!(failures(&imported(&saved[..end])), Vec::<String>::new());
}

fn golden(path: &str) -> String {
    std::fs::read_to_string(format!("../rules/tests/golden/{path}")).expect("a recording")
}

/// Asserts that neither `verify` nor `dump lint` finds a defect in filtered healthy rules.
fn is_sound(filter: &str, command: &str) {
    is_sound_of(&saved(), filter, command);
}

fn is_sound_of(saved: &str, filter: &str, command: &str) {
    let left = filtered(filter, saved);
    let assumed = imported(&format!("{command}{left}"));
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{left}{}", assumptions(&assumed).join("\n"));
    assert_eq!(grave(&format!("{command}{left}")), Vec::<String>::new(), "{left}");
}

/// The findings of `dump lint`, without those of severity information.
fn grave(text: &str) -> Vec<String> {
    let found = lint(&evidence::read(text));
    let grave = found.iter().filter(|one| one.severity <= svclab::lint::Severity::Warning);
    grave.map(|one| format!("{}: {}", one.id, one.message)).collect()
}

/// Binary data is reported, however it is packed.
#[test]
fn a_text_that_is_compressed_twice_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let zipped = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut encoder, bytes).expect("memory");
        encoder.finish().expect("memory")
    };
    let path = folder.path().join("rules.gz");
    std::fs::write(&path, zipped(&zipped(saved().as_bytes()))).expect("a file");
    let error = evidence::from_source(Source::Path(path)).expect_err("an error");
    assert!(error.to_string().contains("compressed twice"), "{error}");
}

/// Rules that contradict each other do not stop an import: one of them counts, and the other is a failure.
#[rstest]
#[case::jump("-A KUBE-SERVICES -d 10.96.0.10/32", "-A KUBE-SERVICES -d 10.96.0.87/32")]
#[case::mark("! -s 10.244.0.0/16 -d 10.96.0.10/32", "! -s 10.244.0.0/16 -d 10.96.0.87/32")]
fn a_cluster_ip_that_differs_is_a_contradiction(#[case] rule: &str, #[case] other: &str) {
    let saved = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    assert!(saved.contains(rule));
    let assumed = imported(&saved.replacen(rule, other, 1));
    let words: Vec<String> = assumed.assumptions.iter().map(ToString::to_string).collect();
    assert!(words.iter().any(|words| words.starts_with("contradiction: rules have")), "{words:#?}");
    assert_ne!(failures(&assumed), Vec::<String>::new());
}

/// Rules of Calico match sets of ipset: a lab has none, so they are left out, and this is said.
#[test]
fn rules_with_sets_of_ipset_are_left_out() {
    let rule = "-A POSTROUTING -m set --match-set cali40masq-ipam-pools src -m set ! --match-set cali40all-ipam-pools dst -j MASQUERADE";
    let saved = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let first = "-A POSTROUTING ";
    let assumed = imported(&saved.replacen(first, &format!("{rule}\n{first}"), 1));
    let words: Vec<String> = assumed.assumptions.iter().map(ToString::to_string).collect();
    let said = "1 rule of node node-1 with sets of ipset (cali40all-ipam-pools, cali40masq-ipam-pools) left out";
    assert!(words.iter().any(|words| words.starts_with(said)), "{words:#?}");
    assert_eq!(failures(&assumed), Vec::<String>::new());
}
