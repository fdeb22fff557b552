//! Annotations for GitHub Actions: each failure at its line of the scenario, in the changed files of a pull request.
//!
//! They are workflow commands: `::error file=F,line=L,col=C,title=T::MESSAGE` (docs.github.com, "Workflow commands for
//! GitHub Actions", setting an error message).

use std::path::{Component, Path, PathBuf};

use super::model::{Case, Place, Results, Suite};
use super::words::{all_counts, difference, headline, problem};
use crate::report::Status;
use crate::text::{duration, harmless, one_line, path_text};

/// The folders that paths are relative to: those of GitHub's annotations, and those of svclab.
#[derive(Debug, Clone, Default)]
pub struct Folders {
    /// The repository's root, absolute.
    pub root: PathBuf,
    /// The working directory, absolute.
    pub working: PathBuf,
}

impl Folders {
    /// The path of a file for GitHub: relative to the root, if it is below.
    fn name(&self, file: &str) -> String {
        let mut absolute = PathBuf::new();
        for part in self.working.join(file).components() {
            match part {
                Component::ParentDir => _ = absolute.pop(),
                Component::CurDir => {}
                part => absolute.push(part),
            }
        }
        let below = absolute.strip_prefix(&self.root).ok().filter(|_| !self.root.as_os_str().is_empty());
        below.map_or_else(|| file.to_owned(), |path: &Path| path_text(path))
    }
}

/// One `::error` line for each failed probe, each test that could not finish, and each lab that failed; a `::warning` for each flaky
/// test; then a `::notice` with the counts.
pub fn annotations(results: &Results, folders: &Folders) -> String {
    let mut text = String::new();
    for suite in &results.suites {
        for case in &suite.cases {
            match case.status {
                Status::Error if suite.explains(case) => {}
                Status::Ok if case.flaky => text += &flaky(suite, case, folders),
                Status::Ok => {}
                _ => text += &failed(suite, case, folders),
            }
        }
        if suite.error.is_some() || suite.is_wrong_by_itself() {
            text += &suite_annotation(suite, folders);
        }
    }
    let seconds = results.seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    let time = seconds.map(|time| format!(", in {}", duration(time))).unwrap_or_default();
    text + &format!("::notice title=svclab {}::{}{time}\n", results.command, message(&all_counts(results)))
}

/// An annotation for each failed probe, and one for the test's error, all at the place of the test, which the console also names in its
/// summary.
fn failed(suite: &Suite, case: &Case, folders: &Folders) -> String {
    let start = start_of(suite);
    let at = case.at.as_ref().unwrap_or(&start);
    let title = format!("{}: {}", suite.name, case.name);
    let checks = case.checks.iter().filter(|check| check.status != Status::Ok).map(|check| {
        let differences = check.differences.iter().map(difference);
        let meaning =
            check.diagnosis.as_ref().filter(|_| check.differences.is_empty()).map(|sources| sources.meaning.clone());
        let lines = [placed(&check.title, check.at.as_ref(), at)].into_iter();
        let words =
            lines.chain(differences).chain(meaning).chain(check.explain_command.clone()).collect::<Vec<_>>().join("\n");
        annotation("error", at, &title, &words, folders)
    });
    let error = case
        .error
        .as_ref()
        .map(|error| annotation("error", at, &title, &placed(&problem(error), error.at.as_ref(), at), folders));
    checks.chain(error).collect()
}

/// Appends the place that words are about, unless it is that of the annotation.
fn placed(words: &str, place: Option<&Place>, at: &Place) -> String {
    match place.filter(|place| *place != at) {
        Some(Place { file, line, column }) => format!("{words}  {file}:{line}:{column}"),
        None => words.to_owned(),
    }
}

fn flaky(suite: &Suite, case: &Case, folders: &Folders) -> String {
    let start = start_of(suite);
    let title = format!("flaky: {}: {}", suite.name, case.name);
    let words = case.earlier.last().map(headline).unwrap_or_default();
    let words = format!("passed at attempt {}; before: {words}", case.earlier.len() + 1);
    annotation("warning", case.at.as_ref().unwrap_or(&start), &title, &words, folders)
}

fn suite_annotation(suite: &Suite, folders: &Folders) -> String {
    let start = start_of(suite);
    let at = suite.error.as_ref().and_then(|error| error.at.as_ref()).unwrap_or(&start);
    let words = suite.error.as_ref().map_or_else(|| "no tests".to_owned(), problem);
    annotation("error", at, &suite.name, &words, folders)
}

fn start_of(suite: &Suite) -> Place {
    Place { file: suite.file.clone(), line: 1, column: 1 }
}

fn annotation(level: &str, at: &Place, title: &str, words: &str, folders: &Folders) -> String {
    let file = property(&folders.name(&at.file));
    let Place { line, column, .. } = at;
    format!("::{level} file={file},line={line},col={column},title={}::{}\n", property(title), message(words))
}

/// A message is one line: line ends are escaped (`@actions/core`, command.ts).
fn message(text: &str) -> String {
    harmless(text, false).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property ends at a colon or comma too.
fn property(text: &str) -> String {
    message(&one_line(text)).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a.yaml", "sub/dir/a.yaml")]
    #[case("./a.yaml", "sub/dir/a.yaml")]
    #[case("../a.yaml", "sub/a.yaml")]
    #[case("/repo/x/a.yaml", "x/a.yaml")]
    #[case("/elsewhere/a.yaml", "/elsewhere/a.yaml")]
    #[case("../../../a.yaml", "../../../a.yaml")]
    fn files_are_named_from_the_root(#[case] file: &str, #[case] expected: &str) {
        let folders = Folders { root: "/repo".into(), working: "/repo/sub/dir".into() };
        assert_eq!(folders.name(file), expected);
        assert_eq!(Folders::default().name(file), file);
    }
}
