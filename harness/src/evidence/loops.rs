//! A shell's loop over machines, `for n in k1 k2; do echo "== $n"; ssh $n sudo iptables-save; done`.
//!
//! In its output, a line with the name of one of them, and nothing else but marks, is the heading of what follows.

/// The marks around a name in a heading: `== k1`, `==> k1 <==`, `--- k1 ---`, `### k1`, `k1:`.
const MARKS: [char; 8] = ['=', '-', '#', '<', '>', '*', ':', ' '];

/// The machines that a command's loop names.
pub(super) fn machines(command: &str) -> Vec<String> {
    let mut words = command.split_whitespace();
    if words.next() != Some("for") || words.nth(1) != Some("in") {
        return Vec::new();
    }
    let mut machines = Vec::new();
    for word in words.take_while(|word| *word != "do") {
        let (name, is_last) = word.split_once(';').map_or((word, false), |(name, _)| (name, true));
        // What another command prints is not known.
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_@:".contains(&byte)) {
            return Vec::new();
        }
        machines.extend(Some(name.to_owned()).filter(|name| !name.is_empty()));
        if is_last {
            break;
        }
    }
    machines
}

/// The machine that a line is the heading of.
pub(super) fn heading<'m>(line: &str, machines: &'m [String]) -> Option<&'m String> {
    let name = line.trim().trim_matches(MARKS);
    machines.iter().find(|machine| *machine == name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("for n in k1 k2 k3; do ssh $n sudo iptables-save; done", &["k1", "k2", "k3"])]
    #[case("for n in root@10.0.0.1 w-2 ; do", &["root@10.0.0.1", "w-2"])]
    #[case("for n in $(kubectl get nodes -o name); do", &[])]
    #[case("kubectl get nodes", &[])]
    fn machines_are_those_of_the_loop(#[case] command: &str, #[case] expected: &[&str]) {
        assert_eq!(machines(command), expected);
    }

    #[rstest]
    #[case("== k1", true)]
    #[case("=== k1 ===", true)]
    #[case("==> k1 <==", true)]
    #[case("--- k1 ---", true)]
    #[case("k1:", true)]
    #[case("# k1", true)]
    #[case("k2", false)]
    #[case("-A k1 -j k1", false)]
    fn a_heading_has_a_name_and_marks(#[case] line: &str, #[case] expected: bool) {
        assert_eq!(heading(line, &["k1".to_owned()]).is_some(), expected);
    }
}
