//! The patterns of `grep`, `awk` and `sed`: which lines of a text they show.

use regex::{Regex, RegexBuilder};
use svclab_rules::coverage::Lines;

/// The longest pattern that is looked at.
const MOST_LETTERS: usize = 2000;

/// Patterns one behind the other, each of which lets some lines pass.
#[derive(Debug, Clone, Default)]
pub(super) struct Patterns(Vec<Pattern>);

/// One program's patterns.
#[derive(Debug, Clone)]
struct Pattern {
    /// Any of these.
    any: Vec<Regex>,
    /// Whether the other lines are shown.
    is_inverted: bool,
    /// Whether a pattern looks at the end of the line.
    asks_for_end: bool,
}

/// How a pattern is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Basic,
    Extended,
    Fixed,
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Eq for Patterns {}

impl Patterns {
    /// The lines that pass these and then others.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Lines that have all of some texts.
    pub(super) fn having(texts: &[String]) -> Option<Self> {
        let of = |text: &String| Pattern::of(std::slice::from_ref(text), Syntax::Fixed, Options::default());
        texts.iter().map(of).collect::<Option<Vec<_>>>().map(Self)
    }

    /// What `grep` shows when it is called with these arguments; `None` where that is not known by its lines alone.
    pub(super) fn of_grep(program: &str, arguments: &[String]) -> Option<Self> {
        let mut syntax = match program {
            "egrep" | "rg" => Syntax::Extended,
            "fgrep" => Syntax::Fixed,
            _ => Syntax::Basic,
        };
        let mut options = Options::default();
        let mut patterns: Vec<String> = Vec::new();
        let mut others: Vec<String> = Vec::new();
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "--extended-regexp" | "--perl-regexp" => syntax = Syntax::Extended,
                "--fixed-strings" => syntax = Syntax::Fixed,
                "--ignore-case" => options.ignores_case = true,
                "--invert-match" => options.is_inverted = true,
                "--word-regexp" => options.is_word = true,
                "--line-regexp" => options.is_line = true,
                "--regexp" => patterns.push(rest.next()?.clone()),
                "--only-matching" | "--count" | "--quiet" | "--files-with-matches" | "--file" | "--max-count" => {
                    return None;
                }
                "--after-context" | "--before-context" | "--context" => _ = rest.next(),
                long if long.starts_with("--regexp=") => patterns.push(long["--regexp=".len()..].to_owned()),
                long if long.starts_with("--file=") || long.starts_with("--max-count=") => return None,
                long if long.starts_with("--") && long.len() > 2 => {}
                short if short.starts_with('-') && short.len() > 1 => {
                    let letters = &short[1..];
                    for (at, letter) in letters.char_indices() {
                        let own = &letters[at + letter.len_utf8()..];
                        match letter {
                            'E' | 'P' => syntax = Syntax::Extended,
                            'F' => syntax = Syntax::Fixed,
                            'G' => syntax = Syntax::Basic,
                            'i' | 'y' => options.ignores_case = true,
                            'v' => options.is_inverted = true,
                            'w' => options.is_word = true,
                            'x' => options.is_line = true,
                            'o' | 'c' | 'l' | 'L' | 'q' | 'f' | 'm' => return None,
                            'e' => {
                                patterns.push(if own.is_empty() { rest.next()?.clone() } else { own.to_owned() });
                                break;
                            }
                            'A' | 'B' | 'C' => {
                                if own.is_empty() {
                                    rest.next();
                                }
                                break;
                            }
                            _ => {}
                        }
                    }
                }
                _ => others.push(word.clone()),
            }
        }
        if patterns.is_empty() {
            patterns.push(others.into_iter().next()?);
        }
        let lines: Vec<String> = patterns.iter().flat_map(|pattern| pattern.split('\n')).map(str::to_owned).collect();
        Pattern::of(&lines, syntax, options).map(|pattern| Self(vec![pattern]))
    }

    /// `awk '/pattern/'`
    pub(super) fn of_awk(arguments: &[String]) -> Option<Self> {
        let [program] = arguments else { return None };
        let program = program.trim();
        let program =
            ["{print}", "{ print }", "{print $0}"].iter().find_map(|end| program.strip_suffix(end)).unwrap_or(program);
        Self::between_slashes(program.trim(), Syntax::Extended)
    }

    /// `sed -n '/pattern/p'`
    pub(super) fn of_sed(arguments: &[String]) -> Option<Self> {
        match arguments {
            [option, program] if option == "-n" => Self::between_slashes(program.strip_suffix('p')?, Syntax::Basic),
            _ => None,
        }
    }

    fn between_slashes(program: &str, syntax: Syntax) -> Option<Self> {
        let pattern = program.strip_prefix('/')?.strip_suffix('/')?;
        let is_one = !pattern.replace("\\/", "").contains('/');
        let pattern = Pattern::of(&[pattern.replace("\\/", "/")], syntax, Options::default())?;
        is_one.then_some(Self(vec![pattern]))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Options {
    ignores_case: bool,
    is_inverted: bool,
    is_word: bool,
    is_line: bool,
}

impl Pattern {
    fn of(patterns: &[String], syntax: Syntax, options: Options) -> Option<Self> {
        let asks_for_end = options.is_line || syntax != Syntax::Fixed && patterns.iter().any(|one| one.contains('$'));
        let regex = |pattern: &String| {
            let text = match syntax {
                _ if pattern.len() > MOST_LETTERS => return None,
                Syntax::Fixed => regex::escape(pattern),
                Syntax::Extended => word_ends(pattern),
                Syntax::Basic => word_ends(&extended(pattern)),
            };
            let text = if options.is_word { format!(r"(?:^|\W)(?:{text})(?:\W|$)") } else { text };
            let text = if options.is_line { format!("^(?:{text})$") } else { text };
            RegexBuilder::new(&text).case_insensitive(options.ignores_case).build().ok()
        };
        let any = patterns.iter().map(regex).collect::<Option<Vec<_>>>()?;
        Some(Self { any, is_inverted: options.is_inverted, asks_for_end })
    }

    fn shows(&self, line: &str) -> bool {
        self.any.iter().any(|one| one.is_match(line)) != self.is_inverted
    }
}

impl Lines for Patterns {
    fn shows(&self, line: &str) -> bool {
        self.0.iter().all(|pattern| pattern.shows(line))
    }

    fn shows_all(&self, start: &str) -> bool {
        self.0.iter().all(|pattern| !pattern.is_inverted && !pattern.asks_for_end && pattern.shows(start))
    }
}

/// A basic regular expression as an extended one: there `\|`, `\(` and so on are special, and `|`, `(` are letters.
fn extended(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len() + 8);
    let mut letters = pattern.chars();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '[' => in_class = true,
            ']' => in_class = false,
            '\\' if !in_class => match letters.next() {
                Some(special @ ('|' | '(' | ')' | '{' | '}' | '+' | '?')) => text.push(special),
                Some(other) => text.extend(['\\', other]),
                None => {}
            },
            '|' | '(' | ')' | '{' | '}' | '+' | '?' if !in_class => text.push('\\'),
            // At the start an asterisk is a letter.
            '*' if text.is_empty() => text.push('\\'),
            _ => {}
        }
        if letter != '\\' || in_class {
            text.push(letter);
        }
    }
    text
}

