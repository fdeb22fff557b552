//! Which rules, routes and addresses of a dump are whose.

use std::path::Path;
use std::process::Command;

use rstest::rstest;
use svclab::evidence;
use svclab::infer::{self, Connections};
use svclab::scenario::{self, Scenario, Tests};

/// The scenario that `dump import` makes of files in folders, and its messages.
fn imported(files: &[(&str, &str)]) -> (Scenario, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let path = if let [(name, _)] = files { folder.path().join(name) } else { folder.path().to_owned() };
    let arguments = ["dump", "import", "-v", "-o", "-"];
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(arguments).arg(path).output().unwrap();
    let [text, messages] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let nothing = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let scenario = scenario::parse_with(&text, Path::new("x.yaml"), &nothing, Tests::Optional);
    (scenario.unwrap_or_else(|errors| panic!("{errors}\n{messages}")), messages)
}

fn nodes(scenario: &Scenario) -> Vec<String> {
    let all = scenario.cluster.nodes.iter();
    all.map(|node| format!("{} {:?} {:?}", node.name, node.internal_ips, node.pod_cidrs)).collect()
}

/// Rules for a service with these endpoints, as iptables-save prints them of a grep.
fn rules(endpoints: &[&str]) -> String {
    let text = r#"-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "kube-system/kube-dns:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU
-A KUBE-SVC-TCOU7JCQXEZGVUNU ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p udp -m comment --comment "kube-system/kube-dns:dns cluster IP" -m udp --dport 53 -j KUBE-MARK-MASQ
"#;
    let mut text = text.to_owned();
    for (at, endpoint) in endpoints.iter().enumerate() {
        let (chain, ip) = endpoint.split_once(' ').unwrap();
        let share = match endpoints.len() - at {
            1 => String::new(),
            rest => format!(
                "-m statistic --mode random --probability {:.11} ",
                1.0 / f64::from(u8::try_from(rest).unwrap())
            ),
        };
        text += &format!(
            "-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment \"kube-system/kube-dns:dns -> {ip}:53\" {share}-j KUBE-SEP-{chain}\n\
             -A KUBE-SEP-{chain} -s {ip}/32 -m comment --comment \"kube-system/kube-dns:dns\" -j KUBE-MARK-MASQ\n\
             -A KUBE-SEP-{chain} -p udp -m comment --comment \"kube-system/kube-dns:dns\" -m udp -j DNAT --to-destination {ip}:53\n"
        );
    }
    text
}

const ON_CONTROL_PLANE: &str = "6E7XQMQ4RAYOWTTM 10.244.0.3";
const ON_W2: &str = "NWYX6ZRA4HKJWFJ6 10.244.1.9";
const ON_W1: &str = "PBFVJUGNX7I4VSY2 10.244.2.5";

const ROUTES: &str = "root@w1:~# ip route
default via 172.18.0.1 dev eth0
10.244.0.0/24 via 172.18.0.4 dev eth0
10.244.1.0/24 via 172.18.0.3 dev eth0
10.244.2.2 dev veth6e2a1c3d scope host
172.18.0.0/16 dev eth0 proto kernel scope link src 172.18.0.2
";

const NODES: &str = "root@w1:~# kubectl get nodes -o wide
NAME   STATUS   ROLES           AGE   VERSION   INTERNAL-IP   EXTERNAL-IP   OS-IMAGE     KERNEL-VERSION      CONTAINER-RUNTIME
cp     Ready    control-plane   12d   v1.27.3   172.18.0.4    <none>        Debian 11    5.15.0-88-generic   containerd://1.7.1
w1     Ready    <none>          12d   v1.27.3   172.18.0.2    <none>        Debian 11    5.15.0-88-generic   containerd://1.7.1
w2     Ready    <none>          12d   v1.27.3   172.18.0.3    <none>        Debian 11    5.15.0-88-generic   containerd://1.7.1
";

