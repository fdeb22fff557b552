//! What texts show whole, and what they leave out: what is missing in a chain that is shown is missing on the node, what a cut may explain is not.

use std::collections::BTreeSet;
use std::path::Path;

use rstest::rstest;
use svclab::diff::{self, diff};
use svclab::evidence;
use svclab::infer::{self, Assumed};
use svclab::lint::lint;
use svclab::verify::{Options, verify};
use svclab_rules::iptables::TableName;

fn imported(text: &str) -> Assumed {
    infer::from_evidence(&evidence::read(text), Path::new("dump"), &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

/// What fails by promise and prediction.
fn failures(assumed: &Assumed) -> Vec<String> {
    let options = Options { no_lab: true, ..Options::default() };
    let verified = verify(std::slice::from_ref(&assumed.scenario), &options, &|_| {}).remove(0);
    let verification = verified.result.as_ref().unwrap_or_else(|trouble| panic!("{trouble:?}"));
    verification.failures(&options).map(|failure| format!("{}: {}", failure.what, failure.example.flow)).collect()
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

/// A rule that is lost, by what its lines have in common.
const LOST: [&[&str]; 3] = [
    &["DNAT", "10.244.1.30:8080"],
    &["KUBE-SEP-I3QQSNVTBILNVTW5", "shop/backend:http -> 10.244.2.30:8080"],
    &["shop/sessions cluster IP", "KUBE-SVC-", "dpt:6379|--dport 6379 -j KUBE-SVC"],
];

/// Every form shows the same loss as the saved rules do, and none where there is none.
#[rstest]
fn what_is_missing_in_a_chain_that_is_shown_is_missing(
    #[values("save-nat", "S", "legacy-ipv4-L-n-v-x", "nft-ipv4-L-n-v-line-numbers", "legacy-ipv4-L-n")] form: &str,
) {
    let text = text_of(form);
    assert_eq!(failures(&imported(&text)), Vec::<String>::new(), "{form}");
    for lost in LOST {
        let is_lost = |line: &str| {
            lost.iter().all(|words| words.split('|').any(|word| line.contains(word)))
                && !line.contains("KUBE-MARK-MASQ")
        };
        let expected = failures(&imported(&without(&text_of("save"), is_lost)));
        let found = failures(&imported(&without(&text, is_lost)));
        assert!(!expected.is_empty(), "{lost:?}");
        assert_eq!(found, expected, "{form}, {lost:?}");
    }
}

/// A text that ends within its rules shows no failure, and says once where it ends.
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
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{}\n{text}", assumed.assumptions.join("\n"));
    let lines = text.lines().count();
    let said = assumed
        .assumptions
        .iter()
        .filter(|words| words.contains(&format!("line {lines}")) && words.contains("cut"))
        .count();
    assert_eq!(said, 1, "{lines}: {:#?}", assumed.assumptions);
    let evidence = evidence::read(text);
    let bad: Vec<String> = lint(&evidence)
        .iter()
        .filter(|one| one.severity <= svclab::lint::Severity::Warning)
        .map(|one| one.message.clone())
        .collect();
    assert_eq!(bad, Vec::<String>::new());
}

/// Chains that are listed one by one are whole, and the others are as kube-proxy writes them.
#[test]
fn chains_by_themselves_are_whole() {
    let own = chain_of("KUBE-SVC-J7AG6KGDZTGIPWLW");
    assert_eq!(own.lines().count(), 4, "{own}");
    let text = format!("{}\n{own}", chain_of("KUBE-SERVICES"));
    assert_eq!(failures(&imported(&text)), Vec::<String>::new());
    let lost = without(&text, |line| line.contains("KUBE-SEP-3GSBABUHES36ZVAR"));
    assert_eq!(failures(&imported(&lost)), Vec::<String>::new(), "nothing shows that there is another endpoint");
}

/// A filter may have taken a rule away, whatever the language.
#[test]
fn what_a_filter_leaves_is_an_excerpt() {
    let rules = "rules/tests/golden/clusterip-three-endpoints/v1.30-nftables/nft-ruleset.txt";
    let saved = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(rules)).expect(rules);
    let is_excerpt = |command: &str| {
        let left = without(&saved, |line| line.contains("fully-random"));
        let assumed = imported(&format!("$ {command}\n{left}"));
        assumed.assumptions.iter().any(|words| words.contains("are an excerpt"))
    };
    assert!(!is_excerpt("nft list ruleset"));
    assert!(is_excerpt("nft list ruleset | grep -v fully-random"));
}

const NODES: &str = "\
$ kubectl get nodes -o wide
NAME       STATUS   ROLES           AGE   VERSION   INTERNAL-IP   EXTERNAL-IP   OS-IMAGE   KERNEL-VERSION   CONTAINER-RUNTIME
cp         Ready    control-plane   25h   v1.30.2   172.18.0.2    <none>        Debian     6.1.0            containerd://1.7
worker-1   Ready    <none>          25h   v1.30.2   172.18.0.3    <none>        Debian     6.1.0            containerd://1.7
worker-2   Ready    <none>          25h   v1.30.2   172.18.0.4    <none>        Debian     6.1.0            containerd://1.7
";

/// Nodes alongside the rules of one of them are the nodes that there are, and what was not pasted does not fail.
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
    let said = assumed.assumptions.iter().any(|words| words.contains("names another"));
    assert_eq!(said, is_guessed, "{:#?}", assumed.assumptions);
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

/// Of two dumps of a cluster only what their rules do differs, whatever one of them lacks.
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

/// The lines of a text that a command of a shell leaves.
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

/// Whatever a filter leaves of healthy rules, nothing fails; with the command that shows it, and without.
#[rstest]
fn what_a_filter_hides_is_no_failure(
    #[values(
        "grep -E 'KUBE-(SVC|SEP)-'",
        "grep 10.244",
        "grep 10.244.0",
        "grep -w tcp",
        "grep statistic",
        "grep -e shop/backend -e ingress/",
        r"grep '10.96.0.1\|10.244'",
        "awk '/shop/'",
        "grep KUBE | grep -v SEP"
    )]
    filter: &str,
    #[values(false, true)] has_command: bool,
) {
    let command = if has_command { format!("$ iptables-save | {filter}\n") } else { String::new() };
    is_sound(filter, &command);
}

