//! Rules and commands that go on in the next line after a backslash, as in a shell.

use super::command::command;
use super::line::Line;
use super::repairs::Repair;

/// The most lines that are joined to one.
const MOST: usize = 16;

/// Joins lines after a backslash. What was joined leaves a blank line.
pub(super) fn join(lines: &mut [Line<'_>]) {
    let mut at = 0;
    while at < lines.len() {
        let start = at;
        at += 1;
        let Some(mut joined) = continued(&lines[start]).filter(|text| is_of_shell(text)).map(str::to_owned) else {
            continue;
        };
        while at < lines.len() && at - start <= MOST && !lines[at].is_fence() && !lines[at].is_blank() {
            let rest = continued(&lines[at]);
            joined.push(' ');
            joined.push_str(rest.unwrap_or(&lines[at].text).trim_start());
            let goes_on = rest.is_some();
            lines[at] = lines[at].with("", Repair::Wrapped);
            at += 1;
            if !goes_on {
                break;
            }
        }
        lines[start] = lines[start].with(joined, Repair::Wrapped);
    }
}

/// A line without the backslash at its end.
fn continued<'l>(line: &'l Line<'_>) -> Option<&'l str> {
    Some(line.text.trim_end().strip_suffix('\\')?.trim_end())
}

fn is_of_shell(text: &str) -> bool {
    let text = text.trim_start();
    let rule = text.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(text, |(_, rest)| rest);
    rule.starts_with("-A ") || rule.starts_with("-I ") || command(text).is_some()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::line::lines;
    use super::*;

    #[rstest]
    #[case::rule(
        "-A KUBE-SEP-A -s 10.0.0.4/32 \\\n\t-m comment --comment \"x\" \\\n  -j KUBE-MARK-MASQ\nend",
        "-A KUBE-SEP-A -s 10.0.0.4/32 -m comment --comment \"x\" -j KUBE-MARK-MASQ|||end"
    )]
    #[case::command("$ iptables-save |\\\n  grep web\n-A X", "$ iptables-save | grep web||-A X")]
    #[case::prose("either \\\nor", "either \\|or")]
    #[case::end("-A X -j Y \\", "-A X -j Y")]
    fn lines_after_a_backslash_are_joined(#[case] text: &str, #[case] expected: &str) {
        let mut all = lines(text);
        join(&mut all);
        let joined: Vec<&str> = all.iter().map(|line| &*line.text).collect();
        assert_eq!(joined.join("|"), expected);
    }
}
