//! Anonymized evidence.

use svclab::anonymize::{Text, anonymize_texts};
use svclab_rules_fuzz::Target;

/// The target. Its corpus is that of [`super::evidence`].
pub const TARGET: Target = Target { name: "anonymize", corpus: super::evidence::TARGET.corpus, check };

/// For any text, nothing identifying is left, all wrapped lines are joined or none, and a seed gives the same result.
///
/// # Panics
///
/// If that does not hold.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The fates of packets are compared as well, which takes time.
    if text.len() > 20_000 {
        return;
    }
    let texts = [Text { name: None, text: text.to_owned() }];
    let new = anonymize_texts(&texts, Some("seed"));
    assert!(new.proof.left.is_empty(), "{:?}", new.proof.left);
    let [one] = new.texts.as_slice() else { panic!("{} texts", new.texts.len()) };
    let lines = |text: &str| text.lines().count();
    let (new_lines, joined) = (lines(&one.text), lines(&svclab::evidence::unwrapped(text)));
    // Where the joined text would show less, no line is.
    assert!([joined, lines(text)].contains(&new_lines), "{new_lines} lines instead of {joined} or {}", lines(text));
    assert_eq!(anonymize_texts(&texts, Some("seed")).texts, new.texts);
}
