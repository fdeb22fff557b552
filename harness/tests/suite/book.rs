//! README and the book: their commands print the shown output, their pictures are drawn by svclab, and their links are valid.
//!
//! Every block marked `console` is run. `$ cat FILE` shows a file that commands of all pages may use; every other command is run by a
//! shell, in a separate folder with these files if it names one of them, otherwise in the repository. A picture that a command writes (`>
//! FILE.svg`) must equal the file of that name next to the page: `UPDATE_BOOK=1` writes it there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;
use rstest::rstest;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src");

/// The parts that vary between runs: times, and ports that the kernel chooses.
static VOLATILE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:< )?\b[0-9.]+ m?s\b|:[0-9]{4,5}\b").expect("valid"));

/// A link of Markdown with its target, up to an anchor.
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)#\s]*)(#[^)\s]*)?\)").expect("valid"));

#[rstest]
fn a_command_prints_what_is_shown(
    #[files("../README.md")]
    #[files("docs/src/**/*.md")]
    page: PathBuf,
) {
    // Commands may write files, but not into the repository, whose folders they see.
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files() {
        fs::write(folder.path().join(name), text).expect("a file of the book");
    }
    let repository = fs::canonicalize(REPOSITORY).expect("the repository");
    for name in ["harness", "rules", "scenarios"] {
        symlink(repository.join(name), folder.path().join(name)).expect("a link");
    }
    for Example { command, shown } in examples(&page).iter().filter(|example| example.file().is_none()) {
        let (command, drawn) = match command.split_once(" > ") {
            Some((command, file)) => (command, Some(file)),
            None => (command.as_str(), None),
        };
        let printed = run(command, folder.path());
        match drawn {
            Some(file) => is_picture(&page.with_file_name(file), &printed, command),
            None => is_shown(&page, command, shown, &printed),
        }
    }
}

/// A command of a page, and what the page shows of its output.
struct Example {
    command: String,
    shown: String,
}

impl Example {
    /// The file that it shows.
    fn file(&self) -> Option<&str> {
        self.command.strip_prefix("cat ")
    }
}

/// The commands of a page.
fn examples(page: &Path) -> Vec<Example> {
    let text = fs::read_to_string(page).expect("a page");
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let commands = blocks.flat_map(|block| block.strip_prefix("$ ").expect("a command first").split("\n$ "));
    let example = |text: &str| {
        let (command, shown) = text.split_once('\n').unwrap_or((text, ""));
        Example { command: command.to_owned(), shown: shown.to_owned() }
    };
    commands.map(example).collect()
}

/// All pages.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![Path::new(REPOSITORY).join("README.md")];
    let mut folders = vec![PathBuf::from(BOOK)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the book") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The files that pages show; those of one name are equal.
fn files() -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for example in pages().iter().flat_map(|page| examples(page)) {
        let Some(name) = example.file() else { continue };
        let text = format!("{}\n", example.shown.trim_end());
        let known = files.entry(name.to_owned()).or_insert_with(|| text.clone());
        assert_eq!(*known, text, "the book shows two files {name}");
    }
    files
}

/// The output of a shell command on both streams.
fn run(command: &str, place: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_svclab"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().expect("its folder").display());
    let output = Command::new("sh").args(["-c", command]).current_dir(place).env("PATH", path).output();
    let output = output.expect("a shell");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn is_picture(file: &Path, drawn: &str, command: &str) {
    if std::env::var_os("UPDATE_BOOK").is_some() {
        fs::write(file, drawn).expect("the picture");
    }
    let text = fs::read_to_string(file).unwrap_or_default();
    assert!(
        text == drawn,
        "{} is not what `{command}` draws; write it again with `UPDATE_BOOK=1 cargo test -p svclab --test suite book::`",
        file.display()
    );
}

fn is_shown(page: &Path, command: &str, shown: &str, printed: &str) {
    let printed = comparable(printed);
    let mut rest = printed.as_str();
    for stretch in stretches(shown) {
        let found = rest.split_once(&stretch);
        let page = page.display();
        let (_, after) = found.unwrap_or_else(|| {
            panic!("{page} shows of `{command}`\n{stretch}\nbut this is printed:\n{printed}");
        });
        rest = after;
    }
}

/// The shown parts between lines of dots, which stand for omitted lines.
fn stretches(shown: &str) -> Vec<String> {
    let is_left_out = |line: &&str| line.trim() == "...";
    let lines: Vec<&str> = shown.lines().collect();
    let parts = lines.split(is_left_out).map(|lines| comparable(&lines.join("\n")));
    parts.filter(|text| !text.is_empty()).collect()
}

/// A text without the parts that vary between runs, and without the column and line widths that depend on them.
fn comparable(text: &str) -> String {
    crate::unwrapped(&VOLATILE.replace_all(text, "*"))
}

/// The targets of a page's links to files, and their anchors.
fn links(page: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(page).expect("a page");
    // Links in code do not count.
    let prose: String = text.split("```").step_by(2).collect();
    let prose: String = prose.split('`').step_by(2).collect();
    let part = |link: &regex::Captures<'_>, number| link.get(number).map_or("", |part| part.as_str()).to_owned();
    let all = LINK.captures_iter(&prose).map(|link| (part(&link, 1), part(&link, 2)));
    all.filter(|(target, _)| !target.contains("://")).collect()
}

#[rstest]
fn a_link_leads_to_a_file_and_its_heading(
    #[files("../*.md")]
    #[files("../ci/README.md")]
    #[files("../scenarios/README.md")]
    #[files("docs/src/**/*.md")]
    page: PathBuf,
) {
    for (target, anchor) in links(&page) {
        let file = if target.is_empty() { page.clone() } else { page.parent().expect("its folder").join(&target) };
        assert!(file.exists(), "{}: {target} does not exist", page.display());
        if let Some(anchor) = anchor.strip_prefix('#') {
            let text = fs::read_to_string(&file).expect("a page");
            let is_there = text.lines().any(|line| line.starts_with('#') && slug(line) == anchor);
            assert!(is_there, "{}: {target} has no heading {anchor}", page.display());
        }
    }
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[test]
fn the_summary_lists_every_chapter() {
    let summary = Path::new(BOOK).join("SUMMARY.md");
    let listed: BTreeSet<PathBuf> =
        links(&summary).into_iter().map(|(target, _)| Path::new(BOOK).join(target)).collect();
    let is_chapter = |page: &PathBuf| page.starts_with(BOOK) && *page != summary;
    assert_eq!(listed, pages().into_iter().filter(is_chapter).collect());
}

#[test]
fn readme_is_a_page() {
    let lines = fs::read_to_string(Path::new(REPOSITORY).join("README.md")).expect("README").lines().count();
    assert!(lines <= 150, "README has {lines} lines: move what is not needed first into the book");
}
