//! What programs after a `|` leave of the rules that a command prints.

use svclab_rules::coverage::Coverage;

use super::command::Command;
use super::grep::{Patterns, Unknown};
use super::pipes::pipes;

/// Which lines of a command's output are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Filter {
    /// All.
    #[default]
    None,
    /// The lines up to some line.
    End,
    /// The lines that patterns select.
    Lines(Patterns),
    /// Any, for this reason.
    Unknown(String),
}

/// Programs that change no line.
const PASSING: [&str; 9] = ["cat", "less", "more", "tee", "nl", "column", "sudo", "expand", "batcat"];

/// Programs that change the order of lines.
const ORDERING: [&str; 3] = ["sort", "tac", "shuf"];

impl Command {
    /// Whether a program after it changes the order of lines.
    pub(super) fn changes_order(&self) -> bool {
        pipes(&self.text).iter().flatten().any(|words| orders(words))
    }

    /// What the programs after it, or it itself where it is a `grep`, leave of the rules.
    pub(super) fn filter(&self) -> Filter {
        let mut filters = pipes(&self.text).into_iter().map(|programs| {
            match (pipe_filter(&programs), programs.iter().any(|words| orders(words))) {
                // What is not there was not printed, but no chain is followed by another.
                (Filter::None, true) => Filter::Lines(Patterns::default()),
                (Filter::End, true) => Filter::Unknown("`head` shows the first lines of another order".to_owned()),
                (filter, _) => filter,
            }
        });
        let first = self.of_its_chain(filters.next().unwrap_or_default());
        if filters.all(|next| next == first) {
            first
        } else {
            Filter::Unknown("several commands choose different lines".to_owned())
        }
    }

    /// What is left of the chain that it prints, if it prints one alone: `iptables -S KUBE-SERVICES | grep web`.
    fn of_its_chain(&self, filter: Filter) -> Filter {
        let Filter::Lines(patterns) = filter else { return filter };
        let pipes = pipes(&self.text);
        let [pipe] = pipes.as_slice() else { return Filter::Lines(patterns) };
        let words = pipe.first().map(Vec::as_slice).unwrap_or_default();
        let chain = words.windows(2).find(|pair| matches!(&*pair[0], "-S" | "--list-rules")).map(|pair| &pair[1]);
        let chain = chain.filter(|chain| !chain.starts_with('-'));
        match chain.and_then(|chain| Patterns::having(&[format!("-A {chain} ")])) {
            Some(own) => Filter::Lines(patterns.and(own)),
            None => Filter::Lines(patterns),
        }
    }
}

fn pipe_filter(programs: &[Vec<String>]) -> Filter {
    programs.iter().enumerate().fold(Filter::None, |filter, (at, words)| {
        match (filter, program_filter(at == 0, words)) {
            (filter, Filter::None) => filter,
            (Filter::None, next) => next,
            (Filter::Lines(one), Filter::Lines(other)) => Filter::Lines(one.and(other)),
            (unknown @ Filter::Unknown(_), _) | (_, unknown @ Filter::Unknown(_)) => unknown,
            (Filter::End, _) | (_, Filter::End) => {
                Filter::Unknown("`head` and another program choose lines".to_owned())
            }
        }
    })
}

/// Whether a program changes the order of lines.
fn orders(words: &[String]) -> bool {
    ORDERING.contains(&program(&mut words.iter()))
}

/// Takes the name of a program from its words.
fn program<'w>(words: &mut impl Iterator<Item = &'w String>) -> &'w str {
    let first = words.find(|word| *word != "sudo" && !word.contains('='));
    first.map_or("", |program| program.rsplit('/').next().unwrap_or(program))
}

fn program_filter(is_first: bool, words: &[String]) -> Filter {
    let mut words = words.iter();
    let program = program(&mut words);
    let arguments: Vec<String> = words.take_while(|word| !is_redirection(word)).cloned().collect();
    let chosen = |patterns: Result<Patterns, Unknown>| match patterns {
        Ok(patterns) => Filter::Lines(patterns),
        Err(why) => Filter::Unknown(format!("`{program}` {}", why.words())),
    };
    match program {
        "grep" | "egrep" | "fgrep" | "zgrep" | "rg" => chosen(Patterns::from_grep(program, &arguments)),
        "awk" | "gawk" | "mawk" => chosen(Patterns::from_awk(&arguments)),
        "sed" => chosen(Patterns::from_sed(&arguments)),
        "head" => Filter::End,
        "uniq" if arguments.is_empty() => Filter::None,
        _ if ORDERING.contains(&program) => Filter::None,
        _ if is_first || PASSING.contains(&program) => Filter::None,
        _ => Filter::Unknown(format!("it is not known which lines `{program}` shows")),
    }
}