/// Nodes have the ranges that routes via their addresses show, with a table of nodes and without.
#[rstest]
#[case::of_the_control_plane(&[ON_CONTROL_PLANE])]
#[case::of_workers(&[ON_W2, ON_W1])]
#[case::of_another_worker(&[ON_W2])]
fn routes_and_tables_show_the_same_nodes(#[case] endpoints: &[&str]) {
    let text = format!("root@w1:~# iptables-save -t nat | grep kube-dns:dns\n{}{ROUTES}", rules(endpoints));
    let (scenario, said) = imported(&[("issue.md", &format!("{text}{NODES}"))]);
    let expected =
        ["cp [172.18.0.4] [10.244.0.0/24]", "w1 [172.18.0.2] [10.244.2.0/24]", "w2 [172.18.0.3] [10.244.1.0/24]"];
    assert_eq!(nodes(&scenario), expected, "{said}");
    let (scenario, said) = imported(&[("issue.md", &text)]);
    // Without the table, the other nodes have no names.
    let unnamed = |all: Vec<String>| {
        let mut all: Vec<String> = all.iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
        all.sort();
        all
    };
    assert_eq!(unnamed(nodes(&scenario)), unnamed(expected.map(str::to_owned).to_vec()), "{said}");
}

fn addresses(number: u8, range: u8) -> String {
    format!(
        "3: eth0: <UP> mtu 1500\n    inet 172.18.0.{number}/16 scope global eth0\n\
         4: cni0: <UP> mtu 1500\n    inet 10.244.{range}.1/24 scope global cni0\n"
    )
}

/// The files of a collected node, of which the addresses and routes are in files of their own.
#[test]
fn routes_of_collected_nodes_show_their_pods() {
    let text = rules(&["LLLLLLLLLLLLLLLL 10.244.0.3"]);
    let saved = format!("*nat\n{text}COMMIT\n");
    let of_link = |range: u8, number: u8| {
        format!(
            "10.244.{range}.0/24 dev cni0 proto kernel scope link src 10.244.{range}.1\n\
             172.18.0.0/16 dev eth0 proto kernel scope link src 172.18.0.{number}\n\
             fe80::/64 dev cni0 proto kernel metric 256 pref medium\n"
        )
    };
    let [first, second] = [
        format!("{}10.244.7.0/24 via 172.18.0.3 dev eth0\n", of_link(0, 2)),
        format!("{}10.244.0.0/24 via 172.18.0.2 dev eth0\n", of_link(7, 3)),
    ];
    let (own, other) = (addresses(2, 0), addresses(3, 7));
    let files = [
        ("w3/iptables-nft.txt", &*saved),
        ("w3/ip-addr.txt", &own),
        ("w3/ip-route.txt", &first),
        ("w4/iptables-nft.txt", &saved),
        ("w4/ip-addr.txt", &other),
        ("w4/ip-route.txt", &second),
    ];
    let expected = ["w3 [172.18.0.2] [10.244.0.0/24]", "w4 [172.18.0.3] [10.244.7.0/24]"];
    let (scenario, said) = imported(&files);
    assert_eq!(nodes(&scenario), expected, "{said}");
    assert!(!said.contains("cannot express"), "{said}");
    // That of one node shows the other, which has no name then.
    let (scenario, said) = imported(&files[..3]);
    assert_eq!(nodes(&scenario), [expected[0], "node-2 [172.18.0.3] [10.244.7.0/24]"], "{said}");
}

#[rstest]
#[case::uname(&[("rules.txt", ""), ("about.txt", "Linux worker-3 6.1.0-18-amd64 #1 SMP x86_64 GNU/Linux\n")])]
#[case::folder(&[("worker-3/rules.txt", ""), ("worker-3/other.txt", "nothing\n")])]
#[case::container(&[("issue.md", "$ docker exec worker-3 iptables-save\n")])]
fn the_node_of_a_dump_is_named(#[case] files: &[(&str, &str)]) {
    let rules = rules(&[ON_W1]);
    let texts: Vec<String> = files
        .iter()
        .enumerate()
        .map(|(at, (_, text))| if at == 0 { format!("{text}{rules}") } else { (*text).to_owned() })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().zip(&texts).map(|((name, _), text)| (*name, &**text)).collect();
    let (scenario, said) = imported(&files);
    assert_eq!(scenario.rules.len(), 1, "{said}");
    assert!(nodes(&scenario)[0].starts_with("worker-3 "), "{said}");
}

