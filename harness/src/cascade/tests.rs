#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::path::Path;

use rstest::rstest;

use super::console;
use super::input::read;
use super::{Report, json, svg};
use crate::evidence::{self, Evidence};
use crate::input::{InputKind, input_kind};
use crate::page::{Detail, Settings};

const SAVED: &str = r#"*nat
:KUBE-SERVICES - [0:0]
:KUBE-SVC-FOO - [0:0]
:KUBE-SVC-BAR - [0:0]
:KUBE-SEP-A - [0:0]
:KUBE-SEP-B - [0:0]
:KUBE-SEP-C - [0:0]
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/foo:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-FOO
-A KUBE-SVC-FOO -m comment --comment "default/foo:http" -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A
-A KUBE-SVC-FOO -m comment --comment "default/foo:http" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-B
-A KUBE-SVC-FOO -m comment --comment "default/foo:http" -j KUBE-SEP-C
-A KUBE-SVC-BAR -m comment --comment "other/bar" -j KUBE-SEP-A
-A KUBE-SVC-BAR -m comment --comment "other/bar" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-B
-A KUBE-SEP-A -p tcp -m comment --comment "default/foo:http" -m tcp -j DNAT --to-destination 10.244.1.2:8080
-A KUBE-SEP-B -p tcp -m comment --comment "default/foo:http" -m tcp -j DNAT --to-destination 10.244.2.2:8080
-A KUBE-SEP-C -p tcp -m comment --comment "default/foo:http" -m tcp -j DNAT --to-destination 10.244.3.2:8080
COMMIT
"#;

fn quiet() -> Settings {
    Settings { detail: Detail::Quiet, ..Settings::default() }
}

fn report(text: &str) -> Report {
    read(&evidence::read(text), Path::new("rules.txt")).unwrap_or_else(|found| panic!("{:?}", found.errors))
}

#[test]
fn a_page_has_all_that_is_known_of_every_endpoint() {
    let page = console::render(&report(SAVED), Settings::default());
    let expected = "\
default/foo:http tcp  10.96.0.1:80  KUBE-SVC-FOO
  rule  endpoint         probability      threshold          share        deviation  cumulative
     1  10.244.1.2:8080  0.33333333349    715,827,883  33.33333335 %  +4.7e-8 %   33.33 %  ███████·············
     2  10.244.2.2:8080  0.50000000000  1,073,741,824  33.33333333 %  -2.3e-8 %   66.67 %  ░░░░░░░██████·······
     3  10.244.3.2:8080         always  2,147,483,648  33.33333333 %  -2.3e-8 %  100.00 %  ░░░░░░░░░░░░░███████
  0.33, 0.50, always is even: the second rule sees only the 2/3 that the first left and takes half of them, which is
      1/3; the third takes the remaining 1/3.
  Thresholds are out of 2^31. Shares are exact to ±5.0e-9 percentage points.

other/bar tcp  KUBE-SVC-BAR
  rule  endpoint         probability      threshold          share           deviation  cumulative
     1  10.244.1.2:8080         always  2,147,483,648  100.00000000 %  = 1  +100.0000 %  100.00 %  ███████████████████
     2  10.244.2.2:8080  0.50000000000  1,073,741,824    0.00000000 %  = 0  -100.0000 %  100.00 %  ░░░░░░░░░░░░░░░░░░░
";
    let words =
        |text: &str| text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    assert_eq!(words(&page)[..words(expected).len()], words(expected), "{page}");
    let end = "rules.txt, in the format of iptables-save: 2 cascades, 5 endpoints; 2 defects in 1\n";
    assert!(page.ends_with(end), "{page}");
}

#[test]
fn quiet_prints_only_what_is_wrong() {
    let page = console::render(&report(SAVED), quiet());
    assert!(page.starts_with("other/bar tcp"), "{page}");
    let mut even = report(SAVED);
    even.retain("default/foo").unwrap();
    assert_eq!(console::render(&even, quiet()), "");
}

