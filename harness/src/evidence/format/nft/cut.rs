//! The last line of a text that is cut off: as the end of its chain or set is missing, so may be a part of the line.

use std::ops::Range;

use super::{Line, is_part};

/// Why the line is not read.
pub(super) const REASON: &str = "the line may be cut off";

/// Last words of a whole rule.
const ENDS: [&str; 5] = ["accept", "drop", "return", "continue", "fully-random"];

/// Chains that kube-proxy always has and jumps to.
const CHAINS: [&str; 8] = [
    "services",
    "reject-chain",
    "masquerading",
    "mark-for-masquerade",
    "firewall-check",
    "cluster-ips-check",
    "nodeport-endpoints-check",
    "service-endpoints-check",
];

/// The last line of a block without its end, unless it is whole for certain; with all lines of its set or map if these lack the type.
pub(super) fn cut_lines(block: &[Line<'_>]) -> Option<Range<usize>> {
    let text = |at: usize| block[at].text.trim();
    let last = block.iter().rposition(|line| !line.is_blank())?;
    let heading = (0..=last).rev().find(|at| is_part(text(*at)))?;
    if text(heading).starts_with("chain ") {
        let is_whole = last == heading || is_whole_rule(text(last), block);
        return (!is_whole).then_some(last..last + 1);
    }
    let is_type = |at: usize| text(at).starts_with("type ") || text(at).starts_with("typeof ");
    if !(heading..last).any(is_type) {
        return Some(heading..last + 1);
    }
    (!text(last).ends_with([',', '{', '}', '"'])).then_some(last..last + 1)
}

fn is_whole_rule(text: &str, block: &[Line<'_>]) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["comment", ..] | ["type", .., "accept;" | "drop;"] => true,
        [.., "jump" | "goto", name] => {
            let is_named =
                |text: &str| text.strip_prefix("chain ").is_some_and(|rest| rest.split(' ').next() == Some(name));
            CHAINS.contains(name) || block.iter().any(|line| is_named(line.text.trim()))
        }
        [.., last] => ENDS.contains(last) || last.ends_with(['}', '"']),
        [] => true,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::verdict("chain a {\n\tct state new accept", None)]
    #[case::jump("chain a {\n\tip daddr 10.0.0.1 jump mark-for-masquerade", None)]
    #[case::known_chain("chain b {\n}\nchain a {\n\tgoto b", None)]
    #[case::name("chain a {\n\tip daddr 10.0.0.1 jump mark-for-masq", Some(1..2))]
    #[case::set("chain a {\n\tip saddr @affinity-X", Some(1..2))]
    #[case::port("chain a {\n\tmeta l4proto tcp dnat to 10.0.0.1:80", Some(1..2))]
    #[case::map("chain a {\n\tdnat ip to numgen random mod 2 map {", Some(1..2))]
    #[case::heading("chain a {", None)]
    #[case::heading_of_map("chain b {\n}\nmap a {", Some(2..3))]
    #[case::type_of_map("map a {\n\ttype ipv4_addr", Some(0..2))]
    #[case::size("set a {\n\ttype ipv4_addr\n\tsize 655", Some(2..3))]
    #[case::element("set a {\n\ttype ipv4_addr\n\telements = { 10.0.0.1,\n10.0.0.2", Some(3..4))]
    #[case::between_elements("set a {\n\ttype ipv4_addr\n\telements = { 10.0.0.1,", None)]
    fn a_last_line_that_may_be_longer_is_not_read(#[case] text: &str, #[case] expected: Option<Range<usize>>) {
        let lines: Vec<Line<'_>> = super::super::super::super::line::lines(text);
        assert_eq!(cut_lines(&lines), expected);
    }
}