/// Listings of two nodes are two, if headings say so, or if one prints a chain with other rules than the other.
#[rstest]
#[case::headings(format!("On the control plane:\n```\n{}```\nOn the worker:\n```\n{}```\n", rules(&[ON_W2, ON_W1]), rules(&[ON_W2])), &["control-plane", "worker"])]
#[case::shares(format!("Before:\n```\n{}```\nAfter:\n```\n{}```\n", rules(&[ON_W2, ON_W1]), rules(&[ON_W2])), &["node-1", "node-2"])]
#[case::chains(format!("## for control plane\n{0}### for node01\n{0}", CHAINS).replacen("192.168.0.1 ", "192.168.0.2 ", 1), &["control-plane", "node01"])]
#[case::fences(format!("**w-1**\n```\n{}```\n**worker-2**\n```\n{}```\n", rules(&[ON_W2, ON_W1]), rules(&[ON_W2])), &["node-1", "worker-2"])]
#[case::hosts(format!("On ip-10-0-1-5.ec2.internal:\n```\n{}```\nOn ip-10-0-1-6:\n```\n{}```\n", rules(&[ON_W2, ON_W1]), rules(&[ON_W2])), &["ip-10-0-1-5.ec2.internal", "ip-10-0-1-6"])]
#[case::ansible(format!("w1 | CHANGED | rc=0 >>\n{}w2 | CHANGED | rc=0 >>\n{}", rules(&[ON_W2, ON_W1]), rules(&[ON_W2])), &["w1", "w2"])]
#[case::same(format!("On the control plane:\n```\n{0}```\nOn the worker:\n```\n{0}```\n", rules(&[ON_W2, ON_W1])), &["node-1"])]
fn listings_of_two_nodes_are_two(#[case] text: String, #[case] expected: &[&str]) {
    let assumed = infer::from_evidence(&evidence::read(&text), Path::new("dump"), &[], Connections::LeftOut);
    let assumed = assumed.unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(assumed.nodes, expected, "{:?}", assumed.assumptions);
}

/// A chain as nft prints it of iptables' tables.
const CHAINS: &str = "chain KUBE-SERVICES {
\t\tmeta l4proto tcp ip daddr 10.96.0.1  tcp dport 443 counter packets 0 bytes 0 jump KUBE-SVC-NPX46M4PTMTKRN6Y
\t\tip daddr 192.168.0.1  counter packets 77 bytes 4824 jump KUBE-NODEPORTS
\t}

";

/// An endpoint that objects show is not one that is made up, and no node is named that is not there.
#[test]
fn made_up_endpoints_are_not_those_of_objects() {
    let pods = "$ kubectl get pods -o wide
NAME    READY   STATUS    RESTARTS   AGE   IP            NODE
web-1   1/1     Running   0          3h    10.244.0.10   pi
web-2   1/1     Running   0          3h    10.244.0.11   pi
";
    let text = format!("{pods}root@pi:~# iptables-save | grep KUBE-SERVICES\n{}", rules(&[]));
    let (scenario, said) = imported(&[("issue.md", &text)]);
    assert!(!said.contains("endpoint 10.244.0.10 ") && !said.contains("endpoint 10.244.0.11 "), "{said}");
    let names: Vec<&str> = scenario.cluster.nodes.iter().map(|node| node.name.as_str()).collect();
    for words in said.split("endpoint ").skip(1).filter_map(|words| words.split_once(" on ")) {
        assert!(names.iter().any(|name| words.1.starts_with(name)), "{said}");
    }
}

