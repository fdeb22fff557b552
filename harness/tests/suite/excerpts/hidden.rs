//! What a filter or a cut may have hidden, and what svclab assumed for it, is no finding.

use rstest::rstest;
use svclab::evidence::{self, node_rules};
use svclab::lint::lint;

use super::{failures, filtered, golden, grave, imported};
use crate::assumptions;

/// An inverted filter may hide policies, kinds of addresses, node ports and endpoints.
#[rstest]
fn what_an_inverted_filter_may_hide_is_no_finding(
    #[values(
        "grep -v XLB",
        "grep -v local",
        "grep -v loadbalancer",
        "grep -v KUBE-EXT",
        "grep -v -e '--dport 3'",
        "grep -v 'has no'"
    )]
    filter: &str,
    #[values("nodeport-local/v1.21", "small-cluster/v1.21", "small-cluster/v1.30", "external-ips-local/v1.25")]
    recording: &str,
) {
    let left = filtered(filter, &golden(&format!("{recording}-iptables/iptables-save.txt")));
    let text = format!("$ iptables-save | {filter}\n{left}");
    assert_eq!(grave(&text), Vec::<String>::new(), "{text}");
}

/// A cluster IP that no text shows is missing in none.
#[rstest]
#[case::iptables(
    "$ iptables-save | grep 32080\n-A KUBE-EXTERNAL-SERVICES -p tcp -m comment --comment \"prod/none has no endpoints\" -m addrtype \
     --dst-type LOCAL -m tcp --dport 32080 -j REJECT --reject-with icmp-port-unreachable\n"
)]
#[case::nftables(
    "# nft list ruleset | head -12\ntable ip kube-proxy {\n\tset cluster-ips {\n\t\ttype ipv4_addr\n\t\telements = { 10.96.55.20 }\n\t}\n\n\
     \tmap no-endpoint-services {\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\
     \t\telements = { 198.51.100.5 . tcp . 443 comment \"default/edge:https\" : drop }\n\t}\n"
)]
fn an_address_that_was_assumed_is_not_missing(#[case] text: &str) {
    assert_eq!(grave(text), Vec::<String>::new());
    assert_eq!(failures(&imported(text)), Vec::<String>::new());
}

/// `head`, or a copy that ends early, may end within the last chain of a listing.
#[rstest]
#[case::head("# iptables -t nat -L -n | head -9\n")]
#[case::cut("")]
fn the_last_chain_of_a_listing_that_ends_early_is_not_whole(#[case] command: &str) {
    let text = format!(
        "{command}Chain PREROUTING (policy ACCEPT)\ntarget     prot opt source               destination\n\
         KUBE-SERVICES  all  --  0.0.0.0/0            0.0.0.0/0            /* kubernetes service portals */\n\n\
         Chain KUBE-SERVICES (2 references)\ntarget     prot opt source               destination\n\
         KUBE-SVC-2CMXP7HKUVJN7L6M  tcp  --  0.0.0.0/0            10.96.34.82          /* default/nginx cluster IP */ tcp dpt:80\n"
    );
    let sets = node_rules(&evidence::read(&text));
    assert!(sets[0].coverage.has_chain("nat", "PREROUTING"));
    assert!(!sets[0].coverage.has_chain("nat", "KUBE-SERVICES"));
    assert_eq!(grave(&text), Vec::<String>::new());
}

/// The rest of a row that is cut off is unknown: the rule is not installed, and not taken for one of another program.
#[test]
fn a_row_that_is_cut_off_is_not_installed() {
    let text = "Chain KUBE-SVC-2CMXP7HKUVJN7L6M (1 references)\ntarget prot opt source destination\n\
        KUBE-SEP-HUXRPHBUO34UVPEF  all  --  0.0.0.0/0  0.0.0.0/0  /* default/nginx -> 10.244.2.2:80 */\n\n\
        Chain KUBE-SEP-HUXRPHBUO34UVPEF (1 references)\ntarget prot opt source destination\n\
        KUBE-MARK-MASQ  all  --  10.244.2.2  0.0.0.0/0  /* default/nginx */\n\
        DNAT  tcp  --  0.0.0.0/0  0.0.0.0/0  /* default/nginx */ tcp\n";
    assert_read_without_rest(text);
}

/// An older iptables prints options of a newer revision as none, or as others.
#[test]
fn what_an_older_iptables_printed_is_not_installed() {
    let rule = "-A KUBE-SEP-HUXRPHBUO34UVPEF -p tcp -m comment --comment \"default/nginx\" -m tcp -j DNAT ";
    let text = format!(
        "-A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment --comment \"default/nginx -> 10.244.2.2:80\" -j KUBE-SEP-HUXRPHBUO34UVPEF\n\
         {rule}[unsupported revision]\n{rule}--to-destination :0 --persistent --to-destination :0 --persistent\n"
    );
    assert_read_without_rest(&text);
    let found = lint(&evidence::read(&text));
    let skew: Vec<&str> =
        found.iter().filter(|finding| finding.id == "reader-skew").map(|finding| finding.message.as_str()).collect();
    assert!(matches!(skew.as_slice(), [one] if one.contains("these 2 rules, the last at line 3")), "{skew:?}");
}

fn assert_read_without_rest(text: &str) {
    let assumed = imported(text);
    let rules: String = assumed.scenario.rules.iter().map(|own| own.rules.print()).collect();
    assert!(!rules.contains("-m listing") && !rules.contains("-m unread"), "{rules}");
    assert!(rules.contains("--to-destination 10.244.2.2:80"), "{rules}");
    let said = assumptions(&assumed).join("\n");
    assert!(said.contains("could not be read left out") && !said.contains("-m "), "{said}");
    let found = lint(&evidence::read(text));
    assert!(found.iter().all(|finding| finding.id != "unmodelled-rule"), "{found:?}");
}

/// The input of iptables-restore, as kube-proxy logs it, has no built-in chains.
#[test]
fn the_input_of_iptables_restore_is_an_excerpt() {
    let text = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-2CMXP7HKUVJN7L6M - [0:0]\n:KUBE-SEP-HUXRPHBUO34UVPEF - [0:0]\n\
        -A KUBE-SERVICES -m comment --comment \"default/nginx cluster IP\" -m tcp -p tcp -d 10.96.34.82 --dport 80 -j KUBE-SVC-2CMXP7HKUVJN7L6M\n\
        -A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment --comment \"default/nginx -> 10.244.2.2:80\" -j KUBE-SEP-HUXRPHBUO34UVPEF\n\
        -A KUBE-SEP-HUXRPHBUO34UVPEF -m comment --comment \"default/nginx\" -s 10.244.2.2 -j KUBE-MARK-MASQ\n\
        -A KUBE-SEP-HUXRPHBUO34UVPEF -m comment --comment \"default/nginx\" -m tcp -p tcp -j DNAT --to-destination 10.244.2.2:80\n\
        COMMIT\n";
    assert_eq!(failures(&imported(text)), Vec::<String>::new());
    let errors = grave(text).into_iter().filter(|words| words.contains("undefined-chain"));
    assert_eq!(errors.collect::<Vec<_>>(), Vec::<String>::new());
}