#[rstest]
#[case::whole("default/foo:http", Some("KUBE-SVC-FOO"))]
#[case::no_port("default/foo", Some("KUBE-SVC-FOO"))]
#[case::no_namespace("foo", Some("KUBE-SVC-FOO"))]
#[case::bar("bar", Some("KUBE-SVC-BAR"))]
#[case::chain("KUBE-SVC-BAR", Some("KUBE-SVC-BAR"))]
#[case::part_of_a_name("fo", None)]
fn a_service_is_chosen_by_its_name(#[case] name: &str, #[case] chain: Option<&str>) {
    let mut report = report(SAVED);
    let found = report.retain(name).map(|()| report.cascades[0].chain.as_str());
    assert_eq!(found.ok(), chain);
}

#[test]
fn a_name_that_no_service_has_is_answered_with_the_nearest() {
    let error = report(SAVED).retain("default/fooo:http").unwrap_err();
    assert_eq!(error.to_string(), "these rules contain no load-balanced service `default/fooo:http`");
    assert_eq!(error.help, "Did you mean `default/foo:http`?");
}

#[rstest]
#[case::saved(SAVED, Some(InputKind::Saved))]
#[case::part("$ iptables-save | grep foo\n[1:60] -A KUBE-SVC-FOO -j KUBE-SEP-A\n", Some(InputKind::Saved))]
#[case::listing("Chain KUBE-SVC-FOO (1 references)\ntarget prot opt source destination\n", Some(InputKind::Listed))]
#[case::nft(r#"{"nftables": []}"#, Some(InputKind::Nft))]
#[case::scenario("name: a\nnodes: [{name: n}]\nrules: {n: {text: '-A FOO -j BAR'}}\n", Some(InputKind::Scenario))]
#[case::objects("apiVersion: v1\nkind: Service\n", None)]
#[case::nft_text("table ip kube-proxy {\n}\n", Some(InputKind::Nft))]
#[case::indented_nft_text("  table ip kube-proxy {\n  }\n", Some(InputKind::Nft))]
#[case::prose("Dear maintainers,\nplease find attached", None)]
#[case::empty("\n", None)]
fn the_content_determines_the_kind(#[case] text: &str, #[case] expected: Option<InputKind>) {
    assert_eq!(input_kind(text).ok(), expected);
}

/// What users paste: some lines from the middle of the table, with a prompt.
#[test]
fn a_part_of_a_table_is_read_and_said_to_be_one() {
    let part: Vec<&str> = SAVED.lines().filter(|line| line.contains("foo:http")).collect();
    let report = report(&format!("$ iptables-save | grep foo\n{}\n$\n", part.join("\n")));
    assert_eq!(report.cascades.len(), 1);
    assert_eq!((report.cascades[0].steps.len(), report.defects()), (3, 0));
    assert_eq!(report.notes, ["the text is an excerpt of a rule set: rules that it does not show are unknown"]);
}

/// The cascades of several nodes have their places, and a note names services that lack an endpoint on one of them.
#[test]
fn the_rules_of_several_nodes_are_named() {
    let path = "../rules/tests/golden/clusterip-three-endpoints/v1.30-iptables/iptables-save.txt";
    let saved = std::fs::read_to_string(path).unwrap();
    let lacking: String =
        saved.lines().filter(|line| !line.contains("-> 10.244.3.10:8080")).map(|line| format!("{line}\n")).collect();
    let of = |second: &str| {
        let mut all = Evidence::default();
        all.add("worker-a.txt", evidence::read(&saved));
        all.add("worker-b.txt", evidence::read(second));
        read(&all, Path::new("two")).unwrap_or_else(|found| panic!("{:?}", found.errors))
    };
    let report = of(&lacking);
    let page = console::render(&report, Settings::default());
    let heads: Vec<&str> = page.lines().filter(|line| line.starts_with("the rules from ")).collect();
    let expected = ["worker-a.txt", "worker-b.txt"].map(|file| format!("the rules from {file} line 1, iptables-save"));
    assert_eq!(heads, expected);
    assert!(
        report.notes.iter().any(|note| note.contains("different endpoints of default/web:http:")),
        "{:?}",
        report.notes
    );
    assert_eq!(of(&saved).notes, Vec::<String>::new());
    let mut one = report;
    one.retain("web").unwrap();
    assert_eq!((one.cascades.len(), one.places.len()), (2, 2));
}

