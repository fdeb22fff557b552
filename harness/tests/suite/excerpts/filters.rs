//! iptables rules filtered by `grep`, `awk` and other programs.

use std::path::Path;

use rstest::rstest;
use svclab::evidence;
use svclab::infer;

use super::{failures, filtered, golden, grave, imported, is_sound, is_sound_of, listed, saved, without};
use crate::assumptions;

/// A filter may have removed a rule, in either language.
#[test]
fn what_a_filter_leaves_is_an_excerpt() {
    let rules = "rules/tests/golden/clusterip-three-endpoints/v1.30-nftables/nft-ruleset.txt";
    let saved = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(rules)).expect(rules);
    let is_excerpt = |command: &str| {
        let left = without(&saved, |line| line.contains("fully-random"));
        let assumed = imported(&format!("$ {command}\n{left}"));
        assumptions(&assumed).iter().any(|words| words.contains("are an excerpt"))
    };
    assert!(!is_excerpt("nft list ruleset"));
    assert!(is_excerpt("nft list ruleset | grep -v fully-random"));
}

/// Filtered healthy rules never fail, with or without the command that was used.
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

/// Who writes `...` after a command has left out lines of its output.
#[rstest]
#[case::nothing("", true)]
#[case::ellipsis("...\n", false)]
fn lines_may_be_left_out_after_a_command(#[case] omitted: &str, #[case] is_missing: bool) {
    let chain = "KUBE-SEP-FTIQ6MSD3LWO5HZX";
    let text = format!(
        "# iptables-save -t nat | grep -- '-A KUBE-SVC'\n-A KUBE-SVC-RPP7DHNHMGOIIFDC -j {chain}\n\n\
         # iptables-save -t nat | grep -- '-A {chain}'\n{omitted}\
         -A {chain} -p tcp -m tcp -j DNAT --to-destination 10.244.1.2:8080\n"
    );
    let found = svclab::lint::lint(&evidence::read(&text));
    assert_eq!(found.iter().any(|one| one.id == "missing-rule"), is_missing, "{found:?}");
}

/// The same for filters whose effect only the command shows.
#[rstest]
fn what_a_filter_that_is_shown_hides_is_no_failure(
    #[values("grep 10.244.1", "grep 10.244.2", "grep -v SEP", "grep -v DNAT", "grep -v 10.244.1")] filter: &str,
) {
    is_sound(filter, &format!("$ iptables-save | {filter}\n"));
}

/// Older releases name no endpoint in the rules of services, and never the policy Local in comments.
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

/// Tables without their headings have been filtered.
#[rstest]
fn tables_without_headings_are_filtered(#[values("v1.21", "v1.30")] release: &str) {
    let saved = golden(&format!("small-cluster/{release}-iptables/iptables-save.txt"));
    is_sound_of(&saved, "grep -v '^:'", "");
    let lost = without(&filtered("grep -v '^:'", &saved), |line| line.contains("--to-destination 10.244.1.30:8080"));
    assert_ne!(failures(&imported(&lost)), Vec::<String>::new());
}

/// Rows after the column titles of a chain whose heading was removed do not belong to a shown chain.
#[rstest]
fn rows_without_their_heading_are_of_no_other_chain(
    #[values("-L -n", "-nvxL")] options: &str,
    #[values(false, true)] has_command: bool,
) {
    let rows =
        filtered("grep -v SEP", &listed(if options == "-nvxL" { "legacy-ipv4-L-n-v-x" } else { "legacy-ipv4-L-n" }));
    let command = if has_command { format!("# iptables -t nat {options} | grep -v SEP\n") } else { String::new() };
    let assumed = imported(&format!("{command}{rows}"));
    assert_eq!(failures(&assumed), Vec::<String>::new(), "{rows}{}", assumptions(&assumed).join("\n"));
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
    if let Ok(assumed) = infer::from_evidence(&evidence, Path::new("dump"), &[], infer::Connections::LeftOut) {
        assert_eq!(failures(&assumed), Vec::<String>::new(), "{text}{}", assumptions(&assumed).join("\n"));
    }
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
    assert_eq!(!failures(&assumed).is_empty(), is_found, "{}", assumptions(&assumed).join("\n"));
    let names_it = |words: &String| words.contains("the DNAT to endpoint 10.244.1.30:8080 is missing");
    assert_eq!(grave(&text).iter().any(names_it), is_found, "{:#?}", grave(&text));
}

