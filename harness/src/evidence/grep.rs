//! The patterns of `grep`, `awk` and `sed`: which lines of a text they show.

use std::any::Any;

use regex::{Regex, RegexBuilder};
use svclab_rules::coverage::Lines;

/// The most letters of one program's patterns. They come from texts of strangers: what is longer or compiles to more is not looked at.
const MAX_LETTERS: usize = 2000;

/// The most memory of a compiled pattern, in bytes.
const MAX_MEMORY: usize = 1 << 20;

/// Patterns one after the other, each of which lets some lines pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// Texts of which each line that it shows has at least one, where the patterns are no more than these.
    texts: Option<Vec<String>>,
}

/// How a pattern is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Basic,
    Extended,
    Fixed,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        let is_same = (self.is_inverted, self.asks_for_end) == (other.is_inverted, other.asks_for_end);
        is_same && self.any.iter().map(Regex::as_str).eq(other.any.iter().map(Regex::as_str))
    }
}

impl Eq for Pattern {}

impl Patterns {
    /// The lines that pass these and then others.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Lines that have all of some texts.
    pub(super) fn having(texts: &[String]) -> Option<Self> {
        let of = |text: &String| Pattern::of(std::slice::from_ref(text), Syntax::Fixed, Options::default());
        texts.iter().map(of).collect::<Result<Vec<_>, _>>().ok().map(Self)
    }

    /// What `grep` shows when it is called with these arguments, or why that is not known by its lines alone.
    pub(super) fn from_grep(program: &str, arguments: &[String]) -> Result<Self, Unknown> {
        let mut call = Call::of(program);
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            match word.strip_prefix('-') {
                // Behind it there are no options.
                Some("-") => call.operands.extend(rest.by_ref().cloned()),
                Some(long) if long.starts_with('-') => {
                    let (name, value) =
                        long[1..].split_once('=').map_or((&long[1..], None), |(name, own)| (name, Some(own)));
                    call.apply(Setting::named(name), value, &mut rest)?;
                }
                Some(short) if !short.is_empty() => {
                    for (at, letter) in short.char_indices() {
                        let setting = Setting::lettered(letter);
                        let own = &short[at + letter.len_utf8()..];
                        call.apply(setting, Some(own).filter(|own| !own.is_empty()), &mut rest)?;
                        if setting.takes_value() {
                            break;
                        }
                    }
                }
                _ => call.operands.push(word.clone()),
            }
        }
        call.patterns()
    }

    /// `awk '/pattern/'`
    pub(super) fn from_awk(arguments: &[String]) -> Result<Self, Unknown> {
        let [program] = arguments else { return Err(Unknown::NotLines) };
        let program = program.trim();
        let program =
            ["{print}", "{ print }", "{print $0}"].iter().find_map(|end| program.strip_suffix(end)).unwrap_or(program);
        Self::between_slashes(program.trim(), Syntax::Extended)
    }

    /// `sed -n '/pattern/p'`
    pub(super) fn from_sed(arguments: &[String]) -> Result<Self, Unknown> {
        let program = match arguments {
            [option, program] if option == "-n" => program.strip_suffix('p'),
            _ => None,
        };
        Self::between_slashes(program.ok_or(Unknown::NotLines)?, Syntax::Basic)
    }

    fn between_slashes(program: &str, syntax: Syntax) -> Result<Self, Unknown> {
        let pattern = program.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let is_one = |pattern: &&str| !pattern.replace("\\/", "").contains('/');
        let pattern = pattern.filter(is_one).ok_or(Unknown::NotLines)?;
        Ok(Self(vec![Pattern::of(&[pattern.replace("\\/", "/")], syntax, Options::default())?]))
    }
}

/// Why it is not known which lines a program shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// A pattern is not a valid regular expression.
    Invalid,
    /// Its patterns are too long, or too large when compiled.
    TooLarge,
    /// It shows parts of lines, a number of them, or other text.
    NotLines,
}

impl Unknown {
    /// In words, to follow the program's name.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Invalid => "has a pattern that is not a valid regular expression",
            Self::TooLarge => "has patterns that are too large to follow",
            Self::NotLines => "does not choose whole lines by a pattern",
        }
    }
}

/// What an option of `grep` sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Syntax(Syntax),
    IgnoresCase,
    IsInverted,
    IsWord,
    IsLine,
    Pattern,
    /// Lines around those that are chosen.
    Context,
    /// Something that is not known by lines alone, such as their number.
    NotLines,
    /// Something that changes no line.
    Other,
}