/// What could not be read of a table is not why there are no shares.
#[test]
fn objects_have_no_shares() {
    let table = "NAME   ENDPOINTS\nweb    10.244.1.5:80\nx\n";
    let found = read(&evidence::read(table), Path::new("k.txt")).expect_err("no rules");
    assert_eq!(found.errors[0].message, "the input has no rules, only kubectl get");
}

/// As in seed 002: two listings and their prompts, joined into one line.
#[test]
fn listings_that_were_joined_into_one_line_are_read() {
    let report = report(
        "root@kube-master:~# iptables -t nat -L KUBE-SERVICES -n | column -t | egrep 'traefik' Chain KUBE-SERVICES (2 references) \
         KUBE-MARK-MASQ tcp -- !10.42.0.0/16 10.43.99.34 /* ns/traefik:web cluster IP */ tcp dpt:80 \
         KUBE-SVC-O2EO tcp -- 0.0.0.0/0 10.43.99.34 /* ns/traefik:web cluster IP */ tcp dpt:80 \
         root@kube-master:~# iptables -v -t nat -L KUBE-SVC-O2EO -n Chain KUBE-SVC-O2EO (5 references) \
         pkts bytes target prot opt in out source destination \
         1 60 KUBE-SEP-AFDB all -- * * 0.0.0.0/0 0.0.0.0/0 /* ns/traefik:web */ \
         root@kube-master:~# iptables -v -t nat -L KUBE-SEP-AFDB -n Chain KUBE-SEP-AFDB (1 references) \
         pkts bytes target prot opt in out source destination \
         0 0 KUBE-MARK-MASQ all -- * * 10.42.2.245 0.0.0.0/0 /* ns/traefik:web */ \
         1 60 DNAT tcp -- * * 0.0.0.0/0 0.0.0.0/0 /* ns/traefik:web */ tcp to:10.42.2.245:8087\n",
    );
    let [cascade] = report.cascades.as_slice() else { panic!("{:?}", report.cascades) };
    assert_eq!(
        (cascade.service.as_str(), cascade.frontends[0].to_string()),
        ("ns/traefik:web", "10.43.99.34:80".to_owned())
    );
    assert_eq!((cascade.steps[0].endpoint.as_str(), report.defects()), ("10.42.2.245:8087", 0));
}

/// A listing of kube-proxy's own table.
#[test]
fn a_listing_that_is_cut_off_is_said_to_be() {
    let listing = "Chain KUBE-SVC-AAAAAAAAAAAAAAAA (1 references)\ntarget prot opt source destination\n\
                   KUBE-SEP-AAAAAAAAAAAAAAAA  all  --  anywhere  anywhere  /* default/web */\n\
                   Chain KUBE-SEP-AAAAAAAAAAAAAAAA (1 references)\ntarget prot opt source destination\n\
                   DNAT  tcp  --  anywhere  anywhere  /* default/web */ tcp\n";
    let notes = report(listing).notes;
    assert_eq!(notes, ["line 6 is cut off: the rest of its rule and everything after it are unknown"]);
    assert_eq!(report(&listing.replace("*/ tcp\n", "*/ tcp to:10.0.0.1:80\n")).notes, Vec::<String>::new());
}

#[test]
fn the_text_of_nft_is_read() {
    let text = "table ip kube-proxy {\n\tmap service-ips {\n\t\ttype ipv4_addr . inet_proto . inet_service : verdict\n\
                \t\telements = { 10.96.0.80 . tcp . 80 : goto service-PFISGYVC-default/web/tcp/ }\n\t}\n\n\
                \tchain service-PFISGYVC-default/web/tcp/ {\n\t\tmeta l4proto tcp dnat ip to numgen random mod 2 map \
                { 0 : 10.244.1.3 . 8080, 1 : 10.244.2.2 . 8080 }\n\t}\n}\n";
    let report = report(text);
    let shares: Vec<String> = report.cascades[0].steps.iter().map(|step| step.share.to_string()).collect();
    assert_eq!(
        (report.cascades[0].service.as_str(), shares),
        ("default/web", vec!["1/2".to_owned(), "1/2".to_owned()])
    );
    assert_eq!(report.cascades[0].frontends[0].to_string(), "10.96.0.80:80");
}

