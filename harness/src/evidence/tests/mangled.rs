//! Text that a terminal wrapped, or that went through logs, mail and web pages.

use rstest::rstest;

use super::super::*;
use super::{OF_NFT, SAVED, codes, unaccounted, wrapped};

fn each(change: impl Fn(usize, &str) -> String) -> String {
    SAVED.lines().enumerate().map(|(at, line)| change(at, line) + "\n").collect()
}

/// Format × mangling: the same four rules are read.
#[rstest]
#[case::plain(SAVED.to_owned())]
#[case::crlf(each(|_, line| format!("{line}\r")))]
#[case::indented(each(|_, line| format!("\t{line}")))]
#[case::fenced(format!("Here it is:\n```console\n$ sudo iptables-save\n{SAVED}```\nThanks."))]
#[case::quoted(each(|_, line| format!("> {line}")))]
#[case::diff(each(|_, line| format!("+{line}")))]
#[case::journald(each(|_, line| format!("Jun 14 12:00:00 node-1 kube-proxy[1234]: {line}")))]
#[case::container_log(each(|_, line| format!("2024-06-14T12:00:00.123456789Z stderr F {line}")))]
#[case::pod_log(each(|_, line| format!("[pod/kube-proxy-abcde/kube-proxy] {line}")))]
#[case::pod_and_container(each(|_, line| format!("kube-proxy-22hmk kube-proxy {line}")))]
#[case::kernel_log(each(|_, line| format!("[   14.414142] {line}")))]
#[case::screen(each(|_, line| format!("│ {line}")))]
#[case::numbered(each(|at, line| format!("{:4}  {line}", at + 1)))]
#[case::grep_numbers(each(|at, line| format!("{}:{line}", at + 1)))]
#[case::grep_names(each(|_, line| format!("rules.txt:{line}")))]
#[case::bars(each(|_, line| format!("| {line} |")))]
#[case::smart_quotes(SAVED.replacen("--comment \"", "--comment “", 9).replace("cluster IP\"", "cluster IP”").replace("nginx\"", "nginx”").replace("portals\"", "portals”"))]
#[case::dashes(SAVED.replace("--", "–").replace("-A ", "–A "))]
#[case::entities(SAVED.replace('"', "&quot;"))]
#[case::escaped(SAVED.replace('"', "\\\""))]
#[case::coloured(each(|_, line| format!("\u{1b}[31m{line}\u{1b}[0m")))]
#[case::no_break_spaces(SAVED.replace(" -j", "\u{a0}-j"))]
#[case::on_one_line(SAVED.lines().skip(1).collect::<Vec<_>>().join(" "))]
#[case::rules_alone(SAVED.lines().filter(|line| line.starts_with("-A")).collect::<Vec<_>>().join("\n"))]
#[case::counters(each(|_, line| if line.starts_with("-A") { format!("[1:60] {line}") } else { line.to_owned() }))]
#[case::comments(each(|_, line| format!("// {line}")))]
#[case::wrapped(wrapped(SAVED, 80))]
#[case::wrapped_narrowly(wrapped(SAVED, 60))]
#[case::wrapped_and_indented(wrapped(SAVED, 80).lines().map(|line| format!("    {line}\n")).collect())]
#[case::quoted_diff(each(|_, line| format!("> +{line}")))]
#[case::quoted_log_of_a_diff(each(|_, line| format!("> +Jun 14 12:00:00 node-1 kube-proxy[1234]: {line}")))]
#[case::numbered_pod_log(each(|at, line| format!("[pod/kube-proxy-abcde/kube-proxy] {}:{line}", at + 1)))]
fn mangled_rules_are_read(#[case] text: String) {
    let evidence = read(&text);
    assert_eq!(evidence.unread, []);
    assert_eq!(unaccounted(&text, &evidence), Vec::<usize>::new());
    assert_eq!((codes(&evidence), evidence.rules()), (vec!["iptables-save"], 4), "{:#?}", evidence.pieces);
    let all = node_rules(&evidence);
    let known = node_rules(&read(SAVED));
    let chains = |rules: &NodeRules| {
        rules.rules.iptables().unwrap().tables[0]
            .chains
            .iter()
            .map(|chain| {
                chain
                    .rules
                    .iter()
                    .map(|rule| {
                        svclab_rules::iptables::print_rule(
                            svclab_rules::cluster::Family::Ipv4,
                            &chain.name,
                            &rule.without_counters(),
                        )
                    })
                    .collect::<String>()
            })
            .filter(|rules| !rules.is_empty())
            .collect::<Vec<_>>()
    };
    assert_eq!(chains(&all[0]), chains(&known[0]));
}

