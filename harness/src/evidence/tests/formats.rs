//! Formats other than nft's and those of objects, and what is between them.

use rstest::rstest;

use super::super::repairs::Repair;
use super::super::*;
use super::{SAVED, codes, unaccounted};

#[rstest]
#[case::conntrack(
    "udp      17 29 src=10.244.1.3 dst=10.96.0.10 sport=40000 dport=53 [UNREPLIED] src=10.244.2.2 dst=10.244.1.3 sport=53 dport=40000 mark=0 use=1\ntcp      6 431999 ESTABLISHED src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1 [ASSURED] mark=0 use=1\n",
    "conntrack",
    2
)]
#[case::addresses(
    "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000\n    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n    inet 127.0.0.1/8 scope host lo\n       valid_lft forever preferred_lft forever\n2: eth0@if5: <BROADCAST> mtu 1500\n    inet 172.18.0.2/16 scope global eth0\n",
    "ip-addr",
    2
)]
#[case::routes(
    "default via 172.18.0.1 dev eth0\n10.244.1.0/24 via 172.18.0.3 dev eth0\n10.244.0.2 dev veth1 scope host\n",
    "ip-route",
    3
)]
#[case::rules("0:\tfrom all lookup local\n32766:\tfrom all lookup main\n", "ip-rule", 2)]
#[case::sets(
    "create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536\nadd KUBE-CLUSTER-IP 10.96.0.1,tcp:443\n",
    "ipset-save",
    1
)]
#[case::packets(
    "12:00:00.000001 IP 10.244.1.3.37328 > 10.244.2.2.80: Flags [S], seq 1, win 64240, length 0\n10.244.2.2.80 > 10.244.1.3.37328: Flags [S.], cksum 0x191b (incorrect -> 0x8a59), seq 1, length 0\n",
    "tcpdump",
    2
)]
#[case::log(
    "I0614 12:34:56.789012       1 server_others.go:206] \"Using iptables Proxier\"\nE0614 12:34:57.789012       1 proxier.go:1234] \"Failed\" err=\"x\"\n",
    "kube-proxy-log",
    2
)]
#[case::kubelet_log(
    "Jun 22 20:47:17 marvin kubelet[13993]: I0622 20:47:17.042987   13993 iptables.go:432] running iptables -N [KUBE-MARK-DROP -t nat]\nJun 22 20:47:18 marvin kubelet[13993]: I0622 20:47:18.042987   13993 iptables.go:432] running iptables -N [KUBE-FIREWALL -t filter]\n",
    "log",
    2
)]
#[case::k3s_log(
    "Jun 22 20:47:17 marvin k3s[139]: I0622 20:47:17.042987   139 server_others.go:206] \"Using iptables Proxier\"\n",
    "kube-proxy-log",
    1
)]
#[case::settings("net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 0\n", "sysctl", 2)]
fn other_output_is_recognised(#[case] text: &str, #[case] format: &str, #[case] entries: usize) {
    let evidence = read(text);
    assert_eq!(evidence.unread, []);
    assert_eq!(codes(&evidence), [format], "{:#?}", evidence.pieces);
    assert_eq!(evidence.pieces[0].contents.entries(), entries);
    assert_eq!(unaccounted(text, &evidence), Vec::<usize>::new());
}

#[rstest]
#[case::heading(
    "Chain KUBE-SERVICES (2 references)\ntarget     prot opt source               destination\nKUBE-SVC-2CMXP7HKUVJN7L6M  tcp  --  anywhere             10.96.34.82         /* default/nginx cluster IP */ tcp dpt:80\n",
    1
)]
#[case::grepped(
    "KUBE-SVC-2CMXP7HKUVJN7L6M  tcp  --  anywhere             10.96.34.82         /* default/nginx cluster IP */ tcp dpt:80\n",
    1
)]
#[case::wrapped(
    "Chain KUBE-SERVICES (2 references)\ntarget     prot opt source               destination\nKUBE-SVC-2CMXP7HKUVJN7L6M  tcp  --  anywhere   10.96.34.82         /* default/nginx\ncluster IP */ tcp dpt:80\n",
    1
)]
fn listings_are_read(#[case] text: &str, #[case] rules: usize) {
    let evidence = read(text);
    assert_eq!(evidence.unread, []);
    assert_eq!((codes(&evidence), evidence.rules()), (vec!["iptables-L"], rules), "{:#?}", evidence.pieces);
}

/// A value of several lines in a log belongs to its line.
#[test]
fn a_log_with_a_value_of_several_lines_is_one_piece() {
    let text = "E0312 08:12:01.104415       1 proxier.go:1561] \"Failed to execute iptables-restore\" err=<
\texit status 4: Another app is currently holding the xtables lock
 >
I0312 08:12:01.104450       1 proxier.go:858] \"Sync failed\" retryingTime=\"30s\"
";
    let evidence = read(text);
    assert_eq!((codes(&evidence), evidence.pieces[0].contents.entries()), (vec!["kube-proxy-log"], 2));
    assert_eq!((evidence.unread.len(), unaccounted(text, &evidence)), (0, Vec::new()));
}