/// As in seed 001: a table's heading, and rules with prose between them. The notes say that it is an excerpt and that `...` stands for
/// rules.
#[test]
fn rules_on_a_page_are_found_between_its_prose() {
    let part: Vec<&str> = SAVED.lines().filter(|line| line.contains("foo:http")).collect();
    let report = report(&format!("Kube-proxy\n\n*nat\n...\nImportant things are:\n{}\n", part.join("\n\nand\n\n")));
    assert_eq!((report.cascades.len(), report.defects(), report.notes.len()), (1, 0, 2), "{:?}", report.notes);
}

/// As in seed 003: a page follows a packet from chain to chain, and repeats rules on the way. A rule that occurs twice in its chain is
/// another matter.
#[test]
fn rules_that_a_page_shows_again_are_read_once() {
    let part: Vec<&str> = SAVED.lines().filter(|line| line.contains("foo:http") && line.starts_with("-A")).collect();
    let again = report(&format!("{}\nSo what does KUBE-SVC-FOO do?\n{}\n", part.join("\n"), part.join("\n")));
    assert_eq!((again.cascades[0].steps.len(), again.defects()), (3, 0));
    let duplicated = report(&format!("{}\n{}\n", part[..2].join("\n"), part[1..].join("\n")));
    assert_eq!((duplicated.cascades[0].steps.len(), duplicated.defects() > 0), (4, true));
}

#[rstest]
#[case::whole("*nat\n:KUBE-SVC-FOO - [0:0]\n-A KUBE-SVC-FOO --sport\nCOMMIT\n", 3)]
#[case::none("*nat\nCOMMIT\n", 1)]
fn a_mistake_has_its_line(#[case] text: &str, #[case] line: usize) {
    let errors = read(&evidence::read(text), Path::new("rules.txt")).unwrap_err();
    assert_eq!(errors.errors[0].span.line, line, "{:?}", errors.errors);
}

/// A line that cannot be parsed does not affect the others, but shares that may depend on it are unknown.
#[test]
fn a_line_that_cannot_be_read_makes_shares_unknown() {
    let report = report("-A KUBE-SVC-FOO --sport x\n-A KUBE-SVC-FOO -j KUBE-SEP-A\n");
    assert_eq!((report.cascades.len(), report.is_even()), (1, false));
    assert!(report.notes.iter().any(|note| note.contains("first line 1")), "{:?}", report.notes);
}

#[test]
fn json_has_exact_shares() {
    let json = serde_json::to_value(json::document(&report(SAVED))).unwrap();
    assert_eq!(json["defects"], 2);
    let first = &json["cascades"][0]["steps"][0];
    assert_eq!(
        first["chance"],
        serde_json::json!({"kind": "random", "written": "0.33333333349", "threshold": 715_827_883, "draws": 1_u64 << 31})
    );
    assert_eq!(first["share"]["fraction"], "715827883/2147483648");
    assert_eq!(json["cascades"][1]["defects"][0]["kind"], "order");
    assert_eq!(json["cascades"][1]["defects"][0]["rule"], 1);
}

#[test]
fn a_picture_has_a_bar_for_each_endpoint_and_is_xml() {
    let mut odd = report(SAVED);
    odd.cascades[0].service = "a<b>&\"\u{1b}[2J".to_owned();
    let picture = svg::render(&odd);
    assert_eq!(picture.matches("class=\"bar\"").count(), 5);
    assert!(picture.contains("a&lt;b&gt;&amp;&quot;\\x1b[2J tcp"), "{picture}");
    assert!(!picture.contains('\u{1b}'));
}