/// The options that count, by letter and name.
const SETTINGS: [(&str, &str, Setting); 19] = [
    ("E", "extended-regexp", Setting::Syntax(Syntax::Extended)),
    ("P", "perl-regexp", Setting::Syntax(Syntax::Extended)),
    ("F", "fixed-strings", Setting::Syntax(Syntax::Fixed)),
    ("G", "basic-regexp", Setting::Syntax(Syntax::Basic)),
    ("iy", "ignore-case", Setting::IgnoresCase),
    ("v", "invert-match", Setting::IsInverted),
    ("w", "word-regexp", Setting::IsWord),
    ("x", "line-regexp", Setting::IsLine),
    ("e", "regexp", Setting::Pattern),
    ("A", "after-context", Setting::Context),
    ("B", "before-context", Setting::Context),
    ("C", "context", Setting::Context),
    ("o", "only-matching", Setting::NotLines),
    ("c", "count", Setting::NotLines),
    ("l", "files-with-matches", Setting::NotLines),
    ("L", "files-without-match", Setting::NotLines),
    ("q", "quiet", Setting::NotLines),
    ("f", "file", Setting::NotLines),
    ("m", "max-count", Setting::NotLines),
];

impl Setting {
    fn lettered(letter: char) -> Self {
        SETTINGS.iter().find(|(letters, ..)| letters.contains(letter)).map_or(Self::Other, |(.., setting)| *setting)
    }

    fn named(name: &str) -> Self {
        SETTINGS.iter().find(|(_, own, _)| *own == name).map_or(Self::Other, |(.., setting)| *setting)
    }

    fn takes_value(self) -> bool {
        matches!(self, Self::Pattern | Self::Context)
    }
}

/// A call of `grep`, as far as its arguments are read.
struct Call {
    syntax: Syntax,
    options: Options,
    /// The patterns of `-e`.
    patterns: Vec<String>,
    /// What is not an option: the pattern where there is no `-e`, and files.
    operands: Vec<String>,
}

impl Call {
    fn of(program: &str) -> Self {
        let syntax = match program {
            "egrep" | "rg" => Syntax::Extended,
            "fgrep" => Syntax::Fixed,
            _ => Syntax::Basic,
        };
        Self { syntax, options: Options::default(), patterns: Vec::new(), operands: Vec::new() }
    }

    /// Applies an option; its value is its own or the next argument.
    fn apply(
        &mut self,
        setting: Setting,
        own: Option<&str>,
        rest: &mut std::slice::Iter<'_, String>,
    ) -> Result<(), Unknown> {
        let mut next = || own.map(str::to_owned).or_else(|| rest.next().cloned()).ok_or(Unknown::NotLines);
        let value = if setting.takes_value() { Some(next()?) } else { None };
        match setting {
            Setting::Syntax(syntax) => self.syntax = syntax,
            Setting::IgnoresCase => self.options.ignores_case = true,
            Setting::IsInverted => self.options.is_inverted = true,
            Setting::IsWord => self.options.is_word = true,
            Setting::IsLine => self.options.is_line = true,
            Setting::Pattern => self.patterns.extend(value),
            Setting::Context | Setting::Other => {}
            Setting::NotLines => return Err(Unknown::NotLines),
        }
        Ok(())
    }

    fn patterns(self) -> Result<Patterns, Unknown> {
        let mut patterns = self.patterns;
        if patterns.is_empty() {
            patterns.push(self.operands.into_iter().next().ok_or(Unknown::NotLines)?);
        }
        let lines: Vec<String> = patterns.iter().flat_map(|pattern| pattern.split('\n')).map(str::to_owned).collect();
        Pattern::of(&lines, self.syntax, self.options).map(|pattern| Patterns(vec![pattern]))
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
    fn of(patterns: &[String], syntax: Syntax, options: Options) -> Result<Self, Unknown> {
        if patterns.iter().map(String::len).sum::<usize>() > MAX_LETTERS {
            return Err(Unknown::TooLarge);
        }
        let asks_for_end = options.is_line || syntax != Syntax::Fixed && patterns.iter().any(|one| one.contains('$'));
        let extended = |pattern: &String| match syntax {
            Syntax::Fixed => regex::escape(pattern),
            Syntax::Extended => word_ends(pattern),
            Syntax::Basic => word_ends(&extended(pattern)),
        };
        let all: Vec<String> = patterns.iter().map(extended).collect();
        let regex = |text: &String| {
            let text = if options.is_word { format!(r"(?:^|\W)(?:{text})(?:\W|$)") } else { text.clone() };
            let text = if options.is_line { format!("^(?:{text})$") } else { text };
            // In the text, so that patterns that differ in it are not equal.
            let text = if options.ignores_case { format!("(?i){text}") } else { text };
            let built = RegexBuilder::new(&text).size_limit(MAX_MEMORY).dfa_size_limit(MAX_MEMORY).build();
            built.map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => Unknown::TooLarge,
                _ => Unknown::Invalid,
            })
        };
        let any = all.iter().map(regex).collect::<Result<Vec<_>, _>>()?;
        let texts = if options.ignores_case || options.is_inverted {
            None
        } else {
            all.iter().map(|text| plain_texts(text)).collect::<Option<Vec<_>>>().map(|texts| texts.concat())
        };
        Ok(Self { any, is_inverted: options.is_inverted, asks_for_end, texts })
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