#[test]
fn a_line_that_is_no_rule_is_listed() {
    let text = SAVED.replace("-A KUBE-SVC", "xyzzy 17\n-A KUBE-SVC");
    let evidence = read(&text);
    assert_eq!(
        evidence.unread.iter().map(|unread| (unread.line, unread.text.as_str())).collect::<Vec<_>>(),
        [(9, "xyzzy 17")]
    );
    assert_eq!(evidence.rules(), 4);
}

#[test]
fn a_cut_line_is_listed_and_the_rest_is_read() {
    let text = SAVED.split("--to-destination").next().unwrap();
    let evidence = read(text);
    assert_eq!((evidence.rules(), evidence.unread.len(), evidence.unread[0].line), (3, 1, 10));
    assert!(evidence.pieces[0].repairs.iter().any(|mending| mending.how == Repair::Cut));
}

#[test]
fn noise_is_accounted_for() {
    let text: String =
        (0_u32..400).map(|n| format!("{:x} {{[ -A \"{} x: y\n", n.wrapping_mul(2_654_435_761), n * 7)).collect();
    let evidence = read(&text);
    assert_eq!(unaccounted(&text, &evidence), Vec::<usize>::new());
}

/// The end of a table alone is not a rule set of a node beside the one that is shown.
#[test]
fn a_piece_without_a_table_is_no_rule_set() {
    let evidence = read("COMMIT\nchain t {\n\ty2:");
    assert_eq!(evidence.pieces.len(), 2);
    assert_eq!(node_rules(&evidence).iter().map(|node| node.format).collect::<Vec<_>>(), [Format::Nft]);
}

/// A rule that code quotes in a comment is read; the sentences around it stay comments.
#[test]
fn a_rule_in_a_comment_of_code_is_read_alone() {
    let text = "// -A KUBE-SEP-HUXRPHBUO34UVPEF -s 10.244.2.2/32 -j KUBE-MARK-MASQ\n// DNAT to final destination.\n";
    let evidence = read(text);
    assert_eq!((evidence.rules(), evidence.unread.len()), (1, 0), "{evidence:?}");
}

/// A `grep` for the names of many chains is a long line, and still a command.
#[test]
fn a_long_pattern_is_a_command() {
    let names: Vec<String> = (0..60).map(|at| format!("KUBE-SVC-{at:016}")).collect();
    let text =
        format!("root@node-1:~# iptables-save | grep -E '{}'\n{}", names.join("|"), SAVED.lines().nth(8).unwrap());
    let evidence = read(&text);
    assert!(evidence.pieces[0].command.as_ref().is_some_and(|command| command.len() > 1000));
    assert_eq!(evidence.pieces[0].host.as_deref(), Some("node-1"));
}

/// Where it is not known what a program leaves out, that is said with the line of its command.
#[rstest]
#[case::invalid("grep -E 'KUBE-(SVC'", "`grep` has a pattern that is not a valid regular expression")]
#[case::other("perl -ne print", "it is not known which lines `perl` shows")]
fn what_an_unknown_filter_hides_is_said(#[case] filter: &str, #[case] why: &str) {
    let evidence = read(&format!("$ iptables-save | {filter}\n{SAVED}"));
    let said: Vec<(usize, &str)> = evidence.unread.iter().map(|unread| (unread.line, unread.reason.as_str())).collect();
    assert_eq!(said, [(1, format!("this command may hide any rule: {why}").as_str())]);
    assert_eq!(read(&format!("$ iptables-save | grep KUBE\n{SAVED}")).unread, []);
    assert_eq!(read(&format!("$ kubectl get pods | {filter}\nNo resources found\n")).unread, []);
}

/// A prompt in brackets is not a counter before a rule.
#[test]
fn a_prompt_with_options_of_grep_is_no_rule() {
    let evidence = read(&format!("[root@node-1 ~]# iptables-save | grep -A 5 nginx\n{SAVED}"));
    assert_eq!(evidence.unread, []);
    assert_eq!(evidence.rules(), 4);
}

/// Who leaves lines out keeps the others whole: the last rule before them is not cut off.
#[test]
fn a_rule_before_omitted_lines_is_whole() {
    let text = "*nat\n...\n-A POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n...\n\nImportant: read this.\n";
    let evidence = read(text);
    assert_eq!((codes(&evidence), evidence.unread.len()), (vec!["iptables-save"], 0), "{:?}", evidence.unread);
    let cut = read(&text.replace("...\n\nImportant: read this.\n", ""));
    assert_eq!(cut.unread.iter().map(|unread| unread.reason.as_str()).collect::<Vec<_>>(), ["the rule is cut off"]);
}