/// Rules of a single chain: the targets of its endpoints' chains are unknown, and so is whether the shares are even.
#[test]
fn what_a_part_does_not_show_is_unknown() {
    let part: Vec<&str> = SAVED.lines().filter(|line| line.starts_with("-A KUBE-SVC-FOO")).collect();
    let report = report(&part.join("\n"));
    assert_eq!((report.defects(), report.unknown(), report.is_even()), (0, 3, false));
    let page = console::render(&report, quiet());
    for said in [
        "  UNKNOWN  rule 2: what KUBE-SEP-B does is not in these rules: 33.333333 % of all new connections\n",
        "1 cascade, 3 endpoints; shares of 1 cascade unknown: incomplete rules\n",
    ] {
        assert!(page.contains(said), "{page}");
    }
    assert!(!page.contains("is even"), "{page}");
    let json = serde_json::to_value(json::document(&report)).unwrap();
    assert_eq!((json["unknown"].as_u64(), json["cascades"][0]["assessment"].as_str()), (Some(3), Some("unknown")));
    assert!(svg::render(&report).contains("Unknown: rule 1: what KUBE-SEP-A does is not in these rules"));
}

/// As in seed 000: endpoints' chains translate UDP, but rules for a TCP port jump to them; one translates to another address.
#[test]
fn a_listing_that_was_edited_by_hand_is_not_even() {
    let report = report(
        "Chain KUBE-SERVICES (2 references)\ntarget     prot opt source               destination\n\
         KUBE-SVC-QKJQYQZXY3DRLPVB  tcp  --  anywhere  100.96.128.2  /* kube-system/FOO:foo cluster IP */ tcp dpt:9153\n\
         Chain KUBE-SVC-QKJQYQZXY3DRLPVB (1 references)\ntarget     prot opt source               destination\n\
         KUBE-SEP-3UIFCWUMBYEVXRYP  all  --  anywhere  anywhere  statistic mode random probability 0.50000000000\n\
         KUBE-SEP-QSKKIZFW3PNDWYKJ  all  --  anywhere  anywhere\n\
         Chain KUBE-SEP-3UIFCWUMBYEVXRYP (1 references)\ntarget     prot opt source               destination\n\
         KUBE-MARK-MASQ  all  --  100.96.0.2  anywhere\nDNAT  udp  --  anywhere  anywhere  udp to:100.96.0.2:9153\n\
         Chain KUBE-SEP-QSKKIZFW3PNDWYKJ (1 references)\ntarget     prot opt source               destination\n\
         KUBE-MARK-MASQ  all  --  100.96.32.2  anywhere\nDNAT  udp  --  anywhere  anywhere  udp to:100.32.64.2:9153\n",
    );
    let kinds: Vec<(usize, &str)> =
        report.cascades[0].defects.iter().map(|defect| (defect.rule, defect.kind.code())).collect();
    assert_eq!(kinds, [(1, "protocol"), (2, "protocol"), (2, "address"), (0, "falls-through")]);
}

/// The JSON has connections that get no endpoint, and those whose endpoint depends on the connection, each with its rule and share.
#[test]
fn json_has_what_gets_no_endpoint() {
    let first = "-A KUBE-SVC-FOO -m comment";
    let edits = "-A KUBE-SVC-FOO -m statistic --mode random --probability 0.5 -j RETURN\n-A KUBE-SVC-FOO -s 10.0.0.0/8 -j DROP\n";
    let json =
        serde_json::to_value(json::document(&report(&SAVED.replacen(first, &format!("{edits}{first}"), 1)))).unwrap();
    let cascade = &json["cascades"][0];
    assert_eq!(cascade["assessment"], "defective");
    assert_eq!(cascade["withoutEndpoint"][0]["fate"]["kind"], "returned");
    assert_eq!((&cascade["withoutEndpoint"][0]["rule"], &cascade["lostShare"]["fraction"]), (&1.into(), &"1/2".into()));
    let case = &cascade["cases"][0];
    assert_eq!((&case["example"], &case["rule"]), (&"from 10.0.0.0".into(), &2.into()));
    assert_eq!(case["parts"][1]["fate"]["kind"], "dropped");
    assert_eq!(case["parts"][1]["share"]["fraction"], "1/2");
}

/// The last two of three rules, as in a copy without its first line.
const WITHOUT_FIRST: &str = "-A KUBE-SVC-A -m comment --comment \"default/web\" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-B\n\
    -A KUBE-SVC-A -m comment --comment \"default/web\" -j KUBE-SEP-C\n\
    -A KUBE-SEP-B -p tcp -m comment --comment \"default/web\" -m tcp -j DNAT --to-destination 10.0.0.2:80\n\
    -A KUBE-SEP-C -p tcp -m comment --comment \"default/web\" -m tcp -j DNAT --to-destination 10.0.0.3:80\n";