/// What a text with rules of iptables says, as `iptables-save` prints it.
fn rules_of(text: &str) -> Vec<String> {
    read(text)
        .pieces
        .iter()
        .filter_map(|piece| match &piece.contents {
            Contents::Iptables { rules, .. } => Some(printed(rules)),
            _ => None,
        })
        .collect()
}

fn printed(rules: &svclab_rules::iptables::Parsed) -> String {
    svclab_rules::ruleset::Rules::Iptables(rules.clone()).print()
}

/// A terminal wraps at its width, in the middle of a word: rows and rules are the same as in one line.
#[rstest]
#[case::saved("golden/small-cluster/v1.30-iptables/iptables-save.txt")]
#[case::listed("listings/small-cluster/v1.30-iptables/legacy-ipv4-L-n.txt")]
#[case::counted("listings/small-cluster/v1.30-iptables/legacy-ipv4-L-n-v-x.txt")]
#[case::numbered("listings/small-cluster/v1.30-iptables/legacy-ipv4-L-n-v-line-numbers.txt")]
fn what_a_terminal_wrapped_is_read_as_it_was(
    #[case] name: &str,
    #[values(80, 90, 97, 100, 120, 132, 158)] width: usize,
) {
    let text = std::fs::read_to_string(format!("../rules/tests/{name}")).unwrap();
    let wrapped = wrapped(&text, width);
    assert_eq!(rules_of(&wrapped), rules_of(&text));
}

/// An editor breaks lines between words, and the blank at the break may be gone.
#[rstest]
fn rules_broken_between_words_are_read_as_they_were(#[values(80, 90, 97, 99, 100, 101, 110, 120)] width: usize) {
    let text =
        std::fs::read_to_string("../rules/tests/golden/clusterip-three-endpoints/v1.32-iptables/iptables-save.txt");
    let text = text.unwrap();
    assert_eq!(rules_of(&broken_between_words(&text, width)), rules_of(&text));
}

/// As `fold -s` does, without blanks at the ends of lines.
fn broken_between_words(text: &str, width: usize) -> String {
    let mut broken = String::new();
    for line in text.lines() {
        let mut length = 0;
        for word in line.split(' ') {
            if length > 0 {
                let fits = length + 1 + word.len() <= width;
                broken.push(if fits { ' ' } else { '\n' });
                length = if fits { length + 1 } else { 0 };
            }
            broken += word;
            length += word.len();
        }
        broken.push('\n');
    }
    broken
}

/// A remark may stand for rules that a person left out: what lies around it is not whole.
#[rstest]
fn remarks_for_what_is_left_out_are_gaps(
    #[values("...", "# ...", "# snip", "# [snip]", "#...", "# ... other rules", "[omitted]", "// ...")] mark: &str,
) {
    let text =
        std::fs::read_to_string("../rules/tests/golden/clusterip-three-endpoints/v1.32-iptables/iptables-save.txt");
    let left_out = "-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN";
    let text = text.unwrap().replace(left_out, mark);
    let evidence = read(&text);
    let coverage = &node_rules(&evidence)[0].coverage;
    assert!(!coverage.has_chain("nat", "KUBE-POSTROUTING"), "{coverage:?}");
    assert!(coverage.has_chain("nat", "KUBE-SEP-GWQABTP5GBYXHJY5"), "{coverage:?}");
}

/// Where the table is not shown, addresses say of which family it is.
#[test]
fn a_table_without_its_heading_is_of_the_family_that_it_names() {
    let text = std::fs::read_to_string("../rules/tests/golden/dual-stack/v1.36-nftables/nft-ruleset.txt").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let table = lines.iter().position(|line| line.starts_with("table ip6 ")).unwrap();
    for start in (table + 1..lines.len()).step_by(20) {
        let rest = lines[start..].join("\n") + "\n";
        if !rest.contains("ip6 ") && !rest.contains("ipv6_addr") {
            break;
        }
        let evidence = read(&rest);
        for rules in node_rules(&evidence) {
            let svclab_rules::ruleset::Rules::Nftables(parsed) = &rules.rules else { continue };
            let families: Vec<_> = parsed.rules.tables.iter().map(|table| table.family).collect();
            assert_eq!(families, [svclab_rules::cluster::Family::Ipv6], "from line {}", start + 1);
        }
    }
}