/// What a machine prints a second time, with other rules, is of another time.
#[test]
fn a_second_listing_of_a_machine_is_left_out() {
    let prompt = "root@w1:~# iptables-save | grep kube-dns\n";
    let text = format!("{prompt}{}{prompt}{}", rules(&[ON_W2, ON_W1]), rules(&[ON_W2]));
    let (scenario, said) = imported(&[("issue.md", &text)]);
    assert_eq!(scenario.rules.len(), 1, "{said}");
    assert!(said.contains("are of the machine w1 like those from line 2"), "{said}");
}

/// A listing of iptables -L of these tables, and saved tables, of which filter lacks a jump and drops.
const FORWARD_DROP: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n";

/// Files of a folder complete each other: tables of their own, and the same table in another format.
#[rstest]
#[case::tables("w7/nat.txt", "w7/filter.txt", "w7")]
#[case::named("dumps/w8-nat.txt", "dumps/w8-filter.txt", "dumps")]
#[case::rancher("w9-2024-03-01/networking/iptablesnat", "w9-2024-03-01/networking/iptablesfilter", "w9")]
#[case::sosreport(
    "sos_commands/firewall_tables/iptables_-t_nat_-nvL",
    "sos_commands/firewall_tables/iptables_-t_filter_-nvL",
    "node-1"
)]
fn files_of_a_machine_are_one_rule_set(#[case] nat: &str, #[case] filter: &str, #[case] expected: &str) {
    let saved = format!("*nat\n{}COMMIT\n", rules(&[ON_W1]));
    let (scenario, said) = imported(&[(nat, &saved), (filter, FORWARD_DROP)]);
    assert_eq!(scenario.rules.len(), 1, "{said}");
    assert!(nodes(&scenario)[0].starts_with(&format!("{expected} ")), "{said}");
    let installed = scenario.rules[0].rules.print();
    assert!(installed.contains(":FORWARD DROP"), "{installed}");
}

/// Files of two machines in a folder, each of whose tables are in files of their own.
#[test]
fn names_of_files_tell_machines_apart() {
    let texts = [ON_W2, ON_W1].map(|endpoint| format!("*nat\n{}COMMIT\n", rules(&[endpoint])));
    let files = [
        ("w8-nat.txt", &*texts[0]),
        ("w8-filter.txt", FORWARD_DROP),
        ("w9-nat.txt", &texts[1]),
        ("w9-filter.txt", FORWARD_DROP),
    ];
    let (scenario, said) = imported(&files);
    let own: Vec<String> = scenario.rules.iter().map(|own| own.rules.print()).collect();
    assert!(own.len() == 2 && own.iter().all(|own| own.contains(":FORWARD DROP")), "{own:?}\n{said}");
    assert_eq!(nodes(&scenario).iter().map(|node| &node[..3]).collect::<Vec<_>>(), ["w8 ", "w9 "], "{said}");
}

/// A table that a collector has both saved and listed is one, and names no node.
#[rstest]
#[case::tables("w1/iptables-save.txt", "w1/iptables-nat.txt", LISTED, &[("w1/about.txt", "")])]
#[case::one_chain("w1/iptables-save.txt", "w1/iptables-nat.txt", LISTED.split("\n\n").next().unwrap(), &[("w1/about.txt", "")])]
#[case::hostname("networking/iptablessave", "networking/iptablesnat", LISTED, &[("systeminfo/hostname", "w1.example.com\n")])]
#[case::rancher("networking/iptablessave", "networking/iptablesnat", LISTED, OF_RANCHER)]
fn two_listings_of_a_table_are_one(
    #[case] saved: &str,
    #[case] listed: &str,
    #[case] listing: &str,
    #[case] others: &[(&str, &str)],
) {
    let text = format!("*nat\n{}COMMIT\n", rules(&[ON_W1]));
    let mut files = vec![(saved, text.as_str()), (listed, listing)];
    files.extend(others);
    let (scenario, said) = imported(&files);
    assert_eq!(scenario.rules.len(), 1, "{said}");
    assert!(nodes(&scenario)[0].starts_with("w1"), "{said}");
    assert!(said.contains(&format!("the rules in {listed} repeat those in {saved}")), "{said}");
    assert!(!said.contains("effect is unknown") && !said.contains("different times"), "{said}");
}

