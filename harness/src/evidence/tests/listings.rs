//! Listings and rules that people cut, marked and compared before they pasted them.

use rstest::rstest;
use svclab_rules::iptables::TableName;

use super::super::*;

/// The rules of a chain of the only rule set, each as the chain that it leads to.
fn leading(text: &str, chain: &str) -> Vec<String> {
    let sets = node_rules(&read(text));
    let rules = sets.first().and_then(|set| set.rules.iptables()).map(|rules| rules.rules(TableName::Nat, chain));
    let next = |rule: &svclab_rules::iptables::Rule| {
        rule.next_chain().map_or_else(|| "other".to_owned(), |next| next.to_string())
    };
    rules.unwrap_or_default().iter().map(next).collect()
}

const COLUMNS: &str = "target     prot opt source               destination\n";

const TO_SERVICE: &str =
    "KUBE-SVC-2CMXP7HKUVJN7L6M  tcp  --  anywhere  10.96.34.82  /* default/nginx cluster IP */ tcp dpt:http\n";

const TO_NODE_PORT: &str =
    "KUBE-EXT-2CMXP7HKUVJN7L6M  tcp  --  anywhere  anywhere  /* default/nginx */ tcp dpt:30080\n";

/// Between two parts of a comparison, and of what `grep -A` prints, a heading may be missing.
#[rstest]
#[case::diff("```\n$ diff before after\n", "> ", "36a37,38")]
#[case::unified("```\n$ diff -u before after\n", "+", "@@ -36,2 +37,4 @@")]
#[case::grep("```\n$ iptables -t nat -L | grep -A1 -e MASQ -e nginx\n", "", "--")]
fn a_row_of_another_part_is_not_of_the_chain_before(#[case] before: &str, #[case] mark: &str, #[case] part: &str) {
    let text = format!("{before}{mark}Chain KUBE-MARK-MASQ (10 references)\n{part}\n{mark}{TO_NODE_PORT}```\n");
    assert_eq!(leading(&text, "KUBE-MARK-MASQ"), Vec::<String>::new());
    assert_eq!(leading(&text, "KUBE-NODEPORTS"), ["KUBE-EXT-2CMXP7HKUVJN7L6M"]);
    let evidence = read(&text);
    assert_eq!(evidence.unread, [], "{:?}", evidence.unread);
}

#[test]
fn the_older_side_of_a_diff_is_named() {
    let text = format!("```\n$ diff a b\n1c1\n< {TO_NODE_PORT}---\n> {TO_SERVICE}```\n");
    let evidence = read(&text);
    let reasons: Vec<&str> = evidence.unread.iter().map(|unread| unread.reason.as_str()).collect();
    assert_eq!(reasons, ["it is of the older side of a `diff`"]);
    assert_eq!(evidence.rules_not_read(), None);
    assert_eq!(leading(&text, "KUBE-SERVICES"), ["KUBE-SVC-2CMXP7HKUVJN7L6M"]);
}

/// Two commands list the rows of one chain that have a word.
#[test]
fn two_parts_of_a_chain_are_joined() {
    let command = |word: &str| format!("root@n1:~# iptables -t nat -L KUBE-SERVICES | grep {word}\n");
    let other = TO_SERVICE.replace("2CMXP7HKUVJN7L6M", "AAAAAAAAAAAAAAAA").replace("nginx", "shop");
    let more = other.replace("tcp  --", "udp  --");
    let text = format!("{}{TO_SERVICE}\n{}{other}{more}", command("nginx"), command("shop"));
    let service = "KUBE-SVC-AAAAAAAAAAAAAAAA";
    assert_eq!(leading(&text, "KUBE-SERVICES"), ["KUBE-SVC-2CMXP7HKUVJN7L6M", service, service]);
}

/// `column -t` puts several blanks between all words.
#[test]
fn a_heading_may_have_several_blanks() {
    let text = format!("Chain  KUBE-SERVICES  (2   references)\n{COLUMNS}{TO_SERVICE}");
    let evidence = read(&text);
    assert_eq!((leading(&text, "KUBE-SERVICES").len(), evidence.unread.len()), (1, 0));
}

/// `grep KUBE` leaves out the columns, but not the headings of chains.
#[test]
fn rows_are_of_the_chain_above_them_without_columns() {
    let text = format!(
        "Chain KUBE-MARK-MASQ (14 references)\nChain KUBE-NODEPORTS (1 references)\n{TO_NODE_PORT}\
         Chain KUBE-SVC-2CMXP7HKUVJN7L6M (2 references)\n\
         KUBE-MARK-MASQ  tcp  -- !10.244.0.0/16  10.96.34.82  /* default/nginx cluster IP */ tcp dpt:80\n\
         KUBE-SEP-HUXRPHBUO34UVPEF  all  --  anywhere  anywhere  /* default/nginx -> 10.244.2.2:80 */\n"
    );
    assert_eq!(read(&text).unread, []);
    assert_eq!(leading(&text, "KUBE-SVC-2CMXP7HKUVJN7L6M"), ["KUBE-MARK-MASQ", "KUBE-SEP-HUXRPHBUO34UVPEF"]);
    // Below the heading of another chain, no heading can be trusted.
    let astray = text.replace("Chain KUBE-NODEPORTS (1 references)\n", "");
    assert_eq!(read(&astray).unread.len(), 2);
}