    fn texts(&self) -> Option<&[String]> {
        self.0.iter().find_map(|pattern| pattern.texts.as_deref())
    }

    fn equals(&self, other: &dyn Lines) -> bool {
        (other as &dyn Any).downcast_ref::<Self>() == Some(self)
    }
}

/// The alternatives of an extended regular expression, if nothing else is special in it.
fn plain_texts(pattern: &str) -> Option<Vec<String>> {
    let mut texts = vec![String::new()];
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let plain = match letter {
            '|' => {
                texts.push(String::new());
                continue;
            }
            '\\' => letters.next().filter(char::is_ascii_punctuation)?,
            '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '^' | '$' => return None,
            letter => letter,
        };
        texts.last_mut()?.push(plain);
    }
    Some(texts)
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
    #[case::after_the_options(&["-v", "--", "-A KUBE"], "-A KUBE-X", false)]
    #[case::own_value(&["--regexp=web", "-eSEP"], "SEP", true)]
    #[case::long_context(&["--context", "2", "web"], "web", true)]
    fn lines_are_chosen_as_grep_does(#[case] arguments: &[&str], #[case] line: &str, #[case] is_shown: bool) {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let patterns = Patterns::from_grep("grep", &arguments).expect("patterns");
        assert_eq!(patterns.shows(line), is_shown);
    }

    #[rstest]
    #[case::parts(&["-o", "web"], Unknown::NotLines)]
    #[case::counted(&["-c", "web"], Unknown::NotLines)]
    #[case::bounded(&["-m1", "web"], Unknown::NotLines)]
    #[case::broken(&["-E", "web("], Unknown::Invalid)]
    #[case::nothing(&["-i"], Unknown::NotLines)]
    #[case::too_large(&["-E", "((x{1000}){1000}){1000}"], Unknown::TooLarge)]
    #[case::too_large_letters(&["-iE", r"(\w{100}|.{100}){100}"], Unknown::TooLarge)]
    fn what_does_not_depend_on_the_line_alone_is_unknown(#[case] arguments: &[&str], #[case] why: Unknown) {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(Patterns::from_grep("grep", &arguments), Err(why));
    }

    #[rstest]
    #[case::word(&["KUBE-SVC-X"], Some(vec!["KUBE-SVC-X"]))]
    #[case::alternatives(&["-e", r"web\|SEP", "-ex"], Some(vec!["web", "SEP", "x"]))]
    #[case::alternatives_of_extended(&["-wE", "web|10\\.0"], Some(vec!["web", "10.0"]))]
    #[case::fixed(&["-F", "10.0|x"], Some(vec!["10.0|x"]))]
    #[case::any_letter(&["10.0"], None)]
    #[case::one_is_not_plain(&["-e", "web", "-e", "^x"], None)]
    #[case::boundary(&[r"\<web"], None)]
    #[case::class(&[r"\w"], None)]
    #[case::case(&["-i", "web"], None)]
    #[case::inverted(&["-v", "web"], None)]
    fn texts_are_known_where_patterns_are_plain(#[case] arguments: &[&str], #[case] expected: Option<Vec<&str>>) {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let patterns = Patterns::from_grep("grep", &arguments).expect("patterns");
        let texts = patterns.texts().map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(texts, expected);
    }

    #[test]
    fn patterns_that_are_too_long_are_unknown() {
        let of = |words: &[String]| Patterns::from_grep("grep", words);
        let long = "x".repeat(MAX_LETTERS);
        assert!(of(std::slice::from_ref(&long)).is_ok());
        assert_eq!(of(&[format!("{long}x")]), Err(Unknown::TooLarge));
        assert_eq!(of(&["-e".to_owned(), long, "-ex".to_owned()]), Err(Unknown::TooLarge), "together");
    }

    #[test]
    fn a_chain_is_whole_whose_name_is_chosen() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Patterns::from_grep("grep", &words).expect("patterns")
        };
        assert!(of(&["-E", "KUBE-(SVC|SEP)-"]).shows_all("-A KUBE-SVC-X "));
        assert!(!of(&["-E", "KUBE-(SVC|SEP)-"]).shows_all("-A KUBE-EXT-X "));
        assert!(!of(&["-v", "DNAT"]).shows_all("-A KUBE-SVC-X "));
        assert!(!of(&["KUBE-SVC-X .*$"]).shows_all("-A KUBE-SVC-X "));
    }
}
