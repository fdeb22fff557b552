use rstest::rstest;

use super::*;
use crate::iptables::{Match, Target, print};

fn document(rules: &[&str]) -> String {
    let rules: String = rules.iter().map(|rule| format!("{rule}\n")).collect();
    format!("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:X - [0:0]\n{rules}COMMIT\n")
}

/// Rules of other programs, in the format of `iptables-save`.
#[rstest]
#[case::portmap(
    "-A X -p tcp -m comment --comment \"dnat name: \\\"cbr0\\\" id: \\\"ab\\\"\" -m multiport --dports 80,443,8000:8100 -j X"
)]
#[case::portmap_mark(
    "-A X -m comment --comment \"CNI portfwd requiring masquerade\" -m mark --mark 0x2000/0x2000 -j MASQUERADE"
)]
#[case::flannel(
    "-A X -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment \"flanneld masq\" -j MASQUERADE --random-fully"
)]
#[case::docker("-A X ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80")]
#[case::docker_isolation("-A X -i docker0 ! -o docker0 -j X")]
#[case::calico_set(
    "-A X -m set --match-set cali40masq-ipam-pools src -m set ! --match-set cali40all-ipam-pools dst -j MASQUERADE --random-fully"
)]
#[case::calico_goto("-A X -m conntrack --ctstate INVALID -g X")]
#[case::calico_rpfilter("-A X -m mark --mark 0x40000/0x40000 -m rpfilter --invert --validmark -j DROP")]
#[case::calico_mark("-A X -j MARK --set-xmark 0x0/0xf0000")]
#[case::cilium_tproxy(
    "-A X -p tcp -m mark --mark 0x3eaf0200 -m comment --comment \"cilium: TPROXY\" -j TPROXY --on-port 45035 --on-ip 127.0.0.1 --tproxy-mark 0x200/0xffffffff"
)]
#[case::cilium_ct("-A X -m mark --mark 0xe00/0xf00 -j CT --notrack")]
#[case::kindnet("-A X -d 10.244.0.0/16 -m comment --comment \"kind-masq-agent: local traffic\" -j RETURN")]
#[case::kindnet_local("-A X -m addrtype ! --dst-type LOCAL -j X")]
#[case::ufw_limit("-A X -m limit --limit 3/min --limit-burst 10 -j LOG --log-prefix \"[UFW BLOCK] \"")]
#[case::tcp_flags("-A X -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j TCPMSS --clamp-mss-to-pmtu")]
#[case::source_port("-A X -p udp -m udp --sport 1024:65535 ! --dport 53 -j DROP")]
#[case::state("-A X -m state --state RELATED,ESTABLISHED -j ACCEPT")]
#[case::old_mask("-A X -s 10.0.0.1/255.0.255.0 -j ACCEPT")]
#[case::nth("-A X -m statistic --mode nth --every 3 --packet 0 -j X")]
#[case::recent(
    "-A X -m recent --update --seconds 60 --hitcount 4 --rttl --name SSH --mask 255.255.255.255 --rsource -j DROP"
)]
#[case::icmp("-A X -p icmp -m icmp --icmp-type 8 -j ACCEPT")]
#[case::gre("-A X -p gre -j ACCEPT")]
#[case::reject("-A X -p tcp -j REJECT --reject-with tcp-reset")]
#[case::range("-A X -j SNAT --to-source 10.0.0.1-10.0.0.5:1024-65535 --random-fully --persistent")]
#[case::to_port("-A X -p tcp -j REDIRECT --to-ports 15001")]
#[case::fragment("-A X ! -f -j ACCEPT")]
#[case::option_after_an_unknown_match("-A X -m limit --limit 5/min -m addrtype --src-type LOCAL --limit-iface-in -j X")]
#[case::comment_like_an_option("-A X -m comment --comment --dport -m comment --comment -j -j X")]
#[case::counters_only("-A X -m comment --comment \"other traffic\"")]
#[case::nfacct("-A X -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j DROP")]
#[case::counted("[12:3456] -A X -i lo -j ACCEPT")]
#[case::options_that_are_not_modelled(
    "-A X -m iprange --src-range 10.0.0.1-10.0.0.9 -m addrtype --dst-type LOCAL --limit-iface-in -m conntrack --ctorigdstport 80 -j X"
)]
#[case::physdev("-A X -m physdev --physdev-in vnet0 ! --physdev-is-out --physdev-is-bridged -j ACCEPT")]
fn rules_come_back_as_they_were(#[case] rule: &str) {
    let text = document(&[rule]);
    assert_eq!(print(&parse(&text, Family::Ipv4).unwrap().rules), text);
}