/// GNU's `\<` and `\>` are both a word's boundary.
fn word_ends(pattern: &str) -> String {
    pattern.replace(r"\<", r"\b").replace(r"\>", r"\b")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::word(&["web"], "-A X web -j Y", true)]
    #[case::extended(&["-E", "KUBE-(SVC|SEP)-"], "-A KUBE-SEP-X -j Y", true)]
    #[case::basic_group(&[r"KUBE-\(SVC\|SEP\)-"], "-A KUBE-SEP-X -j Y", true)]
    #[case::basic_bar(&["SVC|SEP"], "-A KUBE-SEP-X -j Y", false)]
    #[case::case(&["-i", "WEB"], "web", true)]
    #[case::inverted(&["-v", "web"], "web", false)]
    #[case::two(&["-e", "web", "-e", "SEP"], "SEP", true)]
    #[case::fixed(&["-F", "10.2.0.1"], "10x2.0.1", false)]
    #[case::any_letter(&["10.2.0.1"], "10x2.0.1", true)]
    #[case::whole_word(&["-w", "10.0.0.1"], "-s 10.0.0.10/32", false)]
    #[case::file(&["web", "rules.txt"], "rules.txt", false)]
    #[case::context(&["-A", "2", "web"], "web", true)]
    #[case::options_in_one(&["-iwE", "web|x"], "WEB", true)]
    #[case::start(&["^-A KUBE"], "-A KUBE-X", true)]
    fn lines_are_chosen_as_grep_does(#[case] arguments: &[&str], #[case] line: &str, #[case] is_shown: bool) {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let patterns = Patterns::of_grep("grep", &arguments).expect("patterns");
        assert_eq!(patterns.shows(line), is_shown);
    }

    #[rstest]
    #[case::parts(&["-o", "web"])]
    #[case::counted(&["-c", "web"])]
    #[case::bounded(&["-m1", "web"])]
    #[case::broken(&["-E", "web("])]
    #[case::nothing(&["-i"])]
    fn what_does_not_depend_on_the_line_alone_is_unknown(#[case] arguments: &[&str]) {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(Patterns::of_grep("grep", &arguments), None);
    }

    #[test]
    fn a_chain_is_whole_whose_name_is_chosen() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Patterns::of_grep("grep", &words).expect("patterns")
        };
        assert!(of(&["-E", "KUBE-(SVC|SEP)-"]).shows_all("-A KUBE-SVC-X "));
        assert!(!of(&["-E", "KUBE-(SVC|SEP)-"]).shows_all("-A KUBE-EXT-X "));
        assert!(!of(&["-v", "DNAT"]).shows_all("-A KUBE-SVC-X "));
        assert!(!of(&["KUBE-SVC-X .*$"]).shows_all("-A KUBE-SVC-X "));
    }
}