/// The same of filters of which only the command says what they hide.
#[rstest]
fn what_a_filter_that_is_shown_hides_is_no_failure(
    #[values("grep 10.244.1", "grep 10.244.2", "grep -v SEP", "grep -v DNAT", "grep -v 10.244.1")] filter: &str,
) {
    is_sound(filter, &format!("$ iptables-save | {filter}\n"));
}

/// What older releases write names no endpoint in the rules of services, and the policy Local in none of its comments.
#[rstest]
fn what_a_filter_hides_of_older_rules_is_no_failure(
    #[values(
        "grep KUBE-SVC",
        "grep -E 'KUBE-(SVC|SEP)'",
        "grep ingress",
        "grep KUBE | grep -v KUBE-SEP",
        "grep KUBE | grep -v DNAT",
        "grep MASQ",
        "grep NODEPORTS",
        "grep DNAT",
        "tail -n 12"
    )]
    filter: &str,
    #[values(false, true)] has_command: bool,
) {
    let saved = golden("small-cluster/v1.21-iptables/iptables-save.txt");
    let command = if has_command { format!("$ iptables-save | {filter}\n") } else { String::new() };
    is_sound_of(&saved, filter, &command);
}

/// Saved rules from the first line of a table to its last are all of them: nothing that all of them lack is excused.
#[rstest]
fn what_a_whole_table_lacks_is_missing(
    #[values("DNAT", "KUBE-SEP-", "MASQ", "POSTROUTING")] lost: &str,
    #[values("v1.21", "v1.30")] release: &str,
) {
    let left =
        without(&golden(&format!("small-cluster/{release}-iptables/iptables-save.txt")), |line| line.contains(lost));
    assert_ne!(failures(&imported(&left)), Vec::<String>::new());
}

/// Without their headings, tables are not shown as the kernel has them, so that a filter took them away.
#[rstest]
fn tables_without_headings_are_filtered(#[values("v1.21", "v1.30")] release: &str) {
    let saved = golden(&format!("small-cluster/{release}-iptables/iptables-save.txt"));
    is_sound_of(&saved, "grep -v '^:'", "");
    let lost = without(&filtered("grep -v '^:'", &saved), |line| line.contains("--to-destination 10.244.1.30:8080"));
    assert_ne!(failures(&imported(&lost)), Vec::<String>::new());
}

/// Rows behind the columns of a chain whose heading was taken away are of no chain that is shown.
#[rstest]
fn rows_without_their_heading_are_of_no_other_chain(
    #[values("-L -n", "-nvxL")] options: &str,
    #[values(false, true)] has_command: bool,
) {
    let rows =
        filtered("grep -v SEP", &listed(if options == "-nvxL" { "legacy-ipv4-L-n-v-x" } else { "legacy-ipv4-L-n" }));
    let command = if has_command { format!("# iptables -t nat {options} | grep -v SEP\n") } else { String::new() };
    let assumed = imported(&format!("{command}{rows}"));
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{rows}{}", assumed.assumptions.join("\n"));
}

