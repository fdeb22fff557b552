//! A Markdown summary for the page of a CI job.

use super::model::{Case, Results, Suite};
use super::words::{all_counts, attempts, environment, headline};
use crate::report::Status;
use crate::text::{duration, markup, one_line};

/// The width of a bar, in characters.
const BAR_WIDTH: usize = 20;
/// The number of failures that are printed in full: a job's summary is limited to 1 MiB.
const MAX_FAILURES: usize = 40;
/// The maximum length of a failure's text, in characters.
const MAX_LETTERS: usize = 6_000;
/// The maximum number of scenarios with a row of their own.
const MAX_ROWS: usize = 200;

/// The summary: counts, failures, scenarios with bars, environment.
pub fn render(results: &Results) -> String {
    let sign = if results.status() == Status::Ok { "✅" } else { "❌" };
    let time = seconds(results.seconds);
    let mut text = format!("## {sign} svclab {}\n\n{}{time}\n\n", results.command, cell(&all_counts(results)));
    text += &failures(results);
    text += &flaky(results);
    text += &table(results);
    let programs = environment(&results.environment);
    let names: Vec<&str> = programs.iter().map(|(name, _)| *name).collect();
    let values: Vec<String> = programs.iter().map(|(_, value)| cell(value)).collect();
    let line = vec!["---"; names.len()].join(" | ");
    text + &format!("| {} |\n| {line} |\n| {} |\n", names.join(" | "), values.join(" | "))
}

/// The result in one line.
pub fn line(results: &Results) -> String {
    format!("{}{}", all_counts(results), seconds(results.seconds))
}

fn failures(results: &Results) -> String {
    let cases = results.suites.iter().flat_map(|suite| suite.cases.iter().map(move |case| (suite, case)));
    let failed: Vec<(&Suite, &Case)> = cases.filter(|(_, case)| case.status != Status::Ok).collect();
    let mut text = String::new();
    for (suite, case) in failed.iter().take(MAX_FAILURES) {
        let place = case.at.as_ref().map_or_else(|| suite.file.clone(), |at| format!("{}:{}", at.file, at.line));
        text += &format!(
            "<details><summary><b>{}</b>: {} <code>{}</code></summary>\n\n",
            cell(&suite.name),
            cell(&case.name),
            cell(&place)
        );
        text += &format!("{}\n\n", cell(&headline(case)));
        text += &attempts(case).map(|words| format!("attempts: {}\n\n", cell(&words))).unwrap_or_default();
        if let Some(full) = &case.text {
            text += &format!("<pre>{}</pre>\n\n", html_lines(&full.chars().take(MAX_LETTERS).collect::<String>()));
        }
        text += "</details>\n\n";
    }
    for suite in results.suites.iter().filter(|suite| suite.is_wrong_by_itself()) {
        let message = suite.error.as_ref().map_or("no tests", |error| error.message.as_str());
        text += &format!("- **{}** `{}`: {}\n\n", cell(&suite.name), code(&suite.file), cell(message));
    }
    if let Some(more) = failed.len().checked_sub(MAX_FAILURES).filter(|more| *more > 0) {
        text += &format!("and {more} more failures\n\n");
    }
    text
}

fn flaky(results: &Results) -> String {
    let cases = results.suites.iter().flat_map(|suite| suite.cases.iter().map(move |case| (suite, case)));
    let lines: String = cases
        .filter(|(_, case)| case.flaky)
        .map(|(suite, case)| {
            let before = case.earlier.last().map(headline).unwrap_or_default();
            let attempts = case.earlier.len() + 1;
            format!(
                "- **{}**: {}: passed at attempt {attempts}; before: {}\n",
                cell(&suite.name),
                cell(&case.name),
                cell(&before)
            )
        })
        .collect();
    if lines.is_empty() { lines } else { format!("### ⚠️ Flaky\n\n{lines}\n") }
}

/// A row for each scenario, failed ones first, with a bar of its passed tests.
fn table(results: &Results) -> String {
    let mut suites: Vec<&Suite> = results.suites.iter().collect();
    suites.sort_by_key(|suite| std::cmp::Reverse(suite.status()));
    let mut text = String::from(
        "<details><summary>Scenarios</summary>\n\n| | scenario | passed | | time |\n| --- | --- | --- | --- | --- |\n",
    );
    for suite in suites.iter().take(MAX_ROWS) {
        let sign = if suite.status() == Status::Ok { "✅" } else { "❌" };
        let ok = suite.cases.iter().filter(|case| case.status == Status::Ok).count();
        let all = suite.cases.len();
        text += &format!(
            "| {sign} | {} | {ok} of {all} | `{}` | {} |\n",
            cell(&suite.name),
            bar(ok, all),
            seconds(suite.seconds).trim_start_matches(", in ")
        );
    }
    if let Some(more) = suites.len().checked_sub(MAX_ROWS).filter(|more| *more > 0) {
        text += &format!("| | and {more} more | | | |\n");
    }
    text + "\n</details>\n\n"
}

/// `███████░░░`: full or empty only if all or no tests passed.
fn bar(part: usize, all: usize) -> String {
    let full = match (part, all) {
        (_, 0) | (0, _) => 0,
        (part, all) if part == all => BAR_WIDTH,
        (part, all) => (BAR_WIDTH * part / all).clamp(1, BAR_WIDTH - 1),
    };
    "█".repeat(full) + &"░".repeat(BAR_WIDTH - full)
}

fn seconds(seconds: Option<f64>) -> String {
    let time = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    time.map(|time| format!(", in {}", duration(time))).unwrap_or_default()
}

/// Escaped text, with `<br>` between its lines.
fn cell(text: &str) -> String {
    text.lines().map(line_of_cell).collect::<Vec<_>>().join("<br>")
}

fn line_of_cell(line: &str) -> String {
    let mut escaped = String::new();
    for letter in one_line(line).chars() {
        match letter {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => escaped += &format!("&#{};", u32::from(letter)),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Text between backticks.
fn code(text: &str) -> String {
    one_line(text).replace('`', "'").replace('|', "&#124;")
}

/// Lines within `<pre>`, where Markdown is not interpreted.
fn html_lines(text: &str) -> String {
    text.lines().map(markup).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 3, 0)]
    #[case(3, 3, BAR_WIDTH)]
    #[case(999, 1_000, BAR_WIDTH - 1)]
    #[case(1, 1_000, 1)]
    fn only_all_is_a_full_bar(#[case] part: usize, #[case] all: usize, #[case] full: usize) {
        assert_eq!(bar(part, all).matches('█').count(), full);
        assert_eq!(bar(part, all).chars().count(), BAR_WIDTH);
    }

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(cell("<b>|@x `y`\n\u{1b}\n"), "&lt;b&gt;&#124;@x &#96;y&#96;<br>&#92;x1b");
    }
}
