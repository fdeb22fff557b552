//! Markdown and HTML around words.

use std::ops::Range;

/// HTML that people write in Markdown.
const TAGS: [&str; 6] = ["details", "summary", "pre", "strong", "sup", "kbd"];

/// What Markdown and sentences close with.
const CLOSING: [&str; 3] = ["**", ")", "\""];

/// Whether a word is the name of an HTML tag: `<details>`, `</summary>`.
pub(super) fn is_tag(text: &str, at: &Range<usize>) -> bool {
    let opens = text[..at.start].ends_with('<') || text[..at.start].ends_with("</");
    let closes = text[at.end..].starts_with(['>', ' ', '/']);
    opens && closes && TAGS.contains(&text[at.clone()].to_ascii_lowercase().as_str())
}

/// Whether a text after a sentence's last mark closes something: the rest of `**What happened?**`.
pub(super) fn is_closing(text: &str) -> bool {
    let rest = CLOSING.iter().find_map(|mark| text.strip_prefix(mark));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("<details>", "details", true)]
    #[case("</summary>", "summary", true)]
    #[case("<details open>", "details", true)]
    #[case("<service>", "service", false)]
    #[case("details-v1", "details", false)]
    fn tags_are_no_names(#[case] text: &str, #[case] word: &str, #[case] expected: bool) {
        let at = text.find(word).unwrap_or_default();
        assert_eq!(is_tag(text, &(at..at + word.len())), expected);
    }

    #[rstest]
    #[case("**", true)]
    #[case(") and", true)]
    #[case("**.example.com", false)]
    #[case("x", false)]
    fn marks_close_sentences(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(is_closing(text), expected);
    }
}