/// The files of Rancher's collector that name the machine.
const OF_RANCHER: &[(&str, &str)] = &[
    ("systeminfo/hostname", "w1\n"),
    ("systeminfo/hostnamefqdn", "w1.example.com\n"),
    ("systeminfo/uname", "Linux w1 6.1.0-18-amd64 #1 SMP x86_64 GNU/Linux\n"),
];

/// A table that is saved and listed at different times counts once, and the listing's other tables count, too.
#[test]
fn a_listing_of_another_time_is_left_out() {
    let saved = format!("*nat\n{}COMMIT\n", rules(&[ON_W2, ON_W1]));
    let listing =
        format!("{LISTED}\nChain FORWARD (policy DROP)\ntarget     prot opt source               destination\n");
    let files = [("w1/iptables-save.txt", &*saved), ("w1/iptables-list.txt", &listing), ("w1/about.txt", "")];
    let (scenario, said) = imported(&files);
    assert_eq!(scenario.rules.len(), 1, "{said}");
    assert!(said.contains("w1/iptables-save.txt: the files are of the same node, saved at different times"), "{said}");
    assert!(scenario.rules[0].rules.print().contains(ON_W2.split_once(' ').unwrap().0), "{said}");
}

/// Tables in files of their own are one rule set for `dump lint` and `rules --diff`, too, and findings are at lines of their file.
#[test]
fn tables_in_files_of_their_own_are_judged_together() {
    let text =
        std::fs::read_to_string("../rules/tests/golden/nodeport-local/v1.30-iptables/iptables-save.txt").unwrap();
    let drop = "-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"default/web:http has no local endpoints\" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DROP\n";
    let kept = text.lines().filter(|line| !line.contains("KUBE-SVL-")).map(|line| format!("{line}\n"));
    let text = kept.collect::<String>().replacen("-A KUBE-FIREWALL", &format!("{drop}-A KUBE-FIREWALL"), 1);
    let folder = tempfile::tempdir().unwrap();
    for table in ["nat", "filter"] {
        let start = text.find(&format!("*{table}\n")).unwrap();
        let (own, _) = text[start..].split_once("COMMIT\n").unwrap();
        std::fs::write(folder.path().join(format!("{table}.txt")), format!("{own}COMMIT\n")).unwrap();
    }
    let pods = "$ kubectl get pods -o wide\n\
                NAME   READY   STATUS    RESTARTS   AGE   IP            NODE     NOMINATED NODE   READINESS GATES\n\
                web    1/1     Running   0          21d   10.244.1.10   node-1   <none>           <none>\n\
                api    1/1     Running   0          21d   10.244.1.11   node-1   <none>           <none>\n";
    std::fs::write(folder.path().join("pods.txt"), pods).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_svclab")).args(["dump", "lint"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let filter = std::fs::read_to_string(folder.path().join("filter.txt")).unwrap();
    let line = filter.lines().position(|line| drop.contains(line)).unwrap() + 1;
    let expected = format!("filter.txt:{line}: error: default/web:http has traffic policy Local");
    assert!(said.contains(&expected) && said.contains("(no-local-endpoints)"), "{said}");
    assert!(!said.contains("local-drop"), "{said}");
}

/// The same rules as iptables -L prints them.
const LISTED: &str = r#"Chain KUBE-SEP-PBFVJUGNX7I4VSY2 (1 references)
target     prot opt source               destination
KUBE-MARK-MASQ  all  --  10.244.2.5           0.0.0.0/0            /* kube-system/kube-dns:dns */
DNAT       udp  --  0.0.0.0/0            0.0.0.0/0            /* kube-system/kube-dns:dns */ udp to:10.244.2.5:53