/// Where every Service lacks a line that the filter would show, kube-proxy has no range of pods; where one lacks it, it is lost.
#[rstest]
fn what_every_service_lacks_is_a_setting(
    #[values("v1.18", "v1.25", "v1.32")] release: &str,
    #[values("grep default/", "grep -v CANARY")] filter: &str,
) {
    let command = format!("$ iptables-save -t nat | {filter}\n");
    let whole = golden(&format!("config-no-cluster-cidr/{release}-iptables/iptables-save.txt"));
    is_sound_of(&whole[whole.find("*nat").expect("a table")..], filter, &command);
    // With a range, a Service without the mark has lost it.
    let filter = filter.replace("default/", "shop/");
    let lost = without(&saved(), |line| line.contains("shop/backend:http cluster IP") && line.contains("MASQ"));
    let text = format!("$ iptables-save | {filter}\n{}", filtered(&filter, &lost));
    assert!(grave(&text).iter().any(|words| words.contains("masquerading")), "{:#?}", grave(&text));
}

/// Below the output of a command, the next prompt says that nothing is cut off.
#[rstest]
#[case::prompt("root@node-1:~# \n", true)]
#[case::command("root@node-1:~# ip route\ndefault via 192.168.10.1 dev eth0\n", true)]
#[case::end("", false)]
#[case::ellipsis("...\nroot@node-1:~# \n", false)]
fn the_last_rule_of_a_service_is_missing_where_the_output_ends(#[case] after: &str, #[case] is_missing: bool) {
    let saved = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let command = "root@node-1:~# iptables-save | grep default/web\n";
    let shown = filtered("grep default/web", &saved);
    assert_eq!(grave(&format!("{command}{shown}{after}")), Vec::<String>::new());
    let lost = without(&shown, |line| line.contains("-> 10.244.3.10:8080"));
    assert_ne!(lost, shown);
    let text = format!("{command}{lost}{after}");
    let found = [!grave(&text).is_empty(), !failures(&imported(&text)).is_empty()];
    assert_eq!(found, [is_missing; 2], "{:?}", grave(&text));
}

/// What a filter hides after the last line is still hidden where a prompt follows.
#[rstest]
fn what_a_filter_hides_before_a_prompt_is_no_failure(
    #[values(
        "grep random",
        "grep statistic",
        "grep 10.244.1",
        "grep KUBE-SVC",
        "grep -v SEP",
        "grep -e '-A KUBE-SEP'"
    )]
    filter: &str,
) {
    let saved = golden("clusterip-three-endpoints/v1.30-iptables/iptables-save.txt");
    let text = format!("root@node-1:~# iptables-save | {filter}\n{}root@node-1:~# \n", filtered(filter, &saved));
    assert_eq!(grave(&text), Vec::<String>::new(), "{text}");
    if text.contains("-A KUBE-SVC") {
        assert_eq!(failures(&imported(&text)), Vec::<String>::new());
    }
}

/// kubernetes#114537: the probability of a rule says that there are more endpoints.
#[test]
fn endpoints_of_which_only_the_probabilities_are_shown_are_named() {
    let text = "-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment \"default/web:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-CDGGSHYLG3RE2FKL\n\
        -A KUBE-SVC-CDGGSHYLG3RE2FKL -m comment --comment \"default/web:http -> 10.244.1.10:8080\" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-GWQABTP5GBYXHJY5\n";
    let assumed = assumptions(&imported(text));
    let is_said = |words: &String| words.starts_with("left out: 1 endpoint of default/web:http or more");
    assert!(assumed.iter().any(is_said), "{assumed:?}");
    let last = "-A KUBE-SVC-CDGGSHYLG3RE2FKL -m comment --comment \"default/web:http -> 10.244.3.10:8080\" -j KUBE-SEP-LMMWZ5HWHZDFPJVN\n";
    assert!(!assumptions(&imported(&format!("{text}{last}"))).iter().any(is_said));
}