#[test]
fn some_lines_claim_no_more_than_they_show() {
    let page = console::render(&report(WITHOUT_FIRST), Settings::default());
    assert!(page.ends_with("1 cascade, 2 endpoints; shares are even as far as these lines show\n"), "{page}");
    assert!(
        page.contains("note: only the chains of services were examined, not the rules that jump to them"),
        "{page}"
    );
    // The endpoint that the missing rule jumps to is shown.
    let more =
        "-A KUBE-SEP-A -p tcp -m comment --comment \"default/web\" -m tcp -j DNAT --to-destination 10.0.0.1:80\n";
    let reported = report(&(WITHOUT_FIRST.to_owned() + more));
    assert_eq!((reported.is_even(), reported.defects(), reported.unknown()), (false, 0, 1));
    let page = console::render(&reported, Settings::default());
    assert!(
        page.contains("10.0.0.1:80 has a chain, KUBE-SEP-A, but the rule that leads there is not among these"),
        "{page}"
    );
}

#[test]
fn shares_that_are_not_known_are_no_zeros() {
    let text = "-A KUBE-SVC-A -m unknown --thing this -j ACCEPT\n".to_owned() + WITHOUT_FIRST;
    let page = console::render(&report(&text), Settings::default());
    assert!(page.contains(" ?") && !page.contains("0.00000000 %") && !page.contains("as they should be"), "{page}");
    let json = serde_json::to_value(json::document(&report(&text))).unwrap();
    let cascade = &json["cascades"][0];
    for unknown in ["share", "deviation", "cumulative"] {
        assert!(cascade["steps"][0][unknown].is_null(), "{unknown}: {cascade}");
    }
    assert!(cascade["lostShare"].is_null() && cascade["largestDeviation"].is_null(), "{cascade}");
    let picture = svg::render(&report(&text));
    assert_eq!(picture.matches("class=\"unknown\"").count(), 2, "{picture}");
    assert!(!picture.contains("0.0000 %"), "{picture}");
}

/// Without the jump, all shares are even, but no connection reaches them.
#[test]
fn a_missing_jump_is_a_defect_of_the_rules() {
    let whole = SAVED.replacen(":KUBE-SERVICES", ":PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES", 1);
    let report = report(&whole.replacen("-A KUBE-SVC-BAR -m comment --comment \"other/bar\" -j KUBE-SEP-A\n", "", 1));
    let defect =
        "chain PREROUTING of nat has no jump to KUBE-SERVICES: connections from pods and other hosts reach no service";
    assert!(!report.is_even());
    assert!(console::render(&report, quiet()).starts_with(&format!("DEFECT  {defect}\n")));
    let json = serde_json::to_value(json::document(&report)).unwrap();
    assert_eq!(json["structureDefects"][0]["kind"], "missing-jump");
    assert_eq!(json["structureDefects"][0]["message"], defect);
    assert!(svg::render(&report).contains("Defect: chain PREROUTING of nat has no jump to KUBE-SERVICES"));
}

/// A line that could not be read is not why no chain shares out connections, but may be.
#[test]
fn the_obstacle_comes_before_lines_that_were_not_read() {
    let text = "*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -d 10.96.0.1/32 -j \"\nCOMMIT\n";
    let found = read(&evidence::read(text), Path::new("k.txt")).expect_err("no shares");
    assert_eq!(found.errors[0].message, "no chain of iptables-save load-balances connections");
    assert!(found.errors.len() > 1, "{:?}", found.errors);
    let log = "some words\n\nI0614 12:34:56.789012       1 server_others.go:206] \"Using iptables Proxier\"\n";
    let found = read(&evidence::read(log), Path::new("k.txt")).expect_err("no rules");
    assert_eq!(found.errors[0].message, "the input has no rules, only kube-proxy's log");
    assert_eq!(found.errors[0].span.line, 3);
}