/// The input of `iptables-restore` from kube-proxy, and the output of `iptables-save` for it.
#[rstest]
#[case::order(
    "-A X -m comment --comment \"default/web cluster IP\" -m tcp -p tcp -d 10.96.0.10/32 --dport 80 ! -s 10.244.0.0/16 -j X",
    "-A X ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment --comment \"default/web cluster IP\" -m tcp --dport 80 -j X"
)]
#[case::probability(
    "-A X -m statistic --mode random --probability 0.3333333333 -j X",
    "-A X -m statistic --mode random --probability 0.33333333349 -j X"
)]
#[case::mark("-A X -j MARK --or-mark 0x4000", "-A X -j MARK --set-xmark 0x4000/0x4000")]
#[case::unmark("-A X -j MARK --xor-mark 0x00004000", "-A X -j MARK --set-xmark 0x4000/0x0")]
#[case::implicit_match("-A X -p tcp --dport 80 -j ACCEPT", "-A X -p tcp -m tcp --dport 80 -j ACCEPT")]
#[case::reject("-A X -j REJECT", "-A X -j REJECT --reject-with icmp-port-unreachable")]
#[case::recent(
    "-A X -m recent --name S --set -m tcp -p tcp -j DNAT --to-destination 10.0.0.1:80",
    "-A X -p tcp -m recent --set --name S --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.0.0.1:80"
)]
#[case::host_bits("-A X -s 10.1.2.3/8 -j ACCEPT", "-A X -s 10.0.0.0/8 -j ACCEPT")]
#[case::host("-A X -d 10.1.2.3 -j ACCEPT", "-A X -d 10.1.2.3/32 -j ACCEPT")]
#[case::long_names("-A X --protocol UDP --source-port 53 --jump ACCEPT", "-A X -p udp -m udp --sport 53 -j ACCEPT")]
fn restore_syntax_is_understood(#[case] given: &str, #[case] shown: &str) {
    assert_eq!(print(&parse(&document(&[given]), Family::Ipv4).unwrap().rules), document(&[shown]));
}

#[test]
fn an_ipv6_endpoint_has_brackets() {
    let text = document(&["-A X -p tcp -m tcp -j DNAT --to-destination [fd00::1]:80", "-A X -d fd00::/8 -j DROP"]);
    assert_eq!(print(&parse(&text, Family::Ipv6).unwrap().rules), text);
}

#[test]
fn an_unknown_match_keeps_its_text_and_is_marked() {
    let text = document(&["-A X -m bpf --bytecode \"4,48 0 0 9\" -m comment --comment a -j FANCY --with \"a b\""]);
    let parsed = parse(&text, Family::Ipv4).unwrap();
    let rule = &parsed.rules.rules(TableName::Filter, "X")[0];
    assert!(matches!(&rule.matches[0], Match::Other(other) if &*other.text == "--bytecode \"4,48 0 0 9\""));
    assert!(matches!(&rule.target, Some(Target::Other(other)) if &*other.text == "--with \"a b\""));
    assert_eq!(rule.comment(), Some("a"));
    assert_eq!(print(&parsed.rules), text);
}

#[test]
fn commands_of_restore_are_carried_out() {
    let text = "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j ACCEPT\n-I A -j DROP\n-I A 2 -j RETURN\n-X B\n-N C\n-A OUTPUT -j A\nCOMMIT\n";
    let parsed = parse(text, Family::Ipv4).unwrap();
    let expected = "*nat\n:A - [0:0]\n:C - [0:0]\n:OUTPUT ACCEPT [0:0]\n-A A -j DROP\n-A A -j RETURN\n-A A -j ACCEPT\n-A OUTPUT -j A\nCOMMIT\n";
    assert_eq!(print(&parsed.rules), expected);
    assert_eq!([0, 1, 2].map(|rule| parsed.lines.line(0, 0, rule)), [Some(5), Some(6), Some(4)]);
}