/// A row with a word that is not known may be any rule.
#[rstest]
#[case::known("", &[], false)]
#[case::remark(" ← 1", &[], false)]
#[case::remark_in_words(" <-- this one # second", &[], false)]
#[case::unknown(" zz match", &["`zz` is not known in a row of a listing"], true)]
fn rows_with_unknown_words_are_not_read(#[case] end: &str, #[case] reasons: &[&str], #[case] decides: bool) {
    let row = TO_SERVICE.trim_end();
    let evidence = read(&format!("Chain KUBE-SERVICES (2 references)\n{COLUMNS}{row}{end}\n"));
    let found: Vec<&str> = evidence.unread.iter().map(|unread| unread.reason.as_str()).collect();
    assert_eq!((found.as_slice(), evidence.rules()), (reasons, usize::from(reasons.is_empty())));
    assert_eq!(evidence.rules_not_read().is_some(), decides);
}

/// What lists, commented out, as scripts show output; commands and sentences between it stay.
#[test]
fn output_in_comments_is_read() {
    let text = "```\nkubectl get svc nginx\n# NAME    TYPE        CLUSTER-IP    EXTERNAL-IP   PORT(S)   AGE\n\
                # nginx   ClusterIP   10.96.34.82   <none>        80/TCP    5s\n```\n";
    let evidence = read(text);
    let objects = objects(&evidence);
    assert_eq!(objects[0]["metadata"]["name"], "nginx");
    assert_eq!(evidence.pieces[0].first, 3);
    // Rules in comments have no effect.
    assert_eq!(read("*nat\n#-A KUBE-SERVICES -j KUBE-NODEPORTS\nCOMMIT\n").rules(), 0);
}

const RULE: &str =
    "-A KUBE-NODEPORTS -p tcp -m comment --comment \"default/nginx\" -m tcp --dport 30080 -j KUBE-MARK-MASQ";

#[rstest]
#[case::numbers_of_a_page(format!("1{RULE}\n2\n3{RULE}\n"), 2)]
#[case::remark(format!("{RULE}     ← hairpin\n"), 1)]
#[case::wrapped_with_made_up_names(
    "-A KUBE-SVC-ABCD -m comment --comment \"default/shop\"\n   -m statistic --mode random --probability 0.5 -j KUBE-SEP-1111\n".to_owned(),
    1
)]
fn rules_written_by_hand_are_read(#[case] text: String, #[case] rules: usize) {
    let evidence = read(&format!("```\n{text}```\n"));
    assert_eq!(evidence.unread, []);
    let sets = node_rules(&evidence);
    let targets = sets[0].rules.iptables().unwrap().tables.iter().flat_map(|table| &table.chains);
    let targets = targets.flat_map(|chain| &chain.rules).filter(|rule| rule.target.is_some()).count();
    assert_eq!((evidence.rules(), targets), (rules, rules));
}

/// A rule behind a margin that no layer is counts as a rule that is not read.
#[rstest]
#[case::mark(format!("⑴ {RULE}"), true)]
#[case::sentence(format!("See the rule `{RULE}` above."), false)]
#[case::command("iptables -t nat -A POSTROUTING -o eth0 -j MASQUERADE".to_owned(), false)]
fn rules_that_cannot_be_read_are_counted(#[case] line: String, #[case] expected: bool) {
    let evidence = read(&format!("```\n{line}\n```\n"));
    assert_eq!(evidence.rules_not_read().is_some(), expected, "{:?}", evidence.unread);
}

/// A bullet that explains what is in a dump is no table.
#[test]
fn the_name_of_a_table_in_a_list_is_no_table() {
    let evidence = read("*nat\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n\n- `*raw`\n- `*mangle`\n");
    assert_eq!(evidence.pieces.len(), 1);
}

/// Of a grep in one chain's rules, other chains' rules are not missing.
#[test]
fn a_filter_of_one_chain_is_not_one_of_others() {
    let text = "root@n1:~# iptables -t nat -S KUBE-NODEPORTS | grep nginx\n".to_owned()
        + RULE
        + "\nroot@n1:~# iptables -t nat -S KUBE-SVC-2CMXP7HKUVJN7L6M\n-N KUBE-SVC-2CMXP7HKUVJN7L6M\n\
           -A KUBE-SVC-2CMXP7HKUVJN7L6M -m comment --comment \"default/nginx\" -j KUBE-SEP-HUXRPHBUO34UVPEF\n";
    assert!(node_rules(&read(&text)).iter().all(|set| set.shortened.is_empty()));
}

/// Pages show a command in one block of code and its output in the next; what comes after other words is not its output.
#[rstest]
#[case::next("```bash\niptables-save | grep nginx\n```\n\n```\nRULE\n```\n", true)]
#[case::label("```\niptables-save | grep nginx\n```\nOutput:\n```\nRULE\n```\n", true)]
#[case::sentence(
    "```\niptables-save | grep nginx\n```\nThe rules of another node look like these.\n```\nRULE\n```\n",
    false
)]
#[case::other_output("```\niptables-save | grep nginx\nsome output\n```\n```\nRULE\n```\n", false)]
#[case::other_program("```\nkubectl get svc\n```\n```\nRULE\n```\n", false)]
fn the_output_of_a_command_may_be_in_the_next_block(#[case] text: &str, #[case] expected: bool) {
    let rule = "-A KUBE-SERVICES -d 10.96.34.82/32 -p tcp -m comment --comment \"default/nginx cluster IP\" -m tcp --dport 80 -j KUBE-SVC-2CMXP7HKUVJN7L6M";
    let evidence = read(&text.replace("RULE", rule));
    let [piece] = evidence.pieces.as_slice() else { panic!("{evidence:?}") };
    assert_eq!(piece.command.is_some(), expected, "{piece:?}");
}