/// The name of a chain says that a service has policy Local, although its rules are behind the end of the text.
#[test]
fn a_cut_before_the_chains_of_policy_local_is_no_failure() {
    let saved = golden("small-cluster/v1.21-iptables/iptables-save.txt");
    let end = saved.find("-A KUBE-SVC-").expect("a rule");
    assert!(saved[..end].contains("-j KUBE-XLB-") && !saved[..end].contains("-A KUBE-XLB-"));
    assert_eq!(failures(&imported(&saved[..end])), Vec::<String>::new());
}

fn nft() -> String {
    golden("small-cluster/v1.36-nftables/nft-ruleset.txt")
}

/// What the lines of nft that a filter leaves do not show is no failure.
#[rstest]
fn what_a_filter_of_nft_hides_is_no_failure(
    #[values("grep -v 10.96.0.1", "grep -A 6 'map service-ips'", "head -n 40", "head -n 80")] filter: &str,
) {
    let text = format!("$ nft list ruleset | {filter}\n{}", filtered(filter, &nft()));
    let assumed = imported(&text);
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{}", assumed.assumptions.join("\n"));
    // What is not read is said, and is no defect.
    let bad: Vec<String> = grave(&text).into_iter().filter(|words| !words.starts_with("rules-not-read")).collect();
    assert_eq!(bad, Vec::<String>::new());
}

/// What `nft list chains` prints.
const HEADINGS: &str = "table ip kube-proxy {\n\
    \tchain nat-prerouting {\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t}\n\
    \tchain services {\n\t}\n\
    \tchain service-2QRHZV4L-default/kubernetes/tcp/https {\n\t}\n}\n";

/// One chain or map of nft, printed in its table, is not the whole table; headings alone show no rules.
#[rstest]
#[case::chain("chain services")]
#[case::map("map service-ips")]
#[case::set("set cluster-ips")]
#[case::headings("chains")]
fn a_part_of_a_table_of_nft_is_a_part(#[case] what: &str) {
    let part = |nft: &str| {
        let start = nft.find(&format!("\t{what} {{")).expect("a part");
        let end = start + nft[start..].find("\n\t}\n").expect("its end") + 4;
        format!("table ip kube-proxy {{\n{}}}\n", &nft[start..end])
    };
    let text = if what == "chains" { HEADINGS.to_owned() } else { part(&nft()) };
    assert_eq!(grave(&text), Vec::<String>::new(), "{text}");
    if let Ok(assumed) = infer::from_evidence(&evidence::read(&text), Path::new("dump"), &[]) {
        assert_eq!(failures(&assumed), Vec::<String>::new(), "{text}{}", assumed.assumptions.join("\n"));
    }
}

/// The heading before a row that `grep` picked need not be that of its chain.
#[rstest]
fn picked_rows_are_in_the_chains_that_they_name(
    #[values("grep KUBE-SVC", "grep KUBE-SEP", "grep ingress", "grep KUBE-SERVICES", "grep 10.244.1")] filter: &str,
    #[values(false, true)] has_command: bool,
) {
    let rows = filtered(filter, &listed("legacy-ipv4-L-n-v-x"));
    let command = if has_command { format!("# iptables -t nat -nvxL | {filter}\n") } else { String::new() };
    let text = format!("{command}{rows}");
    let evidence = evidence::read(&text);
    let bad: Vec<String> = grave(&text).into_iter().filter(|words| !words.contains("not read")).collect();
    assert_eq!(bad, Vec::<String>::new(), "{text}");
    // Every row is a rule, or is listed.
    let rows = rows.lines().filter(|line| !line.starts_with("Chain ") && !line.trim().is_empty()).count();
    assert_eq!(
        evidence.rules()
            + evidence.unread.iter().filter(|one| one.text.contains(" -- ") || one.text.contains("KUBE-")).count(),
        rows,
        "{text}"
    );
    if let Ok(assumed) = infer::from_evidence(&evidence, Path::new("dump"), &[]) {
        assert_eq!(failures(&assumed), Vec::<String>::new(), "{text}{}", assumed.assumptions.join("\n"));
    }
}

fn golden(path: &str) -> String {
    std::fs::read_to_string(format!("../rules/tests/golden/{path}")).expect("a recording")
}