/// `>file`, `2>/dev/null`
fn is_redirection(word: &str) -> bool {
    word.trim_start_matches(|letter: char| letter.is_ascii_digit()).starts_with('>')
}

impl Filter {
    /// Takes back what lines show whole where the filter may have left some of it out. Chains are named with their tables; `table` is that which
    /// the command prints alone, and `is_broken` says that lines are left out for other reasons as well.
    pub(super) fn apply<'c>(
        &self,
        chains: impl Iterator<Item = (&'c str, &'c str)>,
        table: Option<&str>,
        is_broken: bool,
        coverage: &mut Coverage,
    ) {
        match self {
            Self::None | Self::End => {}
            Self::Lines(patterns) if !is_broken => coverage.add_filter(table, patterns.clone()),
            Self::Lines(_) | Self::Unknown(_) => {
                coverage.clear();
                chains.for_each(|(table, chain)| coverage.add_truncated(table, chain));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none("iptables-save", Filter::None)]
    #[case::shown("sudo iptables -t nat -nL | less", Filter::None)]
    #[case::head("iptables-save -t nat | head -50", Filter::End)]
    #[case::word("iptables-save | grep KUBE-SVC-X", lines(&["KUBE-SVC-X"]))]
    #[case::path("sudo iptables-save 2>/dev/null | /bin/grep KUBE-SVC-X > x", lines(&["KUBE-SVC-X"]))]
    #[case::of_a_file("grep KUBE-SVC-X rules.txt", lines(&["KUBE-SVC-X"]))]
    #[case::extended("iptables-save | grep -E 'KUBE-SEP|nginx'", lines(&["-E", "KUBE-SEP|nginx"]))]
    #[case::basic(r#"iptables-save | grep "KUBE-SEP\|nginx""#, lines(&[r"KUBE-SEP\|nginx"]))]
    #[case::inverted("iptables-save | grep -v DNAT", lines(&["-v", "DNAT"]))]
    #[case::awk("iptables-save | awk '/nginx/'", lines(&["-E", "nginx"]))]
    #[case::sed("iptables-save | sed -n '/nginx/p'", lines(&["nginx"]))]
    #[case::twice("iptables-save | grep nginx | grep -v SEP", lines(&["nginx"]).and(lines(&["-v", "SEP"])))]
    #[case::two_commands("iptables-save | grep nginx; ip6tables-save | grep nginx", lines(&["nginx"]))]
    #[case::sorted("iptables-save | sort | uniq", Filter::Lines(Patterns::default()))]
    #[case::sorted_and_chosen("iptables-save | grep nginx | sort -u", lines(&["nginx"]))]
    #[case::after_the_options("iptables-save | grep -- '-A KUBE-SVC'", lines(&["-e", "-A KUBE-SVC"]))]
    fn filters_are_known_by_their_programs(#[case] text: &str, #[case] expected: Filter) {
        assert_eq!(Command { text: text.to_owned(), host: None }.filter(), expected);
    }

    #[rstest]
    #[case::two_filters("iptables-save | grep nginx; ip6tables-save", "several commands choose different lines")]
    #[case::two_cases(
        "iptables-save | grep -i nginx; ip6tables-save | grep nginx",
        "several commands choose different lines"
    )]
    #[case::columns("iptables-save | awk '{print $2}'", "`awk` does not choose whole lines by a pattern")]
    #[case::other("iptables-save | rev", "it is not known which lines `rev` shows")]
    #[case::counted("iptables-save | sort | uniq -c", "it is not known which lines `uniq` shows")]
    #[case::end_of_sorted("iptables-save | sort | head", "`head` shows the first lines of another order")]
    #[case::invalid("iptables-save | grep -E 'web('", "`grep` has a pattern that is not a valid regular expression")]
    #[case::too_large(
        "iptables-save | egrep '((x{1000}){1000}){1000}'",
        "`egrep` has patterns that are too large to follow"
    )]
    #[case::after_another("iptables-save | grep nginx | cut -c1-80", "it is not known which lines `cut` shows")]
    #[case::end("iptables-save | grep nginx | head", "`head` and another program choose lines")]
    fn why_lines_are_not_known_is_said(#[case] text: &str, #[case] expected: &str) {
        let filter = Command { text: text.to_owned(), host: None }.filter();
        assert_eq!(filter, Filter::Unknown(expected.to_owned()));
    }

    fn lines(arguments: &[&str]) -> Filter {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        Filter::Lines(Patterns::from_grep("grep", &arguments).unwrap())
    }

    impl Filter {
        fn and(self, other: Self) -> Self {
            match (self, other) {
                (Self::Lines(one), Self::Lines(other)) => Self::Lines(one.and(other)),
                (one, other) => panic!("{one:?} {other:?}"),
            }
        }
    }
}