/// `kubectl get` prints no rules, and a prompt without a command is no row of a table.
#[test]
fn a_listing_is_not_printed_by_the_command_of_the_table_before_it() {
    let text = "root@n1:~# kubectl get svc\nNAME   TYPE        CLUSTER-IP    EXTERNAL-IP   PORT(S)   AGE\n\
                web    ClusterIP   10.96.34.82   <none>        80/TCP    3h\nroot@n1:~#\n\n==========\n\n\
                Chain KUBE-MARK-MASQ (85 references)\n pkts bytes target     prot opt in     out     source               destination\n\
                \x20   0     0 MARK       all  --  *      *       0.0.0.0/0            0.0.0.0/0            MARK or 0x4000\n";
    let evidence = read(text);
    let commands: Vec<_> = evidence.pieces.iter().map(|piece| (piece.last, piece.command.as_deref())).collect();
    assert_eq!(commands, [(3, Some("kubectl get svc")), (10, None)], "{:#?}", evidence.unread);
}

/// A rule of which a part is left out is not where the text ends.
#[test]
fn a_shortened_rule_is_not_a_cut() {
    let rule = "-A KUBE-POSTROUTING ... -j MASQUERADE --random-fully";
    let rules: String = SAVED.lines().filter(|line| line.starts_with("-A ")).map(|line| format!("{line}\n")).collect();
    let evidence = read(&format!("$ iptables-save | grep KUBE\n{rules}{rule}\n{rule}\n"));
    let Contents::Iptables { cut, .. } = &evidence.pieces[0].contents else { panic!("{:#?}", evidence.pieces) };
    assert_eq!(*cut, None);
    let reasons: Vec<&str> = evidence.unread.iter().map(|unread| &*unread.reason).collect();
    assert_eq!(reasons, ["a part of the rule is left out"; 2]);
}

/// What is not read is listed, also where a text has more pieces than any dump.
#[test]
fn the_rest_of_a_text_with_too_many_pieces_is_unread() {
    let limits = read::Limits { pieces: 2, unread: 100, first_part: 1 << 20, lines: 1_000 };
    let evidence = read::read_up_to("chain a {\nchain a {\nchain a {\nchain a {\n", limits);
    assert_eq!(evidence.pieces.len(), 2);
    let [rest] = evidence.unread.as_slice() else { panic!("{:?}", evidence.unread) };
    assert_eq!(
        (rest.line, rest.reason.as_str()),
        (3, "the text has more than 2 pieces: 2 lines from here on not read")
    );
}

/// Each line takes memory, whatever is in it.
#[test]
fn the_rest_of_a_text_with_too_many_lines_is_unread() {
    let text = format!("-A KUBE-A -j KUBE-B\n{}-A KUBE-B -j RETURN\n-A", "\n".repeat(99));
    let limits = read::Limits { pieces: 100, unread: 100, first_part: 1 << 20, lines: 100 };
    let evidence = read::read_up_to(&text, limits);
    let [rest] = evidence.unread.as_slice() else { panic!("{:?}", evidence.unread) };
    let reason = "the text has more than 100 lines: 2 lines from here on not read";
    assert_eq!((rest.line, &*rest.text, &*rest.reason), (101, "-A KUBE-B -j RETURN", reason));
    assert_eq!(evidence.rules(), 1);
    assert!(read::read_up_to(&text, read::Limits { lines: 102, ..limits }).unread.iter().all(|one| one.line > 101));
}

/// Text that is not evidence ends the reading in its first part; the lines behind that are counted.
#[test]
fn the_rest_of_a_text_with_too_many_unread_lines_is_unread() {
    let text = "-A A -j\nWe saw this.\n\n".repeat(100);
    for first_part in [100, 1 << 20] {
        let evidence = read::read_up_to(&text, read::Limits { pieces: 100, unread: 3, first_part, lines: 1_000 });
        let [.., rest] = evidence.unread.as_slice() else { panic!("{:?}", evidence.unread) };
        let reason = format!(
            "the text has more than 3 lines that cannot be read: {} lines from here on not read",
            301 - rest.line
        );
        assert_eq!((evidence.unread.len(), &rest.reason), (4, &reason));
    }
}

/// A report of a line with thousands of rules has each part once, not the whole line each time.
#[test]
fn parts_of_a_line_are_reported_apart() {
    let evidence = read(&"-A KUBE-SERVICES ".repeat(400));
    let reported: usize = evidence.unread.iter().map(|unread| unread.text.len()).sum();
    assert!(!evidence.unread.is_empty() && reported <= 400 * 17, "{reported}");
}

/// `ip addr | grep` leaves out the interfaces.
#[test]
fn addresses_without_their_interface_are_read() {
    let text = "$ ip addr | grep 172.31\n    inet 172.31.0.35/16 brd 172.31.255.255 scope global dynamic ens3\n    \
                inet 172.31.0.7/16 scope global secondary ens3\n";
    let evidence = read(text);
    assert_eq!((codes(&evidence), evidence.unread.len()), (vec!["ip-addr"], 0));
    assert!(matches!(&evidence.pieces[0].contents, Contents::Addresses(all, 2) if all.len() == 2));
}