/// Asserts that neither `verify` nor `dump lint` finds anything wrong in what a filter leaves of healthy rules.
fn is_sound(filter: &str, command: &str) {
    is_sound_of(&saved(), filter, command);
}

fn is_sound_of(saved: &str, filter: &str, command: &str) {
    let left = filtered(filter, saved);
    let assumed = imported(&format!("{command}{left}"));
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{left}{}", assumed.assumptions.join("\n"));
    assert_eq!(grave(&format!("{command}{left}")), Vec::<String>::new(), "{left}");
}

/// What `dump lint` finds, apart from what is only worth knowing.
fn grave(text: &str) -> Vec<String> {
    let found = lint(&evidence::read(text));
    let grave = found.iter().filter(|one| one.severity <= svclab::lint::Severity::Warning);
    grave.map(|one| format!("{}: {}", one.id, one.message)).collect()
}

/// A rule that the filter would have shown is missing on the node; one that it hides is completed.
#[rstest]
#[case::shown("grep -E 'KUBE-(SVC|SEP)-'", true)]
#[case::of_service("grep shop/backend", true)]
#[case::by_address("grep 10.244", true)]
#[case::all_but_others("grep KUBE | grep -v monitoring", true)]
#[case::hidden("grep KUBE-SVC", false)]
#[case::hidden_by_inversion("grep KUBE | grep -v DNAT", false)]
fn what_a_filter_would_show_is_missing(#[case] filter: &str, #[case] is_found: bool) {
    let lost = without(&saved(), |line| line.contains("--to-destination 10.244.1.30:8080"));
    let text = format!("$ iptables-save | {filter}\n{}", filtered(filter, &lost));
    let assumed = imported(&text);
    assert_eq!(!failures(&assumed).is_empty(), is_found, "{}", assumed.assumptions.join("\n"));
    let names_it = |words: &String| words.contains("the DNAT to endpoint 10.244.1.30:8080 is missing");
    assert_eq!(grave(&text).iter().any(names_it), is_found, "{:#?}", grave(&text));
}

/// Where no rule names the range of pods, one is assumed.
#[test]
fn a_range_of_pods_that_is_not_shown_is_assumed() {
    let left = filtered("grep -E 'KUBE-(SEP|SERVICES)' | grep -v '! -s'", &saved());
    let assumed = imported(&format!("$ iptables-save | grep -E 'KUBE-(SEP|SERVICES)' | grep -v '! -s'\n{left}"));
    assert_eq!(assumed.scenario.cluster.proxy.cluster_cidrs.len(), 1);
    assert!(
        assumed.assumptions.iter().any(|words| words.starts_with("clusterCIDR 10.244.0.0/16, from the pod ranges"))
    );
    assert_eq!(failures(&assumed), Vec::<String>::new());
}

/// A release that the text names decides among those that write the same rules; another one is a contradiction.
#[rstest]
#[case::nodes(&NODES.replace("v1.30.2", "v1.29.3"), "1.29.3", false)]
#[case::sentence("Kubernetes version: v1.28.2", "1.28.2", false)]
#[case::command("$ kubectl version\nClient Version: v1.20.0\nServer Version: v1.27.1\n", "1.27.1", false)]
#[case::other_rules("Server Version: v1.18.2", "1.37", true)]
fn the_release_is_that_which_the_text_names(#[case] text: &str, #[case] version: &str, #[case] contradicts: bool) {
    let assumed = imported(&format!("{}\n\n{text}\n", saved()));
    assert_eq!(assumed.scenario.cluster.proxy.version, version, "{:#?}", assumed.assumptions);
    assert_eq!(assumed.assumptions.iter().any(|words| words.starts_with("contradiction: Kubernetes")), contradicts);
}

/// A rule of nftables that a filter took from the middle of a chain stands there again.
#[test]
fn a_rule_is_completed_in_its_place() {
    let path = "../rules/tests/golden/clusterip-three-endpoints/v1.30-nftables/nft-ruleset.txt";
    let saved = std::fs::read_to_string(path).expect(path);
    let imported_rules = |text: &str| {
        let assumed = imported(text);
        let table = assumed.scenario.rules[0].rules.nftables().expect("nftables").rules.tables[0].clone();
        let chain = table.chains.iter().find(|chain| &*chain.name == "masquerading").expect("a chain").clone();
        chain.rules.iter().map(|rule| rule.statements.len()).collect::<Vec<_>>()
    };
    let start = saved.find("chain masquerading {").expect("a chain");
    let lines: Vec<&str> = saved[start..].lines().take_while(|line| line.trim() != "}").collect();
    let lost = without(&saved, |line| line == lines[1]);
    assert_eq!(imported_rules(&format!("$ nft list ruleset | grep -v xyz\n{lost}")), imported_rules(&saved));
}