#[rstest]
#[case::no_table("-A INPUT -j ACCEPT", 1, "outside of a table: a line `*filter` or the like must come first")]
#[case::no_chain("*filter\n-A NOWHERE -j ACCEPT", 4, "chain `NOWHERE` is not declared")]
#[case::port(
    "*filter\n-A INPUT -p tcp -m tcp --dport 70000 -j DROP",
    32,
    "`70000` is not a valid port or range of ports"
)]
#[case::address("*filter\n-A INPUT -s 10.0.0.256 -j DROP", 13, "`10.0.0.256` is not a valid IPv4 address or range")]
#[case::other_family("*filter\n-A INPUT -s fd00::/8 -j DROP", 13, "`fd00::/8` is not a valid IPv4 address or range")]
#[case::other_family_of_nat(
    "*nat\n-A OUTPUT -j DNAT --to-destination [fd00::1]:80",
    36,
    "`[fd00::1]:80` is not a valid IPv4 address, port or range of them"
)]
#[case::option("*filter\n-A INPUT --bogus 1", 10, "unknown option `--bogus`")]
#[case::value("*filter\n-A INPUT -s", 10, "`-s` needs a value")]
#[case::stray("*filter\n-A INPUT oops -j DROP", 10, "expected an option")]
#[case::quote("*filter\n-A INPUT -m comment --comment \"open", 31, "unterminated quote")]
#[case::table("*fitler", 2, "unknown table `fitler`")]
#[case::policy(
    "*filter\n:x DROP [0:0]",
    2,
    "`x` is not a built-in chain, so it has no policy: declare it as `:x -` and append a rule `-j DROP`"
)]
#[case::policy_as_command(
    "*filter\n-P x DROP",
    6,
    "`x` is not a built-in chain, so it has no policy: declare it as `:x -` and append a rule `-j DROP`"
)]
#[case::command("*filter\n-D INPUT -j DROP", 1, "unknown command `-D`")]
#[case::probability(
    "*filter\n-A INPUT -m statistic --mode random --probability 1.5 -j DROP",
    51,
    "`1.5` is not a valid probability from 0 to 1"
)]
fn errors_are_reported_with_their_place(#[case] text: &str, #[case] column: usize, #[case] message: &str) {
    let mut errors = parse(text, Family::Ipv4).unwrap_err();
    // These texts are truncated, which is reported as well.
    errors.retain(|error| !error.is_missing_commit());
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].column, errors[0].message.as_str()), (column, message));
    assert_eq!(errors[0].line, text.lines().count());
}

#[test]
fn all_errors_of_a_document_are_reported() {
    let errors = parse(&document(&["-A X -s x", "-A X -j ACCEPT", "-A Y -j ACCEPT"]), Family::Ipv4).unwrap_err();
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [6, 8]);
}

/// As in `iptables-restore`, which loads nothing from such a text.
#[rstest]
#[case::cut("*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j DROP\n", 3, "table `filter` is missing `COMMIT`")]
#[case::two("*nat\n*filter\nCOMMIT\n", 2, "table `nat` is missing `COMMIT`")]
#[case::twice("*nat\nCOMMIT\nCOMMIT\n", 3, "outside of a table")]
#[case::again("*filter\nCOMMIT\n*nat\nCOMMIT\n*filter\nCOMMIT\n", 5, "table `filter` is declared twice")]
fn tables_are_ended_once(#[case] text: &str, #[case] line: usize, #[case] message: &str) {
    let errors = parse(text, Family::Ipv4).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].line, line);
    assert!(errors[0].message.starts_with(message), "{}", errors[0]);
}

/// A truncated rule is an error. A chain may have the name of a target; the rule then jumps to the chain, as in iptables-restore.
#[rstest]
#[case::dnat("-A X -p tcp -j DNAT", "line 6, column 16: the target `DNAT` needs `--to-destination`")]
#[case::flag("-A X -p tcp -j DNAT --random", "line 6, column 16: the target `DNAT` needs `--to-destination`")]
#[case::snat("-A X -j SNAT", "line 6, column 9: the target `SNAT` needs `--to-source`")]
#[case::mark(
    "-A X -j MARK",
    "line 6, column 9: the target `MARK` needs one of `--set-xmark`, `--set-mark`, `--and-mark`, `--or-mark`, `--xor-mark`"
)]
#[case::tproxy("-A X -j TPROXY --on-ip 127.0.0.1", "line 6, column 9: the target `TPROXY` needs `--on-port`")]
fn a_target_without_what_it_needs_is_rejected(#[case] rule: &str, #[case] expected: &str) {
    let errors = parse(&document(&[rule]), Family::Ipv4).expect_err("it is cut off");
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    let declared = document(&[rule]).replace(":X - [0:0]", ":X - [0:0]\n:DNAT - [0:0]\n:SNAT - [0:0]\n:MARK - [0:0]");
    let jumps = parse(&declared, Family::Ipv4).is_ok_and(|parsed| {
        matches!(&parsed.rules.rules(TableName::Filter, "X"), [Rule { target: Some(Target::Jump(_)), .. }])
    });
    assert_eq!(jumps, !rule.contains(" --"), "{declared}");
}

#[rstest]
#[case::shortened("-A X -j DNAT --to-dest 10.0.0.1:80")]
#[case::with_equals_sign("-A X -j CLASSIFY --set-class=1:1")]
#[case::none_needed("-A X -j CLUSTERIP")]
fn a_target_with_what_it_needs_is_read(#[case] rule: &str) {
    assert_eq!(parse(&document(&[rule]), Family::Ipv4).err(), None);
}
