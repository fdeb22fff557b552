//! What programs behind a `|` leave of the rules that a command prints.

use svclab_rules::coverage::Coverage;

use super::command::Command;

/// Which lines of a command's output are shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Filter {
    /// All.
    #[default]
    None,
    /// Those up to some line.
    End,
    /// Those with any of these words, as `grep` shows: all lines of a chain whose name has one.
    Words(Vec<String>),
    /// Any.
    Unknown,
}

/// Programs that change no line.
const PASSING: [&str; 10] = ["cat", "less", "more", "tee", "nl", "column", "tac", "sudo", "expand", "batcat"];

impl Command {
    /// What the programs behind it leave of its output.
    pub(super) fn filter(&self) -> Filter {
        let mut filter = Filter::None;
        for (program, own) in programs(&self.text).iter().skip(1).map(|words| (words.first(), words)) {
            let program = program.map_or("", |program| program.rsplit('/').next().unwrap_or(program));
            let next = match program {
                "grep" | "egrep" | "fgrep" | "zgrep" | "rg" => words(&own[1..]),
                "head" => Filter::End,
                _ if PASSING.contains(&program) => Filter::None,
                _ => Filter::Unknown,
            };
            filter = match (filter, next) {
                (filter, Filter::None) => filter,
                (Filter::None, next) => next,
                _ => Filter::Unknown,
            };
        }
        filter
    }
}

/// The words of each program of a pipe. A pattern in quotes may have a `|` of its own.
fn programs(text: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let (mut word, mut quote, mut is_escaped): (Option<String>, Option<char>, bool) = (None, None, false);
    for letter in text.chars() {
        match (letter, quote) {
            _ if is_escaped => {
                word.get_or_insert_default().push(letter);
                is_escaped = false;
            }
            ('\\', None) => is_escaped = true,
            (_, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            ('|', None) => {
                all.last_mut().into_iter().for_each(|own| own.extend(word.take()));
                all.push(Vec::new());
            }
            (letter, None) if letter.is_whitespace() => {
                all.last_mut().into_iter().for_each(|own| own.extend(word.take()));
            }
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    all.last_mut().into_iter().for_each(|own| own.extend(word.take()));
    all
}

/// The words that `grep` looks for.
fn words(arguments: &[String]) -> Filter {
    let inverts = |word: &&String| {
        *word == "--invert-match" || word.starts_with('-') && !word.starts_with("--") && word.contains('v')
    };
    if arguments.iter().any(|word| inverts(&word)) {
        return Filter::Unknown;
    }
    let mut patterns: Vec<&str> = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-e" | "--regexp" => patterns.extend(rest.next().map(String::as_str)),
            "-A" | "-B" | "-C" | "-m" => _ = rest.next(),
            option if option.starts_with('-') => {}
            pattern => patterns.push(pattern),
        }
    }
    let parts = patterns.iter().flat_map(|pattern| pattern.split("\\|").flat_map(|part| part.split('|')));
    let is_word = |part: &&str| {
        part.len() > 3 && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    };
    Filter::Words(
        parts.map(|part| part.trim_matches(['^', '$', '(', ')'])).filter(is_word).map(str::to_uppercase).collect(),
    )
}

impl Filter {
    /// Takes back what lines show whole where the filter may have left some of it out. Chains are named with their tables.
    pub(super) fn apply<'c>(&self, chains: impl Iterator<Item = (&'c str, &'c str)>, coverage: &mut Coverage) {
        match self {
            Self::None | Self::End => {}
            Self::Words(words) => {
                coverage.retain_chains(|chain| words.iter().any(|word| chain.to_uppercase().contains(word.as_str())))
            }
            Self::Unknown => {
                coverage.retain_chains(|_| false);
                chains.for_each(|(table, chain)| coverage.add_cut(table, chain));
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
    #[case::word("iptables-save | grep KUBE-SVC-X", Filter::Words(vec!["KUBE-SVC-X".to_owned()]))]
    #[case::words(
        "iptables-save | grep -E 'KUBE-SEP|nginx'",
        Filter::Words(vec!["KUBE-SEP".to_owned(), "NGINX".to_owned()])
    )]
    #[case::basic(r#"iptables-save | grep "KUBE-SEP\|nginx""#, Filter::Words(vec!["KUBE-SEP".to_owned(), "NGINX".to_owned()]))]
    #[case::inverted("iptables-save | grep -v DNAT", Filter::Unknown)]
    #[case::twice("iptables-save | grep nginx | grep KUBE-SVC", Filter::Unknown)]
    #[case::other("iptables-save | awk '/nginx/'", Filter::Unknown)]
    fn filters_are_known_by_their_programs(#[case] text: &str, #[case] expected: Filter) {
        assert_eq!(Command { text: text.to_owned(), host: None }.filter(), expected);
    }
}
