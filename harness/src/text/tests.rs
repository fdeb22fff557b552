//! Tables of text.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rstest::rstest;

use super::escape::without_commands;
use super::*;

#[rstest]
#[case(1, "entry", "1 entry")]
#[case(2, "entry", "2 entries")]
#[case(2, "day", "2 days")]
#[case(0, "address", "0 addresses")]
#[case(1_200, "test", "1,200 tests")]
fn plurals_are_regular(#[case] number: u64, #[case] thing: &str, #[case] text: &str) {
    assert_eq!(counted(number, thing), text);
}

#[rstest]
#[case(0, "")]
#[case(2, "0, 1")]
#[case(3, "0, 1, 2")]
#[case(4, "0, 1 and 2 more")]
fn lists_are_cut_where_that_is_shorter(#[case] items: usize, #[case] text: &str) {
    assert_eq!(list(0..items, 2), text);
}

#[rstest]
#[case(7, "7")]
#[case(999, "999")]
#[case(1_000, "1,000")]
#[case(41_200, "41,200")]
#[case(1_234_567, "1,234,567")]
fn groups(#[case] number: u64, #[case] text: &str) {
    assert_eq!(grouped(number), text);
}

#[rstest]
#[case::none(0, "0 tests")]
#[case::one(1, "1 test")]
#[case::many(1_200, "1,200 tests")]
fn things_are_counted(#[case] number: u64, #[case] expected: &str) {
    assert_eq!(counted(number, "test"), expected);
}

#[rstest]
#[case::number("No such file or directory (os error 2)", "no such file or directory")]
#[case::none("longer than 64 MiB", "longer than 64 MiB")]
#[case::empty("", "")]
fn a_reason_is_a_fragment(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(reason(text), expected);
}

#[rstest]
#[case::plain("naïve → ok", "naïve → ok")]
#[case::lines("a\r\n\tb", "a\\r\\n\\tb")]
#[case::escape("\x1b[2Jgone\x07", "\\x1b[2Jgone\\x07")]
#[case::c1("\u{9b}2J", "\\x9b2J")]
#[case::noncharacter("a\u{fffe}b", "a\\ufffeb")]
#[case::reordered("a\u{202e}b", "a\\u202eb")]
#[case::line_separator("a\u{2028}b", "a\\u2028b")]
#[case::left_to_right("a\u{200e}b", "a\\u200eb")]
#[case::arabic_mark("a\u{61c}b", "a\\u061cb")]
#[case::zero_width("a\u{200b}\u{2060}\u{feff}b", "a\\u200b\\u2060\\ufeffb")]
#[case::soft_hyphen("a\u{ad}b", "a\\xadb")]
#[case::tag("a\u{e0001}b", "a\\U000e0001b")]
#[case::letters("नमस्ते 漢字 ü", "नमस्ते 漢字 ü")]
fn one_line_obeys_nothing(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(one_line(text), expected);
}

#[rstest]
#[case::lines_stay("a\n\tb", true, "a\n\tb")]
#[case::carriage_return("ok\rFAIL", true, "ok\\rFAIL")]
#[case::colour("\x1b[1;31mred\x1b[0m", true, "\x1b[1;31mred\x1b[0m")]
#[case::no_colours("\x1b[31mred", false, "\\x1b[31mred")]
#[case::cursor("\x1b[2A", true, "\\x1b[2A")]
#[case::title("\x1b]0;x\x07", true, "\\x1b]0;x\\x07")]
#[case::cut("\x1b", true, "\\x1b")]
#[case::hidden("\x1b[8mx", true, "\\x1b[8mx")]
#[case::black_on_black("\x1b[30;40mx", true, "\\x1b[30;40mx")]
fn visible_text_is_obeyed_in_colours_only(#[case] text: &str, #[case] colours: bool, #[case] expected: &str) {
    assert_eq!(visible(text, colours), expected);
}

#[rstest]
#[case::error("::error title=x::y", "\\x3a:error title=x::y")]
#[case::later_line("a\n \t::add-mask::y\n", "a\n \t\\x3a:add-mask::y\n")]
#[case::older_form("x ##[error]y", "x \\x23#[error]y")]
#[case::within_a_line("a ::error::b", "a ::error::b")]
#[case::address("\t\t::ffff . tcp . 80 : goto a::b", "\t\t::ffff . tcp . 80 : goto a::b")]
#[case::loopback("::1 . tcp . 80 comment \"a::b\"", "::1 . tcp . 80 comment \"a::b\"")]
fn github_finds_no_command(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(without_commands(text), expected);
}

#[rstest]
#[case::plain(b"a/b.yaml", "a/b.yaml", "a/b.yaml")]
#[case::line_end(b"a\n::error::x.yaml", "a\\n::error::x.yaml", "a\n::error::x.yaml")]
#[case::latin_1(b"caf\xe9.yaml", "caf\\xe9.yaml", "caf\\xe9.yaml")]
#[case::cut(b"\xe2\x82", "\\xe2\\x82", "\\xe2\\x82")]
fn paths_of_any_bytes_are_written(#[case] bytes: &[u8], #[case] in_words: &str, #[case] in_json: &str) {
    let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
    assert_eq!((printable(path).to_string().as_str(), path_text(path).as_str()), (in_words, in_json));
}

#[test]
fn json_obeys_nothing_and_means_the_same() {
    let text = "a\x1b\u{9b}\u{202e}\u{1fffe}\x7f\n##[error]b";
    let written = json(&[text]).expect("a list");
    assert!(!written.replace('\n', "").contains(is_interpreted) && !written.contains("##["), "{written:?}");
    assert_eq!(serde_json::from_str::<[String; 1]>(&written).expect("JSON"), [text]);
}

/// A path printed in any other way would print the line ends and escape sequences in its name.
#[test]
fn every_path_is_written_printable() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let (mut read, mut wrong) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            read += 1;
            wrong.extend(code.contains(concat!(".disp", "lay()")).then_some(path));
        }
    }
    assert!(read > 200, "sources are found: {read}");
    assert_eq!(wrong, Vec::<PathBuf>::new());
}