/// Rows that a terminal wrapped are those that it printed.
#[rstest]
fn wrapped_connections_are_read(#[values(80, 90, 100, 130)] width: usize) {
    let rows = "\
udp      17 29 src=10.244.1.3 dst=10.96.0.10 sport=40000 dport=53 [UNREPLIED] src=10.244.2.2 dst=10.244.1.3 sport=53 dport=40000 mark=0 use=1
tcp      6 431999 ESTABLISHED src=10.244.1.3 dst=10.96.0.80 sport=41000 dport=80 src=10.244.1.5 dst=10.244.1.3 sport=8080 dport=41000 [ASSURED] mark=0 use=1
    [NEW] udp      17 30 src=10.244.1.3 dst=10.96.0.10 sport=40000 dport=53 [UNREPLIED] src=10.244.2.2 dst=10.244.1.3 sport=53 dport=40000
";
    let connections = |text: &str| {
        let evidence = read(text);
        assert_eq!((codes(&evidence), &*evidence.unread), (vec!["conntrack"], &[][..]), "{text}");
        let Contents::Connections(all) = &evidence.pieces[0].contents else { panic!("{:#?}", evidence.pieces) };
        all.iter().map(|one| Connection { line: 0, ..one.clone() }).collect::<Vec<_>>()
    };
    assert_eq!(connections(&wrapped(rows, width)), connections(rows));
}

/// A rule without a target is joined like any other, and so is one of which a number alone is left for the next line.
#[rstest]
#[case(
    "-A KUBE-FW-BS4KY4QTJRNEIICP -m comment --comment \"other traffic to default/web:d",
    "ns will be dropped by KUBE-PROXY-FIREWALL\""
)]
#[case(
    "-A KUBE-SEP-ELX6N4Z5RGB67TLC -p tcp -m comment --comment \"default/web:http\" -m tcp -j DNAT --to-destination 10.244.1.11:",
    "8080"
)]
fn wrapped_rules_are_joined(#[case] first: &str, #[case] rest: &str) {
    let evidence = read(&format!("{first}\n{rest}\n"));
    assert_eq!((evidence.rules(), evidence.unread), (1, Vec::new()));
}

/// A name that is cut within a list could be parsed, too.
#[rstest]
fn a_wrapped_ruleset_is_read_as_it_was(#[values(80, 100, 140, 160, 180, 200)] width: usize) {
    let text =
        std::fs::read_to_string("../rules/tests/golden/clusterip-seven-endpoints/v1.36-nftables/nft-ruleset.txt")
            .unwrap();
    let (evidence, whole) = (read(&wrapped(&text, width)), read(&text));
    assert_eq!(node_rules(&evidence)[0].rules.print(), node_rules(&whole)[0].rules.print());
}

/// nft indents all lines of its tables, so that a line that is not goes on.
#[rstest]
#[case::alone("")]
#[case::indented("    ")]
#[case::quoted("> ")]
fn wrapped_text_of_nft_is_read(#[case] mark: &str, #[values(80, 100)] width: usize) {
    let long =
        format!("\tchain long {{\n\t\tip daddr 10.96.0.0/12 drop comment \"{}\"\n\t}}\n", "Drop traffic ".repeat(12));
    let text = OF_NFT.replacen("table ip kube-proxy {\n", &format!("table ip kube-proxy {{\n{long}"), 1);
    let lines = wrapped(&text, width);
    let marked: String = lines.lines().map(|line| format!("{mark}{line}\n")).collect();
    let (evidence, whole) = (read(&marked), read(&text));
    assert_eq!(
        (evidence.rules(), evidence.unread.len(), unaccounted(&marked, &evidence)),
        (whole.rules(), 0, Vec::new())
    );
    assert_eq!(node_rules(&evidence)[0].rules.print(), node_rules(&whole)[0].rules.print());
}