Chain KUBE-SERVICES (2 references)
target     prot opt source               destination
KUBE-SVC-TCOU7JCQXEZGVUNU  udp  --  0.0.0.0/0            10.96.0.10           /* kube-system/kube-dns:dns cluster IP */ udp dpt:53

Chain KUBE-SVC-TCOU7JCQXEZGVUNU (1 references)
target     prot opt source               destination
KUBE-MARK-MASQ  udp  -- !10.244.0.0/16        10.96.0.10           /* kube-system/kube-dns:dns cluster IP */ udp dpt:53
KUBE-SEP-PBFVJUGNX7I4VSY2  all  --  0.0.0.0/0            0.0.0.0/0            /* kube-system/kube-dns:dns -> 10.244.2.5:53 */
"#;

/// flannel's rule says which pods the node has, wherever its endpoints are.
#[rstest]
#[case("-A POSTROUTING ! -s 10.244.0.0/16 -d 10.244.2.0/24 -j RETURN\n", "[10.244.2.0/24]")]
#[case(
    "-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.7.0/24 -m comment --comment \"flanneld masq\" -j RETURN\n",
    "[10.244.7.0/24]"
)]
#[case("", "[10.244.1.0/24]")]
fn flannel_shows_the_pods_of_the_node(#[case] rule: &str, #[case] expected: &str) {
    let text = format!("*nat\n{}{rule}COMMIT\n", rules(&[ON_W2, ON_W1]));
    let (scenario, said) = imported(&[("rules.txt", &text)]);
    assert!(nodes(&scenario)[0].ends_with(expected), "{:?}\n{said}", nodes(&scenario));
}

/// Nodes among objects have the ranges that routes of one of them show, and endpoints are on these nodes.
#[rstest]
#[case::prompt("root@node-a:~# ip route\n")]
#[case::addresses("$ ip route\n")]
fn routes_of_a_named_node_show_its_pods(#[case] prompt: &str) {
    let text = format!(
        "{prompt}default via 192.168.1.1 dev eth0 proto dhcp metric 100
10.42.0.0/24 via 10.42.0.0 dev flannel.1 onlink
10.42.1.0/24 dev cni0 proto kernel scope link src 10.42.1.1
192.168.1.0/24 dev eth0 proto kernel scope link src 192.168.1.21
$ kubectl get svc,endpoints web
NAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE
service/web   ClusterIP   10.43.0.20   <none>        80/TCP    97d

NAME            ENDPOINTS                     AGE
endpoints/web   10.42.0.7:80,10.42.1.4:80     97d
$ kubectl get nodes -o wide
NAME     STATUS   ROLES                  AGE   VERSION   INTERNAL-IP
node-a   Ready    <none>                 97d   v1.24.6   192.168.1.21
node-b   Ready    control-plane,master   97d   v1.24.6   192.168.1.20
"
    );
    let (scenario, said) = imported(&[("issue.md", &text)]);
    let expected = ["node-a [192.168.1.21] [10.42.1.0/24]", "node-b [192.168.1.20] [10.42.0.0/24]"];
    assert_eq!(nodes(&scenario), expected, "{said}");
}

/// A finding in a text with the rules of two machines names its own.
#[test]
fn findings_name_the_machine() {
    let rules = |name: &str, share: &str| {
        let saved = rules(&[ON_W2, ON_W1]).replace("0.50000000000", share);
        format!("root@{name}:~# iptables-save | grep kube-dns\n{saved}")
    };
    let text = rules("w1", "0.50000000000") + &rules("w2", "0.30000000000");
    let found = svclab::lint::lint(&evidence::read(&text));
    let grave: Vec<&str> = found
        .iter()
        .filter(|finding| finding.severity == svclab::lint::Severity::Error)
        .map(|finding| &*finding.message)
        .collect();
    assert!(!grave.is_empty() && grave.iter().all(|message| message.ends_with(" (on w2)")), "{found:#?}");
}