/// What is not text is named, whatever it is packed in.
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
    let error = evidence::from_path(&path).expect_err("an error");
    assert!(error.to_string().contains("compressed twice"), "{error}");
}

/// An endpoint that only the chain of policy Local has, while others are ready, is terminating.
#[rstest]
fn an_endpoint_for_policy_local_alone_is_terminating(
    #[values("v1.32-iptables/iptables-save", "v1.30-iptables/iptables-save", "v1.34-nftables/nft-ruleset")] rules: &str,
) {
    let path = format!("../rules/tests/golden/terminating-local/{rules}.txt");
    let assumed = imported(&std::fs::read_to_string(&path).expect("a recording"));
    assert_eq!(failures(&assumed), Vec::<String>::new());
    let endpoints = || assumed.scenario.cluster.slices.iter().flat_map(|slice| &slice.endpoints);
    assert!(endpoints().any(|endpoint| endpoint.terminating && endpoint.serving == Some(true) && !endpoint.ready));
    assert!(endpoints().any(|endpoint| endpoint.ready));
    assert!(assumed.assumptions.iter().any(|words| words.contains("is terminating: only the chain for policy Local")));
}

/// A service's chain alone names it, and what is made up for the service is said and does not fail.
#[rstest]
fn a_service_is_named_by_the_comments_of_its_endpoints(
    #[values("", "$ iptables-save | grep KUBE-SVC\n")] command: &str,
) {
    let rule = "-A KUBE-SVC-U4Z5SFS3OMOF34V4 -m comment --comment \
        \"default/internal-local-node-port:main -> 10.244.1.10:8080\" -j KUBE-SEP-YXTHN57ORYGMADGK\n";
    let assumed = imported(&format!("{command}{rule}"));
    let service = &assumed.scenario.cluster.services[0];
    assert_eq!(service.name.to_string(), "default/internal-local-node-port");
    let said = format!("default/internal-local-node-port (cluster IP {}, port 8080)", service.cluster_ips[0]);
    assert!(assumed.assumptions.iter().any(|words| words.contains(&said)), "{:#?}", assumed.assumptions);
    assert_eq!(failures(&assumed), Vec::<String>::new());
}

/// Where shares of an excerpt cannot be those of more endpoints than are shown, they are a defect.
#[rstest]
#[case::hidden("0.33333333349", false)]
#[case::wrong("0.40000000037", true)]
fn shares_of_hidden_endpoints_are_no_failure(#[case] share: &str, #[case] is_found: bool) {
    let saved = saved().replace(
        "shop/backend:http -> 10.244.1.30:8080\" -m statistic --mode random --probability 0.50000000000",
        &format!("shop/backend:http -> 10.244.1.30:8080\" -m statistic --mode random --probability {share}"),
    );
    let lines = filtered("grep 10.244.1", &saved);
    assert!(lines.contains(share), "{lines}");
    let assumed = imported(&format!("$ iptables-save | grep 10.244.1\n{lines}"));
    assert_eq!(!failures(&assumed).is_empty(), is_found, "{}", assumed.assumptions.join("\n"));
}

/// Of connections that get too little, the example is the one that fails, and its rules are those that it comes through.
#[test]
fn the_example_comes_through_the_chain_that_lacks_a_rule() {
    let lost = without(&saved(), |line| line.contains("--to-destination 10.244.1.30:8080"));
    let options = Options { no_lab: true, ..Options::default() };
    let verified = verify(&[imported(&lost).scenario], &options, &|_| {}).remove(0);
    let verification = verified.result.as_ref().unwrap_or_else(|trouble| panic!("{trouble:?}"));
    let uneven =
        verification.failures(&options).find(|finding| finding.what.contains("do not get the shares")).unwrap();
    let rules = &uneven.example.rules;
    assert!(
        rules.iter().any(|rule| rule.contains("-> 10.244.1.30:8080") && rule.contains("-j KUBE-SEP-")),
        "{rules:#?}"
    );
    let page = svclab::verify::page(&verified, &options, svclab::page::Settings::default());
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words}: {page}"));
    assert!(at("the DNAT to endpoint 10.244.1.30:8080 is missing") < at("for example"), "{page}");
}
