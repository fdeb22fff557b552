//! Rules that a text has more than once.

use super::*;

const FORWARD: &str = "Chain FORWARD (policy ACCEPT)
target     prot opt source               destination
ACCEPT     all  --  master.novalocal/16  anywhere
ACCEPT     all  --  anywhere             master.novalocal/16
ACCEPT     all  --  anywhere             anywhere
ACCEPT     all  --  anywhere             anywhere
";

/// Docker's rules differ in their interfaces, which `iptables -L` shows with `-v` only.
#[rstest]
#[case::without_interfaces(FORWARD, &[])]
#[case::own("Chain OUTPUT (policy ACCEPT)\ntarget prot opt source destination\nKUBE-FIREWALL all -- anywhere anywhere\nKUBE-FIREWALL all -- anywhere anywhere\n", &["duplicate-rules"])]
#[case::with_interfaces("Chain FORWARD (policy ACCEPT 0 packets, 0 bytes)\n pkts bytes target prot opt in out source destination\n 0 0 ACCEPT all -- docker0 !docker0 anywhere anywhere\n 0 0 ACCEPT all -- docker0 docker0 anywhere anywhere\n", &[])]
#[case::with_equal_ones("Chain FORWARD (policy ACCEPT 0 packets, 0 bytes)\n pkts bytes target prot opt in out source destination\n 0 0 ACCEPT all -- docker0 docker0 anywhere anywhere\n 0 0 ACCEPT all -- docker0 docker0 anywhere anywhere\n", &["duplicate-rules"])]
#[case::of_a_filter("# iptables -L -n | grep dropping\nDROP all -- 0.0.0.0/0 0.0.0.0/0 /* kubernetes firewall for dropping marked packets */ mark match 0x8000/0x8000\nDROP all -- 0.0.0.0/0 0.0.0.0/0 /* kubernetes firewall for dropping marked packets */ mark match 0x8000/0x8000\n", &["duplicate-rules"])]
fn rows_of_a_listing_are_the_same_rule_if_they_surely_are(#[case] listing: &str, #[case] expected: &[&str]) {
    assert_eq!(ids(listing), expected, "{:?}", lint(&read(listing)));
}

/// A copy counts no more packets than the rule before it: one that does is the same rule at a later time. A whole chain was listed once, and
/// new jumps are added first.
#[rstest]
#[case::later("[0:0]", "[3:445]", false, false)]
#[case::copy("[3:445]", "[0:0]", false, true)]
#[case::in_a_whole_chain("[0:0]", "[3:445]", true, true)]
fn counters_tell_a_copy_from_a_later_listing(
    #[case] first: &str,
    #[case] second: &str,
    #[case] is_whole: bool,
    #[case] expected: bool,
) {
    let jump = "-A KUBE-NODEPORTS -p tcp -m comment --comment \"default/nginx\" -m tcp --dport 30080 -j KUBE-SVC-2CMXP7HKUVJN7L6M";
    let (start, end) = if is_whole {
        ("*nat\n:KUBE-NODEPORTS - [0:0]\n:KUBE-SVC-2CMXP7HKUVJN7L6M - [0:0]\n", "COMMIT\n")
    } else {
        ("", "")
    };
    let text = format!("{start}{first} {jump}\n{second} {jump}\n{end}");
    assert_eq!(ids(&text).contains(&"duplicate-rules"), expected, "{:?}", lint(&read(&text)));
}

/// Reporters shorten copies of a rule.
#[rstest]
#[case::saved("-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000\n<repeated>\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n", &["duplicate-rules"])]
#[case::counted("-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000\n[repeated 40 times]\n", &["duplicate-rules"])]
#[case::listed("Chain KUBE-FIREWALL (2 references)\ntarget prot opt source destination\nDROP all -- anywhere anywhere /* kubernetes firewall for dropping marked packets */ mark match 0x8000/0x8000\n(repeated)\n", &["duplicate-rules"])]
#[case::nothing_before("<repeated>\n-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000\n", &[])]
fn lines_that_stand_for_copies_are_read_as_such(#[case] text: &str, #[case] expected: &[&str]) {
    assert_eq!(ids(text), expected, "{:?}", lint(&read(text)));
}
